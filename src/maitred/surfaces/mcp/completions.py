"""Complete the arguments of our own templates and prompts: names of tools, servers and categories, and tasks.

A task (of prompt `find_tool`) is completed with use cases of tools and titles of categories. Ids of results
are not completed: a caller already has the ids of its own results. Values that begin with the typed text come
first, then values that contain it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from maitred.gateway import Gateway
from maitred.model.access import Viewer
from maitred.surfaces.mcp.prompt_definitions import DEFINITIONS, FIND_TOOL, TASK
from maitred.surfaces.mcp.resources import TEMPLATES
from maitred.wording import quote_input

MOST: Final = 100
"""How many values the protocol allows in one answer."""


class OwnCompletions:
    """Completes the arguments of our own prompts and templates."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def for_prompt(self, name: str, argument: str, typed: str, viewer: Viewer) -> dict[str, Any] | None:
        """The result of `completion/complete` for a prompt; `None` if the prompt is not ours."""
        if all(name != definition["name"] for definition in DEFINITIONS):
            return None
        return matching_values(
            self._gateway.tasks(viewer) if (name, argument) == (FIND_TOOL, TASK) else (), typed
        )

    def for_template(self, template: str, argument: str, typed: str, viewer: Viewer) -> dict[str, Any] | None:
        """The result of `completion/complete` for a template; `None` if the template is not ours."""
        kind = TEMPLATES.get(template)
        if kind is None:
            return None
        if argument != ("id" if kind == "result" else "name"):
            raise MCPError(INVALID_PARAMS, f"{template} has no variable {quote_input(argument)}")
        return matching_values(self._names(kind, viewer), typed)

    def _names(self, kind: str, viewer: Viewer) -> Sequence[str]:
        if kind == "tool":
            return [tool.name for tool in self._gateway.visible_tools(viewer)]
        if kind == "server":
            return [server.name for server in self._gateway.servers(viewer)]
        if kind == "category":
            lines = self._gateway.categories(viewer).lines
            return [name for line in lines for name in (line.category.name, *line.parts)]
        return ()


def matching_values(values: Sequence[str], typed: str) -> dict[str, Any]:
    """The values that begin with the typed text, then those that contain it, in upper or lower case."""
    wanted = typed.casefold()
    begin: list[str] = []
    hold: list[str] = []
    for value in values:
        folded = value.casefold()
        if folded.startswith(wanted):
            begin.append(value)
        elif wanted in folded:
            hold.append(value)
    found = [*begin, *hold]
    return _result(found[:MOST], total=len(found), more=len(found) > MOST)


def limit_values(result: Mapping[str, Any]) -> dict[str, Any]:
    """A server's answer without values that are no texts, cut to the number that the protocol allows."""
    given = result.get("completion")
    completion = given if isinstance(given, Mapping) else {}
    listed = completion.get("values")
    values = [value for value in listed if isinstance(value, str)] if isinstance(listed, list) else []
    total = completion.get("total")
    known = isinstance(total, int) and not isinstance(total, bool)
    more = completion.get("hasMore") is True or len(values) > MOST
    return _result(values[:MOST], total=total if known else None, more=more)


def _result(values: Sequence[str], *, total: int | None, more: bool) -> dict[str, Any]:
    completion: dict[str, Any] = {"values": list(values), "hasMore": more}
    if total is not None:
        completion["total"] = total
    return {"resultType": "complete", "completion": completion}
