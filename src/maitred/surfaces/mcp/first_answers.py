"""Answers the first requests of a client on a wire without the SDK: its introduction and its first lists.

The SDK takes longer to import than everything else that a list needs. So the gateway answers the usual first
requests itself, with the bytes that the SDK would send. Whatever is unusual is left to the SDK: `answer`
returns nothing then, and `opening` says what the client has said so far.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from maitred import __version__
from maitred.gateway import Gateway
from maitred.model.access import Viewer
from maitred.model.tasks import EXTENSION
from maitred.surfaces.mcp.list_pages import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    Accept,
    ProtocolList,
    page_of,
    page_of_tools,
)
from maitred.surfaces.mcp.list_tracker import ListTracker
from maitred.surfaces.mcp.plain_shapes import (
    HANDSHAKE,
    STATELESS,
    Shapes,
    UnusualValueError,
    check_capabilities,
    check_client,
    check_envelope,
    check_meta,
)
from maitred.surfaces.mcp.prompt_definitions import listed_prompts
from maitred.surfaces.mcp.resources import OwnResources

TTL_MS: Final = 60_000
"""For how long a client of the stateless era may keep a list, in milliseconds."""

CLIENT_CHARACTERS: Final = 100
"""The longest name of a client that the gateway keeps."""

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION: Final = "2026-07-28"

_COMPLETE: Final = "complete"
_CHANGES: Final[Mapping[str, Any]] = {"listChanged": True}
_BOTH_ERAS: Final[Mapping[str, Any]] = {
    "completions": {},
    "logging": {},
    "prompts": _CHANGES,
    "resources": {**_CHANGES, "subscribe": True},
    "tools": _CHANGES,
}
_TASKS: Final[Mapping[str, Any]] = {"cancel": {}, "list": {}, "requests": {"tools": {"call": {}}}}
_SELF: Final[Mapping[str, Any]] = {"name": "maitred", "title": "maitred", "version": __version__}
_STAMP: Final[Mapping[str, Any]] = {"_meta": {"io.modelcontextprotocol/serverInfo": _SELF}}
_CACHING: Final[Mapping[str, Any]] = {"cacheScope": "private", "ttlMs": TTL_MS}


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a client has said before the SDK serves it.

    `handshake` are the parameters of its `initialize`, and `viewer` is who it is since then; both are `None`
    without one. `is_stateless` says that it has opened the other era.
    """

    guest: Viewer | None = None
    handshake: Mapping[str, Any] | None = None
    viewer: Viewer | None = None
    is_initialized: bool = False
    is_stateless: bool = False


class FirstAnswers:
    """Answers one client, whose requests come one after the other.

    Args:
        gateway: Has the lists.
        lists: Records which lists the client was shown.
        viewer: The viewer of requests that name none.
        guest: The viewer of a client that has its own wire to a shared gateway.
        connection: Names the connection of the client, if it opens the handshake era.
    """

    def __init__(
        self, gateway: Gateway, lists: ListTracker, viewer: Viewer, guest: Viewer | None, connection: str
    ) -> None:
        self._gateway = gateway
        self._lists = lists
        self._known = guest or viewer
        self._connection = connection
        self._own = OwnResources(gateway)
        self._lists_of: Mapping[str, Callable[[Viewer, Accept], Awaitable[dict[str, Any]]]] = {
            TOOLS.method: self._tools,
            RESOURCES.method: self._resources,
            TEMPLATES.method: self._templates,
            PROMPTS.method: self._prompts,
        }
        self.opening = Opening(guest=guest)

    async def answer(self, line: bytes) -> bytes | None:
        """The answer to a message, empty where it needs none; `None` if the SDK has to see the message."""
        try:
            message = from_json(line)
        except ValueError:
            return None
        try:
            return await self._answer(message)
        except (UnusualValueError, PydanticSerializationError):
            return None

    async def _answer(self, message: Any) -> bytes:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise UnusualValueError
        method, params, request_id = message.get("method"), message.get("params"), message.get("id")
        fields = {"jsonrpc", "method", "params"}
        if message.keys() <= fields:
            self._take_notice(method, params)
            return b""
        if message.keys() - fields != {"id"} or not _is_id(request_id):
            raise UnusualValueError
        result = await self._result(method, params)
        return to_json({"jsonrpc": "2.0", "id": request_id, "result": result}) + b"\n"

    def _take_notice(self, method: Any, params: Any) -> None:
        """Take a notification: only the end of a handshake needs no SDK."""
        opening = self.opening
        if method != "notifications/initialized" or params not in (None, {}) or opening.viewer is None:
            raise UnusualValueError
        self._lists.begin(opening.viewer)
        self.opening = replace(opening, is_initialized=True)

    async def _result(self, method: Any, params: Any) -> dict[str, Any]:
        if not isinstance(method, str) or not isinstance(params, dict | None):
            raise UnusualValueError
        if method == "initialize":
            return self._initialize(params or {})
        if self.opening.viewer is not None:
            return await self._in_handshake(method, params or {}, self.opening.viewer)
        return await self._stateless(method, params or {})

    # --- handshake era ------------------------------------------------------------------------------------

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        if self.opening.viewer is not None or self.opening.is_stateless or not isinstance(wanted, str):
            raise UnusualValueError
        if params.keys() - {"_meta"} != {"protocolVersion", "capabilities", "clientInfo"}:
            raise UnusualValueError
        check_meta(params.get("_meta", {}))
        check_capabilities(params["capabilities"])
        named = self._named(*check_client(params["clientInfo"]))
        viewer = replace(named, era="handshake", connection=self._connection)
        self.opening = replace(self.opening, handshake=dict(params), viewer=viewer)
        return {
            "capabilities": dict(sorted({**_BOTH_ERAS, "tasks": _TASKS}.items())),
            "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "serverInfo": _SELF,
            "instructions": self._gateway.introduction(named),
        }

    async def _in_handshake(self, method: str, params: Mapping[str, Any], viewer: Viewer) -> dict[str, Any]:
        if params.keys() - {"_meta"}:
            raise UnusualValueError
        check_meta(params.get("_meta", {}))
        if method == "ping":
            return {}
        page = await self._page(method, viewer, HANDSHAKE)
        page.pop("resultType", None)
        return dict(sorted(page.items()))

    # --- stateless era ------------------------------------------------------------------------------------

    async def _stateless(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if params.keys() != {"_meta"}:
            raise UnusualValueError
        viewer = self._named(*check_envelope(params["_meta"], STATELESS_VERSION))
        if method == "server/discover":
            self.opening = replace(self.opening, is_stateless=True)
            capabilities = {**_BOTH_ERAS, "extensions": {EXTENSION: {}}}
            return {
                "cacheScope": "private",
                "capabilities": dict(sorted(capabilities.items())),
                "resultType": _COMPLETE,
                "supportedVersions": [STATELESS_VERSION],
                "ttlMs": TTL_MS,
                **_STAMP,
                "instructions": self._gateway.introduction(viewer),
            }
        page = {**await self._page(method, viewer, STATELESS), **_CACHING}
        self.opening = replace(self.opening, is_stateless=True)
        return {**dict(sorted(page.items())), **_STAMP}

    def _named(self, client: str, version: str) -> Viewer:
        """The client by the name and version that it gives itself."""
        return replace(
            self._known,
            client=client[:CLIENT_CHARACTERS],
            version=version[:CLIENT_CHARACTERS],
            era="stateless",
            surface="mcp",
        )

    # --- lists --------------------------------------------------------------------------------------------

    async def _page(self, method: str, viewer: Viewer, shapes: Shapes) -> dict[str, Any]:
        """The first page of a list, if it can be had at once.

        Raises:
            UnusualValueError: It is no list, or a server is still being discovered, or an entry is unusual.
        """
        make, gateway = self._lists_of.get(method), self._gateway
        if make is None or (gateway.lists_tools(viewer) and not await gateway.settled(0)):
            raise UnusualValueError

        def accept(listed: ProtocolList, definition: Mapping[str, Any]) -> dict[str, Any]:
            found: dict[str, Any] = shapes.of(listed.field)(definition)
            return found

        return await make(viewer, accept)

    async def _tools(self, viewer: Viewer, accept: Accept) -> dict[str, Any]:
        page = await page_of_tools(self._gateway, self._lists, viewer, "", accept)
        return page | {"tools": [accept(TOOLS, one) for one in page["tools"]]}

    async def _resources(self, viewer: Viewer, accept: Accept) -> dict[str, Any]:
        offers = self._gateway.offers_of("resource", viewer)
        page = page_of(RESOURCES, self._own.listed(viewer), offers, "", accept)
        self._lists.shown("resources", viewer)
        return page

    async def _templates(self, viewer: Viewer, accept: Accept) -> dict[str, Any]:
        offers = self._gateway.offers_of("template", viewer)
        page = page_of(TEMPLATES, self._own.templates(viewer), offers, "", accept)
        self._lists.shown("resources", viewer)
        return page

    async def _prompts(self, viewer: Viewer, accept: Accept) -> dict[str, Any]:
        offers = self._gateway.offers_of("prompt", viewer)
        page = page_of(PROMPTS, listed_prompts(self._gateway, viewer), offers, "", accept)
        self._lists.shown("prompts", viewer)
        return page


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)
