"""What the demonstrations share: headings, calls with their answers, and a web site on loopback."""

import json
import mimetypes
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from rich.panel import Panel
from rich.text import Text

from maitred.surfaces.cli.console import out

if TYPE_CHECKING:  # the SDK takes a second to import
    from mcp import Client


def heading(text: str) -> None:
    """Print a heading."""
    out.print()
    out.print(Text(text, style="bold"))


def request_line(text: str) -> None:
    """Print what an agent or an operator does."""
    out.print(Text(f"> {text}", style="cyan"))


async def show_call(client: "Client", name: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool, print the call and its answer, and return the text of the answer."""
    request_line(f"{name} {json.dumps(arguments)}")
    result = await client.call_tool(name, dict(arguments))
    text = "\n".join(block.text for block in result.content if block.type == "text").strip()
    color = "red" if result.is_error else "green"
    out.print(Panel(Text(text), border_style=color, expand=False), soft_wrap=False)
    return text


@contextmanager
def website(pages: Mapping[str, str]) -> Iterator[str]:
    """Serve texts by their paths; yields the origin of the site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            text = pages.get(self.path)
            kind = mimetypes.guess_type(self.path)[0] or "text/html"
            self.send_response(404 if text is None else 200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's signature
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
