"""What servers ask the callers of requests: through every pairing of eras, over every transport."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext
from tests.interaction.asking_server import URL
from tests.interaction.harness import (
    Front,
    Json,
    Output,
    call,
    cli,
    over_stdio,
    raw,
    sdk_server,
    serve_command,
    text_of,
    write_settings,
)

from maitred.catalog.names import RESOURCES

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("asking")]

SERVER = Path(__file__).with_name("asking_server.py")
KINDS = ["form", "url", "sampling", "tools", "roots"]
SERVERS = ["handshake", "stateless", "web"]
ROOT = "file:///work/of/ann"


class Person:
    """Answers what servers ask a client, and notes the questions."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refuses = False
        self.waits: anyio.Event | None = None
        self.called = anyio.Event()

    async def elicit(
        self, _: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params)
        self.called.set()
        if self.waits:
            await self.waits.wait()
        if self.refuses:
            return types.ErrorData(code=-1, message="not today")
        form = isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(action="accept", content={"name": "Ann"} if form else None)

    async def sample(
        self, _: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools:
        self.asked.append(params)
        if params.tools:
            use: Any = types.ToolUseContent(id="u1", name=params.tools[0].name, input={"at": "Paris"})
            return types.CreateMessageResultWithTools(
                role="assistant", content=[use], model="m", stop_reason="toolUse"
            )
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Paris"), model="m")

    async def roots(self, _: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=ROOT, name="ann")])  # type: ignore[arg-type]

    def options(self) -> Json:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
            "list_roots_callback": self.roots,
        }


@pytest.fixture(scope="module")
def web_server() -> Iterator[str]:
    """The asking server over streamable HTTP; its URL."""
    command = [sys.executable, str(SERVER), "--http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = Output(process.stdout)
        try:
            yield output.wait_for("listens on ").rpartition(" ")[2]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def make_config(web_server: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        local = sdk_server(SERVER, str(folder / "cancelled.txt"))
        servers = {
            "handshake": {**local, "era": "handshake"},
            "stateless": {**local, "era": "stateless"},
            "web": {"url": web_server, "era": "handshake"},
        }
        return write_settings(folder, servers)

    return make


EXPECTED: Json = {
    "form": {"action": "accept", "content": {"name": "Ann"}},
    "url": {"action": "accept"},
    "sampling": {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
    "tools": {"stopReason": "toolUse", "model": "m"},
    "roots": {"roots": [{"uri": ROOT, "name": "ann"}]},
}


@pytest.mark.parametrize("server", SERVERS)
async def test_what_a_server_asks_reaches_the_client_and_its_answer_the_server(
    front: Front, server: str
) -> None:
    """Forms, URLs, models with and without tools, and roots; called directly and by `call_tool`."""
    person = Person()
    async with front.connect(**person.options()) as client:
        for kind in KINDS:
            direct = await client.call_tool(f"{server}__ask", {"kinds": [kind]})
            menu = await call(client, f"{server}__ask", {"kinds": [kind]})
            for result in (direct, menu):
                assert not result.is_error, text_of(result)
                answer = json.loads(text_of(result).partition("\n")[0])[kind]
                assert EXPECTED[kind].items() <= answer.items(), answer

    assert [asked.url for asked in person.asked if hasattr(asked, "url")] == [URL, URL]
    assert [asked.tools[0].name for asked in person.asked if getattr(asked, "tools", None)] == ["look"] * 2


@pytest.mark.parametrize("server", SERVERS)
async def test_several_questions_at_once_are_all_answered(front: Front, server: str) -> None:
    """A server may ask the next before the first is answered."""
    person = Person()
    async with front.connect(**person.options()) as client:
        result = await client.call_tool(f"{server}__ask", {"kinds": ["form", "sampling", "roots"]})

    answers = json.loads(text_of(result))
    assert answers["form"]["content"] == {"name": "Ann"}
    assert answers["sampling"]["content"]["text"] == "Paris"
    assert answers["roots"]["roots"][0]["uri"] == ROOT


@pytest.mark.parametrize("server", SERVERS)
async def test_prompts_and_resources_may_ask_too(front: Front, server: str) -> None:
    person = Person()
    async with front.connect(**person.options()) as client:
        prompt = await client.get_prompt(f"{server}__ask")
        read = await client.read_resource(f"{RESOURCES}{server}/ask://form")

    said: Any = prompt.messages[0].content
    assert json.loads(said.text)["form"]["content"] == {"name": "Ann"}
    content: Any = read.contents[0]
    assert json.loads(content.text)["form"]["content"] == {"name": "Ann"}


async def test_a_client_that_cannot_answer_is_not_asked_and_the_server_hears_it_at_once(
    front: Front,
) -> None:
    """The refusal names what the client lacks, and the call goes on."""
    async with front.connect() as client:
        result = await client.call_tool("handshake__ask", {"kinds": KINDS})

    refusals = json.loads(text_of(result))
    assert {refusals[kind]["code"] for kind in KINDS} == {-32601}
    assert all("did not declare" in refusals[kind]["message"] for kind in KINDS)


async def test_the_error_of_a_client_reaches_a_server_of_the_handshake_era(front: Front) -> None:
    """Of clients of that era; one of the other era cannot answer with an error."""
    if front.mode != "legacy":
        return
    person = Person()
    person.refuses = True
    async with front.connect(**person.options()) as client:
        old = await client.call_tool("handshake__ask", {"kinds": ["form"]})
        new = await client.call_tool("stateless__ask", {"kinds": ["form"]})

    assert json.loads(text_of(old))["form"] == {"code": -1, "message": "not today"}
    assert new.is_error
    assert "not today" in text_of(new)
    assert "'stateless'" in text_of(new)


async def test_questions_inside_chains_go_to_the_client_of_the_chain(front: Front) -> None:
    """Of servers of both eras, in one program."""
    person = Person()
    code = (
        "a = await call_tool('handshake__ask', {'kinds': ['form']})\n"
        "b = await call_tool('stateless__ask', {'kinds': ['form']})\n"
        "return [a, b]"
    )
    async with front.connect(**person.options()) as client:
        result = await client.call_tool("call_tool_chain", {"code": code})

    assert text_of(result).count("Ann") == 2, text_of(result)
    assert len(person.asked) == 2


async def test_a_call_that_is_cancelled_while_it_asks_is_cancelled_at_its_server(front: Front) -> None:
    """The question is withdrawn with it. Source: issue 17."""
    person = Person()
    person.waits = anyio.Event()
    mark = front.folder / "cancelled.txt"
    before = mark.read_text().count("cancelled") if mark.exists() else 0
    if front.mode != "legacy":
        return  # its client ends its request before it asks its user; see the tests of parked calls

    async with front.connect(**person.options()) as client:
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "handshake__ask", {"kinds": ["form"]})
                await person.called.wait()
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught
        with anyio.fail_after(60):
            while not mark.exists() or mark.read_text().count("cancelled") == before:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert text_of(await client.call_tool("handshake__echo", {"text": "on"})) == "on"


async def test_a_change_of_roots_reaches_the_servers_that_asked_for_them(front: Front) -> None:
    """They ask again, while no call is under way. Source: specification 2025-11-25, Roots."""
    if front.mode != "legacy":
        return  # the notification belongs to the handshake era
    person = Person()
    async with front.connect(**person.options()) as client:
        before = await client.call_tool("handshake__known", {})
        await client.call_tool("handshake__ask", {"kinds": ["roots"]})
        await client.session.send_roots_list_changed()
        with anyio.fail_after(60):
            while text_of(await client.call_tool("handshake__known", {})) != json.dumps([ROOT]):  # noqa: ASYNC110
                await anyio.sleep(0.05)

    assert text_of(before) == "[]" or front.transport == "http"


async def test_a_parked_call_that_is_not_continued_is_cancelled_at_its_server(config: Path) -> None:
    """After `limits.parked_call_s`; its state is then refused. Source: issue 17."""
    folder = config.parent / "parked"
    folder.mkdir()
    mark = folder / "cancelled.txt"
    servers = {"old": {**sdk_server(SERVER, str(mark)), "era": "handshake"}}
    command = serve_command(write_settings(folder, servers, limits={"parked_call_s": 0.5}))
    can: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    asked: Json = {"name": "old__ask", "arguments": {"kinds": ["form"]}, "_meta": can}
    async with raw(command, modern=True, cwd=folder) as client:
        parked = (await client.request("tools/call", asked))["result"]
        assert parked["resultType"] == "input_required"
        with anyio.fail_after(60):
            while not mark.exists():  # noqa: ASYNC110  # another process writes it
                await anyio.sleep(0.05)
        late = await client.request("tools/call", {**asked, "requestState": parked["requestState"]})
        again = (await client.request("tools/call", asked))["result"]

    assert late["error"]["code"] == -32602
    assert "limits.parked_call_s" in late["error"]["message"]
    assert again["resultType"] == "input_required"


async def test_a_user_may_take_longer_than_a_call_and_the_trail_says_that_the_server_asked(
    config: Path,
) -> None:
    """The time limit of a call stands still meanwhile; what was asked is not recorded. Source: issue 17."""
    folder = config.parent / "slow"
    folder.mkdir()
    servers = {"old": {**sdk_server(SERVER), "era": "handshake", "call_timeout_s": 1}}
    written = write_settings(folder, servers)
    person = Person()
    person.waits = anyio.Event()

    async def answer_late() -> None:
        await person.called.wait()
        await anyio.sleep(2)
        assert person.waits is not None
        person.waits.set()

    async with (
        over_stdio(written, "legacy", **person.options()) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(answer_late)
        result = await client.call_tool("old__ask", {"kinds": ["form"]})

    assert json.loads(text_of(result))["form"]["content"] == {"name": "Ann"}, text_of(result)
    lines = json.loads(cli(written, "audit", "list", "--json").stdout)
    details = [line["detail"] for line in lines if line.get("detail")]
    assert details == ["the server asked for elicitation/create"]


async def test_the_command_line_refuses_at_once_what_a_server_asks(config: Path) -> None:
    """Nobody could answer there; the server hears it, and its call goes on."""
    done = await anyio.to_thread.run_sync(
        cli, config, "call", "handshake__ask", "--args", json.dumps({"kinds": ["form"]})
    )
    assert "did not declare" in done.stdout + done.stderr
