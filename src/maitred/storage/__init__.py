"""The catalog's database: tables, migrations, connections, and the causes of errors.

It knows rows, not their meaning: each store is in the package of its feature. `database` is what a store
gets, `sqlite` and `postgres` are the engines. `tables` has every table, `migrations` the steps from older
tables, `diagnosis` the causes of failures of a file. `batch` writes collected rows together. To add a table,
define it in `tables` and write a migration; its store goes to its feature. To add an engine, subclass
`Database`; `wiring/storage.py` makes it.
"""
