"""The page for a person who wants to know the addresses of the gateway, and what the API offers.

The first address leads a person to the web interface, and names all addresses to a program. Beside the page
is the module that authors of pages may load. The page loads nothing, runs nothing and names no server, so any
caller may see it.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from itertools import chain
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from maitred.surfaces.encoding import encode
from maitred.surfaces.http.auth import MODULE
from maitred.surfaces.web.screen import BASE

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:3rem auto;padding:0 1rem;color:#1c1c1c;"
    "background:#fff}code{background:#f1f1ee;padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}"
    "h2{margin-top:2.5rem;border-bottom:1px solid #ddd}h3{margin-bottom:0;font-size:1rem}p{margin:.3rem 0}"
    "dt{margin-top:.8rem}dd{margin:0 0 0 1.5rem}a{color:#0a58ca}"
    "@media(prefers-color-scheme:dark){body{color:#e8e8e4;background:#181818}code{background:#2a2a2a}"
    "h2{border-color:#444}a{color:#8ab4f8}}"
)
_SAFE: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_ANYWHERE: Final = {
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}
_PAGES: Final = f"{BASE}/"
_PLACES: Final = {
    _PAGES: "for a person: the web interface",
    "/mcp": "for MCP clients: the tools of all servers, by streamable HTTP",
    "/docs": "what the HTTP API takes and answers",
    "/api/openapi.json": "the same as an OpenAPI document, for programs",
    "/healthz": "whether the process answers",
    "/readyz": "whether all tools are known",
    "/metrics": "figures for Prometheus",
    MODULE: "a JavaScript module with which web pages group the tools that they offer",
}
_CODE: Final = re.compile(r"`([^`]+)`")


def add_routes(app: FastAPI) -> None:
    """Add the first address, the page and the module, which the OpenAPI description does not list."""

    @app.get("/", include_in_schema=False)
    async def welcome(request: Request) -> Response:
        """The addresses of the gateway as JSON; a browser goes on to the pages."""
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(_PAGES, 303)
        return Response(encode({"name": "maitred", "places": _PLACES}), media_type="application/json")

    @app.get(MODULE, include_in_schema=False)
    async def module() -> Response:
        """The module for authors of pages."""
        return Response(_module(), media_type="text/javascript", headers=_ANYWHERE)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """The addresses, and the API operation by operation."""
        return _page("maitred: the HTTP API", chain(_listed(), _described(app.openapi())))


@cache
def _module() -> str:
    return (files("maitred.surfaces.http") / "tool_categories.js").read_text(encoding="utf-8")


def _page(title: str, parts: Iterator[str]) -> Response:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = f"<h1>{title}</h1>{''.join(parts)}"
    html = (
        f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>'
    )
    return Response(html, media_type="text/html", headers=_SAFE)


def _listed() -> Iterator[str]:
    yield "<p>One gateway between AI agents and many MCP servers. It answers at these addresses:</p><dl>"
    for path, what in _PLACES.items():
        yield f'<dt><a href="{path}"><code>{path}</code></a></dt><dd>{escape(what)}</dd>'
    yield "</dl><p>Where a token is needed, it goes into the header <code>Authorization: Bearer …</code>.</p>"


def _described(description: Mapping[str, Any]) -> Iterator[str]:
    yield f"<p>{_text(description['info']['description'])}</p>"
    yield '<p>For programs: <a href="/api/openapi.json"><code>/api/openapi.json</code></a>.</p>'
    groups: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            group = next(iter(operation.get("tags", [])), "other")
            groups.setdefault(group, []).append("".join(_operation(path, method, operation)))
    for group, operations in groups.items():
        yield f"<h2>{escape(group.capitalize())}</h2>{''.join(operations)}"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h3><code>{method.upper()} {escape(path)}</code></h3>"
    summary, more = (_text(operation.get(key, "")) for key in ("summary", "description"))
    yield f"<p><b>{summary}.</b> {more}</p><dl>"
    for one in operation.get("parameters", []):
        needed = ", needed" if one.get("required") else ""
        what = _text(one.get("description", ""))
        yield f"<dt><code>{escape(one['name'])}</code> in the {escape(one['in'])}{needed}</dt><dd>{what}</dd>"
    if body := operation.get("requestBody"):
        kinds = " or ".join(f"<code>{escape(kind)}</code>" for kind in body["content"])
        yield f"<dt>the body</dt><dd>{kinds}</dd>"
    codes = ", ".join(sorted(operation.get("responses", {})))
    yield f"<dt>answers</dt><dd>{escape(codes)}</dd></dl>"


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(" ".join(text.split()), quote=False))
