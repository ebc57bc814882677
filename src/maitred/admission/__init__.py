"""Which servers may be used, and which of their definitions: manifests, checks, approvals, the log of them.

It decides and records decisions; `maitred.gateway.admission` carries them out. It starts no server.
Values and pure rules (`definition`, `schema_diff`, `approval`, `judge`), then what uses the log (`registry`,
`gatekeeper`, `image_gate`). To add a check of manifests, see `checks`.
"""
