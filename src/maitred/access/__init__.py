"""Who may call: access tokens, JWTs of an authorization server, and rate limits.

It turns a credential into a grant. What the grant allows is decided in `maitred.gateway.authorization`.
One module for each kind of credential (`token_store`, `jwt`), and `rate_limit` for the calls of a principal.
To add a kind of credential, write a module and name it in `credentials`.
"""
