"""The way of a call to its server and back.

It calls one tool of one server; programs that call many are in `maitred.chains`. Each kind of work on a call
is one module: arguments, cache, results, screening, subscriptions.
To add a step, write one module in `steps` and one line in the list of steps in `maitred.wiring`.
"""
