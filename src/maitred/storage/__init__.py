"""The catalog's database, which knows rows and not their meaning: a store is in the package of its feature.

`database` is what a store gets, `sqlite` and `postgres` are its engines, `tables` has every table.
`migrations` are the steps from older tables, `diagnosis` finds causes of errors, `batch` groups writes.
To add a table, define it in `tables` and write a migration. To add an engine, subclass `Database`, and make
it in `wiring/storage.py`.
"""
