"""Servers that fail in a call: the caller is told, and the next call works."""

import os
import signal
from pathlib import Path

import anyio
import pytest
from tests.backends.rig import SOON_S, eventually, is_gone
from tests.faults.house import House, faulty, open_house
from tests.support.callers import Reporting

from maitred.errors import CallTimeoutError, ConnectionLostError, MaitredError, ServerError
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio


async def pid_of(house: House) -> int:
    """The process of the server, which may only now be starting."""
    await eventually(lambda: house.status().health.pid)
    pid = house.status().health.pid
    assert pid is not None
    return pid


async def test_a_server_that_dies_in_a_call_is_named_with_its_last_words_and_the_next_call_works(
    tmp_path: Path,
) -> None:
    """Source: issue "Foundation", faults."""
    async with open_house(tmp_path, {"s": faulty("die-in-call")}) as house:
        with pytest.raises(ConnectionLostError) as caught:
            await house.call("s__fault")
        told = str(caught.value)
        assert "'s'" in told
        assert "exited with code 3" in told
        assert "fatal: the back end closed the connection" in told
        assert await house.text("s__echo", text="again") == "again"


async def test_a_server_killed_in_a_call_is_reported_at_once_to_every_caller(tmp_path: Path) -> None:
    errors: list[str] = []

    async def call(house: House) -> None:
        with pytest.raises(ConnectionLostError) as caught:
            await house.call("s__fault")
        errors.append(str(caught.value))

    async with open_house(tmp_path, {"s": faulty("hang-in-call")}) as house:
        pid = await pid_of(house)
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(call, house)
                await eventually(lambda: house.status().health.in_flight == 5)
                os.kill(pid, signal.SIGKILL)
        assert len(errors) == 5
        assert all("SIGKILL" in error for error in errors)
        assert await house.text("s__echo", text="again") == "again"
        assert house.status().health.pid != pid


async def test_a_server_that_was_killed_between_two_calls_is_started_anew_without_an_error(
    tmp_path: Path,
) -> None:
    """Nobody was waiting for it: the call that finds it gone was certainly not carried out."""
    async with open_house(tmp_path, {"s": faulty("count")}) as house:
        pid = await pid_of(house)
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: is_gone(pid))
        assert await house.text("s__pid") != str(pid)


@pytest.mark.parametrize("blocked", [(), ("blocked",)], ids=["silent", "blocked"])
async def test_a_call_that_hangs_ends_at_its_time_limit_and_the_next_call_works(
    tmp_path: Path, blocked: tuple[str, ...]
) -> None:
    """A server that hangs altogether has to be stopped by force before the next call can work."""
    entry = faulty("hang-in-call", *blocked, call_timeout_s=0.5)
    async with open_house(tmp_path, {"s": entry}) as house:
        with pytest.raises(CallTimeoutError) as caught:
            await house.call("s__fault")
        assert "within 0.5 s" in str(caught.value)
        assert "call_timeout_s" in str(caught.value)
        if not blocked:
            assert await house.text("s__echo", text="again") == "again"


async def test_an_answer_that_cannot_be_read_ends_its_call_at_once(tmp_path: Path) -> None:
    """Source: issue "Nothing a server can do is lost", 6."""
    entry = faulty("unreadable-answer", call_timeout_s=600)
    async with open_house(tmp_path, {"s": entry}) as house:
        with anyio.fail_after(SOON_S), pytest.raises(ServerError, match="its answer could not be read"):
            await house.call("s__fault")
        assert await house.text("s__echo", text="again") == "again"


async def test_progress_gives_a_call_its_time_again_and_the_longest_time_ends_it(tmp_path: Path) -> None:
    """Also where the caller asked for no progress. Source: issue "Nothing a server can do is lost", 4."""
    cancelled = tmp_path / "cancelled"
    entry = faulty("slow-call", str(cancelled), call_timeout_s=1, call_timeout_max_s=4)
    async with open_house(tmp_path, {"s": entry}) as house:
        assert await house.text("s__wait", seconds=2) == "waited 2 s"
        with pytest.raises(CallTimeoutError, match="within 4 s") as caught:
            await house.call("s__wait", seconds=600)
        assert "call_timeout_max_s" in str(caught.value)
        await eventually(cancelled.exists)


async def test_the_time_limit_also_holds_while_a_server_does_not_read_a_long_message(tmp_path: Path) -> None:
    """The pipe takes 64 KiB; what is longer waits for a server that reads."""
    async with open_house(tmp_path, {"s": faulty("hang-in-call", "blocked", call_timeout_s=0.5)}) as house:
        with pytest.raises(CallTimeoutError):
            await house.call("s__fault")
        with anyio.fail_after(SOON_S), pytest.raises(CallTimeoutError):
            await house.call("s__echo", text="x" * 1_000_000)


async def test_a_server_killed_while_it_does_not_read_a_long_message_is_reported_at_once(
    tmp_path: Path,
) -> None:
    async def call(house: House) -> None:
        with pytest.raises(ServerError, match="SIGKILL"):
            await house.call("s__echo", text="x" * 1_000_000)

    async with open_house(tmp_path, {"s": faulty("hang-in-call", "blocked", call_timeout_s=30)}) as house:
        pid = await pid_of(house)
        os.kill(pid, signal.SIGSTOP)
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, house)
                await eventually(lambda: house.status().health.in_flight == 1)
                await anyio.wait_all_tasks_blocked()
                os.kill(pid, signal.SIGKILL)
        assert await house.text("s__echo", text="again") == "again"


@pytest.mark.parametrize("mode", ["flood-garbage", "flood-notifications"])
async def test_a_server_that_floods_in_a_call_is_cut_off_and_the_next_call_works(
    tmp_path: Path, mode: str
) -> None:
    limits = {"max_message_bytes": 1_000_000}
    async with open_house(tmp_path, {"s": faulty(mode), "t": faulty("count")}, limits=limits) as house:
        flooded = await pid_of(house)
        with pytest.raises(ConnectionLostError, match=r"flooded|more than 1,000,000 bytes"):
            await house.call("s__fault")
        assert await house.text("t__add", a=1, b=2) == "3"
        assert await house.text("s__echo", text="again") == "again"
        await eventually(lambda: is_gone(flooded))


async def test_garbage_on_standard_output_disturbs_nothing(tmp_path: Path) -> None:
    """Source: notes/real-servers.md, ten servers write what is not JSON-RPC."""
    async with open_house(tmp_path, {"s": faulty("garbage")}) as house:
        answers = [await house.text("s__echo", text=str(number)) for number in range(20)]
        assert answers == [str(number) for number in range(20)]
        assert house.status().health.failures == 0


async def test_progress_reaches_the_caller_and_a_cancelled_call_is_cancelled_on_the_server(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "mark"
    seen: list[float] = []
    moving = anyio.Event()

    async def report(progress: float, *_: object) -> None:
        seen.append(progress)
        moving.set()

    async def wait(seconds: float) -> None:
        call = ToolCall(name="s__wait", arguments={"seconds": seconds})
        await house.gateway.call(call, caller=Reporting(report), viewer=LOCAL_USER)

    async with open_house(tmp_path, {"s": faulty("slow-call", str(mark))}) as house:
        await wait(0.1)
        assert seen == [1, 2, 3, 4, 5]
        moving = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, 60)
            await moving.wait()
            tasks.cancel_scope.cancel()
        await eventually(mark.exists)
        assert mark.read_text() == "cancelled"


async def test_a_result_that_breaks_its_own_schema_is_relayed_as_it_is(tmp_path: Path) -> None:
    """To judge a result is the client's part; its server knows more than its schema."""
    async with open_house(tmp_path, {"s": faulty("bad-structured")}) as house:
        result = await house.call("s__measure")
        assert result["structuredContent"] == {"value": "3.5 apples"}
        assert await house.text("s__forget") == "3.5"


async def test_a_tool_that_is_listed_but_not_known_gives_the_servers_own_error(tmp_path: Path) -> None:
    entries = {"s": faulty("changing-tools")}
    async with open_house(tmp_path, entries) as house:
        await house.call("s__add_tool", name="brief")
        await house.changed(lambda: "brief" in house.tools())
        assert await house.text("s__brief") == "called brief"


async def test_the_names_of_two_servers_do_not_mix(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("count"), "t": faulty("count")}) as house:
        assert await house.text("s__pid") == str(house.status("s").health.pid)
        assert await house.text("t__pid") == str(house.status("t").health.pid)
        with pytest.raises(MaitredError, match="s__pid or t__pid"):
            await house.call("pid")
