"""The MCP surface over a gateway in this process."""
