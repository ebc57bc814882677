"""Logins to upstream servers by OAuth 2.1, and the tokens for the gateway's requests to them.

This package does not decide who may call the gateway; `maitred.access` does. `login` sends the operator
to a browser once, `tokens` renews, `client` speaks the protocol, `vault` stores grants encrypted.
To add a place for grants, implement the protocol `GrantStore` of `grants`.
"""
