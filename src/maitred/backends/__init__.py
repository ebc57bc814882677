"""Live connections to upstream servers, and the pool that owns them.

This package knows no catalog and no caller: it connects, calls, lists and reports. `base` has the protocols;
each transport is a module with a `Backend`. `pool`, `server_task` and `warden` keep servers running.
To add a transport: such a module, an entry in `model.transports`, a line in `wiring.transports.MAKERS`.
"""
