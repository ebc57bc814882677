"""Real servers in the jail, from a manifest to a call of an MCP client through the gateway."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from tests.interaction.harness import call, cli, over_stdio, write_settings
from tests.support.jails import require_jail
from tests.support.real_servers import OWN, Place, RealServer, require

pytestmark = pytest.mark.anyio

POLICY = {"trusted_commands": [f"{OWN}/mcp-server-time **"]}


def manifest(server: RealServer, folder: Path) -> Path:
    """A manifest that asks for what the server needs: the folder in which it keeps its file."""
    written: dict[str, Any] = {"name": server.name, **server.entry(folder)}
    if server.env(folder):
        written["filesystem"] = [{"path": str(folder), "mode": "write"}]
    path = folder / f"{server.name}.yml"
    path.write_text(json.dumps(written), encoding="utf-8")  # JSON is YAML
    return path


async def test_registered_servers_answer_a_client_from_their_jails(tmp_path: Path) -> None:
    """One that the policy approves and one that a person does; `doctor` and `status` say what they run in."""
    require_jail()
    servers = require("time", "memory")
    folder = tmp_path / "kept"
    folder.mkdir()
    config = write_settings(tmp_path, {}, admission=POLICY)
    maitred = partial(cli, config)

    assert maitred("register", *(str(manifest(one, folder)) for one in servers)).returncode == 0
    assert maitred("approve", "memory", "--yes").returncode == 0
    found = json.loads(maitred("doctor", "--json").stdout)
    assert {one["name"]: one["ok"] for one in found["servers"]} == {"time": True, "memory": True}
    assert found["cages"]["jail"]["works"]

    async with over_stdio(config, "legacy") as client:
        for server in servers:
            for one in server.calls(Place(folder=folder)):
                one.assert_answered(await call(client, f"{server.name}__{one.tool}", one.arguments))
        (gateway,) = json.loads((await to_thread.run_sync(maitred, "status", "--json")).stdout)

    cages = {one["name"]: (one["cage"], one["state"]) for one in gateway["servers"]}
    assert cages == {"time": ("jail", "ready"), "memory": ("jail", "ready")}
    assert "Ada-one" in (folder / "memory.jsonl").read_text(encoding="utf-8")
