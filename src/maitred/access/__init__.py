"""Who may call: access tokens, JWTs of an authorization server, and rate limits.

It turns credentials into grants. What a grant allows is decided in `maitred.gateway.authorization`.
"""
