"""The rules of the scan: one file for each kind of order, `base` for what a rule is."""
