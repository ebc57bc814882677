"""The HTTP API: the gateway's functions for programs that do not speak MCP.

It decides nothing; `auth` identifies the viewer of a request and `errors` maps an error to its status. There
is one module for each group of routes (`menu`, `tools`, `admission`, `tokens`, `audit`, `operations`).
To add a route, write it in its group, with its response in `schemas`; a new group is mounted in `app`.
"""
