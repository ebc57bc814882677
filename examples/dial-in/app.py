"""A small app of which the page offers tools to agents, by dialing in to maitred. It needs Python alone.

    maitred browser dial-in --script > maitred.js
    python app.py FILE 3000

FILE is the one that `maitred browser dial-in` names. The app is for this machine alone, as the file is.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".json": "application/json"}


def make_server(address: Path, port: int = 0) -> ThreadingHTTPServer:
    """The server of the app; `address` is the file of maitred, which is another after each start of it."""
    files = {"/": HERE / "index.html", "/maitred.js": HERE / "maitred.js", "/maitred.json": address}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hosts = [f"{name}:{self.server.server_port}" for name in ("localhost", "127.0.0.1")]
            file = files.get(self.path)
            if self.headers.get("Host") not in hosts or file is None or not file.is_file():
                self.send_error(404)  # also to a site that has its name lead to this machine
                return
            self.send_response(200)
            self.send_header("Content-Type", KINDS[file.suffix])
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(file.read_bytes())

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python app.py FILE PORT (FILE is what `maitred browser dial-in` names)")
    server = make_server(Path(sys.argv[1]), int(sys.argv[2]))
    print(f"http://localhost:{server.server_port}", flush=True)
    server.serve_forever()
