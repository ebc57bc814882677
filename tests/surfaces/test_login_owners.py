"""Whose logins there are to a server at which each principal has its own: in lists, reports and pages."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.surfaces.cli.rig import runner, write
from tests.surfaces.web.rig import opened
from tests.surfaces.web.test_call import words_of

from maitred.config.load import load
from maitred.errors import NotAllowedError
from maitred.model.access import LOCAL_USER, Grant, Viewer
from maitred.wiring import open_gateway
from maitred.wiring.storage import vault_of

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:9/mcp"  # where nothing listens
CONFIG = f"""
servers:
  office: {{url: "{URL}", auth: {{per: user}}}}
  plain: {{url: "{URL}"}}
catalog: {{path: c.db}}
"""


async def log_in(path: Path, *principals: str) -> None:
    """Store a login of each principal, as `maitred login` does."""
    settings = load(path)
    async with open_gateway(settings):
        for name in principals:
            assert await vault_of(settings, name).save("office", b"{}")


def test_commands_say_whose_logins_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The login of the gateway, by which tools are listed, is among them. Other servers have no such line."""
    write(tmp_path, {"maitred.yaml": CONFIG})
    run = runner(tmp_path, monkeypatch, capsys)

    before = run("list").fine
    anyio.run(log_in, tmp_path / "maitred.yaml", "", "ann", "oauth:ben")
    after, listed, report = run("list").fine, run("list", "--json").fine, run("doctor", "office", "--json")

    assert "office: each principal needs a login, and none has one yet" in before
    assert "office: logins of the gateway, ann, oauth:ben" in after
    assert {one["name"]: one["logins"] for one in json.loads(listed)["servers"]} == {
        "office": ["", "ann", "oauth:ben"],
        "plain": None,
    }
    [finding] = json.loads(report.out)["servers"]
    assert "logins of the gateway, ann, oauth:ben" in finding["notes"]


async def test_the_page_of_a_server_says_whose_logins_there_are(tmp_path: Path) -> None:
    """To who may watch it; the others are refused."""
    write(tmp_path, {"maitred.yaml": CONFIG})
    await log_in(tmp_path / "maitred.yaml", "", "ann")
    given = load(tmp_path / "maitred.yaml").servers
    agent = Viewer(grant=Grant(principal="eve", role="agent"))
    async with opened(tmp_path, {}) as house:
        await house.gateway.configure(replace(house.gateway.settings, servers=given), viewer=LOCAL_USER)
        client = await house.person()
        office = words_of((await client.get("/ui/servers/office")).text)
        plain = words_of((await client.get("/ui/servers/plain")).text)
        with pytest.raises(NotAllowedError):
            await house.gateway.login_owners("office", agent)

    assert "Logins the gateway, ann" in office.replace(" ,", ",")
    assert "Logins" not in plain
