"""The steps that bring an older store to the present tables; run by `catalog.store` when a store is behind."""
