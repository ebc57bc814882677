"""Programs of agents that call tools, and saved chains.

A chain makes no call by itself: the gateway handles each as an ordinary call. `runner` and `account`
bound it, and `monty` is the engine. `syntax` and `undefined_names` prepare programs, `saved` and
`saved_backend` give chains names.
To add an engine, implement the protocol `ChainSandbox` of `base` and have `maitred.wiring` make it.
"""
