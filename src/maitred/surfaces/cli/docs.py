"""`maitred docs`: print the pages of the documentation, which are installed with the program.

A terminal gets a page through its pager. A file or a pipe gets plain text of at most 80 columns, but for long
words and code.
"""

import re
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.table import Table
from rich.text import Text

from maitred.errors import ConfigError
from maitred.surfaces.cli.completion import complete_pages
from maitred.surfaces.cli.console import JsonOption, out, print_json
from maitred.surfaces.cli.doc_pages import pages
from maitred.wording import did_you_mean, quote_input

_COLUMNS: Final = 80
_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_PAGE_LINK: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?:docs/)?([\w.-]+)\.md(?:#[\w-]+)?\)")
_OTHER_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
_BLANK: Final = re.compile(r"\n{3,}")
_NOT_PAGES: Final = frozenset({"ARCHITECTURE", "CONTRIBUTING"})
"""Pages of the checkout alone; links to them are printed as they are."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(docs)


def docs(
    page: Annotated[
        str,
        typer.Argument(help="Its name, such as `serve` or `troubleshooting`.", autocompletion=complete_pages),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Print a page of the documentation, or without a name the list of all pages."""
    every = pages()
    if not page:
        _list(every, as_json=as_json)
        return
    name = page.lower().removeprefix("docs/").removesuffix(".md")
    if name not in every:
        hint = did_you_mean(name, every, otherwise="`maitred docs` lists all pages")
        raise ConfigError("docs", [f"there is no page {quote_input(page)}; {hint}"])
    text = every[name].read_text(encoding="utf-8")
    if as_json:
        print_json({"page": name, "title": _title(text), "path": str(every[name]), "markdown": text})
    else:
        _print(text)


def _list(every: dict[str, Path], *, as_json: bool) -> None:
    titles = {name: _title(path.read_text(encoding="utf-8")) for name, path in sorted(every.items())}
    if as_json:
        print_json({"pages": [{"page": name, "title": title} for name, title in titles.items()]})
        return
    wide = max(map(len, titles))
    for name, title in titles.items():
        out.print(Text(f"{name:<{wide}}  {title}"))
    out.note(Text("\n`maitred docs PAGE` prints one."))


def _title(text: str) -> str:
    return next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")


def _print(text: str) -> None:
    page = _Page(as_printed(text), hyperlinks=False, code_theme="bw")
    if sys.stdout.isatty():
        console = Console(width=min(_COLUMNS, Console().width), highlight=False)
        with console.pager(styles=False):
            console.print(page, crop=False)
        return
    console = Console(width=_COLUMNS, color_system=None, highlight=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(page, crop=False)
    lines = "\n".join(line.rstrip() for line in capture.get().splitlines())
    typer.echo(_BLANK.sub("\n\n", lines).strip("\n"))


def as_printed(text: str) -> str:
    """Markdown to be printed: links to pages become commands, pictures descriptions; code keeps its marks."""
    parts = _FENCE.split(text)  # every second part is a block of code
    return "".join(part if number % 2 else _prose(part) for number, part in enumerate(parts))


def _prose(text: str) -> str:
    shown = _PICTURE.sub(lambda found: f"*Picture: {found[1]}*", text)
    shown = _PAGE_LINK.sub(_page_link, shown)
    shown = _OTHER_LINK.sub(_other_link, shown)
    return _CODE.sub(lambda found: f"`` {found[0]} ``", shown)


def _other_link(found: re.Match[str]) -> str:
    return found[1] if found[2].startswith("#") else f"{found[1]} ({found[2]})"


def _page_link(found: re.Match[str]) -> str:
    name = found[2]
    if name in _NOT_PAGES:
        return f"{found[1]} (in the source)"
    command = f"`maitred docs {name.lower()}`"
    is_file = found[1].removeprefix("docs/") == f"{name}.md"
    return command if is_file else f"{found[1]} ({command})"


class _PlainHeading(Heading):
    """A heading at the left, as text: marks of its level instead of boxes and colours."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        level = int(self.tag[1:])
        yield Text("")
        yield Text.assemble("#" * level, " ", text)


class _Block(CodeBlock):
    """A block of code, indented, in lines that are not broken: they are to be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = "\n".join(f"    {line}" for line in str(self.text).rstrip().splitlines())
        yield Text(text, no_wrap=True, overflow="ignore")


class _WholeTable(TableElement):
    """A table whose cells are never cut: a word that is wider than its column goes on below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class _Page(Markdown):
    elements = {  # noqa: RUF012  # as in the base class
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _Block,
        "code_block": _Block,
        "table_open": _WholeTable,
    }
