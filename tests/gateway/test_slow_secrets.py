"""A server whose secret takes long to get holds up no other server."""

import stat
import sys
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from maitred.config.load import parse
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "support" / "probe_server.py"


async def test_other_servers_go_on_while_a_command_gets_a_secret(tmp_path: Path) -> None:
    """The command waits until the other server has answered."""
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    vault = tmp_path / "vault"
    vault.write_text(
        f"#!/bin/sh\ntouch {begun}\nwhile [ ! -e {go_on} ]; do sleep 0.05; done\necho quiet-river\n"
    )
    vault.chmod(vault.stat().st_mode | stat.S_IXUSR)
    program = f"command: {sys.executable}, args: [{SERVER}], era: handshake"
    text = (
        f"catalog: {{path: c.db}}\nsecrets: {{commands: [{vault}]}}\nservers:\n"
        f'  slow: {{{program}, env: {{TOKEN: "${{command:{vault} read}}"}}}}\n  fast: {{{program}}}\n'
    )
    texts: dict[str, str] = {}

    async with open_gateway(parse(tmp_path / "maitred.yaml", text)) as gateway:

        async def call(server: str) -> None:
            asked = ToolCall(name=f"{server}__environment", arguments={})
            answer = await gateway.call(asked, viewer=LOCAL_USER)
            texts[server] = answer["content"][0]["text"]

        await eventually(begun.exists)
        await call("fast")
        before = dict(texts)
        go_on.touch()
        await call("slow")

    assert before.keys() == {"fast"}
    assert "quiet-river" in texts["slow"]
