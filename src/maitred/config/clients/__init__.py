"""MCP clients on this machine: where each keeps its servers, and how their files are read and changed.

`table` has one entry a client, which all else reads. `files` and `discovery` read servers for an import,
`entries` makes our entry, `text_edit` changes a text, `connection` writes a file and gives it back.
It starts no server. To add a client, add an entry to `CLIENTS` in `table`, and a row to docs/import.md.
"""
