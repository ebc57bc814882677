"""Scan the texts of servers for orders to the model.

It judges texts and knows no catalog. `passages`, `characters` and `subjects` read a definition, `rules` has
one file for each kind of order, `scorer` is the trained model, and `scan` joins them. To add a rule, add one
entry to a table in `rules`.
"""
