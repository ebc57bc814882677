"""The surfaces, one folder each."""
