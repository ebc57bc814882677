"""Measure search, categories, mediation, the poison scan and the token budget of maitred.

It asks a gateway as an agent would; commands of the CLI print the figures. `runner` and `metrics` measure
search, `selfcheck` looks for tools that are hard to find, and each other module measures one feature. To add
a measurement, add a module here and a subcommand of `maitred eval`.
"""
