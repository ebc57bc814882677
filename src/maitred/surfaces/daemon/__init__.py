"""One gateway in the background for all clients of a user and a configuration.

`client_*`, `command_client`, `session_replay`, `discovery`, `handshake` and `sockets` run in the process that
a user or client starts, and import neither the SDK nor the catalog. `command_server`, `server` and `serve`
run in the gateway, which decides everything.
To add a request between the two processes, see `control`.
"""
