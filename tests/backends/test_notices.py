"""What servers say without being asked, and how they are asked to: message by message, in both eras."""

from typing import Any

import pytest
from mcp_types import METHOD_NOT_FOUND
from tests.backends.scripted import DISCOVERED, HANDSHAKE, Answer, Json, Script, refusal

from maitred.backends import notices, session
from maitred.backends.base import NOT_ASKED, Notice
from maitred.errors import CallTimeoutError, ProtocolError

pytestmark = pytest.mark.anyio

ID = "io.modelcontextprotocol/subscriptionId"
SUBSCRIBING: Json = {"resources": {"subscribe": True}}


def old(**answers: Answer) -> Script:
    return Script(initialize=HANDSHAKE | {"capabilities": SUBSCRIBING}, **answers)


def new(capabilities: Json, listen: Answer) -> Script:
    return Script(server_discover=DISCOVERED | {"capabilities": capabilities}, subscriptions_listen=listen)


class Streams:
    """The listen streams of a server: each is acknowledged, with what the server is willing to tell."""

    def __init__(self, capabilities: Json, **honoured: Any) -> None:
        self._honoured = honoured
        self.script = new(capabilities, self._accept)
        self.opened: list[Json] = []

    def _accept(self, message: Json) -> None:
        asked = message["params"]["notifications"]
        self.opened.append(message)
        self.say("subscriptions/acknowledged", notifications=asked | self._honoured)

    def say(self, what: str, **params: Any) -> None:
        meta = {ID: self.opened[-1]["id"]}
        self.script.feed(method=f"notifications/{what}", params={**params, "_meta": meta})

    def end(self) -> None:
        """Break the last stream."""
        self.script.feed(id=self.opened[-1]["id"], error={"code": -32603, "message": "overloaded"})


@pytest.mark.parametrize(
    ("method", "params", "notice"),
    [
        ("tools/list_changed", {}, Notice(kind="tools")),
        ("resources/list_changed", {}, Notice(kind="resources")),
        ("prompts/list_changed", {}, Notice(kind="prompts")),
        ("resources/updated", {"uri": "a:1"}, Notice(kind="updated", uri="a:1")),
    ],
)
async def test_a_notice_of_the_old_era_is_heard(method: str, params: Json, notice: Notice) -> None:
    script = old()
    async with script.open("handshake"):
        script.feed(method=f"notifications/{method}", params=params)
        await script.notices.until(notice)
    assert script.notices.all == [notice]


@pytest.mark.parametrize(
    ("capabilities", "asked"),
    [
        ({"tools": {"listChanged": True}, "prompts": {}}, {"toolsListChanged": True}),
        (
            {"resources": {"listChanged": True}, "prompts": {"listChanged": True}},
            {"resourcesListChanged": True, "promptsListChanged": True},
        ),
    ],
)
async def test_a_server_of_the_new_era_is_asked_for_the_changes_that_it_announces(
    capabilities: Json, asked: Json
) -> None:
    streams = Streams(capabilities)
    async with streams.script.open("stateless"):
        await streams.script.asked.until("subscriptions/listen")
    assert [message["params"]["notifications"] for message in streams.opened] == [asked]


async def test_a_session_begins_when_changes_are_told_so_that_none_is_missed() -> None:
    """A change right after the start would be told to nobody: the first list would stay. Source: maitred."""
    streams = Streams({"tools": {"listChanged": True}})
    async with streams.script.open("stateless"):
        streams.say("tools/list_changed")
        await streams.script.notices.until(Notice(kind="tools"))


async def test_a_stream_that_comes_late_holds_nobody_up_and_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever changed before it came is asked for anew."""
    monkeypatch.setattr(notices, "_ANSWERED_S", 0.0)
    streams = Streams({"tools": {"listChanged": True}})
    streams.script.answers["subscriptions/listen"] = streams.opened.append
    async with streams.script.open("stateless"):
        await streams.script.asked.until("subscriptions/listen")
        streams.say("subscriptions/acknowledged", notifications={"toolsListChanged": True})
        await streams.script.notices.until(Notice(kind="tools"))


async def test_a_notice_on_a_stream_is_heard_once() -> None:
    streams = Streams({"tools": {"listChanged": True}})
    async with streams.script.open("stateless") as connection:
        await streams.script.asked.until("subscriptions/listen")
        streams.say("tools/list_changed")
        await streams.script.notices.until(Notice(kind="tools"))
        streams.script.answers["ping"] = {}
        await connection.request("ping", {}, timeout_s=5, caller=NOT_ASKED)
    assert streams.script.notices.all == [Notice(kind="tools")]


async def test_a_stream_that_broke_is_opened_again_and_what_was_missed_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Proxies end idle streams; there is no replay. Source: 2026-07-28 specification, subscriptions."""
    monkeypatch.setattr(notices, "_FIRST_DELAY_S", 0.0)
    streams = Streams({"tools": {"listChanged": True}, "prompts": {"listChanged": True}})
    async with streams.script.open("stateless"):
        await streams.script.asked.until("subscriptions/listen")
        streams.end()
        await streams.script.notices.until(Notice(kind="prompts"))
    assert len(streams.opened) == 2
    assert streams.script.notices.all == [Notice(kind="tools"), Notice(kind="prompts")]


async def test_a_server_that_refuses_the_stream_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_FIRST_DELAY_S", 0.0)
    script = new({"tools": {"listChanged": True}}, refusal(METHOD_NOT_FOUND))
    script.answers["ping"] = {}
    async with script.open("stateless") as connection:
        await script.asked.until("subscriptions/listen")
        for _ in range(3):
            await connection.request("ping", {}, timeout_s=5, caller=NOT_ASKED)
    assert script.methods.count("subscriptions/listen") == 1


async def test_a_subscription_of_the_old_era_is_taken_back_when_it_is_left() -> None:
    script = old(resources_subscribe={}, resources_unsubscribe={})
    async with script.open("handshake") as connection:
        async with connection.subscribe("a:1"):
            assert script.sent[-1]["params"] == {"uri": "a:1"}
        assert script.methods[-2:] == ["resources/subscribe", "resources/unsubscribe"]
        assert script.sent[-1]["params"] == {"uri": "a:1"}


async def test_a_subscription_of_the_new_era_is_a_stream_that_is_cancelled_when_it_is_left() -> None:
    streams = Streams(SUBSCRIBING)
    async with streams.script.open("stateless") as connection:
        async with connection.subscribe("a:1"):
            streams.say("resources/updated", uri="a:1")
            await streams.script.notices.until(Notice(kind="updated", uri="a:1"))
        streams.script.answers["ping"] = {}
        await connection.request("ping", {}, timeout_s=5, caller=NOT_ASKED)
    (opened,) = streams.opened
    assert opened["params"]["notifications"] == {"resourceSubscriptions": ["a:1"]}
    (cancelled,) = [m for m in streams.script.sent if m["method"] == "notifications/cancelled"]
    assert cancelled["params"]["requestId"] == opened["id"]


async def test_a_subscription_ends_with_its_stream_or_its_connection_and_tells_why() -> None:
    streams, script = Streams(SUBSCRIBING), old(resources_subscribe={})
    async with streams.script.open("stateless") as connection, connection.subscribe("a:1") as subscription:
        streams.end()
        assert "overloaded" in await subscription.ended()
    async with script.open("handshake") as connection, connection.subscribe("a:1") as subscription:
        script.channel.close("it exited with code 0")
        assert await subscription.ended() == "it exited with code 0"
    assert "resources/unsubscribe" not in script.methods


async def test_over_http_a_server_that_forgot_the_session_is_found_out_by_asking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else tells: the stream of notices just stays silent."""
    monkeypatch.setattr(session, "_PULSE_S", 0.01)
    script = old(resources_subscribe={})
    answers: list[Json | None] = [{}, refusal(METHOD_NOT_FOUND), None]

    def ping(_: Json) -> Json | None:
        if (answer := answers.pop(0)) is None:
            script.channel.close("it has forgotten the session")
        return answer

    script.answers["ping"] = ping
    async with (
        script.open("handshake", transport="http") as connection,
        connection.subscribe("a:1") as subscription,
    ):
        assert await subscription.ended() == "it has forgotten the session"
    assert answers == []


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_server_without_subscriptions_is_not_asked_for_one(era: str) -> None:
    script = Script(initialize=HANDSHAKE, server_discover=DISCOVERED)
    async with script.open("handshake" if era == "handshake" else "stateless") as connection:
        with pytest.raises(ProtocolError, match="it has no subscriptions to resources"):
            async with connection.subscribe("a:1"):
                pass
    assert not {"resources/subscribe", "subscriptions/listen"} & set(script.methods)


@pytest.mark.parametrize("era", ["old", "new"])
async def test_a_refused_subscription_is_told_as_the_server_gave_it(era: str) -> None:
    no = refusal(-32002, "no such file")
    script = old(resources_subscribe=no) if era == "old" else new(SUBSCRIBING, no)
    async with script.open("handshake" if era == "old" else "stateless") as connection:
        with pytest.raises(ProtocolError, match="answered with error -32002: no such file"):
            async with connection.subscribe("a:1"):
                pass


async def test_a_stream_that_leaves_the_resource_out_is_a_refusal() -> None:
    """The acknowledgment says what the server is willing to tell."""
    streams = Streams(SUBSCRIBING, resourceSubscriptions=[])
    async with streams.script.open("stateless") as connection:
        with pytest.raises(ProtocolError, match="it does not report changes of this resource"):
            async with connection.subscribe("a:1"):
                pass


@pytest.mark.parametrize("era", ["old", "new"])
async def test_a_subscription_that_is_never_acknowledged_is_given_up(era: str) -> None:
    script = old(resources_subscribe=lambda _: None) if era == "old" else new(SUBSCRIBING, lambda _: None)
    async with script.open("handshake" if era == "old" else "stateless", list_s=0.1) as connection:
        with pytest.raises(CallTimeoutError, match=r"within 0\.1 s"):
            async with connection.subscribe("a:1"):
                pass
