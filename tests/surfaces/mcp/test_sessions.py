"""Sessions of the handshake era over HTTP: broken connections, idle sessions, too many sessions."""

import inspect
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from tests.support.cut_line import CutLine, cut_line

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Catalog, Disclosure, Http, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Scope
from maitred.model.servers import ServerSpec
from maitred.surfaces.http.app import application
from maitred.surfaces.http.serve import serve_http
from maitred.surfaces.mcp.http import mcp_app
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
IDLE_S = 0.3
Context = ServerRequestContext[Any, Any]
SERVERS = Path(__file__).parents[3] / ".servers"
URI = "note://one"


class Upstream:
    """A server whose tool `slow` answers once `gate` is set, with a text of the length it is asked for."""

    def __init__(self) -> None:
        self.reached, self.gate, self.unfollowed = anyio.Event(), anyio.Event(), anyio.Event()
        self._names = ["slow"]
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self.server: Server[Any] = Server(
            "s",
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            on_subscriptions_listen=self._listen,
        )

    async def add_tool(self, name: str) -> None:
        self._names.append(name)
        await self._bus.publish(ToolsListChanged())

    async def _tools(self, _: Context, __: object) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=schema) for name in self._names]
        )

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.reached.set()
        await self.gate.wait()
        text = "x" * int((params.arguments or {}).get("size", 1))
        return types.CallToolResult(content=[types.TextContent(text=text)])

    async def _resources(self, _: Context, __: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=URI, name="one")])

    async def _read(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        content = types.TextResourceContents(uri=params.uri, text="one")
        return types.ReadResourceResult(contents=[content])

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        try:
            return await self._streams(ctx, params)
        finally:
            if params.notifications.resource_subscriptions:
                self.unfollowed.set()


@dataclass(frozen=True, kw_only=True)
class Rig:
    """A gateway that listens, its one server, and a line to it that can be cut."""

    gateway: Gateway
    upstream: Upstream
    line: CutLine
    url: str
    surface: McpSurface

    @asynccontextmanager
    async def session(self, token: str = "") -> AsyncIterator["RawSession"]:
        """A session of its own, opened by hand."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=SOON_S) as http:
            session = RawSession(http)
            await session.open()
            yield session


class RawSession:
    """A client that sends what a test wants, and sees what comes as it is on the wire."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}

    async def open(self) -> None:
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        response = await self.post("initialize", about, number=0)
        assert response.status_code == 200, response.text
        self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        await self.post("notifications/initialized", {})

    async def post(
        self, method: str, params: Mapping[str, Any], number: int | None = None
    ) -> httpx2.Response:
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        body |= {} if number is None else {"id": number}
        return await self._http.post("/mcp", json=body, headers=self.headers)

    async def get(self, last_event_id: str) -> httpx2.Response:
        return await self._http.get("/mcp", headers={**self.headers, "Last-Event-ID": last_event_id})

    async def delete(self) -> httpx2.Response:
        return await self._http.delete("/mcp", headers=self.headers)

    @asynccontextmanager
    async def stream(self, last_event_id: str = "") -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        """The events of a stream that is opened by GET."""
        headers = {**self.headers, **({"Last-Event-ID": last_event_id} if last_event_id else {})}
        async with self._http.stream("GET", "/mcp", headers=headers) as response:
            assert response.status_code == 200
            yield events_of(response)

    @asynccontextmanager
    async def call(self, size: int) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        """The events of a call of `slow`."""
        params = {"name": "s__slow", "arguments": {"size": size}}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with self._http.stream("POST", "/mcp", json=body, headers=self.headers) as response:
            assert response.status_code == 200
            yield events_of(response)


async def events_of(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name.rstrip(":")] = value
        elif not line and event:
            yield event
            event = {}


@asynccontextmanager
async def listening(folder: Path, http: Http | None = None) -> AsyncIterator[Rig]:
    http = http or Http(port=0)
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"s": ServerSpec(name="s", transport="memory")},
        disclosure=Disclosure(mode="all"),
        catalog=Catalog(path=str(folder / "c.db")),
        http=http,
    )
    upstream = Upstream()
    address, ready, stop = list[str](), anyio.Event(), anyio.Event()

    def listens(url: str) -> None:
        address.append(url)
        ready.set()

    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process={"s": upstream.server}) as gateway:
            assert await gateway.settled(SOON_S)
            surface = McpSurface(gateway)
            app = application(gateway, http, mcp_app(surface, http))
            async with anyio.create_task_group() as tasks:

                async def serve() -> None:
                    await serve_http(app, http, stop=stop, ready=listens, ending=surface.close)

                tasks.start_soon(serve)
                await ready.wait()
                port = urlsplit(address[0]).port or 0
                async with cut_line("127.0.0.1", port) as line:
                    yield Rig(gateway=gateway, upstream=upstream, line=line, url=address[0], surface=surface)
                stop.set()


# --- broken connections -----------------------------------------------------------------------------------


async def test_a_client_gets_the_answer_of_a_call_whose_connection_broke(tmp_path: Path) -> None:
    """The Python client comes back with the id of the last event. Source: issue 17."""
    async with listening(tmp_path) as rig, Client(f"{rig.line.url}/mcp", mode="legacy") as client:
        async with anyio.create_task_group() as tasks:
            answers: list[types.CallToolResult] = []

            async def call() -> None:
                answers.append(await client.call_tool("s__slow", {"size": 5}))

            tasks.start_soon(call)
            await rig.upstream.reached.wait()
            await rig.line.cut()
            rig.upstream.gate.set()

        assert [content.text for answer in answers for content in answer.content] == ["xxxxx"]  # type: ignore[union-attr]


@pytest.mark.real
@pytest.mark.parametrize("sdk", ["typescript", "python 1"])
async def test_a_client_of_another_sdk_gets_the_answer_too(tmp_path: Path, sdk: str) -> None:
    """It is not in this process, and knows nothing of ours. Source: issue 17."""
    own = Path(__file__).parent
    program = [shutil.which("node") or "", str(own / "resume.mjs"), str(SERVERS / "npm")]
    needed = SERVERS / "npm/node_modules/@modelcontextprotocol/sdk"
    if sdk == "python 1":
        program = [str(SERVERS / "old/bin/python"), str(own / "resume.py")]
        needed = Path(program[0])
    if not program[0] or not needed.exists():
        pytest.skip(f"the {sdk} SDK is not installed")
    async with listening(tmp_path) as rig:
        printed: list[bytes] = []

        async def run() -> None:
            command = [*program, f"{rig.line.url}/mcp", "s__slow", '{"size": 5}']
            printed.append((await anyio.run_process(command, check=False)).stdout)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await rig.upstream.reached.wait()
            await rig.line.cut()
            rig.upstream.gate.set()

    assert json.loads(printed[0]) == {"text": "xxxxx"}


async def test_a_client_hears_of_changes_that_came_while_its_stream_was_broken(tmp_path: Path) -> None:
    """The Python client opens its stream of notices again where it broke. Source: issue 17."""
    heard = [anyio.Event(), anyio.Event()]

    async def listen(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            next(event for event in heard if not event.is_set()).set()

    async with listening(tmp_path) as rig, rig.session() as other, other.stream() as others:
        await anext(others)
        async with Client(f"{rig.line.url}/mcp", mode="legacy", message_handler=listen) as client:
            await client.list_tools()
            await rig.upstream.add_tool("second")
            await anext(others)
            await heard[0].wait()
            await rig.line.cut()
            await rig.upstream.add_tool("third")
            await anext(others)
            await heard[1].wait()
            listed = await client.list_tools()

    assert [tool.name for tool in listed.tools] == ["s__second", "s__slow", "s__third"]


async def test_a_stream_without_an_event_is_resumed_too(tmp_path: Path) -> None:
    """It begins with an id, after which nothing is missed. Source: SEP-1699."""
    async with (
        listening(tmp_path) as rig,
        rig.session() as session,
        rig.session() as other,
        other.stream() as others,
    ):
        async with session.stream() as events:
            begin = (await anext(events))["id"]
        await anext(others)
        await rig.upstream.add_tool("second")
        await anext(others)
        async with session.stream(begin) as events:
            missed = await anext(events)

    assert json.loads(missed["data"])["method"] == "notifications/tools/list_changed"


async def test_a_stream_begins_with_an_id_and_the_pause_before_the_next_try(tmp_path: Path) -> None:
    """Both streams can be resumed before their first message. Source: SEP-1699."""
    async with listening(tmp_path) as rig, rig.session() as session:
        rig.upstream.gate.set()
        async with session.stream() as events:
            first = await anext(events)
        async with session.call(1) as events:
            answer = [event async for event in events]

    assert first == {"id": first["id"], "retry": "1000", "data": ""}
    assert answer[0] == {"id": answer[0]["id"], "retry": "1000", "data": ""}
    assert json.loads(answer[1]["data"])["result"]["content"][0]["text"] == "x"
    assert len({first["id"], *(event["id"] for event in answer)}) == 3


async def test_a_resumed_stream_ends_with_its_answer(tmp_path: Path) -> None:
    """It is no stream that stays open for nothing; a client that asks again hears that nothing comes."""
    async with listening(tmp_path) as rig, rig.session() as session:
        async with session.call(3) as events:
            begin = (await anext(events))["id"]
            await rig.upstream.reached.wait()
        rig.upstream.gate.set()
        async with session.stream(begin) as events:
            resumed = [event async for event in events]
        once_more = await session.get(begin)
        after = await session.get(resumed[0]["id"])

    assert json.loads(resumed[0]["data"])["id"] == 7
    assert len(resumed) == 1
    assert once_more.text.count('"id":7') == 1
    assert after.status_code == 204


async def test_an_unknown_event_id_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """It was an error 500 without a reason. Source: issue 17."""
    async with listening(tmp_path) as rig, rig.session() as session:
        refused = [await session.get(wrong) for wrong in ("0-999999", "7-1", "nonsense", "1-1-1", "9" * 99)]

    assert {response.status_code for response in refused} == {400}
    for response in refused:
        assert "open the stream without Last-Event-ID" in response.json()["error"]["message"]


async def test_events_of_one_session_are_not_for_another(tmp_path: Path) -> None:
    """The same id means another event there, and another principal sees no session."""
    async with listening(tmp_path) as rig:
        made = await rig.gateway.make_token(TokenRequest(name="ann", role="agent", scope=Scope()), LOCAL_USER)
        rig.upstream.gate.set()
        async with rig.session() as mine, rig.session() as other, rig.session(made.token) as ann:
            async with mine.call(1) as events:
                begin = (await anext(events))["id"]
                [_ async for _ in events]
            theirs = await other.get(begin)
            ann.headers["Mcp-Session-Id"] = mine.headers["Mcp-Session-Id"]
            hers = await ann.get(begin)

    assert theirs.status_code == 400
    assert hers.status_code == 404


# --- how long, how many -----------------------------------------------------------------------------------


async def test_one_session_too_many_is_refused_until_another_ends(tmp_path: Path) -> None:
    """The refusal says why, and what to do. Source: issue 17."""
    async with listening(tmp_path, Http(port=0, max_sessions=1)) as rig, rig.session() as session:
        with pytest.raises(AssertionError) as refused:
            async with rig.session():
                pass
        stateless = Client(f"{rig.url}/mcp", mode="auto")
        async with stateless as client:
            listed = await client.list_tools()
        await session.delete()
        async with rig.session():
            pass

    told = str(refused.value)
    assert "http.max_sessions" in told
    assert "http.session_idle_timeout_s" in told
    assert [tool.name for tool in listed.tools] == ["s__slow"]


async def test_an_idle_session_ends_and_one_that_waits_for_something_does_not(tmp_path: Path) -> None:
    """An open stream holds a session, and so does a call whose client is away. Source: issue 17."""
    async with (
        listening(tmp_path, Http(port=0, session_idle_timeout_s=IDLE_S)) as rig,
        rig.session() as opened,
        opened.stream() as events,
        rig.session() as away,
        rig.session() as idle,
    ):
        await anext(events)
        async with away.call(3) as answer:
            begin = (await anext(answer))["id"]
            await rig.upstream.reached.wait()
        await idle.post("resources/subscribe", {"uri": URI}, number=2)
        await rig.upstream.unfollowed.wait()  # which the gateway does when the session has ended
        ended = await idle.post("ping", {}, number=3)
        still = await opened.post("ping", {}, number=3)
        rig.upstream.gate.set()
        async with away.stream(begin) as answer:
            [answered] = [event async for event in answer]

    assert ended.status_code == 404
    assert still.status_code == 200
    assert json.loads(answered["data"])["result"]["content"][0]["text"] == "xxx"


# --- parts of the SDK that have no public name ------------------------------------------------------------


def test_the_sdk_admits_and_discards_sessions_as_we_override_it() -> None:
    """`Sessions` relies on two private methods, and on where the buffer of a new session comes from."""
    admit = inspect.getsource(StreamableHTTPSessionManager._admit_session)
    discard = inspect.signature(StreamableHTTPSessionManager._discard_session)

    assert not inspect.iscoroutinefunction(StreamableHTTPSessionManager._admit_session)
    assert "event_store=self.event_store" in admit
    assert list(discard.parameters) == ["self", "session_id", "transport"]
    assert hasattr(StreamableHTTPServerTransport, "close_sse_stream")
