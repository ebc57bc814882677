"""The HTTP API: what the gateway can do, for programs that speak no MCP."""
