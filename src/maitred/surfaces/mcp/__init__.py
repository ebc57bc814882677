"""The gateway as an MCP server, over standard streams and streamable HTTP, in both protocol eras."""
