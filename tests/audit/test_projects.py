"""Which clients have a project in the audit trail: those over stdio, by the folder that they work in."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.daemon.gateways import LEGACY, MODERN
from tests.daemon.visitors import Visitor, place_of
from tests.surfaces.web.rig import SOON_S, House, opened, tool

from maitred.config.load import load
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.wiring import open_auditing, open_gateway

pytestmark = pytest.mark.anyio

SEARCH = {"name": "search_tools", "arguments": {"phrases": ["look"]}}


async def searches(gateway: Gateway, count: int) -> Sequence[Mapping[str, Any]]:
    """The lines of searches, the oldest first, as soon as there are so many."""
    with anyio.fail_after(SOON_S):
        while True:
            lines = (await gateway.audit_lines(LOCAL_USER)).lines
            found = [line for line in reversed(lines) if line["action"] == "search"]
            if len(found) == count:
                return found
            await anyio.sleep(0.02)


def config_in(folder: Path) -> Path:
    path = folder / "maitred.yaml"
    path.write_text(json.dumps({"servers": {}, "catalog": {"path": "c.db"}}))
    return path


async def test_clients_that_share_a_gateway_have_their_own_projects(tmp_path: Path) -> None:
    """In both eras. The home folder is no project. Source: the issue, Activity."""
    shop = tmp_path / "shop"
    shop.mkdir()
    async with open_gateway(load(config_in(tmp_path))) as gateway, place_of(gateway) as place:
        for folder, is_stateless in ((shop, False), (shop, True), (Path.home(), False)):
            async with place.client(start={"client": str(folder), "folder": str(folder)}) as visitor:
                await _search(visitor, is_stateless=is_stateless)
        found = await searches(gateway, 3)
        assert [line.get("project", "") for line in found] == [str(shop), str(shop), ""]
        assert {(line["client"], line["version"]) for line in found} == {("c", "1")}
        chosen = (await gateway.audit_lines(LOCAL_USER, project="shop")).lines
        assert len(chosen) == 2


async def _search(visitor: Visitor, *, is_stateless: bool) -> None:
    if not is_stateless:
        await visitor.shake_hands()
    meta = {"_meta": MODERN} if is_stateless else {}
    answer = await visitor.ask("tools/call", **SEARCH, **meta)
    assert "content" in answer["result"]


async def test_a_client_with_a_gateway_of_its_own_has_the_folder_of_that(tmp_path: Path) -> None:
    """The program itself, over standard streams."""
    project = tmp_path / "own project"
    project.mkdir()
    config = config_in(tmp_path)
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": LEGACY},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": SEARCH},
    ]

    def talk() -> None:
        command = [sys.executable, "-m", "maitred", "serve", "--config", str(config), "--no-daemon"]
        with subprocess.Popen(
            command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin
            assert program.stdout
            for message in messages:
                program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                program.stdin.flush()
                while message.get("id") and json.loads(program.stdout.readline()).get("id") != message["id"]:
                    pass
            program.stdin.close()
            assert program.wait(SOON_S) == 0

    await anyio.to_thread.run_sync(talk)
    async with open_auditing(load(config)) as auditing:
        [line] = (await auditing.latest(LOCAL_USER)).lines
    assert (line["action"], line["project"]) == ("search", str(project))
    assert line["outcome"] == "nothing_found"


async def test_a_caller_over_http_has_none(tmp_path: Path) -> None:
    """The API does not say where its caller works."""
    async with opened(tmp_path, {"shop": [tool("look")]}) as house:
        await _call_by_http(house)
        await house.recorded(1, tool="look")
        [line] = (await house.gateway.audit_lines(LOCAL_USER, tool="look")).lines
    assert line["surface"] == "http"
    assert "project" not in line


async def _call_by_http(house: House) -> None:
    async with httpx2.AsyncClient(base_url=house.url, timeout=SOON_S) as client:
        answer = await client.post("/api/v1/tools/shop/look/call", json={"arguments": {}})
        assert answer.status_code == 200, answer.text
