"""The audit trail: who did what, as lines chained by hashes, with secrets masked.

It records decisions and makes none. `service` decides what a line says, `log` writes lines, `hash_chain`
holds and verifies them, `masking` removes secrets.
To add an action, call `AuditService` where it happens and describe the word in docs/audit.md.
"""
