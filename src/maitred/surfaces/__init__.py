"""The ways to a gateway: MCP, HTTP, the command line, and the daemon that shares one gateway.

A surface parses, calls `Gateway` and prints; it decides nothing. One package for each surface, and here what
HTTP and the command line share: `case_json`, `manifest_folder`.
To add a surface, write a package that imports `maitred.gateway` and start it in `maitred.surfaces.cli.serve`.
"""
