"""A web site on loopback: pages are texts by path, from a folder, written by a test, or both."""

import http.server
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"


@dataclass
class Site:
    """A site with its pages by path; a path may be changed at any time. `port` is its own origin's."""

    port: int = 0
    pages: dict[str, str] = field(default_factory=dict)
    held: dict[str, threading.Event] = field(default_factory=dict)
    """What the texts of some paths wait for, after the heads of their answers."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self, name: str, *scripts: str, body: str = "") -> str:
        """Write a page with scripts; returns its address."""
        marked = "".join(f"<script type=module>{script}</script>" for script in scripts)
        self.pages[f"/{name}"] = f"<!doctype html><title>{name}</title>{body}{marked}"
        return f"{self.origin}/{name}"

    def answer(self, path: str) -> tuple[int, str, str]:
        """The status, the type and the text for a path, of which the query does not count."""
        name = path.partition("?")[0]
        text = self.pages.get("/index.html" if name == "/" and "/" not in self.pages else name)
        kind = mimetypes.guess_type(name)[0] or "text/html"
        return 404 if text is None else 200, f"{kind}; charset=utf-8", text or ""


@contextmanager
def serve_site(folder: str = "") -> Iterator[Site]:
    """A site, with the files of a folder of the test data if one is named, until the context is left.

    It has the module for authors of pages, as the gateway serves it.
    """
    files = (DATA / folder).iterdir() if folder else ()
    made = Site(pages={f"/{one.name}": one.read_text(encoding="utf-8") for one in files if one.is_file()})
    made.pages["/tool-categories.js"] = (
        resources.files("maitred.surfaces.http") / "tool_categories.js"
    ).read_text()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, text = made.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            if held := made.held.get(self.path.partition("?")[0]):
                held.wait(60)
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
