"""What every transport owes its callers, in each protocol era that it can speak."""

from pathlib import Path

import anyio
import pytest
from tests.backends import honest_server
from tests.backends.rig import LONG_S, SOON_S, Heard, Left, call, eventually, options, text_of
from tests.backends.subject import Subject
from tests.support.callers import Reporting

from maitred.backends.base import NOT_ASKED, Connection
from maitred.errors import CallTimeoutError, ConnectionLostError, ProtocolError, ServerError

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which connections outlive tests."""
    return "asyncio"


async def test_a_server_introduces_itself_in_the_era_that_was_asked_for(subject: Subject) -> None:
    """Name, version and instructions are those the server gave. Source: maitred."""
    async with subject.open() as connection:
        facts = connection.facts
    assert (facts.era, facts.title, facts.version) == (subject.era, "Honest", "1.2.3")
    assert facts.instructions == honest_server.INSTRUCTIONS
    assert (facts.protocol_version >= "2026") == (subject.era == "stateless")


async def test_all_tools_are_listed_with_their_schemas(subject: Subject) -> None:
    async with subject.open() as connection:
        listing = await connection.list_tools()
    tools = {tool.key.name: tool for tool in listing.tools}
    assert tools.keys() >= {*honest_server.TOOLS, "grow"}
    assert tools["echo"].input_schema["properties"] == {"text": {"type": "string"}}
    assert tools["echo"].description == "The honest tool echo."
    assert listing.notes == ()


async def test_a_result_comes_whole(subject: Subject) -> None:
    """Text, structured content and the error mark are those of the server. Source: issue "Foundation"."""
    async with subject.open() as connection:
        echoed = await connection.call_tool(
            "echo", call("echo", text="żółw 🐢"), timeout_s=SOON_S, caller=NOT_ASKED
        )
        structured = await connection.call_tool(
            "structured", call("structured"), timeout_s=SOON_S, caller=NOT_ASKED
        )
        failed = await connection.call_tool("fail", call("fail"), timeout_s=SOON_S, caller=NOT_ASKED)
    assert text_of(echoed) == "żółw 🐢"
    assert structured["structuredContent"]["answer"] == 42
    assert (failed["isError"], text_of(failed)) == (True, "the disk is full")


async def test_a_message_of_two_megabytes_comes_whole(
    subject: Subject, request: pytest.FixtureRequest
) -> None:
    """Servers with thousands of tools answer in one message of 3 MB. Source: notes/real-servers.md.

    The SDK's transport for the older HTTP with server-sent events takes messages of 1 MiB at most.
    """
    size = 900_000 if "sse" in request.node.name else 2_000_000
    async with subject.open() as connection:
        result = await connection.call_tool(
            "repeat", call("repeat", characters=size), timeout_s=LONG_S, caller=NOT_ASKED
        )
    assert len(text_of(result)) == size


async def test_progress_comes_in_order_and_before_the_answer(subject: Subject) -> None:
    """Source: https://modelcontextprotocol.io/specification, Progress."""
    seen: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with subject.open() as connection:
        result = await connection.call_tool(
            "count", call("count"), timeout_s=SOON_S, caller=Reporting(report)
        )
        at_the_answer = list(seen)
    assert text_of(result) == "counted"
    assert at_the_answer == [(n, 3, f"step {n}") for n in (1, 2, 3)]


async def test_cancelling_a_call_cancels_it_on_the_server(subject: Subject, tmp_path: Path) -> None:
    """Source: https://modelcontextprotocol.io/specification, Cancellation."""
    mark = tmp_path / "mark"
    started = anyio.Event()

    async def report(*_: object) -> None:
        started.set()

    async def wait(connection: Connection) -> None:
        await connection.call_tool(
            "wait", call("wait", mark=str(mark)), timeout_s=LONG_S, caller=Reporting(report)
        )

    async with subject.open() as connection:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, connection)
            await started.wait()
            tasks.cancel_scope.cancel()
        await eventually(lambda: mark.exists() and mark.read_text() == "cancelled")
        after = await connection.call_tool(
            "echo", call("echo", text="on"), timeout_s=SOON_S, caller=NOT_ASKED
        )
    assert text_of(after) == "on"


async def test_a_call_that_takes_too_long_is_cancelled_on_the_server(
    subject: Subject, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    async with subject.open() as connection:
        with pytest.raises(CallTimeoutError, match=r"within 0\.5 s"):
            await connection.call_tool("wait", call("wait", mark=str(mark)), timeout_s=0.5, caller=NOT_ASKED)
        await eventually(lambda: mark.exists() and mark.read_text() == "cancelled")


async def test_an_error_answer_is_told_as_the_server_gave_it_whatever_its_code(subject: Subject) -> None:
    """Many servers use -32000 and -32001 for errors of their own. Source: JSON-RPC 2.0, 5.1."""
    told: list[tuple[type[ServerError], str, object]] = []
    codes = [-32602, -32000, -32001, 7]
    async with subject.open() as connection:
        for code in codes:
            with pytest.raises(ServerError) as caught:
                await connection.call_tool(
                    "refuse", call("refuse", code=code), timeout_s=SOON_S, caller=NOT_ASKED
                )
            told.append((caught.type, str(caught.value), getattr(caught.value, "data", None)))
    message = "Server 'honest' answered with error {}: not today"
    assert told == [(ProtocolError, message.format(code), {"retry": "tomorrow"}) for code in codes]


async def test_a_change_of_the_tools_is_noticed_and_shows_in_the_next_list(subject: Subject) -> None:
    name = f"grown_{subject.era}"
    subject.heard = Heard()
    async with subject.open() as connection:
        await connection.list_tools()
        await connection.call_tool("grow", call("grow", name=name), timeout_s=SOON_S, caller=NOT_ASKED)
        await subject.heard.until("tools")
        listing = await connection.list_tools()
    assert name in [tool.key.name for tool in listing.tools]


async def test_many_calls_at_once_each_get_their_own_answer(subject: Subject) -> None:
    answers: dict[int, str] = {}

    async def one(connection: Connection, number: int) -> None:
        result = await connection.call_tool(
            "echo", call("echo", text=str(number)), timeout_s=LONG_S, caller=NOT_ASKED
        )
        answers[number] = text_of(result)

    async with subject.open() as connection, anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, connection, number)
    assert answers == {number: str(number) for number in range(50)}


async def test_a_server_that_is_there_answers_when_it_is_asked(subject: Subject) -> None:
    """By what its era has for that; any answer counts as one. Source: maitred."""
    async with subject.open() as connection:
        before = connection.heard_at
        await connection.ping(SOON_S)
        assert connection.heard_at > before
        assert connection.waiting_since is None


async def test_ending_a_connection_tells_its_calls_why_and_leaves_no_task_no_process_and_no_open_file(
    subject: Subject, tmp_path: Path
) -> None:
    """A server that hangs is told from one that crashed. Source: maitred."""
    async with subject.open() as connection:  # what the first use of a library opens for good does not count
        await connection.list_tools()
    left = Left()
    backend = subject.make()
    started = anyio.Event()

    async def report(*_: object) -> None:
        started.set()

    async def wait(connection: Connection) -> None:
        waiting = call("wait", mark=str(tmp_path / "mark"))
        with pytest.raises(ConnectionLostError, match="it hangs"):
            await connection.call_tool("wait", waiting, timeout_s=LONG_S, caller=Reporting(report))

    with anyio.fail_after(LONG_S):
        async with anyio.create_task_group() as tasks, backend.connect(options(subject.era)) as connection:
            tasks.start_soon(wait, connection)
            await started.wait()
            assert connection.waiting_since is not None
            connection.end("it hangs")
            assert (connection.alive, await connection.closed()) == (False, "it hangs")
    await left.nothing()
    assert backend.pid is None
