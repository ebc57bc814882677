"""Find what a path names: a server, a tool of it by its raw or published name, a page of a category."""

from difflib import get_close_matches
from typing import Any, Final

from maitred.errors import PathNotFoundError, ToolNotFoundError, ToolWithheldError
from maitred.gateway import Gateway, ServerStatus
from maitred.model.tools import Tool, ToolKey

_NEAREST: Final = 3


def server_of(gateway: Gateway, name: str) -> ServerStatus:
    """A configured server.

    Raises:
        PathNotFoundError: There is none; the text names the nearest.
    """
    found = next((status for status in gateway.servers() if status.name == name), None)
    if found is None:
        gateway.page(f"server/{name}")  # raises, and knows the nearest
        raise PathNotFoundError(f"server/{name}")
    return found


async def tool_of(gateway: Gateway, server: str, name: str, *, wait: bool = False) -> Tool:
    """A tool of a server; `wait` gives a server that is being discovered the time to become known.

    Raises:
        PathNotFoundError: There is no such server.
        ToolNotFoundError: It has no such tool; the text names the nearest.
        ToolWithheldError: Its tools are not known yet.
    """
    if found := _known(gateway, server, name):
        return found
    status = server_of(gateway, server)
    if wait and not status.facts.era:
        await gateway.settled(gateway.settings.disclosure.first_list_wait_s)
        if found := _known(gateway, server, name):
            return found
        status = server_of(gateway, server)
    if not status.facts.era:
        why = status.withheld or status.error or status.health.error or "its tools are not known yet"
        raise ToolWithheldError(name, f"its server {server!r} is not available: {why}")
    raise ToolNotFoundError(name, nearest=_nearest(gateway, server, name))


def _known(gateway: Gateway, server: str, name: str) -> Tool | None:
    snapshot = gateway.snapshot
    if found := snapshot.by_key.get(ToolKey(server=server, name=name)):
        return found
    found = snapshot.by_name.get(name)
    return found if found and found.server == server else None


def _nearest(gateway: Gateway, server: str, name: str) -> list[str]:
    """Tools of the server that are spelled much the same, else those of other servers that are called so."""
    snapshot = gateway.snapshot
    own = {tool.key.name: tool.name for tool in snapshot.by_server.get(server, ())}
    own |= {published: published for published in own.values()}
    near = [own[found] for found in get_close_matches(name, own, n=_NEAREST)]
    elsewhere = [tool.name for tool in gateway.visible_tools() if name in (tool.key.name, tool.name)]
    return list(dict.fromkeys([*near, *elsewhere]))[:_NEAREST]


def category_page(gateway: Gateway, name: str, page: int, size: int) -> dict[str, Any]:
    """A page of a category, and where it stands among the others.

    Raises:
        PathNotFoundError: There is no such category.
    """
    start = (page - 1) * size
    found = gateway.page(f"category/{name}", str(start) if start else "", size)
    place = {
        "page": page,
        "page_size": size,
        "total_count": found.total,
        "total_pages": -(-found.total // size),
    }
    return found.to_json() | {"pagination": place}
