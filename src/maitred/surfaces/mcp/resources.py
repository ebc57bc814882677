"""The resources of maitred itself: an overview, its tools and servers, and stored results of calls.

They repeat the menu for clients that show resources to their users or attach them to a conversation. The name
in a URI is percent-encoded. A long text comes in pages, each of which names the URI of the next.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_plus

from maitred.errors import CursorError, PathNotFoundError, ResourceNotFoundError, ToolNotFoundError
from maitred.gateway import Gateway, ServerStatus
from maitred.gateway.events import GUIDE, OVERVIEW, SERVERS, TOOLS
from maitred.gateway.resources import is_ours
from maitred.gateway.stats import usage_hint
from maitred.model.access import Viewer
from maitred.model.annotations import FOR_AGENTS, FOR_BOTH, annotate
from maitred.model.tools import Tool

TEMPLATES: Final = {
    "maitred://tool/{name}": "tool",
    "maitred://server/{name}": "server",
    "maitred://server/{name}/tools": "server",
    "maitred://category/{name}": "category",
    "maitred://result/{id}": "result",
}
"""Our URI templates, each with the kind of thing that its only variable names."""

ANNOTATIONS_KEY: Final = "maitred/annotations"
"""The key in `_meta` for the annotations of contents: the protocol gives contents no field for them."""


USAGE_KEY: Final = "maitred/usage"
"""The key in `_meta` for how the tools in contents were used."""

_MARKDOWN, _JSON, _PLAIN = "text/markdown", "application/json", "text/plain"
_FOR_OPERATORS: Final = frozenset({"target", "instances"})
"""Keys of a server that agents do not see: they may hold a secret, or folders of other clients."""
_PAGE_NOTES: Final = frozenset({"notes"})
"""The same for servers of web pages: they name origins that a person had open."""
_NO_QUERY: Final = (
    "Only `?cursor=` may follow the name, as a page gave it, and after that of a result `?find=WORDS`."
)
_KEPT_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class Content:
    """The present content of a resource of ours.

    `next_uri` is the URI of its next page; `ttl_ms` is how long a client may cache it, in milliseconds.
    `usage` is how its tools were used; empty if they were not.
    """

    uri: str
    mime_type: str
    text: str
    modified: str = ""
    audience: tuple[str, ...] = FOR_AGENTS
    usage: Mapping[str, Any] = field(default_factory=dict)
    next_uri: str = ""
    ttl_ms: int = _KEPT_MS

    @property
    def annotations(self) -> dict[str, Any]:
        """Its audience, its priority (lower for a long text), and when it last changed."""
        return annotate(len(self.text), audience=self.audience, modified=self.modified)

    @property
    def block(self) -> dict[str, Any]:
        """The entry of a result of `resources/read`."""
        return {"uri": self.uri, "mimeType": self.mime_type, "text": self.text}

    def to_result(self) -> dict[str, Any]:
        """The result of `resources/read`; a second text names the next page, if there is one."""
        usage = {USAGE_KEY: dict(self.usage)} if self.usage else {}
        contents = [{**self.block, "_meta": {ANNOTATIONS_KEY: self.annotations, **usage}}]
        if self.next_uri:
            more = f"There is more: read {self.next_uri}"
            contents.append({"uri": self.next_uri, "mimeType": _PLAIN, "text": more})
        return {
            "resultType": "complete",
            "contents": contents,
            "ttlMs": self.ttl_ms,
            "cacheScope": "private",
        }


class OwnResources:
    """Lists and reads maitred's own resources."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    # --- lists --------------------------------------------------------------------------------------------

    def listed(self, viewer: Viewer) -> list[dict[str, Any]]:
        """Definitions of the resources that always exist for a viewer."""
        tools = annotate(0, is_part=True, modified=self._newest(viewer))
        watches = self._gateway.watches(viewer)
        servers = {
            "uri": SERVERS,
            "name": "servers",
            "title": "Servers",
            "description": "Every server with its number of tools and its state, as JSON.",
            "mimeType": _JSON,
        }
        return [
            {
                "uri": OVERVIEW,
                "name": "overview",
                "title": "The tools behind maitred",
                "description": "How many tools there are, in which categories, and how to find and use them.",
                "mimeType": _MARKDOWN,
                "annotations": self._overview(viewer).annotations,
            },
            *([servers | {"annotations": self._servers(viewer).annotations}] if watches else ()),
            {
                "uri": TOOLS,
                "name": "tools",
                "title": "All tools",
                "description": "What each tool does in some words, in pages; each page names the next.",
                "mimeType": _PLAIN,
                "annotations": tools,
            },
            {
                "uri": GUIDE,
                "name": "chains-guide",
                "title": "How to write a chain",
                "description": "The Python of call_tool_chain, its limits, and the modules that there are.",
                "mimeType": _MARKDOWN,
                "annotations": self._guide(viewer).annotations,
            },
        ]

    def templates(self, viewer: Viewer) -> list[dict[str, Any]]:
        """Definitions of our templates for a viewer."""
        watches = self._gateway.watches(viewer)
        made = (
            ("maitred://tool/{name}", "tool", "A tool with its whole definition, as JSON.", _JSON, False),
            (
                "maitred://server/{name}",
                "server",
                "A server and the names of its tools, as JSON.",
                _JSON,
                False,
            ),
            (
                "maitred://server/{name}/tools",
                "server-tools",
                "The tools of a server, in pages.",
                _PLAIN,
                True,
            ),
            ("maitred://category/{name}", "category", "The tools of a category, in pages.", _PLAIN, True),
            ("maitred://result/{id}", "result", "An answer too long to show, in pages.", _PLAIN, True),
        )
        return [
            {
                "uriTemplate": template,
                "name": name,
                "description": description,
                "mimeType": mime_type,
                "annotations": annotate(0, is_part=is_part),
            }
            for template, name, description, mime_type, is_part in made
            if watches or name != "server"
        ]

    # --- reading ------------------------------------------------------------------------------------------

    async def read(self, uri: str, viewer: Viewer) -> Content | None:
        """The present content of a resource for a viewer; `None` if the URI is not one of ours.

        Raises:
            NotFoundError: There is no such resource, tool, server, category or result.
            NotAllowedError: It shows the state of servers, and the viewer may not watch them.
            CursorError: The cursor is not ours.
        """
        if not is_ours(uri):
            return None
        path, asked, query = uri.removeprefix("maitred://").partition("?")
        key, _, value = query.partition("=")
        cursor = unquote(value) if key == "cursor" else ""
        words = unquote_plus(value).strip() if key == "find" and path.startswith("result/") else ""
        if asked and not (cursor or words):
            raise ResourceNotFoundError(uri, hint=_NO_QUERY)
        kind, *rest = [unquote(part) for part in path.split("/")]
        match kind, rest:
            case "tools", []:
                return self._page(uri, "tools", cursor, viewer)
            case "server", [str(name), "tools"] if name:
                usage = usage_hint(self._gateway.catalog(viewer), self._gateway.offered_tools(name, viewer))
                return replace(self._page(uri, f"server/{name}", cursor, viewer), usage=usage)
            case "category", [str(name)] if name:
                return self._page(uri, f"category/{name}", cursor, viewer)
            case "result", [str(name)] if name:
                await self._gateway.fetch_result(name, viewer=viewer)
                return self._result(uri, name, cursor, viewer, find=words)
        if cursor:
            raise CursorError(cursor)
        return await self._whole(uri, kind, rest, viewer)

    async def _whole(self, uri: str, kind: str, rest: list[str], viewer: Viewer) -> Content:
        """A resource that always has one page."""
        match kind, rest:
            case "overview", []:
                return self._overview(viewer)
            case "servers", []:
                return self._servers(viewer)
            case "chains", ["guide"]:
                return self._guide(viewer)
            case "tool", [str(name)] if name:
                return replace(await self.tool(await self._find(name, viewer), viewer), uri=uri)
            case "server", [str(name)] if name:
                return self._server(uri, name, viewer)
        raise ResourceNotFoundError(uri)

    def _overview(self, viewer: Viewer) -> Content:
        text = self._gateway.overview(viewer)
        return Content(
            uri=OVERVIEW, mime_type=_MARKDOWN, text=text, modified=self._newest(viewer), audience=FOR_BOTH
        )

    def _guide(self, viewer: Viewer) -> Content:
        text = self._gateway.chain_guide(viewer)
        return Content(uri=GUIDE, mime_type=_MARKDOWN, text=text, modified=self._newest(viewer))

    def _servers(self, viewer: Viewer) -> Content:
        entries = [status.to_entry() for status in self._gateway.watched_servers(viewer)]
        return Content(
            uri=SERVERS, mime_type=_JSON, text=compact(entries), modified=self._newest(viewer), ttl_ms=0
        )

    async def _find(self, name: str, viewer: Viewer) -> Tool:
        try:
            return self._gateway.find(name, viewer)
        except ToolNotFoundError:
            await self._gateway.warm()  # the error for an unknown name lists the nearest, by the index
            return self._gateway.find(name, viewer)

    async def tool(self, tool: Tool, viewer: Viewer) -> Content:
        """Everything about one tool."""
        uri = f"maitred://tool/{quote(tool.name, safe='')}"
        known = await self._gateway.tool_json(tool, viewer)
        text, used = compact(known), known["usage"] or {}
        usage = {key: used[key] for key in ("calls", "success_rate", "last_used") if used}
        modified = self._newest(viewer, tool.server)
        return Content(uri=uri, mime_type=_JSON, text=text, modified=modified, usage=usage)

    def _server(self, uri: str, name: str, viewer: Viewer) -> Content:
        status = self._status(name, viewer)
        gateway = self._gateway
        tools = gateway.offered_tools(name, viewer)
        hidden = _FOR_OPERATORS | (_PAGE_NOTES if status.spec.pages is not None else frozenset())
        shown = {key: value for key, value in status.to_json().items() if key not in hidden}
        offers = {
            "resources": len([o for o in gateway.offers_of("resource", viewer) if o.server == name]),
            "prompts": [o.name for o in gateway.offers_of("prompt", viewer) if o.server == name],
        }
        details = shown | {
            "title": status.facts.title,
            "instructions": status.facts.instructions,
            "tools": status.tools,
            "tool_names": [tool.name for tool in tools],
            **offers,
        }
        return Content(
            uri=uri,
            mime_type=_JSON,
            text=compact(details),
            modified=self._newest(viewer, name),
            usage=usage_hint(gateway.catalog(viewer), tools),
            ttl_ms=0,
        )

    def _status(self, name: str, viewer: Viewer) -> ServerStatus:
        for status in self._gateway.watched_servers(viewer):
            if status.name == name:
                return status
        self._gateway.page(f"server/{name}", viewer=viewer)  # raises the error that names the nearest
        raise PathNotFoundError(f"server/{name}")

    def _page(self, uri: str, path: str, cursor: str, viewer: Viewer) -> Content:
        page = self._gateway.browse(path, cursor, viewer=viewer)
        text = page.text
        if page.cursor:
            base = uri.partition("?")[0]
            text = _leading_on(text, page.cursor, f"{base}?cursor={quote(page.cursor, safe='')}")
        return Content(uri=uri, mime_type=_PLAIN, text=text, modified=self._newest(viewer))

    def _result(self, uri: str, result_id: str, cursor: str, viewer: Viewer, *, find: str = "") -> Content:
        page = self._gateway.result(result_id, cursor, viewer=viewer, find=find)
        base = uri.partition("?")[0]
        part = bool(cursor or page.next_cursor)
        return Content(
            uri=uri,
            mime_type=_PLAIN if part else page.mime_type,
            text=page.text,
            next_uri=f"{base}?cursor={page.next_cursor}" if page.next_cursor else "",
            ttl_ms=0,
        )

    def _newest(self, viewer: Viewer, server: str = "") -> str:
        """When the gateway last synchronised a server (or any that the viewer may see), or ordered the tools.

        In ISO 8601.
        """
        snapshot = self._gateway.catalog(viewer)
        records = [record for name, record in snapshot.servers.items() if server in ("", name)]
        return max([record.synced_at for record in records] + [snapshot.tiers_at], default="")


def compact(value: Mapping[str, Any] | list[Any]) -> str:
    """JSON in one line, without optional spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _leading_on(text: str, cursor: str, uri: str) -> str:
    """A page whose last line names the URI of the next page instead of its cursor."""
    head, _, last = text.rpartition("\n")
    return f"{head}\n{last.replace(f'same path with cursor {cursor!r}', f'read {uri}')}"
