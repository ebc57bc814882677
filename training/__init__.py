"""Makes the weights of the built-in embedder. Run as `python -m training`; see README.md here."""
