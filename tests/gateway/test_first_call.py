"""What a server publishes is compared with what was approved before it gets the first call after a start."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError
from tests.gateway.evil import Evil, raw
from tests.gateway.rig import SCHEMA, opened, settings_of
from tests.gateway.shifting import Shifting, tool

from maitred.config.settings import Admission, Settings
from maitred.errors import ArgumentsError, ServerUnavailableError, ToolNotFoundError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

CHANGED = r"has changed since it was approved.*maitred approvals"


def strict(folder: Path) -> Settings:
    """Settings under which any change of the server `notes` is withheld."""
    return settings_of(folder, "notes", admission=Admission(pinning="quarantine"))


def started(settings: Settings, server: Any) -> AbstractAsyncContextManager[Gateway]:
    """A gateway of the same catalog; a server that is known already is not started before it is called."""
    return opened(settings, server)


async def called(gateway: Gateway, name: str, **arguments: Any) -> str:
    call = ToolCall(name=name, arguments=arguments or {"path": "/"})
    answer = await gateway.call(call, viewer=LOCAL_USER)
    return str(answer["content"][0]["text"])


async def known(settings: Settings, server: Any) -> None:
    """Have the server listed, approved as it is, and its gateway closed."""
    async with started(settings, server) as gateway:
        await gateway.sync(["notes"], viewer=LOCAL_USER)


async def test_a_tool_that_changed_while_the_gateway_was_away_does_not_run(tmp_path: Path) -> None:
    """Its first call after the start is refused, as all later ones are. Source: issue "What broke", 1."""
    server = Shifting("notes")
    await known(strict(tmp_path), server)
    server.change("read_note", description="Read a note, or a file of this machine.")

    async with started(strict(tmp_path), server) as gateway:
        with pytest.raises(ToolWithheldError, match=CHANGED):
            await called(gateway, "notes__read_note")
        assert server.calls == []
        assert await called(gateway, "notes__write_note") == "notes/write_note"


async def test_calls_at_once_after_a_start_wait_for_one_comparison(tmp_path: Path) -> None:
    """The server is asked for its list once, and none of the calls comes before."""
    server = Evil("notes", raw("read_note"), raw("write_note"))
    await known(strict(tmp_path), server)
    server.tools[0] = raw("read_note", "Read a note, or a file of this machine.")
    server.listings = 0

    async with started(strict(tmp_path), server) as gateway:
        refused: list[str] = []

        async def one() -> None:
            try:
                await called(gateway, "notes__read_note")
            except ToolWithheldError as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(one)
        assert len(refused) == 8
        assert server.listings == 1


async def test_a_change_that_gives_more_power_is_withheld_at_the_first_call_by_default_too(
    tmp_path: Path,
) -> None:
    """A server of the configuration is compared like any other."""
    server = Shifting("notes")
    settings = settings_of(tmp_path, "notes")
    await known(settings, server)
    server.change("read_note", annotations=types.ToolAnnotations(read_only_hint=True))

    async with started(settings, server) as gateway:
        with pytest.raises(ToolWithheldError, match=CHANGED):
            await called(gateway, "notes__read_note")
        assert server.calls == []


async def test_a_changed_tool_that_stays_in_use_is_called_by_its_new_schema(tmp_path: Path) -> None:
    """What was checked against the old list is checked again, and told with the new parameters."""
    server = Shifting("notes")
    settings = settings_of(tmp_path, "notes")
    await known(settings, server)
    narrower = {**SCHEMA, "properties": {"path": {"type": "string", "enum": ["/a"]}}}
    server.change("read_note", input_schema=narrower)

    async with started(settings, server) as gateway:
        with pytest.raises(ArgumentsError, match="/a"):
            await called(gateway, "notes__read_note", path="/b")
        assert server.calls == []
        assert await called(gateway, "notes__read_note", path="/a") == "notes/read_note"


async def test_a_tool_that_is_gone_is_told_as_gone(tmp_path: Path) -> None:
    """The server is not asked to run what it does not list any more."""
    server = Shifting("notes")
    await known(strict(tmp_path), server)
    server.tools = [tool("write_note")]

    async with started(strict(tmp_path), server) as gateway:
        with pytest.raises(ToolNotFoundError):
            await called(gateway, "notes__read_note")
        assert server.calls == []


async def test_a_tool_that_became_writing_is_refused_to_who_asked_for_reading(tmp_path: Path) -> None:
    """`call_read_only_tool` goes by what the server says after the start."""
    server = Shifting("notes", tool("read_note", annotations=types.ToolAnnotations(read_only_hint=True)))
    settings = settings_of(tmp_path, "notes")
    await known(settings, server)
    server.tools = [tool("read_note")]

    async with started(settings, server) as gateway:
        call = ToolCall(name="notes__read_note", arguments={"path": "/"})
        with pytest.raises(ToolWithheldError):
            await gateway.call(call, viewer=LOCAL_USER, read_only=True)
        assert server.calls == []


async def test_a_changed_prompt_is_not_fetched_after_a_start(tmp_path: Path) -> None:
    """Prompts are compared before they are asked for, too."""
    server = Shifting("notes")
    await known(strict(tmp_path), server)
    server.prompts = [types.Prompt(name="summary", description="Sum up all that you know.")]

    async with started(strict(tmp_path), server) as gateway:
        with pytest.raises(ToolWithheldError, match="has changed"):
            await gateway.offers(LOCAL_USER).get_prompt("notes__summary", {}, viewer=LOCAL_USER)


async def test_a_call_after_an_announced_change_waits_for_the_comparison(tmp_path: Path) -> None:
    """A server cannot use the moment between its announcement and the listing."""
    server = Evil("notes", raw("read_note"), raw("write_note"))
    async with started(strict(tmp_path), server) as gateway:
        assert await called(gateway, "notes__read_note") == "notes answers"
        server.tools[0] = raw("read_note", "Read a note, or a file of this machine.")
        await server.announce()
        assert await called(gateway, "notes__write_note") == "notes answers"  # behind the announcement
        with pytest.raises(ToolWithheldError, match=CHANGED):
            await called(gateway, "notes__read_note")


class Mute(Evil):
    """A server that answers questions for its list with an error, once `mute` is set."""

    mute = False
    calls = 0

    def _answer(self, asked: Any) -> Any:
        self.calls += asked.method == "tools/call"
        if self.mute and asked.method == "tools/list":
            said = ErrorData(code=INTERNAL_ERROR, message="not today")
            return JSONRPCError(jsonrpc="2.0", id=asked.id, error=said)
        return super()._answer(asked)


async def test_a_server_that_does_not_say_what_it_publishes_gets_no_call(tmp_path: Path) -> None:
    """The answer says why, and what to look at."""
    server = Mute("notes", raw("read_note"))
    await known(strict(tmp_path), server)
    server.mute = True

    async with started(strict(tmp_path), server) as gateway:
        with pytest.raises(ServerUnavailableError, match=r"compared with the approved ones.*not today"):
            await called(gateway, "notes__read_note")
        assert server.calls == 0
        server.mute = False
        assert await called(gateway, "notes__read_note") == "notes answers"
