"""The command line: argument parsing and printing.

It decides nothing; a command opens a gateway with `maitred.wiring` and prints with `console`. There is one
module for each group of commands.
To add a command, write a module with `register` and one entry in `commands`. If it reads and prints by
`console` alone, a running gateway can carry it out: add its name to `HOSTED` of `daemon.command_client`.
"""

from maitred.surfaces.cli.app import main

__all__ = ["main"]
