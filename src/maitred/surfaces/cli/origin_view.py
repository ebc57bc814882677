"""The tools of web pages that wait for an operator, as lines: by origin, each with what it says of itself.

Pure functions. All texts are the pages' own, so characters that do not show are escapes.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from maitred.surfaces.cli.console import visible
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.admission.definition import PartKey
    from maitred.admission.waiting import WaitingOrigin, WaitingTool

_MOST_PARAMETERS: Final = 30
_MOST_REST: Final = 200
_OWN: Final = ("type", "description")
_USUAL: Final = frozenset({"type", "properties", "required", "additionalProperties"})


def origin_lines(
    origins: "Iterable[WaitingOrigin]", changes_of: "Callable[[PartKey], Iterable[Text]]"
) -> Iterator[Text]:
    """The waiting tools of each origin, with the changes of each tool."""
    for origin in origins:
        withheld = f"{count_of(len(origin.tools), 'tool')} withheld"
        yield Text.assemble(f"  {visible(origin.origin)}: {withheld}", (f"  digest {origin.digest}", "dim"))
        for tool in origin.tools:
            yield from _tool(tool, list(changes_of(tool.part)))


def origin_steps(server: str, origins: "Iterable[WaitingOrigin]") -> Iterator[Text]:
    """The commands that approve the tools of single origins."""
    for one in origins:
        yield Text(f"  maitred approve {server} --origin {visible(one.origin)} --seen {one.digest}")


def _tool(tool: "WaitingTool", changes: "list[Text]") -> Iterator[Text]:
    yield Text(f"    {visible(tool.name)}" + ("" if changes else f": it {visible(tool.why)}"))
    yield from (Text.assemble("  ", change) for change in changes)
    yield Text(f"      says of itself: {visible(tool.description)}")
    properties = tool.schema.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    required = tool.schema.get("required")
    needed = required if isinstance(required, list) else []
    for name in list(named)[:_MOST_PARAMETERS]:
        yield Text(f"      parameter {visible(name)}{_about(named[name], is_required=name in needed)}")
    if (more := len(named) - _MOST_PARAMETERS) > 0:
        yield Text(f"      and {count_of(more, 'more parameter')}; `maitred approvals --json` has all")
    if further := sorted(tool.schema.keys() - _USUAL):
        keys = visible(", ".join(further))[:_MOST_REST]
        yield Text(f"      its schema also has {keys}; `maitred approvals --json` has all")


def _about(schema: Any, *, is_required: bool) -> str:
    """What a parameter is: its type, its description, and the rest of its schema."""
    if not isinstance(schema, Mapping):
        return ""
    kind = schema.get("type")
    words = [kind] if isinstance(kind, str) else []
    words += ["required"] if is_required else []
    said = schema.get("description")
    rest = {key: value for key, value in schema.items() if key not in _OWN}
    written = json.dumps(rest, ensure_ascii=False) if rest else ""
    if len(written) > _MOST_REST:
        written = "and more, which `maitred approvals --json` has"
    about = f" ({', '.join(words)})" if words else ""
    about += f": {said}" if isinstance(said, str) else ""
    return visible(f"{about}; {written}" if written else about)
