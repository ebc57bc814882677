"""The gateway as an MCP server, over standard streams and streamable HTTP, in both protocol eras.

It decides nothing; upstream servers are in `maitred.backends`. `server` dispatches requests; one module
for each subject answers them (`metatools`, `resources`, `prompts`, `completions`, `notices`).
To add a meta-tool, write its definition, and its handler in `metatools`.
"""
