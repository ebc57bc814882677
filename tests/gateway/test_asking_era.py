"""A server that speaks both eras, but asks as servers of the handshake era do: by a request within a call."""

from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from tests.gateway.rig import SOON_S, Upstream, opened, settings_of, until
from tests.support.callers import ALL, Answering

from maitred.errors import ProtocolError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.asking import ELICIT, names_question
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
ANN: Mapping[str, Mapping[str, Any]] = {ELICIT: {"action": "accept", "content": {"name": "Ann"}}}


class Curious(Upstream):
    """It asks for a name; in the stateless era the SDK cannot send that."""

    in_vain = "error"
    waiting = 0

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name == "wait":
            self.waiting += 1
            await self.released.wait()
            return self._said("released")
        try:
            answer = await ctx.session.elicit_form("Who are you?", FORM, related_request_id=ctx.request_id)
        except Exception as error:
            if self.in_vain == "error":
                raise
            return self._said(str(error), is_error=True)
        return self._said(f"Hello, {(answer.content or {}).get('name')}")

    @staticmethod
    def _said(text: str, *, is_error: bool = False) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

    def __init__(self) -> None:
        super().__init__("s", {"ask": "Asks for a name.", "wait": "Waits."})
        self.released = anyio.Event()


async def call(gateway: Gateway, caller: Answering, tool: str = "ask") -> str:
    made = ToolCall(name=f"s__{tool}", arguments={"path": "/"})
    answer = await gateway.call(made, viewer=LOCAL_USER, caller=caller)
    text: str = answer["content"][0]["text"]
    return text


@pytest.mark.parametrize("in_vain", ["error", "result"])
async def test_a_question_that_fails_in_one_era_is_asked_in_the_other_from_then_on(
    tmp_path: Any, in_vain: str
) -> None:
    """The first call says what to do; afterwards, and after a restart, questions reach the client."""
    server = Curious()
    server.in_vain = in_vain
    client = Answering(ANN)
    async with opened(settings_of(tmp_path, "s"), server) as gateway:
        assert gateway.snapshot.servers["s"].facts.era == "stateless"
        if in_vain == "error":
            with pytest.raises(ProtocolError, match="make it again"):
                await call(gateway, client)
        else:
            assert ELICIT in await call(gateway, client)
        assert await call(gateway, client) == "Hello, Ann"
        await until(gateway, lambda: gateway.snapshot.servers["s"].facts.era == "handshake")
    async with opened(settings_of(tmp_path, "s"), server) as gateway:
        assert await call(gateway, client) == "Hello, Ann"


async def test_a_client_that_could_not_answer_anyway_changes_nothing(tmp_path: Any) -> None:
    """The server is right to fail, whichever era it is."""
    async with opened(settings_of(tmp_path, "s"), Curious()) as gateway:
        for _ in range(2):
            with pytest.raises(ProtocolError) as caught:
                await call(gateway, Answering(capabilities={}))
            assert "make it again" not in str(caught.value)
        assert gateway.snapshot.servers["s"].facts.era == "stateless"


async def test_a_call_that_runs_meanwhile_is_not_lost(tmp_path: Any) -> None:
    """The other era begins once no call runs."""
    server, said = Curious(), []
    client = Answering(ANN)
    with anyio.fail_after(SOON_S):
        async with opened(settings_of(tmp_path, "s"), server) as gateway:

            async def wait() -> None:
                said.append(await call(gateway, client, "wait"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                while not server.waiting:  # noqa: ASYNC110 - the server sends no event
                    await anyio.sleep(0.01)
                with pytest.raises(ProtocolError, match="make it again"):
                    await call(gateway, client)
                server.released.set()
            assert said == ["released"]
            assert await call(gateway, client) == "Hello, Ann"


def test_only_what_the_client_can_answer_counts() -> None:
    """Any text may name a method."""
    assert names_question("Cannot send 'roots/list'", ALL)
    assert not names_question("Cannot send 'roots/list'", {"elicitation": {}})
    assert not names_question("It rains", ALL)
