"""Sessions with a scripted server: the era that is spoken, what a call carries, and the parts of the SDK."""

import inspect

import pytest
from mcp.client._probe import negotiate_auto
from mcp.client.session import ClientSession
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from tests.backends.rig import SOON_S, call
from tests.backends.scripted import DISCOVERED, HANDSHAKE, MODERN, Answer, Json, Script, refusal
from tests.support.callers import Answering

from maitred.backends.base import NOT_ASKED, ConnectError
from maitred.errors import ConnectionLostError, ProtocolError
from maitred.model.servers import EraChoice
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio


async def test_the_parts_of_the_sdk_that_are_used_are_still_there() -> None:
    """They are private, so this test tells when an upgrade moved them. Source: maitred."""
    assert list(inspect.signature(negotiate_auto).parameters) == ["session"]
    session = ClientSession(dispatcher=Script().channel)
    assert session._dispatcher is not None
    assert session._x_mcp_header_maps == {}
    assert list(inspect.signature(session._stamp).parameters) == ["data", "opts"]
    assert list(inspect.signature(session._on_request).parameters) == ["dctx", "method", "params"]
    assert list(inspect.signature(session._build_capabilities).parameters) == ["version"]


EVERYTHING: Json = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {"listChanged": True},
}
TASKS: Json = {
    "list": {},
    "cancel": {},
    "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
}


async def test_a_server_is_shown_all_that_is_relayed_and_with_a_call_what_its_caller_can_answer() -> None:
    """A connection has many callers; a call of the stateless era has one. Source: issue 17."""
    old, new = Script(initialize=HANDSHAKE), Script(server_discover=DISCOVERED)
    async with old.open() as connection:
        caller = Answering(capabilities={"roots": {"listChanged": True}, "experimental": {}})
        await connection.call_tool("t", call("t"), timeout_s=SOON_S, caller=caller)
    async with new.open() as connection:
        await connection.call_tool("t", call("t"), timeout_s=SOON_S, caller=caller)
        await connection.call_tool("t", call("t"), timeout_s=SOON_S, caller=NOT_ASKED)
    handshake = next(one for one in old.sent if one["method"] == "initialize")
    assert handshake["params"]["capabilities"] == EVERYTHING | {"tasks": TASKS}
    shown = [one["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] for one in new.sent]
    assert shown == [EVERYTHING, {"roots": {}}, {}]


async def test_a_server_is_not_shown_roots_of_a_caller_who_may_not_be_asked_for_them() -> None:
    """A server opens the folders that roots name, so only operators are asked. Source: docs/security.md."""
    declared: Json = {"roots": {}, "elicitation": {}}
    caller = Answering(capabilities={"elicitation": {}})
    caller.takes_rounds = True
    new = Script(server_discover=DISCOVERED, resources_read={"contents": [], "resultType": "complete"})
    asked = ToolCall(name="t", arguments={}, client_capabilities=declared)
    async with new.open() as connection:
        await connection.call_tool("t", asked, timeout_s=SOON_S, caller=caller)
        meta = {CLIENT_CAPABILITIES_META_KEY: declared}
        await connection.request(
            "resources/read", {"uri": "u:1", "_meta": meta}, timeout_s=SOON_S, caller=caller
        )
    shown = [one["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] for one in new.sent[1:]]
    assert shown == [{"elicitation": {}}, {"elicitation": {}}]


async def test_a_server_of_unknown_era_is_probed_and_then_greeted_in_the_old_way() -> None:
    script = Script(initialize=HANDSHAKE)
    async with script.open() as connection:
        assert connection.facts.era == "handshake"
        assert connection.facts.protocol_version == "2025-11-25"
    assert script.methods == ["server/discover", "initialize", "notifications/initialized"]


async def test_a_server_of_the_new_era_needs_no_handshake() -> None:
    script = Script(server_discover=DISCOVERED)
    async with script.open() as connection:
        assert (connection.facts.era, connection.facts.title) == ("stateless", "scripted")
    assert script.methods == ["server/discover"]


@pytest.mark.parametrize(
    ("era", "answers", "methods"),
    [
        ("handshake", {"initialize": HANDSHAKE}, ["initialize", "notifications/initialized"]),
        ("stateless", {"server_discover": DISCOVERED}, ["server/discover"]),
    ],
)
async def test_a_server_of_known_era_is_not_probed(
    era: EraChoice, answers: dict[str, Answer], methods: list[str]
) -> None:
    script = Script(**answers)
    async with script.open(era):
        pass
    assert script.methods == methods


@pytest.mark.parametrize("code", [METHOD_NOT_FOUND, -32602, -32603, CONNECTION_CLOSED, REQUEST_TIMEOUT, 0])
@pytest.mark.parametrize("known", ["handshake", "stateless"])
async def test_a_server_that_changed_its_era_is_understood_whatever_error_it_answers(
    known: EraChoice, code: int
) -> None:
    """An upgrade, or a downgrade, must not lock a server out for good. Source: notes/real-servers.md."""
    script = Script(server_discover=refusal(code), initialize=HANDSHAKE)
    if known == "handshake":
        script = Script(server_discover=DISCOVERED, initialize=refusal(code))
    async with script.open(known) as connection:
        assert connection.facts.era == ("stateless" if known == "handshake" else "handshake")


async def test_a_server_that_only_speaks_an_unknown_revision_is_reported() -> None:
    data = {"supported": ["2030-01-01"], "requested": MODERN}
    script = Script(server_discover=refusal(UNSUPPORTED_PROTOCOL_VERSION, "only 2030-01-01", data))
    with pytest.raises(ConnectError, match=r"refused the handshake with error -32022: only 2030-01-01"):
        async with script.open():
            pass


@pytest.mark.parametrize(
    "answer", [{}, {"protocolVersion": 42}, HANDSHAKE | {"protocolVersion": "1999-01-01"}]
)
async def test_an_answer_to_the_handshake_that_is_not_mcp_is_reported_in_one_line(answer: Json) -> None:
    with pytest.raises(ConnectError, match="its answer to the handshake is not valid MCP") as caught:
        async with Script(initialize=answer).open():
            pass
    assert "\n" not in str(caught.value)


async def test_a_call_of_the_new_era_carries_the_envelope_and_what_the_caller_gave() -> None:
    """Source: https://modelcontextprotocol.io/specification/2026-07-28, request metadata."""
    script = Script(server_discover=DISCOVERED)
    capabilities: Json = {"elicitation": {}}
    given = ToolCall(
        name="ask",
        arguments={"a": 1},
        meta={"example.com/trace": "t"},
        input_responses={"name": {"action": "decline"}},
        request_state="state",
        client_capabilities=capabilities,
    )
    async with script.open() as connection:
        await script.call(connection, given)
    params = script.sent[-1]["params"]
    meta = params["_meta"]
    assert (params["name"], params["arguments"]) == ("ask", {"a": 1})
    assert (params["inputResponses"], params["requestState"]) == ({"name": {"action": "decline"}}, "state")
    assert meta["example.com/trace"] == "t"
    assert meta[PROTOCOL_VERSION_META_KEY] == MODERN
    assert meta[CLIENT_INFO_META_KEY]["name"] == "maitred"
    assert meta[CLIENT_CAPABILITIES_META_KEY] == capabilities


async def test_a_call_of_the_old_era_carries_nothing_of_the_new_one() -> None:
    script = Script(initialize=HANDSHAKE)
    given = ToolCall(
        name="ask", arguments={}, meta={"k": 1}, request_state="s", client_capabilities={"x": {}}
    )
    async with script.open("handshake") as connection:
        await script.call(connection, given)
    sent = script.sent[-1]["params"]
    assert sent.pop("_meta").keys() == {"k", "progressToken"}
    assert sent == {"name": "ask", "arguments": {}}


async def test_a_result_is_relayed_as_the_server_wrote_it_oddities_included() -> None:
    odd = {"content": [{"type": "unheard-of"}, 42], "isError": "perhaps", "extra": [None]}
    script = Script(initialize=HANDSHAKE, tools_call=odd)
    async with script.open("handshake") as connection:
        assert await script.call(connection, call("x")) == odd


async def test_a_server_that_misses_headers_is_listed_and_called_again() -> None:
    """Source: https://modelcontextprotocol.io/specification/2026-07-28, transports: HeaderMismatch."""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    listed = DISCOVERED | {"tools": [{"name": "ask", "inputSchema": schema}]}
    answers = [refusal(HEADER_MISMATCH, "which region?"), {"content": [], "resultType": "complete"}]
    script = Script(server_discover=DISCOVERED, tools_list=listed, tools_call=lambda _: answers.pop(0))
    async with script.open() as connection:
        assert (await script.call(connection, call("ask", region="eu")))["content"] == []
    assert script.methods[1:] == ["tools/call", "tools/list", "tools/call"]


async def test_a_server_that_misses_headers_for_ever_gives_its_error_to_the_caller() -> None:
    listed = DISCOVERED | {"tools": []}
    script = Script(
        server_discover=DISCOVERED, tools_list=listed, tools_call=refusal(HEADER_MISMATCH, "which region?")
    )
    async with script.open() as connection:
        with pytest.raises(ProtocolError, match="which region"):
            await script.call(connection, call("ask"))


@pytest.mark.parametrize("code", [-32603, 0, CONNECTION_CLOSED, REQUEST_TIMEOUT])
async def test_an_error_of_a_list_is_told_as_the_server_gave_it(code: int) -> None:
    """Source: notes/real-servers.md: initialize works and then tools/list fails."""
    script = Script(initialize=HANDSHAKE, tools_list=refusal(code, "database is locked"))
    async with script.open("handshake") as connection:
        with pytest.raises(ProtocolError, match=f"answered with error {code}: database is locked"):
            await connection.list_tools()


async def test_an_error_without_end_is_cut_and_told_so() -> None:
    """Nobody reads megabytes of it."""
    script = Script(initialize=HANDSHAKE, tools_list=refusal(-32603, "é" * 1_000_000))
    async with script.open("handshake") as connection:
        with pytest.raises(ProtocolError, match=r"é… \(934,464 more characters\)"):
            await connection.list_tools()


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {"a": 1}}, {"tools": [], "nextCursor": 7}])
async def test_a_list_of_the_wrong_kind_is_an_empty_one(page: Json) -> None:
    script = Script(initialize=HANDSHAKE, tools_list=page)
    async with script.open("handshake") as connection:
        assert (await connection.list_tools()).tools == []


async def test_an_empty_page_in_the_middle_does_not_hide_the_rest() -> None:
    pages: list[Json] = [{"tools": [], "nextCursor": "1"}, {"tools": [{"name": "late", "inputSchema": {}}]}]
    script = Script(initialize=HANDSHAKE, tools_list=lambda _: pages.pop(0))
    async with script.open("handshake") as connection:
        listing = await connection.list_tools()
    assert [tool.key.name for tool in listing.tools] == ["late"]
    assert listing.notes == ()


async def test_a_call_after_the_end_of_the_server_is_known_to_be_unread() -> None:
    """What was never sent may be sent again to the next process. Source: maitred."""
    script = Script(initialize=HANDSHAKE)
    async with script.open("handshake") as connection:
        script.channel.close("it exited with code 0")
        with pytest.raises(ConnectionLostError) as caught:
            await script.call(connection, call("ask"))
    assert caught.value.unread
    assert "tools/call" not in script.methods
