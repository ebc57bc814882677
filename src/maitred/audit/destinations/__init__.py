"""Where lines of the audit trail are sent; each kind of destination is a module, loaded when it is used.

To add a kind, write a `Destination`, a value of `AuditDestination.kind`, and a line in
`maitred.wiring.audit_stream`.
"""
