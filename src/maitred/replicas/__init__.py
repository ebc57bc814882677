"""Several gateways on one PostgreSQL: which of them are alive, and how one asks another.

It knows nothing of servers, calls or sessions: those register a kind of request in `Replicas` and send it.
`membership` keeps the table of live replicas, `internal_token` proves who asks, `forwarding` sends and
answers. To add a kind of request, register it where its objects are made.
"""
