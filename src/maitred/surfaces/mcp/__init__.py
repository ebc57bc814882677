"""The gateway as an MCP server, over standard streams and streamable HTTP, in both protocol eras.

It decides nothing; `maitred.backends` has the upstream servers. `server` dispatches requests, and one module
for each subject answers them (`resources`, `prompts`, `completions`, `notices`); `maitred.meta_tools` has the
meta-tools. To add a subject, write its handler and register it in `server` or `offers`.
"""
