"""Counts of calls and tokens, by tool, principal and day.

`recorder` counts in memory and stores the counts with the catalog; `histogram` is the arithmetic and knows no
store. The audit trail is separate (`audit`). To add a counter, add a field to `model.usage.Spending` and a
column.
"""
