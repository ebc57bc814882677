"""Which tools make sense in the present state of a server, as pure functions.

It keeps no state and tells no client; `gateway.visibility` does that. `facts` are the named values of a
state, `rules` the expressions over them, `declarations` reads both from a file, and `visibility` joins them.
To add a built-in fact, add it to `facts.BUILT_IN` and `facts.built_in`.
"""
