"""A registry on this machine that speaks the MCP registry's API, with pages, versions and faults to order."""

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

OFFICIAL = "io.modelcontextprotocol.registry/official"


def item(name: str, version: str = "1.0.0", *, status: str = "active", **server: Any) -> dict[str, Any]:
    """An item of the API."""
    meta = {"status": status, "isLatest": True, "publishedAt": "2026-01-01T00:00:00Z"}
    described = {"name": name, "version": version, "description": f"About {name}.", **server}
    return {"server": described, "_meta": {OFFICIAL: meta}}


class ServerRegistry:
    """Serves items in pages, while its context is open.

    `version` is that of the API. `faults` are answers for pages by their number, from 0: a status and a body.
    """

    def __init__(self, items: Sequence[dict[str, Any]], *, page: int = 2, version: str = "v0.1") -> None:
        self.items = list(items)
        self.faults: dict[int, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        """The paths that were asked for, in order."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                status, body = registry.answer(self.path, page, version)
                self.send_response(status)
                if status in (301, 302):
                    self.send_header("Location", body.decode())
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not to standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, page: int, version: str) -> tuple[int, bytes]:
        parts = urlsplit(path)
        if not parts.path.startswith(f"/{version}/servers"):
            return 404, b"{}"
        if "/versions/" in parts.path:
            name, _, wanted = unquote(parts.path).removeprefix(f"/{version}/servers/").partition("/versions/")
            found = [i for i in self.items if (i["server"]["name"], i["server"]["version"]) == (name, wanted)]
            return (200, json.dumps(found[0]).encode()) if found else (404, b"{}")
        start = int(parse_qs(parts.query).get("cursor", ["0"])[0])
        if fault := self.faults.get(start // page):
            return fault
        latest = [one for one in self.items if one["_meta"][OFFICIAL]["isLatest"]]
        metadata: dict[str, Any] = {"count": page}
        if start + page < len(latest):
            metadata["nextCursor"] = str(start + page)
        return 200, json.dumps({"servers": latest[start : start + page], "metadata": metadata}).encode()
