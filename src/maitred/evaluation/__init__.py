"""Measurements of quality on labelled data and on the operator's own catalog: the command `maitred eval`.

It measures the product and is no part of serving; speed is measured in `bench/`. One module for each question
(`categories`, `mediation`, `poison`, `selfcheck`), with `metrics` and `labelled_queries` for all of them.
To add a measurement, write a module and its command in `maitred.surfaces.cli.eval`.
"""
