"""Tasks through the gateway, for clients and servers of both eras in all four pairings."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
from tests.support import task_server
from tests.support.task_client import Era, Json, User, said
from tests.support.task_server import (
    EXTENSION,
    RELATED,
    Tasks,
)
from tests.surfaces.mcp.tasks_rig import (
    ERAS,
    EVE,
    MISSING_CAPABILITY,
    ORDERS,
    SOON_S,
    TEST_TOOLS,
    House,
    Listener,
    all_pairings,
    house_of,
    settings_of,
    until,
)

from maitred.model.access import Grant, Viewer
from maitred.model.servers import ServerSpec, Timeouts
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

# --- the life of a task -----------------------------------------------------------------------------------


@all_pairings
async def test_a_task_runs_and_gives_its_result(tmp_path: Path, client_era: Era, server_era: Era) -> None:
    """Started by a call, asked about by an id that is not the server's. Source: issue 17, point 2."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client(client_era) as user:
        task_id = await user.start("slow_compute", seconds=1, label="this")
        first = await user.get(task_id)
        result = await user.result(task_id)
        last = await user.get(task_id)

        assert (first["taskId"], first["status"]) == (task_id, "working")
        assert said(result) == "Computed this"
        assert last["status"] == "completed"
        assert house.job.id not in task_id
        related = {RELATED: {"taskId": task_id}}
        if client_era == "handshake":
            assert result["_meta"] == related
            assert "result" not in last
        else:
            assert "_meta" not in result
            assert last["resultType"] == "complete"


@all_pairings
async def test_a_tool_that_fails_and_one_that_breaks(
    tmp_path: Path, client_era: Era, server_era: Era
) -> None:
    """Each era has its own words for the two: a result with `isError`, and a JSON-RPC error."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client(client_era) as user:
        failing = await user.start("failing_job")
        breaking = await user.start("protocol_error_job")
        failed = await user.until(failing, "completed", "failed")
        broken = await user.until(breaking, "completed", "failed")
        result = await user.result(failing)
        with pytest.raises(MCPError, match="The job broke"):
            await user.result(breaking)

    assert result["isError"] is True
    assert failed["status"] == ("failed" if client_era == "handshake" else "completed")
    assert broken["status"] == "failed"


@all_pairings
async def test_a_task_is_cancelled(tmp_path: Path, client_era: Era, server_era: Era) -> None:
    """The server stops it; cancelling again is an error before 2026-07-28, and nothing from then on."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client(client_era) as user:
        task_id = await user.start("wait")
        answer = await user.ask("tasks/cancel", taskId=task_id)
        again: Json | MCPError
        try:
            again = await user.ask("tasks/cancel", taskId=task_id)
        except MCPError as error:
            again = error
        state = await user.get(task_id)

        assert house.job.status == "cancelled"
    assert state["status"] == "cancelled"
    if client_era == "handshake":
        assert (answer["taskId"], answer["status"]) == (task_id, "cancelled")
        assert isinstance(again, MCPError)
        assert again.code == INVALID_PARAMS
    else:
        assert isinstance(again, dict)
        assert answer["resultType"] == again["resultType"] == "complete"
        assert "status" not in answer


@all_pairings
async def test_a_task_belongs_to_its_principal(tmp_path: Path, client_era: Era, server_era: Era) -> None:
    """Nobody else learns of it, by its id, by the server's id, or by a list."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client(client_era) as user:
        task_id = await user.start("wait")
        async with house.client(client_era, EVE) as eve:
            for stolen in (task_id, house.job.id, task_id[:-1] + ("A" if task_id[-1] != "A" else "B")):
                for method in ("tasks/get", "tasks/cancel"):
                    with pytest.raises(MCPError, match="There is no task") as caught:
                        await eve.ask(method, taskId=stolen)
                    assert caught.value.code == INVALID_PARAMS
            if client_era == "handshake":
                assert (await eve.ask("tasks/list"))["tasks"] == []
        assert house.job.status == "working"
        assert (await user.get(task_id))["status"] == "working"


@all_pairings
async def test_a_task_outlives_its_connection_and_the_gateway(
    tmp_path: Path, client_era: Era, server_era: Era
) -> None:
    """The id is valid on another connection, and at the next gateway of the same catalog."""
    tasks, settings = Tasks(TEST_TOOLS), settings_of(tmp_path, server_era)
    async with house_of(settings, tasks) as house:
        async with house.client(client_era) as user:
            task_id = await user.start("speak", words="still here")
        async with house.client(client_era) as user:
            await user.until(task_id, "completed")
    async with house_of(settings, tasks) as house, house.client(client_era) as user:
        assert said(await user.result(task_id)) == "still here"


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_list_has_the_tasks_that_its_principal_started(tmp_path: Path, server_era: Era) -> None:
    """In order of time and in pages; a task whose server does not know it any more is left out."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client("handshake") as user:
        started = [await user.start("speak", words=str(number)) for number in range(45)]
        del house.tasks.jobs[[*house.tasks.jobs][7]]
        listed: list[str] = []
        page: Json = {"nextCursor": None}
        while "nextCursor" in page:
            page = await user.ask("tasks/list", **({"cursor": page["nextCursor"]} if listed else {}))
            listed += [task["taskId"] for task in page["tasks"]]

    assert listed == [task_id for number, task_id in enumerate(started) if number != 7]


# --- callers that take no task ----------------------------------------------------------------------------


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_client_without_tasks_gets_the_result(tmp_path: Path, server_era: Era) -> None:
    """The gateway waits for a tool that runs as a task only, and no list says that the tool needs one."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client("handshake") as user:
        listed = {tool.name: tool for tool in (await user.client.list_tools()).tools}

        assert await user.call("needs_task", forever=False) == "Released"
        assert house.job.id
    assert not [t for t in listed.values() if t.execution and t.execution.task_support == "required"]
    if server_era == "handshake":
        assert listed["s__needs_task"].execution == types.ToolExecution(task_support="optional")


async def test_a_stateless_client_without_the_extension(tmp_path: Path) -> None:
    """At a server of its own era the server decides, and refuses; the gateway waits for the older one."""
    for era in ERAS:
        folder = tmp_path / era
        folder.mkdir()
        async with house_of(settings_of(folder, era)) as house, house.client("stateless") as user:
            plain = replace(user, takes_tasks=False)
            if era == "handshake":
                assert await plain.call("needs_task", forever=False) == "Released"
                continue
            with pytest.raises(MCPError) as caught:
                await plain.call("needs_task", forever=False)
            assert caught.value.code == MISSING_CAPABILITY
            assert caught.value.error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_call_that_is_given_up_cancels_its_task(tmp_path: Path, server_era: Era) -> None:
    """Nobody waits for it any more. A task that a client took for itself goes on."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client("handshake") as user:
        async with anyio.create_task_group() as group:
            group.start_soon(user.client.call_tool, "s__needs_task", {})
            await until(lambda: bool(house.tasks.jobs))
            group.cancel_scope.cancel()
        await until(lambda: house.job.status == "cancelled")


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_task_without_news_ends_like_a_call(tmp_path: Path, server_era: Era) -> None:
    """After the time of a call, and it is cancelled."""
    quick = Timeouts(call_s=1.0)
    async with (
        house_of(settings_of(tmp_path, server_era, timeouts=quick)) as house,
        house.client("handshake") as user,
    ):
        assert "did not answer tools/call within 1 s" in await user.call("needs_task")
        assert house.job.status == "cancelled"


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_task_that_reports_for_ever_ends_like_such_a_call(tmp_path: Path, server_era: Era) -> None:
    quick = Timeouts(call_s=1.0, longest_call_s=2.0)
    async with (
        house_of(settings_of(tmp_path, server_era, timeouts=quick)) as house,
        house.client("handshake") as user,
    ):
        assert "did not answer tools/call within 2 s" in await user.call("chatter")
        assert house.job.status == "cancelled"


@pytest.mark.parametrize("server_era", ERAS)
async def test_the_message_of_a_task_is_progress_for_a_client_that_waits(
    tmp_path: Path, server_era: Era
) -> None:
    """A client that asked for progress sees what the server says of the task."""
    seen: list[str | None] = []

    async def heard(_: float, __: float | None, message: str | None) -> None:
        seen.append(message)

    async with (
        house_of(settings_of(tmp_path, server_era)) as house,
        house.client("handshake") as user,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_call_with, user, heard)
        await until(lambda: bool(house.tasks.jobs))
        await house.job.says("Half of it")
        await until(lambda: "Half of it" in seen)
        group.cancel_scope.cancel()


async def _call_with(user: User, heard: Any) -> None:
    await user.client.call_tool("s__needs_task", {}, progress_callback=heard)


# --- what passes between ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client_era", ERAS)
async def test_a_tool_that_runs_no_tasks(tmp_path: Path, client_era: Era) -> None:
    """A client that insists on a task is refused in the words of the protocol; others get the answer."""
    async with house_of(settings_of(tmp_path, "handshake")) as house, house.client(client_era) as user:
        call: Json = {"name": "s__greet", "arguments": {"name": "Ann"}, "task": {"ttl": 1_000}}
        if client_era == "stateless":
            assert said(await user.ask("tools/call", **call)) == "Hello, Ann!"
            return
        with pytest.raises(MCPError, match="s__greet runs no tasks") as caught:
            await user.ask("tools/call", **call)
        assert caught.value.code == METHOD_NOT_FOUND


async def test_an_answer_that_comes_at_once_is_a_task_for_a_client_that_wants_one(tmp_path: Path) -> None:
    """A stateless server may answer at once; the client must get a task, and its result by the id."""
    async with house_of(settings_of(tmp_path, "stateless")) as house, house.client("handshake") as user:
        task_id = (await user.ask("tools/call", name="s__greet", arguments={"name": "Ann"}, task={}))["task"][
            "taskId"
        ]
        state, result = await user.get(task_id), await user.result(task_id)
        listed = await user.ask("tasks/list")
        async with house.client("handshake", EVE) as eve:
            with pytest.raises(MCPError, match="There is no task"):
                await eve.get(task_id)

    assert state["status"] == "completed"
    assert said(result) == "Hello, Ann!"
    assert [task["taskId"] for task in listed["tasks"]] == [task_id]


@all_pairings
async def test_the_menu_passes_tasks_on(tmp_path: Path, client_era: Era, server_era: Era) -> None:
    """`call_tool` is how clients of the menu call tools; their ids are the same."""
    task: Json = {"task": {}} if client_era == "handshake" else {}
    async with house_of(settings_of(tmp_path, server_era, "menu")) as house, house.client(client_era) as user:
        call = {"name": "s__speak", "arguments": {"words": "through the menu"}}
        answer = await user.ask("tools/call", name="call_tool", arguments=call, **task)
        task_id = answer["task"]["taskId"] if client_era == "handshake" else answer["taskId"]

        assert said(await user.result(task_id)) == "through the menu"
        assert house.job.id


@all_pairings
async def test_a_result_is_screened_like_an_answer(tmp_path: Path, client_era: Era, server_era: Era) -> None:
    """It is marked as data if it gives orders, and it has no credentials."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client(client_era) as user:
        orders = await user.result(await user.start("speak", words=ORDERS))
        masked = await user.result(await user.start("speak", words=f"token={secret}"))

    assert "looks like instructions" in said(orders)
    assert orders["_meta"]["maitred/findings"]
    assert secret not in str(masked)


@pytest.mark.parametrize("client_era", ERAS)
async def test_methods_of_the_other_era_do_not_exist(tmp_path: Path, client_era: Era) -> None:
    """`tasks/result` and `tasks/list` before 2026-07-28, `tasks/update` from then on."""
    methods = {"handshake": ["tasks/update"], "stateless": ["tasks/result", "tasks/list"]}[client_era]
    async with house_of(settings_of(tmp_path, "handshake")) as house, house.client(client_era) as user:
        task_id = await user.start("wait")
        for method in methods:
            with pytest.raises(MCPError) as caught:
                await user.ask(method, taskId=task_id, inputResponses={})
            assert caught.value.code == METHOD_NOT_FOUND


async def test_the_capabilities_of_each_era(tmp_path: Path) -> None:
    """Before 2026-07-28 a capability of its own, from then on an extension."""
    async with house_of(settings_of(tmp_path, "handshake")) as house:
        async with house.client("handshake") as user:
            declared = user.client.server_capabilities
            wire = declared.model_dump(exclude_none=True) if declared else {}
            assert wire["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
            assert "extensions" not in wire
        async with house.client("stateless") as user:
            found = await user.ask("server/discover")
            assert found["capabilities"]["extensions"] == {EXTENSION: {}}
            assert "tasks" not in found["capabilities"]


# --- questions --------------------------------------------------------------------------------------------


async def test_a_task_asks_a_client_of_its_own_era(tmp_path: Path) -> None:
    """The questions are in the state of the task, and `tasks/update` answers them one by one."""
    async with house_of(settings_of(tmp_path, "stateless")) as house, house.client("stateless") as user:
        task_id = await user.start("multi_input")
        asked = (await user.until(task_id, "input_required"))["inputRequests"]
        await user.ask("tasks/update", taskId=task_id, inputResponses={"name": {"action": "decline"}})
        left = (await user.get(task_id))["inputRequests"]
        sure = {"action": "accept", "content": {"confirm": True}}
        await user.ask("tasks/update", taskId=task_id, inputResponses={"sure": sure})
        result = await user.result(task_id)

    assert set(asked) == {"name", "sure"}
    assert set(left) == {"sure"}
    assert '"decline"' in said(result)


async def test_a_client_listens_to_its_tasks(tmp_path: Path) -> None:
    """It gets each state, the result included, of the tasks that are its own."""
    listener = Listener()
    async with (
        house_of(settings_of(tmp_path, "stateless")) as house,
        house.client("stateless", listener=listener) as user,
        anyio.create_task_group() as group,
    ):
        task_id = await user.start("slow_compute", seconds=1, label="heard")
        wanted = {"taskIds": [task_id, "no-task"]}
        group.start_soon(partial(user.ask, "subscriptions/listen", notifications=wanted))
        heard = listener.heard
        await until(lambda: bool(heard) and heard[-1]["status"] == "completed")
        group.cancel_scope.cancel()

    assert {state["taskId"] for state in heard} == {task_id}
    assert said(heard[-1]["result"]) == "Computed heard"


async def test_only_clients_with_the_extension_listen_to_tasks(tmp_path: Path) -> None:
    """The refusal names what is missing."""
    async with house_of(settings_of(tmp_path, "stateless")) as house, house.client("stateless") as user:
        plain = replace(user, takes_tasks=False)
        with pytest.raises(MCPError) as caught:
            await plain.ask("subscriptions/listen", notifications={"taskIds": ["any"]})

    assert caught.value.code == MISSING_CAPABILITY


class Person:
    """Answers questions, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[types.ElicitRequestParams] = []

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        self.asked.append(params)
        return types.ElicitResult(action="accept", content={"confirm": True})


@all_pairings
async def test_a_task_asks_the_client_that_started_it(
    tmp_path: Path, client_era: Era, server_era: Era
) -> None:
    """Before 2026-07-28 while the client waits for the result, from then on in the state of the task."""
    person = Person()
    async with (
        house_of(settings_of(tmp_path, server_era)) as house,
        house.client(client_era, elicits=person) as user,
    ):
        task_id = await user.start("confirm_delete", filename="a.txt")
        if client_era == "stateless":
            while not (asked := (await user.get(task_id)).get("inputRequests")):  # noqa: ASYNC110 - it polls
                await anyio.sleep(0.02)
            [(key, question)] = asked.items()
            assert question["params"]["message"] == "Delete a.txt?"
            assert house.job.id not in str(question)
            answer = {"action": "accept", "content": {"confirm": True}}
            acknowledged = await user.ask("tasks/update", taskId=task_id, inputResponses={key: answer})
            assert acknowledged["resultType"] == "complete"
        result = await user.result(task_id)

    assert '"confirm": true' in said(result)
    if client_era == "handshake":
        [asked_of_person] = person.asked
        assert asked_of_person.message == "Delete a.txt?"
        assert dict(asked_of_person.meta or {}) == {RELATED: {"taskId": task_id}}


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_task_asks_a_client_that_knows_no_tasks(tmp_path: Path, server_era: Era) -> None:
    """The question comes during the call, like that of any tool, and names no task."""
    person = Person()
    async with (
        house_of(settings_of(tmp_path, server_era)) as house,
        house.client("handshake", elicits=person) as user,
    ):
        answer = await user.call("must_ask", filename="b.txt")

    assert '"confirm": true' in answer
    assert [(one.message, one.meta) for one in person.asked] == [("Delete b.txt?", None)]


@pytest.mark.parametrize("server_era", ERAS)
async def test_a_client_that_cannot_answer_is_not_asked(tmp_path: Path, server_era: Era) -> None:
    """A server of the handshake era gets the refusal; a task that waits for an answer is cancelled."""
    async with house_of(settings_of(tmp_path, server_era)) as house, house.client("handshake") as user:
        try:
            answer = await user.call("must_ask", filename="c.txt")
        except MCPError as error:  # as the server put it
            answer = error.error.message

        assert "the client did not declare 'elicitation'" in answer
        assert house.job.status in ("cancelled", "failed")


# --- notices ----------------------------------------------------------------------------------------------


async def test_a_client_hears_what_its_server_announces(tmp_path: Path) -> None:
    """Under the id of the client, on the connections that asked about the task."""
    async with (
        house_of(settings_of(tmp_path, "handshake")) as house,
        house.client("handshake", listener=(own := Listener())) as user,
        house.client("handshake", EVE, listener=(other := Listener())),
    ):
        heard = own.heard
        task_id = await user.start("wait")
        await house.job.says("Half of it")
        await user.ask("tasks/cancel", taskId=task_id)
        await until(lambda: bool(heard) and heard[-1]["status"] == "cancelled")

    assert {one["taskId"] for one in heard} == {task_id}
    assert "Half of it" in [one["statusMessage"] for one in heard]
    assert all("ttl" in one and "ttlMs" not in one for one in heard)
    assert other.heard == []


async def test_principals_with_a_process_each_have_their_own_tasks_though_the_ids_are_the_same(
    tmp_path: Path,
) -> None:
    """Each process counts its tasks from one, so both have a task of the same id at the server."""
    settings = settings_of(tmp_path, "handshake")
    server = [str(Path(task_server.__file__)), "--era", "handshake"]
    spec = ServerSpec(
        name="s",
        transport="stdio",
        command=sys.executable,
        args=tuple(server),
        era="handshake",
        share="principal",
    )
    ann, bob = (Viewer(grant=Grant(principal=name, role="admin")) for name in ("ann", "bob"))
    with anyio.fail_after(SOON_S):
        async with open_gateway(replace(settings, servers={"s": spec})) as gateway:
            assert await gateway.settled(SOON_S)
            house = House(gateway=gateway, tasks=Tasks({}))
            async with (
                house.client("handshake", ann, listener=(hers := Listener())) as one,
                house.client("handshake", bob, listener=(his := Listener())) as other,
            ):
                first = await one.start("slow_compute", seconds=60)
                await other.start("slow_compute", seconds=1)
                await one.ask("tasks/cancel", taskId=first)
                await until(lambda: "cancelled" in _statuses(hers) and "completed" in _statuses(his))
                [listed] = (await one.ask("tasks/list"))["tasks"]

    assert "completed" not in _statuses(hers)
    assert "cancelled" not in _statuses(his)
    assert listed["status"] == "cancelled"


def _statuses(listener: Listener) -> list[str]:
    return [one["status"] for one in listener.heard]
