"""The gateway as an MCP server, over standard streams and streamable HTTP, in both protocol eras.

It decides nothing; `maitred.backends` has the upstream servers. `server` dispatches requests, and one module
for each subject answers them (`metatools`, `resources`, `prompts`, `completions`, `notices`).
To add a meta-tool, write its definition in `meta_definitions` and its handler in `metatools`.
"""
