"""Entry point of `python -m maitred` and of the `maitred` command; all it knows is the command line."""

from maitred.surfaces.cli import main

if __name__ == "__main__":
    main()
