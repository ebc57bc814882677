"""Live connections to upstream servers, and the pool that owns them.

This package knows no catalog and no caller: it connects, calls, lists and reports. `base` has the
protocols; each transport is a module (`stdio`, `http`, `memory`). `pool`, `server_task` and `warden` keep
servers running.
To add a transport, write a module with a `Backend` and add it where `maitred.wiring.backends` chooses one.
"""
