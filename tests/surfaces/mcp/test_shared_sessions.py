"""A session of the handshake era is served by any of several gateways, wherever it was opened."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from tests.support.postgres import Postgres
from tests.support.valkey import ValkeyService
from tests.surfaces.mcp.replica_rig import Fleet, fleet

from maitred.config.settings import Disclosure, Settings, SharedSettings
from maitred.gateway.session_stubs import MOST_STUB_BYTES, SessionStub, SessionStubs, client_in_short
from maitred.storage.shared_state import MemoryState

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

Context = ServerRequestContext[Any, Any]
URI = "note://one"
LISTENS = "notifications/resources/updated"


class Notes:
    """A server of the handshake era, of which each gateway has its own connection."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin to note what happens from now on."""
        self.sessions = list[Any]()
        self.subscribed = anyio.Event()
        self.reached, self.cancelled, self.gate = anyio.Event(), anyio.Event(), anyio.Event()

    def make(self) -> Server[Any]:
        return Server(
            "s",
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
        )

    async def _tools(self, _: Context, __: object) -> types.ListToolsResult:
        names = ["ask", "begin", "publish", "wait"]
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name, description=f"To {name} for a note. " * 60, input_schema={"type": "object"}
                )
                for name in names
            ]
        )

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "wait":
            self.reached.set()
            try:
                await self.gate.wait()
                return types.CallToolResult(content=[types.TextContent(text="waited")])
            except anyio.get_cancelled_exc_class():
                self.cancelled.set()
                raise
        if params.name in ("begin", "publish"):
            return types.CallToolResult(content=[types.TextContent(text=params.name)])
        asked = types.ElicitRequestFormParams(
            message="Who?", requested_schema={"type": "object", "properties": {"name": {"type": "string"}}}
        )
        answer = await ctx.session.send_request(types.ElicitRequest(params=asked), types.ElicitResult)
        text = json.dumps(answer.content)
        return types.CallToolResult(content=[types.TextContent(text=text)])

    async def _resources(self, _: Context, __: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=URI, name="one")])

    async def _read(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        content = types.TextResourceContents(uri=params.uri, text="one")
        return types.ReadResourceResult(contents=[content])

    async def _subscribe(self, ctx: Context, _: types.SubscribeRequestParams) -> types.EmptyResult:
        self.sessions.append(ctx.session)
        self.subscribed.set()
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, _: types.UnsubscribeRequestParams) -> types.EmptyResult:
        return types.EmptyResult()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """As for all tests, and wide enough for gateways that the tests of a module share."""
    return "asyncio"


@pytest.fixture(scope="module")
def shared_notes() -> Notes:
    return Notes()


@pytest.fixture
def notes(shared_notes: Notes) -> Notes:
    """The server, of which nothing is noted yet."""
    shared_notes.forget()
    return shared_notes


@pytest.fixture(scope="module")
async def two(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, shared_notes: Notes
) -> AsyncIterator[Fleet]:
    """Two gateways that the tests of the module share."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("fleet")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        async with fleet(folder, postgres.new_database(), shared_notes.make, limit_s=None) as made:
            yield made


@pytest.fixture
async def ending(tmp_path: Path, postgres: Postgres, notes: Notes) -> AsyncIterator[Fleet]:
    """Two gateways of which a test ends one."""
    async with fleet(tmp_path, postgres.new_database(), notes.make) as made:
        yield made


async def test_a_session_goes_on_at_another_gateway_and_ends_at_all(two: Fleet) -> None:
    """The id opened at one lists tools at the other; after DELETE there, neither knows it."""
    async with two.session(at=0) as session:
        there = await session.at(1)
        listed = await there.post("tools/list", {}, number=1)
        named = [tool["name"] for tool in listed.json()["result"]["tools"]]
        assert named == ["s__ask", "s__begin", "s__wait"]
        assert (await session.post("ping", {}, number=2)).status_code == 200

        assert (await there.delete()).status_code == 200
        assert (await session.post("ping", {}, number=3)).status_code == 404
        assert (await there.post("ping", {}, number=4)).status_code == 404


async def test_an_id_that_no_gateway_signed_is_unknown(two: Fleet) -> None:
    """It is answered as an id of a session that has ended, which clients begin again. Source: MCP."""
    async with two.session(at=0) as session:
        there = await session.at(1)
        parts = session.headers["Mcp-Session-Id"].split(".")
        wrong = [
            [*parts[:4], "0123456789abcdef", parts[5]],
            ["0123456789abcdef0123456789abcdef"],
            parts[:5],
            [parts[0], "00000000", *parts[2:]],
        ]
        for one in wrong:
            there.headers = {**there.headers, "Mcp-Session-Id": ".".join(one)}
            assert (await there.post("ping", {}, number=1)).status_code == 404, one


async def test_a_stream_hears_of_what_was_subscribed_to_at_another_gateway(two: Fleet, notes: Notes) -> None:
    """The stream is at one gateway, the subscription came to the other."""
    async with two.session(at=0) as session, session.stream() as events:
        await anext(events)  # where the stream begins
        there = await session.at(1)
        done = await there.post("resources/subscribe", {"uri": URI}, number=1)
        assert "result" in _answer(done.text), done.text
        while len(notes.sessions) < 2:  # both gateways have subscribed
            notes.subscribed = anyio.Event()
            await notes.subscribed.wait()
        for connected in notes.sessions:
            await connected.send_resource_updated(URI)
        while (told := json.loads((await anext(events))["data"]))["method"] != LISTENS:
            pass
        assert told["params"]["uri"] == URI


async def test_a_stream_that_moves_says_again_what_may_have_changed(two: Fleet) -> None:
    """The new gateway does not know which notices the old one had sent, so none is lost."""
    async with two.session(at=0) as session:
        subscribed = await session.post("resources/subscribe", {"uri": URI}, number=1)
        assert "result" in _answer(subscribed.text)
        async with session.stream() as events:
            last = (await anext(events))["id"]
        there = await session.at(1)
        async with there.stream(last) as events:
            while json.loads((await anext(events)).get("data") or "{}").get("method") != LISTENS:
                pass


async def test_the_answer_to_a_question_reaches_the_gateway_that_asked(two: Fleet) -> None:
    """The call is at one gateway; its client answers at the other."""
    async with two.session(at=0, capabilities={"elicitation": {}}) as session:
        there = await session.at(1)
        async with session.call_named("s__ask") as events:
            question = await _next(events, "elicitation/create")
            answer = {"action": "accept", "content": {"name": "Ann"}}
            settled = await there.settle(question["id"], answer)
            assert settled.status_code == 202
            outcome = await _next(events, "")
        assert outcome["result"]["content"][0]["text"] == '{"name": "Ann"}'


async def test_an_answer_is_read_on_at_another_gateway(ending: Fleet) -> None:
    """The connection of a call breaks, and its client comes back to the other gateway."""
    async with ending.session(at=0, capabilities={"elicitation": {}}) as session:
        there = await session.at(1)
        async with session.call_named("s__ask") as events:
            last = (await anext(events))["id"]
        async with there.stream(last) as events:
            question = await _next(events, "elicitation/create")
            answer = {"action": "accept", "content": {"name": "Cid"}}
            assert (await there.settle(question["id"], answer)).status_code == 202
            outcome = await _next(events, "")
        assert outcome["result"]["content"][0]["text"] == '{"name": "Cid"}'

        await ending.replicas[0].end()
        gone = await there.get(last)
        assert (gone.status_code, "or no longer (it " in gone.text) == (400, True), gone.text


async def test_a_parked_call_goes_on_from_another_gateway(ending: Fleet) -> None:
    """A stateless client answers there; if the gateway of the call has ended, it hears of that."""
    async with ending.stateless(0) as here, ending.stateless(1) as there:
        meta: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
        asked = await here.post(here.body("tools/call", {"name": "s__ask", "arguments": {}}, meta=meta))
        question = asked.json()["result"]
        assert question["resultType"] == "input_required", asked.text
        said = {
            "name": "s__ask",
            "arguments": {},
            "requestState": question["requestState"],
            "inputResponses": {
                key: {"action": "accept", "content": {"name": "Dee"}} for key in question["inputRequests"]
            },
        }
        done = await there.post(there.body("tools/call", said, meta=meta))
        assert done.json()["result"]["content"][0]["text"] == '{"name": "Dee"}', done.text
        again = await there.post(there.body("tools/call", said, meta=meta))
        assert "was used already" in again.json()["error"]["message"]

        asked = await here.post(here.body("tools/call", {"name": "s__ask", "arguments": {}}, meta=meta))
        await ending.replicas[0].end()
        said = {**said, "requestState": asked.json()["result"]["requestState"]}
        lost = await there.post(there.body("tools/call", said, meta=meta))
        assert "the gateway that had this call has ended" in lost.json()["error"]["message"], lost.text


async def test_a_call_is_cancelled_from_another_gateway(two: Fleet, notes: Notes) -> None:
    """The cancellation reaches the server."""
    async with two.session(at=0) as session:
        there = await session.at(1)
        async with session.call_named("s__wait") as events:
            await notes.reached.wait()
            await there.post("notifications/cancelled", {"requestId": 7})
            assert (await _next(events, ""))["error"]["message"] == "Request cancelled"
        await notes.cancelled.wait()


async def test_a_call_changes_what_a_session_lists_at_the_other_gateway(two: Fleet) -> None:
    """Its client hears of that on its stream there; another session of the same principal lists as before."""
    async with two.session(at=0) as session, two.session(at=0) as other:
        there, beside = await session.at(1), await other.at(1)
        for one in (there, beside):
            assert "s__publish" not in (await one.post("tools/list", {}, number=1)).text
        async with there.stream() as events:
            await anext(events)
            async with session.call_named("s__begin") as answer:
                await _next(answer, "")
            await _next(events, "notifications/tools/list_changed")
        assert "s__publish" in (await there.post("tools/list", {}, number=2)).text
        assert "s__publish" not in (await beside.post("tools/list", {}, number=2)).text
        async with there.call_named("s__publish") as answer:
            assert (await _next(answer, ""))["result"]["content"][0]["text"] == "publish"


async def test_a_category_that_is_opened_at_one_gateway_is_open_at_the_other(
    tmp_path: Path, postgres: Postgres, notes: Notes
) -> None:
    """For the list there, and for the notice on the stream there."""

    def change(settings: Settings) -> Settings:
        return replace(settings, disclosure=Disclosure(mode="categories", break_even_tokens=0))

    url = postgres.new_database()
    async with fleet(tmp_path, url, notes.make, change=change) as made, made.session(at=0) as session:
        there = await session.at(1)
        listed = (await there.post("tools/list", {}, number=1)).json()["result"]["tools"]
        assert "s__ask" not in {tool["name"] for tool in listed}
        category = next(tool["name"] for tool in listed if "toolCount" in tool.get("_meta", {}))
        async with there.stream() as events:
            await anext(events)
            async with session.call_named(category) as answer:
                assert "s__ask" in str(await _next(answer, ""))
            await _next(events, "notifications/tools/list_changed")
        listed = (await there.post("tools/list", {}, number=2)).json()["result"]["tools"]
        assert "s__ask" in {tool["name"] for tool in listed}


async def test_without_the_store_a_session_goes_on_where_it_is(
    tmp_path: Path, postgres: Postgres, valkey_server: ValkeyService, notes: Notes
) -> None:
    """Elsewhere its client has to try again, also after it was opened meanwhile, until the store is back."""

    def change(settings: Settings) -> Settings:
        return replace(settings, shared=SharedSettings(url=valkey_server.new_url()))

    url = postgres.new_database()
    async with fleet(tmp_path, url, notes.make, change=change) as made, made.session(at=0) as session:
        valkey_server.stop()
        try:
            assert (await session.post("ping", {}, number=1)).status_code == 200
            away = await (await session.at(1)).post("ping", {}, number=2)
            assert (away.status_code, away.headers["retry-after"]) == (503, "1"), away.text
            assert (await session.delete()).status_code == 503
            async with made.session(at=0) as late:
                assert (await late.post("ping", {}, number=3)).status_code == 200
                valkey_server.start()
                there = await late.at(1)
                status = 0
                while status != 200:
                    status = (await there.post("ping", {}, number=4)).status_code
                    assert status in (200, 404, 503)
                    await anyio.sleep(0.05)
        finally:
            valkey_server.start()


def test_an_id_is_good_for_its_principal_alone() -> None:
    """And for gateways with the same key; no store is asked."""
    one, other, foreign = (
        SessionStubs(MemoryState(), lambda key=key: key, replica=name)  # type: ignore[misc]
        for key, name in ((b"k", "00000001"), (b"k", "00000002"), (b"x", "00000003"))
    )
    session_id = one.new_id("ann")
    assert other.is_of(session_id, "ann")
    assert not other.is_of(session_id, "bob")
    assert not other.is_of(session_id, None)
    assert not foreign.is_of(session_id, "ann")
    assert other.is_of(one.new_id(None), None)


async def test_a_gateway_that_ends_lets_its_calls_finish_and_its_streams_move(
    ending: Fleet, notes: Notes
) -> None:
    """It says first that it is not ready, still answers, and has ended when its last call has."""
    one = ending.replicas[0]
    async with (
        one.http() as http,
        ending.session(at=0) as session,
        session.stream() as events,
        session.call_named("s__wait") as answer,
    ):
        await anext(events)
        await notes.reached.wait()
        assert (await http.get("/readyz")).status_code == 200
        one.stop.set()
        unready = await http.get("/readyz")
        assert (unready.status_code, unready.json()["error"]) == (503, "ending")
        assert (await session.post("ping", {}, number=1)).status_code == 200

        with pytest.raises(StopAsyncIteration):
            await anext(events)
        there = await session.at(1)
        async with there.stream() as moved:
            await anext(moved)
            notes.gate.set()
            assert (await _next(answer, ""))["result"]["content"][0]["text"] == "waited"
    await one.ended.wait()


async def test_a_client_of_the_sdk_sees_no_difference(two: Fleet) -> None:
    """It goes through a proxy that takes turns, and is asked during a call."""
    from mcp import Client  # noqa: PLC0415  # used here alone

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ben"})

    url = f"{two.proxy.url}/mcp"
    async with Client(url, mode="legacy", elicitation_callback=answer) as client:
        for _ in range(3):
            assert len((await client.list_tools(cache_mode="refresh")).tools) == 3
            result = await client.call_tool("s__ask", {})
            assert result.content[0].text == '{"name": "Ben"}'  # type: ignore[union-attr]


def test_a_stub_is_small_whatever_a_client_says_of_itself() -> None:
    """Names are cut, and of its abilities only those that servers may use are kept."""
    info = {"name": "n" * 5_000, "version": "ü" * 5_000, "websiteUrl": "w" * 5_000}
    capabilities = {
        "elicitation": {"form": {}, "url": {}},
        "roots": {"listChanged": True},
        "experimental": {str(number): {"x": "y" * 100} for number in range(100)},
    }
    client = client_in_short(info, capabilities)
    stub = SessionStub(client=client, revision="2025-11-25", generation=2**60, log_level="emergency")
    assert len(stub.to_bytes()) <= MOST_STUB_BYTES
    assert client["capabilities"] == {
        "elicitation": {"form": {}, "url": {}},
        "roots": {"listChanged": True},
    }
    assert SessionStub.from_bytes(stub.to_bytes(), ()) == stub


def _answer(text: str) -> dict[str, Any]:
    """The last message of an answer, whether it is a stream or not."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: {", "{"))]
    found: dict[str, Any] = json.loads(lines[-1])
    return found


async def _next(events: AsyncIterator[dict[str, str]], method: str) -> dict[str, Any]:
    """The next message of a method, or without one the answer."""
    while True:
        message: dict[str, Any] = json.loads((await anext(events)).get("data") or "{}")
        if message and message.get("method", "") == method:
            return message
