"""The rules of the scan: one file for each kind of order, `base` for what a rule is.

They are data: `maitred.poisoning.scan` applies them.
To add a rule, add one entry to the table of its kind; to add a kind, write a table and name it in `scan`.
"""
