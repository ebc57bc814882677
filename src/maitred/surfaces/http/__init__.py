"""The HTTP API: what the gateway can do, for programs that speak no MCP.

It decides nothing; `auth` finds the viewer of a request and `errors` the status of an error.
One module for each group of routes (`menu`, `tools`, `admission`, `tokens`, `audit`, `operations`).
To add a route, write it in its group, with its response in `schemas`; a new group is mounted in `app`.
"""
