"""Logins to upstream servers by OAuth 2.1, and the tokens for their requests.

It has nothing to do with who may call the gateway; that is `maitred.access`. `login` asks the operator once,
`tokens` renews, `client` speaks the protocol, `vault` keeps grants encrypted.
To add a place for grants, implement the protocol `GrantStore` of `grants`.
"""
