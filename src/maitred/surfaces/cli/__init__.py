"""The command line: argument parsing and printing.

It decides nothing; a command opens a gateway through `session` and prints with `console`.
One module for each group of commands.
To add a command, write a module with `register` and one entry in `app`.
"""

from maitred.surfaces.cli.app import main

__all__ = ["main"]
