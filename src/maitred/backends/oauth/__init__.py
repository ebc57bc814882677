"""Logins to servers that want one, and the tokens that come of them."""
