"""The audit trail: who did what, as lines chained by hashes, with secrets masked.

`service` decides what a line says, `log` writes lines, `hash_chain` holds and verifies them, `masking`
removes secrets. It records decisions and makes none.
"""
