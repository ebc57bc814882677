"""Measures maitred against a direct connection, a raw relay and its peers, side by side in one run.

Not part of the package and not a test: nothing here passes or fails but a peer that does not work at all. On
a busy machine absolute times wobble, so whatever is compared takes turns within one run and is given as a
ratio. `docs/benchmarks.md` says what each figure is; `python -m bench` prints them.
"""
