"""Calls that wait for a person: which calls, what a decision is bound to, and where calls wait for it.

It asks no client and makes no call: `maitred.gateway.held_calls` joins it with the way of a call.
Here are the policy, the binding, the store, the inbox and the messages about calls that wait.
To add a value that rules may read, add it to `maitred.config.hold_rules` and to `policy.values_of`.
"""
