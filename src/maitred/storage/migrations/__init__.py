"""The steps that bring an older store to the present tables; see `maitred.storage.migrate`."""
