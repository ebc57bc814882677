"""What an engine says besides what it was asked for is heard; here it is one of our own, over its socket."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from maitred.backends.isolation.container_spec import container_spec
from maitred.backends.isolation.engine import open_engine
from maitred.backends.isolation.engine_api import EngineError, EngineInfo, ImageInfo
from maitred.model.servers import ServerSpec

pytestmark = pytest.mark.anyio

DROPPED = "Your kernel does not support memory limit capabilities. Limitation discarded."
OF_SWAP = "Your kernel does not support swap limit capabilities. Memory limited without swap."
ALL_DROPPED = "Resource limits are not supported and ignored on cgroups V1 rootless systems"


class Talking(ThreadingUnixStreamServer):
    """An engine that makes any container, with warnings, and keeps no limit that it warns of."""

    daemon_threads = True

    def __init__(self, path: str, *warnings: str) -> None:
        super().__init__(path, Answers)
        self.warnings = warnings
        self.containers: set[str] = set()


class Answers(BaseHTTPRequestHandler):
    """The few requests of a start."""

    server: Talking

    def do_GET(self) -> None:
        """It is there."""
        self._answer({}, {"Api-Version": "1.41"})

    def do_POST(self) -> None:
        """A container is made."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.containers.add(self.path.partition("name=")[2])
        self._answer({"Id": "1", "Warnings": list(self.server.warnings)})

    def do_DELETE(self) -> None:
        """One is removed."""
        self.server.containers.discard(self.path.rpartition("/")[2].partition("?")[0])
        self._answer({})

    def _answer(self, content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """What it calls itself."""
        return "Docker/24.0.0 (linux)"

    def address_string(self) -> str:
        """It has none."""
        return ""

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@contextmanager
def talking(*warnings: str) -> Iterator[tuple[Talking, str]]:
    with TemporaryDirectory(prefix="mt-") as folder:
        path = str(Path(folder, "engine.sock"))
        with Talking(path, *warnings) as engine:
            thread = threading.Thread(target=engine.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            yield engine, f"unix://{path}"
            engine.shutdown()
            thread.join()


@pytest.mark.parametrize("warning", [DROPPED, ALL_DROPPED, DROPPED.replace("memory", "PIDs")])
async def test_a_container_that_is_not_held_to_its_limits_is_not_kept(warning: str) -> None:
    """The engine only warns of it."""
    with talking(warning, OF_SWAP) as (engine, address):
        made = await open_engine([address])
        with pytest.raises(EngineError) as raised:
            await made.create("tool", container())
        made.close()
        assert engine.containers == set()

    assert str(raised.value) == f"Docker does not hold it to its limits here: {warning}"


async def test_whatever_else_an_engine_warns_of_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """Such as that only swap has no limit."""
    with talking(OF_SWAP) as (engine, address):
        made = await open_engine([address])
        await made.create("tool", container())
        made.close()
        assert engine.containers == {"tool"}

    assert OF_SWAP in capfd.readouterr().out


def container() -> Any:
    spec = ServerSpec(name="tool", image="localhost/tool:1")
    info = EngineInfo(address="", name="Docker", version="24.0.0")
    return container_spec(spec, ImageInfo(identity="sha256:1"), info, labels={}, resolve=str)
