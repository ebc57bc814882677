"""Live connections to upstream servers, and the pool that owns them.

It knows no catalog and no caller: it connects, calls, lists and reports. `base` has the protocols, one module
for each transport (`stdio`, `http`, `memory`); `pool`, `server_task` and `warden` keep servers running.
To add a transport, write a module with a `Backend` and enter it where `maitred.wiring.backends` chooses one.
"""
