"""A registry of images on this machine, as small as one can be that engines fetch from."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry:
    """Serves, while its context is open, the images that were put into it."""

    def __init__(self) -> None:
        contents: dict[str, tuple[str, bytes]] = {}
        self.asked: list[str] = []
        """The paths that were asked for, in order."""
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                kind, body = contents.get(self.path, ("", b""))
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind or "text/plain")
                self.send_header("Content-Length", str(len(body)))
                if kind == _MANIFEST:
                    self.send_header("Docker-Content-Digest", _digest(body))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815  # as the library calls it

            def log_message(self, *_: object) -> None:
                """Not to standard error."""

        contents["/v2/"] = ("application/json", b"{}")
        self._contents = contents
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        self.host = f"127.0.0.1:{self._server.server_port}"

    def put(self, name: str, tag: str, files: Sequence[bytes]) -> str:
        """Put an image there, a layer for each file; returns its digest."""
        layers = [_layer(number, content) for number, content in enumerate(files)]
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"User": "1000"},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
            }
        ).encode()
        packed = [gzip.compress(layer, mtime=0) for layer in layers]
        described = [self._blob(name, one, "application/vnd.oci.image.layer.v1.tar+gzip") for one in packed]
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": self._blob(name, config, "application/vnd.oci.image.config.v1+json"),
                "layers": described,
            }
        ).encode()
        for reference in (tag, _digest(manifest)):
            self._contents[f"/v2/{name}/manifests/{reference}"] = (_MANIFEST, manifest)
        return _digest(manifest)

    def _blob(self, name: str, body: bytes, kind: str) -> dict[str, object]:
        self._contents[f"/v2/{name}/blobs/{_digest(body)}"] = ("application/octet-stream", body)
        return {"mediaType": kind, "digest": _digest(body), "size": len(body)}

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


def _layer(number: int, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(f"file-{number}")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
