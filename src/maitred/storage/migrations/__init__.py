"""The steps that bring an older database to the present tables, one file each; Alembic runs them.

They are no place for logic: see `maitred.storage.migrate` for when they run.
To add a step, write a file in `versions` that names its predecessor.
"""
