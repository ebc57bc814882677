"""Nothing a server can do is lost behind the gateway: each feature, each pairing of eras, each transport.

Clients of four SDKs try a server of each era through a gateway over standard streams, through the shared
gateway in the background, and over HTTP. The test prints the table; a cell that failed says why. The servers
are `handshake_asker.py` and `stateless_asker.py`, the clients are programs beside them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.interaction.harness import serve_command, serving
from tests.support.real_servers import OLD

from maitred.surfaces.daemon.control import stop_gateways

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODULES = ROOT / ".servers" / "npm" / "node_modules"
LIMIT_S = 300

Era = Literal["handshake", "stateless"]
Transport = Literal["stdio", "shared", "http"]
NONE = "not in the protocol"


@dataclass(frozen=True, kw_only=True)
class ClientProgram:
    """A client of one SDK in one era."""

    name: str
    era: Era
    command: tuple[str, ...]
    after: tuple[str, ...] = ()

    def tried(self, target: Mapping[str, Any]) -> dict[str, dict[str, str]]:
        """What came of each feature of each server."""
        command = [*self.command, json.dumps(target), *self.after]
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT)
        assert run.returncode == 0, run.stderr[-3000:]
        outcomes: dict[str, dict[str, str]] = json.loads(run.stdout.splitlines()[-1])
        return outcomes


def _typescript(version: str, mode: str) -> dict[str, Any]:
    return {"command": ("node", str(HERE / "ts_client.mjs")), "after": (mode, str(MODULES), version)}


_OLD = (str(OLD / "python"), str(HERE / "sdk1_client.py"))
_NEW = (sys.executable, "-m", "tests.pairings.sdk2_client")
MODERN = "2026-07-28"
CLIENTS = (
    ClientProgram(name="Python SDK 1", era="handshake", command=_OLD),
    ClientProgram(name="Python SDK 2", era="handshake", command=_NEW, after=("legacy",)),
    ClientProgram(name="Python SDK 2", era="stateless", command=_NEW, after=(MODERN,)),
    ClientProgram(name="TypeScript SDK 1", era="handshake", **_typescript("1", "legacy")),
    ClientProgram(name="TypeScript SDK 2", era="stateless", **_typescript("2", MODERN)),
)


def expected(client: Era, server: Era) -> dict[str, str]:
    """What each feature comes to in a pairing."""
    logged = f"warning {server}/inner a warning"
    return {
        "form": '{"name": "Ann"}',
        "url": "accept",
        "sampling": "hello",
        "sampling_tools": "hello with add",
        "roots": '["file:///pairs"]',
        "log messages": logged,
        "log level": f"debug {server}/inner a debug; {logged}" if client == "handshake" else NONE,
        "progress": "1/2 step 1, 2/2 step 2",
        "cancel": "1 cancelled",
        "subscription": "updated",
        "completion": "Ann",
        "tasks": "done as a task, cancelled" + (", 2 listed" if client == "handshake" else ""),
    }


def configuration(folder: Path) -> Path:
    """A gateway with both servers, which shows their tools by name."""
    servers = {
        "handshake": {"command": str(OLD / "python"), "args": [str(HERE / "handshake_asker.py")]},
        "stateless": {
            "command": sys.executable,
            "args": ["-m", "tests.pairings.stateless_asker"],
            "cwd": str(ROOT),
            "era": "stateless",
        },
    }
    document = {"servers": servers, "catalog": {"path": "catalog.db"}, "disclosure": {"mode": "all"}}
    path = folder / "maitred.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@contextmanager
def target(transport: Transport, config: Path) -> Iterator[dict[str, Any]]:
    """How a client reaches a gateway over a transport."""
    environment = {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    if transport == "http":
        with serving(config) as gateway:
            yield {"url": gateway.url}
    elif transport == "stdio":
        yield {"command": serve_command(config, "--transport", "stdio"), "env": environment}
    else:
        try:
            command = [sys.executable, "-m", "maitred", "serve", "--config", str(config)]
            yield {"command": command, "env": environment}
        finally:
            stop_gateways(config, "", all_of_them=False)


@pytest.mark.parametrize("transport", ["stdio", "shared", "http"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: f"{one.name}-{one.era}".replace(" ", "-"))
def test_every_feature_passes_in_every_pairing(
    tmp_path: Path, client: ClientProgram, transport: Transport, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: issue "Nothing a server can do is lost behind maitred"."""
    if not (OLD / "python").exists() or not MODULES.exists():
        pytest.skip("the servers and SDKs that `make servers` installs are not here")
    with target(transport, configuration(tmp_path)) as where:
        found = client.tried(where)
    wrong = []
    with capsys.disabled():
        for server in ("handshake", "stateless"):
            wanted = expected(client.era, server)
            cells = {name: _cell(found[server].get(name, "not tried"), wanted[name]) for name in wanted}
            line = f"{client.name:16} {client.era:9} -> {server:9} {transport:6}"
            sys.stdout.write(f"\n{line} " + ", ".join(f"{name}: {cell}" for name, cell in cells.items()))
            wrong += [f"{line} {name}: {cell}" for name, cell in cells.items() if cell not in ("ok", NONE)]
    assert not wrong, "\n".join(wrong)


def _cell(outcome: str, wanted: str) -> str:
    return ("ok" if wanted != NONE else NONE) if outcome == wanted else outcome
