"""The catalog's database: tables, migrations, connections, and what its errors mean.

It knows rows, not their meaning: each store is in the package of its feature. `database` opens the file,
`tables` has every table, `migrations` the steps from older files, `diagnosis` the cause of a failure.
To add a table, define it in `tables` and write a migration; its store goes to its feature.
"""
