"""One gateway in the background for all clients of a user and a configuration.

`client_entry`, `client_relay`, `session_replay`, `discovery`, `handshake` and `sockets` run in the process
that a client starts. They import neither the SDK nor the catalog, so that it starts fast. `server` and
`serve` run in the gateway, which decides everything.
To add a request between the two processes, see `control`. A command of the command line is sent by
`command_client` and taken by `command_server`.
"""
