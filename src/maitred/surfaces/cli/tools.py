"""`maitred search`, `info` and `call`: the actions of an agent, by hand."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.disclosure.answers import SearchAnswer
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.model.details import DETAILS, Detail
from maitred.model.tools import Tool, ToolCall
from maitred.surfaces.cli.completion import complete_details, complete_tools
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    err,
    known_gateway,
    prepare,
    print_answer,
    print_json,
    read_input,
    run,
    show_wait,
    visible,
    wait_for_vectors,
)
from maitred.surfaces.cli.filters import (
    MaxLatencyOption,
    MinSuccessOption,
    TagOption,
    UsedWithinOption,
    use_of,
)
from maitred.surfaces.cli.options import category_option, server_option
from maitred.surfaces.cli.questions import ask_arguments, confirm_call
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wording import did_you_mean, one_of, quote_input

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway

DetailOption = Annotated[
    str,
    typer.Option(
        "--detail",
        "-d",
        metavar="LEVEL",
        help=f"How much of each tool: {one_of([*DETAILS])}.",
        autocompletion=complete_details,
    ),
]
InteractiveOption = Annotated[
    bool, typer.Option("--interactive", "-i", help="Ask for each argument that is not given.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="With --interactive: call it without a last question.")
]
FullOption = Annotated[bool, typer.Option("--full", help="With schemas: the same as --detail full.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(search)
    app.command()(info)
    app.command()(call)


def search(
    phrases: Annotated[list[str], typer.Argument(help="What the tool should do; one capability each.")],
    config: ConfigOption = None,
    server: Annotated[str, server_option("Only tools of this server.")] = "",
    category: Annotated[str, category_option("Only tools of this category, and of those below it.")] = "",
    tag: TagOption = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only tools that change nothing.")] = False,
    max_latency_ms: MaxLatencyOption = None,
    min_success: MinSuccessOption = None,
    used_within: UsedWithinOption = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=20, help="Results for each phrase.")] = 5,
    detail: DetailOption = "",
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find tools by what they do. Prints the answer that an agent gets."""
    tags, use = tag or [], use_of(max_latency_ms, min_success, used_within)
    level = _level(detail, full=full)
    settings, viewer = prepare(config)

    async def go() -> None:
        async with known_gateway(settings) as gateway:
            await wait_for_vectors(gateway)
            answer = await gateway.search(
                phrases,
                server=server,
                category=category,
                tags=tags,
                read_only=read_only,
                use=use,
                limit=limit,
                detail=level,
                viewer=viewer,
            )
        if not as_json:
            print_answer(answer.text_of_results if VERBOSITY.quiet else answer.text, wraps=True)
            return
        print_json(_plain(answer))

    run(go)


def _level(detail: str, *, full: bool) -> Detail:
    """The level of detail that the options ask for."""
    if detail and detail not in DETAILS:
        raise ConfigError("--detail", [f"is {one_of([*DETAILS])}, not {quote_input(detail)}"])
    if full and detail not in ("", "full"):
        raise ConfigError("--full", [f"means --detail full; you also asked for --detail {detail}"])
    return "full" if full else detail or "brief"


def _plain(answer: SearchAnswer) -> dict[str, Any]:
    """An answer as JSON for programs."""
    return {
        "phrases": list(answer.phrases),
        "results": [
            {
                "name": result.tool.name,
                "server": result.tool.server,
                "raw_name": result.tool.key.name,
                "category": result.tool.placement.category,
                "tags": list(result.tool.placement.tags),
                "line": result.line,
                "band": result.band,
                "also": list(result.also),
                "why_not": result.why_not,
                "usage": result.usage_json(),
            }
            for result in answer.results
        ],
        "bands": dict(answer.bands),
        "corrections": dict(answer.corrections),
        "note": answer.note,
        "withheld": {name: {"count": n, "reason": why} for name, (n, why) in answer.withheld.items()},
        "not_searched": dict(answer.unread),
    }


def info(
    names: Annotated[
        list[str],
        typer.Argument(help="Full names of tools, as search shows them.", autocompletion=complete_tools),
    ],
    config: ConfigOption = None,
    detail: DetailOption = "",
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Describe tools."""
    level = _level(detail, full=full)
    settings, viewer = prepare(config)

    async def go() -> None:
        async with known_gateway(settings) as gateway:
            answer = await gateway.info(names, level, viewer=viewer)
            snapshot = gateway.catalog(viewer)
        if as_json:
            print_json([snapshot.definition(tool) for tool in answer.tools])
        else:
            print_answer(answer.text, wraps=level != "full")

    run(go)


def call(
    name: Annotated[str, typer.Argument(help="Full name of the tool.", autocompletion=complete_tools)],
    values: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments.")] = None,
    config: ConfigOption = None,
    args: Annotated[
        str, typer.Option(help="All arguments as one JSON object; `-` reads standard input.")
    ] = "",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse a tool that may change things.")
    ] = False,
    interactive: InteractiveOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Call a tool and print its answer. Exits with 1 when the tool says that it failed."""
    if interactive and args == "-":
        raise ConfigError("--interactive", ["reads standard input itself; give --args as text"])
    settings, viewer = prepare(config)
    written = read_input() if args == "-" else args
    asked = (
        _asked(settings, viewer, name, _parse_object(written), values or (), yes=yes) if interactive else None
    )

    async def go() -> dict[str, Any]:
        async with known_gateway(settings) as gateway:
            published = await _published(gateway, name, viewer)
            schema = gateway.schema_of(published, viewer) or {}
            given = _parse_object(written) | _parse_pairs(values or [], schema) if asked is None else asked
            _warn_of_strange(given, schema)
            call = ToolCall(name=published, arguments=given)
            async with show_wait(f"calling {visible(published)}"):
                return await gateway.call(call, viewer=viewer, read_only=read_only)

    result = run(go)
    if as_json:
        print_json(result)
    else:
        for line in _readable(result):
            print_answer(line)
    if result.get("isError"):
        raise typer.Exit(1)


async def _published(gateway: "Gateway", name: str, viewer: Viewer) -> str:
    """The published name of a tool; servers that failed before are tried again if one may have it."""
    if gateway.is_category(name, viewer):
        return name
    async with show_wait(f"starting the server of {visible(name)}"):
        await gateway.list_failed_for(name, viewer)
    async with gateway.audit_request("call", name, viewer):
        return (await gateway.tool_to_call(name, viewer)).name


def _asked(
    settings: Settings,
    viewer: Viewer,
    name: str,
    given: Mapping[str, Any],
    pairs: Sequence[str],
    *,
    yes: bool,
) -> dict[str, Any]:
    """The arguments that a person typed. No gateway is open meanwhile, since that may take long."""

    async def look() -> tuple[Tool, Mapping[str, Any]]:
        async with known_gateway(settings) as gateway:
            tool = await gateway.tool_to_call(name, viewer)
            return tool, gateway.schema_of(tool.name, viewer) or {}

    tool, schema = run(look)
    arguments = ask_arguments(schema, {**given, **_parse_pairs(pairs, schema)})
    if not confirm_call(tool, arguments, asks=not yes):
        err.note("Nothing was called.")
        raise typer.Exit(1)
    return arguments


def _parse_object(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError("--args", [f"is not JSON: {error}"]) from None
    if not isinstance(value, dict):
        raise ConfigError("--args", ['must be a JSON object, such as \'{"path": "/tmp"}\''])
    return value


def _parse_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Read `key=value` arguments: texts where the schema requires them, JSON where it parses, else texts."""
    found = schema.get("properties")
    properties = found if isinstance(found, Mapping) else {}
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(pair, ["arguments are written KEY=VALUE"])
        declared = properties.get(key)
        if isinstance(declared, Mapping) and declared.get("type") == "string":
            arguments[key] = value
            continue
        try:
            arguments[key] = json.loads(value)
        except ValueError:
            arguments[key] = value
    return arguments


def _warn_of_strange(arguments: Iterable[str], schema: Mapping[str, Any]) -> None:
    """Name arguments that the schema neither has nor speaks of: a server may take no notice of them."""
    properties = schema.get("properties")
    if (
        not isinstance(properties, Mapping)
        or "additionalProperties" in schema
        or "patternProperties" in schema
    ):
        return
    for name in arguments:
        if name not in properties:
            hint = did_you_mean(name, properties, otherwise="`maitred info` shows those that it has")
            text = f"the tool has no argument {quote_input(name)}; {visible(hint)}"
            err.print(Text.assemble(("warning: ", "yellow"), text))


def _readable(result: Mapping[str, Any]) -> list[str]:
    lines = []
    for block in result.get("content") or []:
        kind = block.get("type")
        if kind == "text":
            lines.append(block.get("text", ""))
        elif kind in ("image", "audio"):
            lines.append(
                f"[{kind} {block.get('mimeType', '')}, {len(block.get('data', ''))} characters base64]"
            )
        else:
            lines.append(json.dumps(block, ensure_ascii=False))
    if not lines and "structuredContent" in result:
        lines.append(json.dumps(result["structuredContent"], ensure_ascii=False, indent=2))
    return lines
