"""The catalog's database: tables, migrations, connections, and what its errors mean."""
