"""Tables as the commands print them: plain columns, wide enough in files and pipes for whole names."""

from collections.abc import Collection, Sequence

from rich.table import Table
from rich.text import Text

from maitred.surfaces.cli.common import out
from maitred.surfaces.cli.output import Screen

_WIDE = 200


def print_table(table: Table) -> None:
    """A table as wide as the terminal; a file or a pipe gets it wide enough for most names."""
    (out if out.is_terminal else Screen(width=_WIDE, soft_wrap=False)).print(table)


def make_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str] = ()
) -> Table:
    """A table of texts; the columns whose headings are in `numbers` are set to the right."""
    table = Table(title=Text(title) if title else None, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        # names of tools are there to be copied
        table.add_column(heading, overflow="fold", justify="right" if heading in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
