"""Who gets what a server logs after its calls have ended, on one connection that several principals use."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from tests.gateway.rig import Upstream, opened, settings_of
from tests.support.callers import Answering
from tests.support.viewers import agent

from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

SOON_S = 60.0


class Logging(Upstream):
    """A server that can log at any time after its first call."""

    session: Any = None

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self.session = ctx.session
        return await super()._call(ctx, params)

    async def says(self, text: str) -> None:
        await self.session.send_log_message(level="error", data=text)


class Listening(Answering):
    """A client that says when it gets a log message."""

    def __init__(self, principal: str) -> None:
        super().__init__(key=f"{principal} 1", principal=principal, log_level="info")
        self.heard = anyio.Event()

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        await super().log(params, late=late)
        self.heard.set()


async def test_only_once_the_other_principal_has_gone_does_a_late_message_reach_a_client(
    tmp_path: Path,
) -> None:
    """What is logged late may hold what another principal sent."""
    server = Logging("files", {"look": "Looks."})
    ann, bob = Listening("ann"), Listening("bob")
    settings = settings_of(tmp_path, "files")
    settings = replace(settings, servers={"files": replace(settings.servers["files"], era="handshake")})
    async with opened(settings, server) as gateway:
        for client in (ann, bob):
            viewer = agent(client.principal, era="handshake", connection="1")
            await gateway.call(
                ToolCall(name="files__look", arguments={"path": "/"}), viewer=viewer, caller=client
            )
        await server.says("for nobody")
        await anyio.wait_all_tasks_blocked()  # all of it runs in this process
        gateway.forget(agent("bob", era="handshake", connection="1"), bob.key)
        await server.says("for ann")
        with anyio.fail_after(SOON_S):
            await ann.heard.wait()
    assert [one["data"] for one in ann.logs] == ["for ann"]
    assert bob.logs == []
