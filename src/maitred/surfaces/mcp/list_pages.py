"""The pages of the lists that clients read: which entries are on a page, and where the next page begins.

An entry is shown as `accept` returns it, because a definition of a server may break the rules of a protocol
revision.
"""

import base64
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from maitred.gateway import Gateway, Offer, compact
from maitred.meta_tools import menu
from maitred.model.access import Viewer
from maitred.model.tools import Tool
from maitred.surfaces.mcp.list_tracker import ListTracker

PAGE: Final = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProtocolList:
    """A list of the protocol: its method, the field with its entries, and the key that names an entry.

    `doubtful` parts are left out one after the other until the revision allows the definition. `bare` are the
    fields that a definition must have besides `keys`.
    """

    method: str
    field: str
    key: str
    keys: tuple[str, ...]
    doubtful: tuple[str, ...]
    bare: Mapping[str, Any] = dataclasses.field(default_factory=dict)


TOOLS: Final = ProtocolList(
    method="tools/list",
    field="tools",
    key="name",
    keys=("name",),
    doubtful=("icons", "execution", "_meta", "annotations", "outputSchema", "title", "inputSchema"),
    bare={"inputSchema": {"type": "object"}},
)
RESOURCES: Final = ProtocolList(
    method="resources/list",
    field="resources",
    key="uri",
    keys=("uri", "name"),
    doubtful=("icons", "_meta", "annotations", "size", "mimeType", "title", "description"),
)
TEMPLATES: Final = ProtocolList(
    method="resources/templates/list",
    field="resourceTemplates",
    key="uriTemplate",
    keys=("uriTemplate", "name"),
    doubtful=("icons", "_meta", "annotations", "mimeType", "title", "description"),
)
PROMPTS: Final = ProtocolList(
    method="prompts/list",
    field="prompts",
    key="name",
    keys=("name",),
    doubtful=("icons", "_meta", "title", "description", "arguments"),
)


Accept = Callable[[ProtocolList, Mapping[str, Any]], dict[str, Any]]
"""Returns a definition in the form of the client's protocol revision."""


def page_of(
    listed: ProtocolList,
    own: Sequence[Mapping[str, Any]],
    offers: Sequence[Offer],
    after: str,
    accept: Accept,
) -> dict[str, Any]:
    """A page of a list: our own entries first, then those of the servers by published name."""
    rest = [offer for offer in offers if offer.name > after]
    first = [] if after else list(own)
    shown = rest[: PAGE - len(first)]
    entries = [*first, *({**offer.definition, listed.key: offer.name} for offer in shown)]
    page: dict[str, Any] = {"resultType": "complete", listed.field: [accept(listed, one) for one in entries]}
    if len(rest) > len(shown):
        page["nextCursor"] = write_cursor(quote(shown[-1].name, safe=""))
    return page


def offered_definition(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition of a tool for a client: none requires a task, since the gateway can wait for it."""
    execution = definition.get("execution")
    if isinstance(execution, Mapping) and execution.get("taskSupport") == "required":
        return {**definition, "execution": {**execution, "taskSupport": "optional"}}
    return definition


def _definition(gateway: Gateway, tool: Tool, viewer: Viewer) -> dict[str, Any]:
    """The definition of a tool; for a client whose list cannot change, its description says what it needs."""
    definition = compact(gateway.snapshot.definition(gateway.shown_tool(tool, viewer)))
    needs = gateway.requirement(tool, viewer)
    if not needs:
        return definition
    return {**definition, "description": f"{definition.get('description', '')} ({needs})".lstrip()}


async def page_of_tools(
    gateway: Gateway, lists: ListTracker, viewer: Viewer, after: str, accept: Accept
) -> dict[str, Any]:
    """A page of `tools/list`; it is counted, and recorded as shown to the viewer."""
    mode, tools, cursor = await gateway.listing(viewer, after)
    own = () if after else own_definitions(gateway, viewer)
    shown = _shown(gateway, tools, viewer, accept)
    lists.shown("tools", viewer)
    if mode == "menu":
        gateway.count_menu(own, viewer)
    elif mode == "categories":
        gateway.count_categories(own, tools, viewer)
    else:
        gateway.count_tools(tools, viewer)
    page: dict[str, Any] = {"resultType": "complete", "tools": [*own, *shown]}
    return page | ({"nextCursor": write_cursor(cursor)} if cursor else {})


async def whole_list(gateway: Gateway, viewer: Viewer) -> list[dict[str, Any]]:
    """All definitions of `tools/list` for a viewer, without those parts that its revision lacks.

    Nothing is counted or recorded as shown.
    """
    entries, after = [*own_definitions(gateway, viewer)], ""
    while True:
        _, tools, after = await gateway.listing(viewer, after)
        entries += _shown(gateway, tools, viewer, lambda _, definition: dict(definition))
        if not after:
            return entries


def own_definitions(gateway: Gateway, viewer: Viewer) -> Sequence[dict[str, Any]]:
    """What the list of a viewer begins with: the menu, or categories with the meta-tools that they need."""
    mode = gateway.mode(viewer)
    if mode == "all":
        return ()
    is_menu = mode == "menu"
    own = menu.definitions(gateway.index(viewer)) if is_menu else menu.with_categories(gateway, viewer)
    return gateway.menu_for(own, viewer)


def _shown(gateway: Gateway, tools: Sequence[Tool], viewer: Viewer, accept: Accept) -> list[dict[str, Any]]:
    return [accept(TOOLS, offered_definition(_definition(gateway, tool, viewer))) for tool in tools]


def write_cursor(name: str) -> str:
    """The cursor of a page that starts after a name; the name must be ASCII."""
    return base64.urlsafe_b64encode(name.encode("ascii")).decode("ascii")
