"""The command line: argument parsing and printing, nothing else."""

from maitred.surfaces.cli.app import main

__all__ = ["main"]
