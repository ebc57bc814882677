"""End-to-end tests: the gateway as its own program, and a real client on its other side."""
