"""The catalog: names, what changed, where it is kept, what is served."""
