"""The tools of the browser server, one module a group, and the table that lists them all.

A tool is an entry: its name, what an agent reads of it, its parameters, and the function that does it. It
knows neither MCP nor visibility. To add a tool, add an entry to the module of its group; to add a group, add
a module with a tuple `TOOLS` and its entry in `table`.
"""
