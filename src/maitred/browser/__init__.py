"""A browser as a source of tools: 23 tools that drive Chrome over its DevTools Protocol and its debugger.

`cdp` is the connection, `launch` and `attach` open one, `browsers` shares them; a `workspace` is a client's.
It is no automation library for programs, and the tools of web pages are in `pages`.
To add a tool, add its entry to the module of its group in `tools`; to add a group, add it to `tools.table`.
"""
