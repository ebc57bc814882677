"""The four ways to a gateway: MCP, HTTP, the command line, the web. They parse and print, nothing else."""
