"""`maitred menu` and `categories`: the first page that agents see, and the place of each tool in the menu.

`categories --set` and `--unset` write the configuration file without a gateway, so they check themselves
whether the user may configure.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress
from rich.text import Text

from maitred.config.edit_choices import set_choice, unset_choice
from maitred.config.settings import Settings
from maitred.config.taxonomy import TAGS, merge_categories
from maitred.disclosure.pages import ToolPage
from maitred.errors import ConfigError
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.tools import Tool
from maitred.surfaces.cli.completion import complete_paths
from maitred.surfaces.cli.console import (
    COLUMNS,
    ConfigOption,
    JsonOption,
    acting,
    actual_console,
    config_path,
    err,
    find_tools,
    known_gateway,
    make_table,
    out,
    prepare,
    print_answer,
    print_json,
    print_table,
    run,
)
from maitred.surfaces.cli.filters import (
    MaxLatencyOption,
    MinSuccessOption,
    TagOption,
    UsedWithinOption,
    use_of,
)
from maitred.surfaces.cli.options import server_option, tools_option
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wording import count_of, did_you_mean, quote_input

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway

_BY = {"": "not placed yet", "rules": "rules", "mediation": "mediation", "person": "you"}
_PROPOSER = {"model": "a language model", "program": "a program"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(menu)
    app.command()(categories)


def menu(
    path: Annotated[
        str,
        typer.Argument(
            help="category/NAME, server/NAME, servers or categories; none: the first page.",
            autocompletion=complete_paths,
        ),
    ] = "",
    config: ConfigOption = None,
    cursor: Annotated[str, typer.Option(help="Where to continue, as the page before says.")] = "",
    page_size: Annotated[int, typer.Option(min=1, max=100, help="Tools on a page at most.")] = 50,
    tag: TagOption = None,
    max_latency_ms: MaxLatencyOption = None,
    min_success: MinSuccessOption = None,
    used_within: UsedWithinOption = "",
    as_json: JsonOption = False,
) -> None:
    """Print a page of the menu as agents read it. Options narrow the tools of a category or server."""
    tags, use = tag or [], use_of(max_latency_ms, min_success, used_within)
    narrows = bool(tags) or use.is_set
    if narrows and not path.startswith(("category/", "server/")):
        raise ConfigError("menu", ["only tools of category/NAME or server/NAME can be narrowed"])
    settings, viewer = prepare(config)

    async def go() -> Any:
        async with known_gateway(settings) as gateway:
            if narrows:
                held = await gateway.filtered_page(path, cursor, page_size, tags=tags, use=use, viewer=viewer)
                return _tools_json(held) if as_json else held.page.text
            page = gateway.browse(
                path, cursor, page_size, viewer=viewer
            )  # a wrong path is an error with JSON too
            return _page_json(gateway, path.strip("/"), cursor, page_size, viewer) if as_json else page.text

    found = run(go)
    if as_json:
        print_json(found)
    else:
        print_answer(found, wraps=True)


def _page_json(gateway: "Gateway", path: str, cursor: str, size: int, viewer: Viewer) -> Any:
    """T0 and T1, T1 alone, all servers, or a page of T2 with the cursor of the next page."""
    if not path:
        return {"T0": gateway.hot(viewer).to_json(), "T1": gateway.categories(viewer).to_json()}
    if path == "categories":
        return gateway.categories(viewer).to_json()
    if path == "servers":
        servers = gateway.servers(viewer)
        return {"servers": [server.to_json() for server in servers]}
    return _tools_json(gateway.page(path, cursor, size, viewer=viewer))


def _tools_json(page: ToolPage) -> dict[str, Any]:
    end = page.start + len(page.tools)
    return page.to_json() | {"cursor": page.cursor_at(len(page.tools)) if end < page.total else ""}


def categories(
    config: ConfigOption = None,
    tags: Annotated[
        bool,
        typer.Option("--tags", help="Show the vocabulary of tags, too, with the number of tools of each."),
    ] = False,
    of: Annotated[list[str] | None, tools_option("Show the category of this tool; repeatable.")] = None,
    choose: Annotated[
        list[str] | None, tools_option("Move a tool; repeatable.", "--set", metavar="TOOL=CATEGORY")
    ] = None,
    unset: Annotated[list[str] | None, tools_option("Undo --set for this tool; repeatable.")] = None,
    write_use_cases: Annotated[
        bool, typer.Option("--write-use-cases", help="Have the configured language model write use cases.")
    ] = False,
    server: Annotated[str, server_option("With --write-use-cases: for the tools of this server.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Show the categories with their tools, or the category of a tool. --set and --unset move tools."""
    settings, viewer = prepare(config)
    if write_use_cases:
        written = run(lambda: _write_use_cases(settings, server, viewer))
        if as_json:
            print_json({"tools": written})
            return
        out.note(f"Use cases were written for {count_of(written, 'tool')}.")
        return
    if choose or unset:
        acting(settings, "configure")
        _choose(settings, config_path(config), choose or [], unset or [], as_json=as_json)
        return
    if of:
        _show_tools(run(lambda: find_tools(settings, of, viewer)), as_json=as_json)
    else:
        found, counts = run(lambda: _categories(settings, viewer))
        _show_categories(found, counts if tags else None, as_json=as_json)


def _show_categories(found: dict[str, Any], counts: dict[str, int] | None, *, as_json: bool) -> None:
    if as_json:
        print_json(found | ({} if counts is None else {"tags": counts}))
        return
    rows = [
        (
            *(one["name"], one["title"], f"{one['tools']:,}", f"{one['servers']:,}"),
            *(", ".join(one["popular"]), _in_it(one)),
        )
        for one in found["categories"]
    ]
    headings = ("category", "title", "tools", "servers", "such as", "in it")
    print_table(make_table("", headings, rows, numbers=("tools", "servers")))
    if counts is not None:
        tags = [(*tag.split(":", 1), f"{count:,}" if count else "") for tag, count in counts.items()]
        print_table(make_table("", ("dimension", "tag", "tools"), tags, numbers=("tools",)))
    out.note(f"{count_of(found['tools'], 'tool')} on {count_of(found['servers'], 'server')}")


def _in_it(category: dict[str, Any]) -> str:
    """The parts of a category, or what proposed it if it is a group."""
    if by := category["proposed_by"]:
        return f"group, proposed by {_PROPOSER.get(by, by)}"
    return ", ".join(f"{name} {count:,}" for name, count in category["parts"].items())


async def _categories(settings: Settings, viewer: Viewer) -> tuple[dict[str, Any], dict[str, int]]:
    """All categories that hold tools, and the whole vocabulary of tags with the number of tools of each.

    The tags are by dimension, the most used first; groups that mediation named are the last dimension.
    """
    async with known_gateway(settings) as gateway:
        found = gateway.categories(viewer)
        lines = [line.to_json() for line in found.lines]
        tools = gateway.visible_tools(viewer)
        tags = Counter(tag for tool in tools for tag in tool.placement.tags)
    vocabulary = [f"{dimension}:{tag}" for dimension, words in TAGS.items() for tag in words]
    place = {dimension: at for at, dimension in enumerate(TAGS)}
    every = dict.fromkeys([*vocabulary, *tags])
    ordered = sorted(every, key=lambda tag: (place.get(tag.partition(":")[0], len(TAGS)), -tags[tag], tag))
    return {"categories": lines, "tools": found.tools, "servers": found.servers}, {
        tag: tags[tag] for tag in ordered
    }


async def _write_use_cases(settings: Settings, server: str, viewer: Viewer) -> int:
    """Ask the model, with a bar that shows how far it is."""
    async with known_gateway(settings) as gateway:
        if server and server not in gateway.settings.servers:
            raise ConfigError("--server", [f"there is no server {server!r} in {settings.source}"])
        with Progress(*COLUMNS, console=actual_console(err), transient=True, disable=VERBOSITY.quiet) as bars:
            task = bars.add_task("writing use cases", total=None)

            def tell(done: int, total: int) -> None:
                bars.update(task, completed=done, total=total)

            return await gateway.write_use_cases(server, viewer=viewer, progress=tell)


def _show_tools(tools: Sequence[Tool], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "name": tool.name,
                    "server": tool.server,
                    "raw_name": tool.key.name,
                    "category": tool.placement.category,
                    "subcategory": tool.placement.subcategory,
                    "group": tool.placement.group.name if tool.placement.group else "",
                    "grouped_by": tool.placement.group.by if tool.placement.group else "",
                    "confidence": round(tool.placement.confidence, 3),
                    "placed_by": tool.placement.by,
                    "tags": list(tool.placement.tags),
                    "use_cases": list(tool.use_cases),
                }
                for tool in tools
            ]
        )
        return
    rows = [
        (
            *(tool.name, tool.placement.category or "none", f"{tool.placement.confidence:.2f}"),
            *(_BY[tool.placement.by], _group(tool), ", ".join(tool.placement.tags)),
        )
        for tool in tools
    ]
    headings = ("tool", "category", "confidence", "placed by", "group", "tags")
    print_table(make_table("", headings, rows, numbers=("confidence",)))


def _group(tool: Tool) -> str:
    group = tool.placement.group
    return f"{group.name}, proposed by {_PROPOSER.get(group.by, group.by)}" if group else ""


def _choose(
    settings: Settings, path: Path, choose: Sequence[str], unset: Sequence[str], *, as_json: bool
) -> None:
    """Write choices into the configuration file, after a check that all tools and categories exist."""
    pairs = [pair.rpartition("=")[::2] for pair in choose]
    known = [category.name for category in merge_categories(settings.categories)]
    faults = []
    for pair, (name, category) in zip(choose, pairs, strict=True):
        if not name:
            faults.append(f"{quote_input(pair)} must be TOOL=CATEGORY")
        elif category not in known:
            hint = did_you_mean(category, known, otherwise=f"there are {', '.join(known)}")
            faults.append(f"{quote_input(category)} is no category; {hint}")
    if faults:
        raise ConfigError("--set", faults)
    tools = run(lambda: find_tools(settings, [*(name for name, _ in pairs), *unset], LOCAL_USER))
    changes: list[dict[str, Any]] = []
    for tool, (_, category) in zip(tools, pairs, strict=False):
        set_choice(path, tool.key, "category", category)
        changes.append({"name": tool.name, "category": category, "changed": True})
        if as_json:
            continue
        out.note(Text(f"Put {tool.name} into {category}, in {path}."))
    for tool in tools[len(pairs) :]:
        was = unset_choice(path, tool.key, "category")
        changes.append({"name": tool.name, "category": "", "changed": was})
        if as_json:
            continue
        said = (
            f"Took the choice for {tool.name} out of {path}."
            if was
            else f"Nothing was chosen for {tool.name}."
        )
        out.note(Text(said))
    if as_json:
        print_json(changes)
