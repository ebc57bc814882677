"""`maitred doctor --require`: whether tools that a project counts on are there, and can be called."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from maitred.errors import NotAllowedError, ToolNotFoundError, ToolWithheldError
from maitred.model.access import Viewer
from maitred.surfaces.cli.console import out, visible

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway


def names_in(options: Iterable[str]) -> list[str]:
    """The names in the values of a repeatable option, each a list with commas."""
    names = [name.strip() for option in options for name in option.split(",")]
    return list(dict.fromkeys(name for name in names if name))


async def look_for_tools(
    gateway: "Gateway", names: Sequence[str], errors: Mapping[str, str], viewer: Viewer
) -> list[dict[str, Any]]:
    """Each tool with the reason why it cannot be called; `errors` are those of servers, by name."""
    await gateway.warm()  # for unknown names, the index supplies the nearest ones
    found = []
    for name in names:
        try:
            tool = await gateway.tool_to_call(name, viewer)
        except (ToolNotFoundError, ToolWithheldError, NotAllowedError) as error:
            found.append({"name": name, "ok": False, "reason": str(error)})
            continue
        reason = errors.get(tool.server, "")
        found.append({"name": tool.name, "ok": not reason, "reason": reason})
    return found


def show_required(found: Sequence[Mapping[str, Any]]) -> None:
    """Print one line for each tool."""
    for one in found:
        name = visible(one["name"])
        if one["ok"]:
            out.note(Text.assemble(("ok", "green"), f"    required: {name}"))
        else:
            out.print(Text.assemble(("fault", "red"), f" required: {name}: {visible(one['reason'])}"))
