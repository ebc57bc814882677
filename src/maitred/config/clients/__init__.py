"""MCP clients on this machine: where each keeps its servers, and how their files are read and changed.

`clients.yaml` has one entry a client, which `table` reads for all else. `traits` is what a client does with a
server, `files` and `discovery` read servers for an import, `entries` makes our entry, `text_edit` changes a
text, `connection` writes a file and gives it back. To add a client, add an entry to `clients.yaml`.
"""
