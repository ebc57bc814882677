"""Which tools make sense in the present state of a server, as pure functions."""
