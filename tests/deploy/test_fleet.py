"""A gateway and a runner with the configuration of the fleet, as processes over PostgreSQL and Valkey."""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.deploy.files import KUBERNETES, environment, pod
from tests.support.postgres import Postgres
from tests.support.real_servers import require
from tests.support.valkey import ValkeyService

BIN = Path(sys.executable).parent
TOKEN = "a-token-of-the-test"  # it is one


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One process of the fleet."""

    process: psutil.Process
    port: int

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the answer of a request with the token."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    @property
    def servers(self) -> set[str]:
        """The programs of servers that it runs, itself or by a child."""
        names = [" ".join(one.cmdline()) for one in self.process.children(recursive=True) if one.is_running()]
        return {found[0] for name in names if (found := re.search(r"mcp-server-\w+", name))}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(role: str, folder: Path) -> Iterator[Replica]:
    """A pod of the fleet as a process: its arguments, its environment, and its configuration moved here."""
    port, home = free_port(), folder / role
    home.mkdir()
    text = (KUBERNETES / "overlays/fleet/maitred.yaml").read_text(encoding="utf-8")
    config = home / "maitred.yaml"
    moved = text.replace("/run/maitred", str(folder)).replace(":8420", f":{port}")
    config.write_text(moved.replace("unready_s: 10", "unready_s: 0"), encoding="utf-8")
    given = {
        **environment(),
        "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "XDG_STATE_HOME": str(home),
        "XDG_RUNTIME_DIR": str(home), "MAITRED_CONFIG": str(config), "POD_IP": "127.0.0.1",
        "MAITRED_KEY": base64.b64encode(bytes(32)).decode(), "MAITRED_AUDIT_KEY": "audited", "COLUMNS": "200",
        "MAITRED_ROLE": role,
    }  # fmt: skip
    [container] = pod()["containers"]
    program = subprocess.Popen(
        [BIN / "maitred", *container["args"], "--port", str(port)],
        env=given, cwd=home, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stderr is not None
    try:
        said = program.stderr.readline()
        assert said == f"maitred listens on http://0.0.0.0:{port}/mcp\n", said + program.stderr.read()
        yield Replica(process=psutil.Process(program.pid), port=port)
    finally:
        program.send_signal(signal.SIGTERM)
        assert program.wait(120) == 0
        program.stderr.close()


@pytest.mark.real
def test_a_call_at_the_gateway_is_made_by_a_server_of_the_runner(
    tmp_path: Path, postgres: Postgres, valkey_server: ValkeyService
) -> None:
    """With the arguments, the configuration and the keys of the Secret that the overlay names."""
    require("time")
    for key, value in (
        ("token", TOKEN),
        ("catalog-url", postgres.new_database()),
        ("valkey-url", valkey_server.new_url()),
    ):
        (tmp_path / key).write_text(f"{value}\n", encoding="utf-8")

    with ExitStack() as stack:
        runner = stack.enter_context(started("runner", tmp_path))
        gateway = stack.enter_context(started("gateway", tmp_path))
        call = {"arguments": {"timezone": "Asia/Tokyo"}}
        status, answer = gateway.ask("/api/v1/tools/time/get_current_time/call", call)
        running = (gateway.servers, runner.servers)
        ready = (gateway.ask("/readyz")[0], runner.ask("/readyz")[0])

    assert (status, "Asia/Tokyo" in str(answer)) == (200, True), answer
    assert running == (set(), {"mcp-server-time"})
    assert ready == (200, 200)
