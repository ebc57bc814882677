"""The first answers to a client, which need no SDK: they are those of the SDK, and nothing is lost later."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner
from mcp_types.methods import serialize_server_result, validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from tests.support import corpus

from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.gateway import Gateway
from maitred.model.servers import ServerSpec
from maitred.surfaces.mcp.first_answers import HANDSHAKE_VERSIONS, STATELESS_VERSION
from maitred.surfaces.mcp.lazy_surface import LazySurface
from maitred.surfaces.mcp.list_pages import PROMPTS, RESOURCES, TEMPLATES, TOOLS, ProtocolList
from maitred.surfaces.mcp.offers import acceptable
from maitred.surfaces.mcp.plain_shapes import (
    HANDSHAKE,
    STATELESS,
    UnusualValueError,
    check_capabilities,
    check_envelope,
)
from maitred.surfaces.mcp.wire import Wire
from maitred.wiring import open_gateway

LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
VERSIONS = (*HANDSHAKE_VERSIONS, STATELESS_VERSION)
CLIENT = {"name": "a client", "title": "A", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
SOON_S = 120.0

Message = Mapping[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_revisions_are_those_of_the_sdk() -> None:
    assert HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    assert (STATELESS_VERSION,) == MODERN_PROTOCOL_VERSIONS


# --- definitions ------------------------------------------------------------------------------------------


def by_the_sdk(listed: ProtocolList, definition: Message, version: str) -> Any:
    """A definition as the SDK sends it in a list."""
    page = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    page |= {listed.field: [acceptable(listed, definition, version)]}
    return serialize_server_result(listed.method, version, page)[listed.field][0]


def by_us(listed: ProtocolList, definition: Message, version: str) -> Any:
    """A definition as the first answers have it; `None` if it is left to the SDK."""
    shapes = STATELESS if version == STATELESS_VERSION else HANDSHAKE
    try:
        return shapes.of(listed.field)(definition)
    except UnusualValueError:
        return None


@pytest.mark.parametrize("version", VERSIONS)
def test_tools_have_the_bytes_that_the_sdk_sends(version: str) -> None:
    """Those of a corpus with the oddities of real servers; nearly all are plain."""
    tools = [tool for server in corpus.generate(3, 40, 900) for tool in server["tools"] if named(tool)]
    ours = [by_us(TOOLS, tool, version) for tool in tools]
    for tool, own in zip(tools, ours, strict=True):
        if own is not None:
            assert json.dumps(own) == json.dumps(by_the_sdk(TOOLS, tool, version)), tool["name"]
    assert sum(own is not None for own in ours) > 0.9 * len(tools)


def named(tool: Message) -> bool:
    return isinstance(tool.get("name"), str)


ABOUT = {"name": "n", "title": "T", "description": "d é", "_meta": {"a": {"b": None}}, "unknown": 1}
NOTES = {"priority": 1, "audience": ["user"], "lastModified": "2026-01-01", "unknown": {}}
ICONS = [{"src": "x", "sizes": ["1x1"], "theme": "dark", "unknown": 1}]
SCHEMA = {"required": ["a"], "x": [None], "type": "object", "properties": {"a": {"default": None}, "b": True}}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("listed", "definition"),
    [
        (TOOLS, {**ABOUT, "icons": ICONS, "inputSchema": {**SCHEMA, "$schema": "s"}, "outputSchema": SCHEMA}),
        (TOOLS, {"name": "n", "inputSchema": SCHEMA, "execution": {"taskSupport": "optional", "x": 1}}),
        (TOOLS, {"name": "n", "inputSchema": SCHEMA, "annotations": {"title": "t", "readOnlyHint": True}}),
        (TOOLS, {"name": "n", "inputSchema": SCHEMA, "title": None, "annotations": {"title": None}}),
        (TOOLS, {"name": "n", "inputSchema": SCHEMA, "icons": [], "_meta": {}, "annotations": {}}),
        (RESOURCES, {**ABOUT, "uri": "a:b", "size": 3, "mimeType": "text/plain", "annotations": NOTES}),
        (TEMPLATES, {**ABOUT, "uriTemplate": "a:{b}", "annotations": NOTES, "icons": ICONS}),
        (PROMPTS, {**ABOUT, "arguments": [{"name": "x", "required": False, "unknown": 1}]}),
    ],
)
def test_a_plain_definition_has_the_bytes_that_the_sdk_sends(
    listed: ProtocolList, definition: Message, version: str
) -> None:
    own = by_us(listed, definition, version)
    assert own is not None
    assert json.dumps(own) == json.dumps(by_the_sdk(listed, definition, version))


@pytest.mark.parametrize(
    ("listed", "definition"),
    [
        (TOOLS, {"name": "n"}),
        (TOOLS, {"name": "n", "inputSchema": {"type": "array"}}),
        (TOOLS, {"name": "n", "inputSchema": {"type": "object", "default": None}}),
        (TOOLS, {"name": "n", "inputSchema": SCHEMA, "_meta": {"a": None}}),
        (TOOLS, {"name": "n", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": "yes"}}),
        (RESOURCES, {"name": "n", "uri": "a:b", "size": 1.0}),
        (RESOURCES, {"name": "n", "uri": "a:b", "annotations": {"priority": 2}}),
        (PROMPTS, {"name": "n", "arguments": {}}),
    ],
)
def test_an_unusual_definition_is_left_to_the_sdk(listed: ProtocolList, definition: Message) -> None:
    assert [by_us(listed, definition, version) for version in ("2025-11-25", STATELESS_VERSION)] == [None] * 2


# --- what clients declare ---------------------------------------------------------------------------------

_KNOWN = ("roots", "sampling", "elicitation", "tasks", "experimental", "extensions")
_BELOW = ("listChanged", "form", "context", "requests", "create", "sampling/createMessage", "list")
_names: st.SearchStrategy[str] = st.sampled_from((*_KNOWN, *_BELOW))
_details: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{}, True, None, "x", 1]), lambda below: st.dictionaries(_names, below, max_size=3)
)


@given(declared=st.dictionaries(_names, _details, max_size=3))
def test_what_is_taken_without_the_sdk_is_taken_by_it(declared: dict[str, Any]) -> None:
    """Else a client would be refused after its first answers."""
    try:
        check_capabilities(declared)
    except UnusualValueError:
        return
    params = {"protocolVersion": "2025-11-25", "capabilities": declared, "clientInfo": CLIENT}
    validate_client_request("initialize", "2025-11-25", params)
    ServerRunner._negotiate_initialize(params)
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": declared}
    assert check_envelope(meta, STATELESS_VERSION)[0] == "a client"
    validate_client_request("tools/list", STATELESS_VERSION, {"_meta": meta})


# --- on a wire --------------------------------------------------------------------------------------------


class Upstream:
    """A server with some of everything; its list of tools grows."""

    def __init__(self) -> None:
        self.tools = [types.Tool(name=f"tool{n}", input_schema={"type": "object"}) for n in range(3)]

    def server(self) -> Server[Any]:
        async def tools(*_: object) -> types.ListToolsResult:
            return types.ListToolsResult(tools=self.tools)

        async def call(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
            return types.CallToolResult(content=[types.TextContent(text=params.name)])

        async def resources(*_: object) -> types.ListResourcesResult:
            return types.ListResourcesResult(resources=[types.Resource(uri="r://1", name="one", size=1)])

        async def prompts(*_: object) -> types.ListPromptsResult:
            return types.ListPromptsResult(prompts=[types.Prompt(name="p", description="d")])

        return Server(
            "s",
            on_list_tools=tools,
            on_call_tool=call,
            on_list_resources=resources,
            on_list_prompts=prompts,
        )


class Client:
    """A client on a wire, which writes and reads lines."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._read = b""
        self._number = 0

    async def send(self, method: str, params: Message | None = None, **more: Any) -> None:
        message = {"jsonrpc": "2.0", **more, "method": method}
        if params is not None:
            message["params"] = params
        await anyio.wait_writable(self._end)
        self._end.sendall(json.dumps(message).encode() + b"\n")

    async def line(self) -> bytes:
        while b"\n" not in self._read:
            await anyio.wait_readable(self._end)
            self._read += self._end.recv(1 << 16)
        line, _, self._read = self._read.partition(b"\n")
        return line

    async def ask(self, method: str, params: Message | None = None) -> bytes:
        self._number += 1
        await self.send(method, params, id=self._number)
        return await self.line()

    async def shake_hands(self, version: str = "2025-11-25") -> bytes:
        params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": CLIENT}
        answer = await self.ask("initialize", params)
        await self.send("notifications/initialized")
        return answer


@asynccontextmanager
async def gateway_of(folder: Path, mode: Any, upstream: Upstream) -> AsyncIterator[Gateway]:
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"s": ServerSpec(name="s", transport="memory")},
        disclosure=Disclosure(mode=mode),
        catalog=Catalog(path=str(folder / "c.db")),
    )
    async with open_gateway(settings, in_process={"s": upstream.server()}) as gateway:
        assert await gateway.settled(SOON_S)
        yield gateway


@asynccontextmanager
async def client_of(surface: LazySurface) -> AsyncIterator[Client]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    wires: list[Wire] = []
    loop = asyncio.get_running_loop()
    _, wire = await loop.create_unix_connection(lambda: Wire(wires.append), sock=ours)
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(surface.serve, wire)
            try:
                yield Client(theirs)
            finally:
                theirs.close()


async def first_words(client: Client, version: str) -> list[bytes]:
    """The answers to what a client asks first, in the era of a revision."""
    if version == STATELESS_VERSION:
        methods = ("server/discover", *LISTS)
        return [await client.ask(method, {"_meta": META}) for method in methods]
    return [await client.shake_hands(version), *[await client.ask(one) for one in (*LISTS, "ping")]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "name"),
    [("menu", "a client"), ("all", "a client"), ("categories", "a client"), ("menu", "claude-code")],
)
async def test_the_first_answers_have_the_bytes_of_later_ones(
    mode: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each revision, whether or not the SDK was imported before, for a client that is known, too."""
    monkeypatch.setitem(CLIENT, "name", name)
    async with gateway_of(tmp_path, mode, Upstream()) as gateway:
        for version in VERSIONS:
            first = []
            for surface in (LazySurface(gateway), later := LazySurface(gateway)):
                if surface is later:
                    await surface.load()
                async with client_of(surface) as client:
                    first.append(await first_words(client, version))
                assert (surface._surface is None) is (surface is not later)
            assert first[0] == first[1]
            assert all(b'"result"' in answer for answer in first[0])
            assert (b"load them first" in first[0][0]) is (name == "claude-code")


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["2025-11-25", STATELESS_VERSION])
async def test_what_comes_after_the_first_answers_is_answered_by_the_sdk(
    version: str, tmp_path: Path
) -> None:
    """The client goes on where it is: in its era, with its name."""
    async with gateway_of(tmp_path, "all", Upstream()) as gateway, client_of(LazySurface(gateway)) as client:
        await first_words(client, version)
        meta = {"_meta": META} if version == STATELESS_VERSION else {}
        called = json.loads(await client.ask("tools/call", {"name": "s__tool1", **meta}))
        assert called["result"]["content"][0]["text"] == "tool1"
        other = json.loads(await client.ask("tools/list", {} if meta else {"_meta": META}))
        assert "error" in other


@pytest.mark.anyio
async def test_a_change_after_the_first_list_is_announced(tmp_path: Path) -> None:
    """Though the client is not served by the SDK yet, which announces changes."""
    upstream = Upstream()
    async with gateway_of(tmp_path, "all", upstream) as gateway:
        surface = LazySurface(gateway)
        async with client_of(surface) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(surface.announce)
            await first_words(client, "2025-11-25")
            upstream.tools.append(types.Tool(name="another", input_schema={"type": "object"}))
            await gateway.sync(["s"], viewer=surface._viewer)
            heard = json.loads(await client.line())
            assert heard["method"] == "notifications/tools/list_changed"
            listed = json.loads(await client.ask("tools/list"))
            assert "s__another" in {tool["name"] for tool in listed["result"]["tools"]}
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "send",
    [
        lambda client: client.ask("tools/list", {}),
        lambda client: client.ask("server/discover", {}),
        lambda client: client.ask("initialize", {"protocolVersion": 1}),
        lambda client: client.ask("tools/list", {"_meta": {**META, "progressToken": None}}),
        lambda client: client.ask("tools/list", {"_meta": META, "cursor": "no cursor"}),
        lambda client: client.ask("no/method", {"_meta": META}),
    ],
)
async def test_what_is_not_plain_is_refused_as_later(send: Callable[[Client], Any], tmp_path: Path) -> None:
    async with gateway_of(tmp_path, "menu", Upstream()) as gateway:
        answers: list[bytes] = []
        later = LazySurface(gateway)
        await later.load()
        for surface in (LazySurface(gateway), later):
            async with client_of(surface) as client:
                answers.append(await send(client))
    assert answers[0] == answers[1]
    assert b'"error"' in answers[0]


@pytest.mark.anyio
async def test_requests_that_come_all_at_once_are_answered_in_order(tmp_path: Path) -> None:
    """Those before one that needs the SDK, that one, and those after it."""
    methods: Sequence[str] = ("tools/list", "resources/list", "logging/setLevel", "prompts/list", "ping")
    async with gateway_of(tmp_path, "menu", Upstream()) as gateway, client_of(LazySurface(gateway)) as client:
        await client.shake_hands()
        for number, method in enumerate(methods, 10):
            await client.send(method, {"level": "info"} if "Level" in method else {}, id=number)
        answers = [json.loads(await client.line()) for _ in methods]
    assert sorted(answer["id"] for answer in answers) == list(range(10, 10 + len(methods)))
    assert [answer["id"] for answer in answers[:2]] == [10, 11]
    assert all("result" in answer for answer in answers)
