"""Find the subject of a path: a server, its tool by the raw or published name, or a page of a category."""

from difflib import get_close_matches
from typing import Any, Final

from maitred.errors import PathNotFoundError, ToolNotFoundError, ToolWithheldError
from maitred.gateway import Gateway, ServerStatus, Snapshot
from maitred.model.access import Ability, Viewer
from maitred.model.tools import Tool, ToolKey

_NEAREST: Final = 3


def server_of(gateway: Gateway, name: str, viewer: Viewer, ability: Ability = "see") -> ServerStatus:
    """A configured server that exists for a viewer who has an ability on it.

    Raises:
        PathNotFoundError: There is no such server; the text names the nearest.
        NotAllowedError: The viewer does not have the ability.
    """
    there = gateway.access.portion(viewer).context
    found = next((status for status in there.servers() if status.name == name), None)
    if found is None:
        gateway.access.check(viewer, ability)
        gateway.page(f"server/{name}", viewer=viewer)  # raises an error that names the nearest
        raise PathNotFoundError(f"server/{name}")
    gateway.access.check(viewer, ability, server=name)
    return found


async def tool_of(gateway: Gateway, server: str, name: str, viewer: Viewer, *, to_call: bool = False) -> Tool:
    """A tool of a server that exists for a viewer.

    `to_call` waits for a server that is being discovered. It also distinguishes a tool that the viewer may
    not call from one that does not exist.

    Raises:
        PathNotFoundError: There is no such server.
        ToolNotFoundError: The server has no such tool; the text names the nearest.
        ToolWithheldError: The server's tools are not known yet.
        NotAllowedError: The viewer may not call it.
    """
    there = gateway.access.portion(viewer)
    if found := _known(there.context.snapshot, server, name):
        return found
    if to_call and (beyond := _known(gateway.snapshot, server, name)):
        gateway.access.check(viewer, "call", tool=beyond)
    status = server_of(gateway, server, viewer)
    if to_call and not status.facts.era:
        await gateway.settled(gateway.settings.disclosure.first_list_wait_s)
        if found := _known(gateway.snapshot, server, name):
            gateway.access.check(viewer, "call", tool=found)
            return found
        status = server_of(gateway, server, viewer)
    if not status.facts.era:
        why = status.withheld or status.error or status.health.error or "its tools are not known yet"
        raise ToolWithheldError(name, f"its server {server!r} is not available: {why}")
    raise ToolNotFoundError(name, nearest=_nearest(gateway, server, name, viewer))


def _known(snapshot: Snapshot, server: str, name: str) -> Tool | None:
    if found := snapshot.by_key.get(ToolKey(server=server, name=name)):
        return found
    found = snapshot.by_name.get(name)
    return found if found and found.server == server else None


def _nearest(gateway: Gateway, server: str, name: str, viewer: Viewer) -> list[str]:
    """Tools of the server with a similar spelling, then tools of other servers with this name."""
    there = gateway.access.portion(viewer).context
    snapshot = there.snapshot
    own = {tool.key.name: tool.name for tool in snapshot.by_server.get(server, ())}
    own |= {published: published for published in own.values()}
    near = [own[found] for found in get_close_matches(name, own, n=_NEAREST)]
    elsewhere = [tool.name for tool in there.visible_tools() if name in (tool.key.name, tool.name)]
    return list(dict.fromkeys([*near, *elsewhere]))[:_NEAREST]


def category_page(gateway: Gateway, name: str, page: int, size: int, viewer: Viewer) -> dict[str, Any]:
    """A page of a category for a viewer, with its position among the pages.

    Raises:
        PathNotFoundError: There is no such category.
    """
    start = (page - 1) * size
    found = gateway.page(f"category/{name}", str(start) if start else "", size, viewer)
    place = {
        "page": page,
        "page_size": size,
        "total_count": found.total,
        "total_pages": -(-found.total // size),
    }
    return found.to_json() | {"pagination": place}
