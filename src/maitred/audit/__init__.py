"""The audit trail: who did what, chained by hashes, without secrets."""
