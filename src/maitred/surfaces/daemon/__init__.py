"""One gateway in the background for all clients of a user and a configuration, and what finds them.

`entry`, `relay`, `replay`, `finding`, `hello` and `address` run in the process that a client starts. It has
to be there at once, so they import neither the SDK nor the catalog, nor anything that does.
"""
