"""Counts of calls and tokens by tool, server, principal and day, and their histograms.

It counts; scores and tiers are computed in `maitred.disclosure.tiers`. `recorder` collects and writes,
`histogram` is the arithmetic of times.
To add a figure, add it to `maitred.model.usage`, to `recorder` and to its table.
"""
