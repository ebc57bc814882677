"""The meta-tools: the few tools of our own with which an agent finds and calls all other tools.

They ask the `Gateway` and write texts within a budget (`maitred.disclosure`); they know no protocol and no
connection, which are `maitred.surfaces`. One module for each meta-tool; `menu` has the table of them.
To add a meta-tool, write a module with its entry, as `tool_info` does, and name the entry in `menu`.
"""
