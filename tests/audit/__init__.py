"""The audit trail: what is beside its lines."""
