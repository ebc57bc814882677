"""What a client sees of a gateway that ends: nothing, wherever that can be."""

import json
import select

import pytest
from tests.daemon.gateways import (
    MODERN,
    SOON_S,
    Rig,
    bye,
    call,
    compact,
    request,
    rig,
    shake_hands,
)

from maitred.meta_tools.menu import META_TOOLS, safe_tools
from maitred.surfaces.daemon.client_relay import MOVED, STOPPED
from maitred.surfaces.daemon.session_replay import LOST, Replay

LISTS = [f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")]


def heard(relayed: Rig, count: int) -> list[str]:
    """The methods of the next messages to the client."""
    return [relayed.client.hear().get("method", "") for _ in range(count)]


def test_lines_pass_as_they_are_both_ways() -> None:
    """Whatever their keys, their spaces and their size; also what is no message at all."""
    odd = b'  {"id": "\\u00fc\\"1", "params": {"n": 1.10},   "method":"tools/list", "jsonrpc": "2.0"}\n'
    big = compact(call("b", "call_tool", text="x" * 3_000_000))
    with rig() as relayed:
        gateway = relayed.gateway()
        for line in (odd, b"nonsense \xff\n", b"\n", big):
            relayed.client.write(line)
            assert gateway._file.readline() == line
        answers = (
            compact({"id": 'ü"1', "result": {}})
            + b"[]\n"
            + compact({"id": "b", "result": {"t": "y" * 3_000_000}})
        )
        gateway.write(answers)
        assert b"".join(relayed.client._file.readline() for _ in range(3)) == answers


def test_the_process_ends_when_the_client_closes_its_side() -> None:
    with rig() as relayed:
        gateway = relayed.gateway()
        relayed.client.say(call(1, "call_tool", name="a"))
        relayed.client.close()
        assert relayed.ended.wait(SOON_S)
        assert relayed.codes == [0]
        assert gateway.hear()["id"] == 1


def test_another_gateway_hears_the_handshake_again_and_the_client_does_not() -> None:
    """With what else the first one knew of the connection; then the client is told to look again."""
    with rig() as relayed:
        first = relayed.gateway()
        shake_hands(relayed.client, first)
        relayed.client.say(
            request("l", "logging/setLevel", level="error"),
            request("s", "resources/subscribe", uri="a://kept"),
            request("t", "resources/subscribe", uri="a://dropped"),
            request("v", "resources/subscribe", uri="a://refused"),
            request("u", "resources/unsubscribe", uri="a://dropped"),
        )
        for number in "lstvu":
            first.hear()
            first.say({"id": number, "error": {"code": 1}} if number == "v" else {"id": number, "result": {}})
            assert relayed.client.hear()["id"] == number
        first.close()

        second = relayed.gateway()
        again = [second.hear() for _ in range(4)]
        assert [message["method"] for message in again] == [
            "initialize",
            "notifications/initialized",
            "logging/setLevel",
            "resources/subscribe",
        ]
        assert again[0]["params"]["clientInfo"] == {"name": "c", "version": "1"}
        assert again[3]["params"] == {"uri": "a://kept"}
        for message in again:
            if "id" in message:
                assert message["id"] not in {0, "l", "s"}
                second.say({"id": message["id"], "result": {}})
        assert heard(relayed, 4) == [*LISTS, "notifications/resources/updated"]
        relayed.client.say(request(7, "ping"))
        assert second.hear()["id"] == 7
        second.say({"id": 7, "result": {}})
        assert relayed.client.hear() == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.parametrize(
    "safe",
    [
        request(1, "tools/list"),
        request(1, "resources/read", uri="a://b"),
        request(1, "prompts/get", name="p"),
        request(1, "completion/complete"),
        *(call(1, tool) for tool in safe_tools()),
    ],
    ids=lambda message: message["params"].get("name", message["method"]),
)
def test_what_changes_nothing_is_asked_again(safe: dict[str, object]) -> None:
    """The client gets one answer, from the gateway that lives."""
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(safe)
        assert first.hear() == {"jsonrpc": "2.0", **safe}
        first.write(b'{"jsonrpc":"2.0","id":1,"result":{"half')
        first.close()
        second = relayed.gateway()
        assert second.hear() == {"jsonrpc": "2.0", **safe}
        second.say({"id": 1, "result": {"whole": True}})
        assert relayed.client.hear()["result"] == {"whole": True}


def test_every_tool_of_the_menu_that_only_reads_is_asked_again() -> None:
    """And no other: those that a client sees as tools that only read."""
    read = {name for name, tool in META_TOOLS.items() if tool.definition()["annotations"].get("readOnlyHint")}

    assert set(safe_tools()) == read
    assert {"search_tools", "list_tools_meta", "tool_info", "call_read_only_tool"} <= read
    assert not read & {"call_tool", "call_tool_chain"}


def test_a_call_is_made_again_only_if_the_gateway_that_ended_named_its_tool() -> None:
    """A gateway that names none has none that is known to change nothing."""
    with rig(safe=[]) as relayed:
        first = relayed.gateway()
        relayed.client.say(call(1, "search_tools"), request(2, "tools/list"))
        for _ in range(2):
            first.hear()
        first.close()
        lost = relayed.client.hear()

        assert (lost["id"], lost["result"]["content"][0]["text"]) == (1, LOST)
        assert relayed.gateway().hear()["id"] == 2


@pytest.mark.parametrize("modern", [False, True])
def test_a_call_that_may_have_been_carried_out_is_not_made_again(modern: bool) -> None:
    """It ends at once with an error that says so, in the form of the client's era."""
    meta = {"_meta": MODERN} if modern else {}
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(
            request(1, "tools/call", name="call_tool", arguments={"name": "a"}, **meta),
            request(2, "tools/call", name="files__remove", arguments={}, **meta),
            request(3, "tasks/cancel", **meta),
        )
        for _ in range(3):
            first.hear()
        first.close()
        answers = {answer["id"]: answer for answer in (relayed.client.hear() for _ in range(3))}
        for number in (1, 2):
            expected = {"content": [{"type": "text", "text": LOST}], "isError": True}
            assert answers[number]["result"] == expected | ({"resultType": "complete"} if modern else {})
        assert answers[3]["error"]["message"] == LOST
        relayed.client.say(request(4, "ping"))
        assert relayed.gateway().hear()["id"] == 4


def test_an_answer_that_had_arrived_is_the_only_one() -> None:
    """Also where the gateway ended right after it; a cancelled call gets none."""
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(call("done", "call_tool"), call("gone", "call_tool"))
        relayed.client.say({"method": "notifications/cancelled", "params": {"requestId": "gone"}})
        for _ in range(3):
            first.hear()
        first.say({"id": "done", "result": {}})
        first.close()
        assert relayed.client.hear() == {"jsonrpc": "2.0", "id": "done", "result": {}}
        relayed.client.say(request(3, "ping"))
        second = relayed.gateway()
        assert second.hear()["id"] == 3
        second.say({"id": 3, "result": {}})
        assert relayed.client.hear()["id"] == 3


def test_what_comes_while_no_gateway_is_there_waits() -> None:
    """Starting one may fail a few times; the client sees only that it takes longer."""
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(request(1, "ping"))
        first.hear()
        relayed.faults[:] = ["not yet", "not yet"]
        first.close()
        relayed.client.say(call(2, "call_tool"), request(3, "tools/list"))
        second = relayed.gateway()
        assert [second.hear()["id"] for _ in range(3)] == [1, 2, 3]


def test_a_handshake_that_was_not_answered_yet_is_answered_by_the_next_gateway() -> None:
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(request(0, "initialize", name="c"))
        first.hear()
        first.close()
        second = relayed.gateway()
        assert second.hear()["id"] == 0
        second.say({"id": 0, "result": {"capabilities": {}}})
        assert relayed.client.hear()["id"] == 0


def test_a_gateway_that_somebody_stopped_is_replaced_once_it_is_needed() -> None:
    """Else `maitred stop` would stop nothing."""
    with rig() as relayed:
        first = relayed.gateway()
        shake_hands(relayed.client, first)
        relayed.client.say(call(1, "call_tool"))
        first.hear()
        bye(first, STOPPED)
        assert relayed.client.hear()["result"]["isError"]
        assert relayed.is_alone()
        relayed.client.say(call(2, "call_tool"))
        second = relayed.gateway()
        assert [second.hear()["method"] for _ in range(3)] == [
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]


def test_a_gateway_that_serves_us_no_more_is_replaced_at_once() -> None:
    """What matters in the environment may be other than it was; that is no fault of anybody."""
    with rig() as relayed:
        gateway = relayed.gateway()
        shake_hands(relayed.client, gateway)
        for _ in range(6):
            bye(gateway, MOVED)
            gateway = relayed.gateway()
            assert gateway.hear()["method"] == "initialize"
        assert relayed.codes == []


def test_a_stream_of_changes_is_opened_again_and_begins_with_what_may_have_been_missed() -> None:
    """The client has had its acknowledgement and gets no second one."""
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]}
    acknowledged = {
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": wanted, "_meta": {"io.modelcontextprotocol/subscriptionId": "s"}},
    }
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(request("s", "subscriptions/listen", notifications=wanted, _meta=MODERN))
        first.hear()
        first.say(acknowledged)
        assert relayed.client.hear()["method"] == acknowledged["method"]
        first.close()
        second = relayed.gateway()
        assert second.hear()["method"] == "subscriptions/listen"
        second.say(acknowledged)
        changed, updated = relayed.client.hear(), relayed.client.hear()
        assert changed["method"] == "notifications/tools/list_changed"
        assert updated["params"]["uri"] == "a://b"
        for notice in (changed, updated):
            assert notice["params"]["_meta"] == acknowledged["params"]["_meta"]  # type: ignore[index]


def test_a_request_that_ends_gateways_is_given_up_and_so_are_gateways_that_keep_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request that waits is answered, and the process ends with 1."""
    monkeypatch.setattr("maitred.surfaces.daemon.client_relay._MOST_ENDS", 5)
    with rig() as relayed:
        gateway = relayed.gateway()
        relayed.client.say(request(1, "tools/list"))
        for _ in range(2):
            assert gateway.hear()["id"] == 1
            gateway.close()
            gateway = relayed.gateway()
        assert gateway.hear()["id"] == 1
        gateway.close()
        assert relayed.client.hear()["error"]["message"] == LOST
        gateway = relayed.gateway()
        relayed.client.say(request(2, "ping"))
        assert gateway.hear()["id"] == 2
        gateway.close()
        gateway = relayed.gateway()
        gateway.close()
        answer = relayed.client.hear()
        assert answer["id"] == 2
        assert "ended 5 times" in answer["error"]["message"]
        assert relayed.ended.wait(SOON_S)
        assert relayed.codes == [1]


def test_a_client_that_does_not_read_blocks_neither_itself_nor_the_gateway() -> None:
    """It may write as much as it likes before it reads."""
    with rig() as relayed:
        gateway = relayed.gateway()
        relayed.client.say(request(1, "ping"))
        gateway.hear()
        answer = compact({"id": 1, "result": {"text": "x" * 4_000_000}})
        gateway._connection.setblocking(False)
        sent = gateway._connection.send(answer)
        gateway._connection.settimeout(SOON_S)
        for number in range(200):
            relayed.client.say(request(number, "ping", text="y" * 10_000))
            assert gateway.hear()["id"] == number
        assert sent < len(answer)


def test_a_client_that_asks_on_and_on_is_held_back_but_not_in_what_it_withdraws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the gateway keeps all that it does not read, to the cost of the other clients."""
    monkeypatch.setattr("maitred.surfaces.daemon.client_relay._MOST_WAITING", 2)
    with rig() as relayed:
        gateway = relayed.gateway()
        relayed.client.say(request(1, "ping"), request(2, "ping"))
        relayed.client.say({"method": "notifications/cancelled", "params": {"requestId": 1}})
        relayed.client.say(request(3, "ping"), request(4, "ping"))
        assert [gateway.hear().get("id") for _ in range(4)] == [1, 2, None, 3]
        assert select.select([gateway._connection], [], [], 0.1)[0] == []
        gateway.say({"id": 2, "result": {}})
        assert gateway.hear()["id"] == 4


def test_a_client_that_is_held_back_is_served_by_the_next_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gateway can end meanwhile."""
    monkeypatch.setattr("maitred.surfaces.daemon.client_relay._MOST_WAITING", 1)
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(request(1, "ping"), request(2, "ping"))
        first.hear()
        first.close()
        second = relayed.gateway()
        assert second.hear()["id"] == 1
        second.say({"id": 1, "result": {}})
        assert second.hear()["id"] == 2


def test_a_fault_of_ours_ends_the_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that notices can start another; one that waits for ever cannot."""

    def failing(*_: object) -> bytes:
        raise LookupError("never thought of")

    monkeypatch.setattr(Replay, "received", failing)
    with rig() as relayed:
        relayed.gateway().say({"id": 1, "result": {}})
        assert relayed.ended.wait(SOON_S)
        assert relayed.codes == [1]
    assert "never thought of" in capsys.readouterr().err


def test_messages_are_what_json_says_they_are(tmp_path: object) -> None:
    """An answer is known by its id however it is written."""
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(call("a\tb", "call_tool"), call(-5, "call_tool"))
        for _ in range(2):
            first.hear()
        first.write(json.dumps({"result": {}, "jsonrpc": "2.0", "id": "a\tb"}).encode() + b"\n")
        first.write(compact({"id": -5, "result": {}}))
        assert [relayed.client.hear()["id"] for _ in range(2)] == ["a\tb", -5]
        first.close()
        relayed.client.say(request(9, "ping"))
        assert relayed.gateway().hear()["id"] == 9


def test_the_question_of_a_gateway_that_ends_is_withdrawn_and_its_late_answer_is_harmless() -> None:
    """The user of the client is not asked for nothing; the next gateway uses other ids. Source: issue 17."""
    question = request("maitred-1f-1", "elicitation/create", message="Who?")
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(request(1, "call_tool"), request(2, "ping"))
        for _ in range(2):
            first.hear()
        first.say(question, request("maitred-1f-2", "roots/list"))
        assert [relayed.client.hear()["id"] for _ in range(2)] == ["maitred-1f-1", "maitred-1f-2"]
        relayed.client.say({"id": "maitred-1f-2", "result": {"roots": []}})
        assert first.hear()["result"] == {"roots": []}
        first.close()
        withdrawn, lost = relayed.client.hear(), relayed.client.hear()
        assert (withdrawn["method"], withdrawn["params"]["requestId"]) == (
            "notifications/cancelled",
            "maitred-1f-1",
        )
        assert lost["id"] == 1
        second = relayed.gateway()
        assert second.hear()["id"] == 2
        relayed.client.say({"id": "maitred-1f-1", "result": {"action": "cancel"}})
        assert second.hear() == {"jsonrpc": "2.0", "id": "maitred-1f-1", "result": {"action": "cancel"}}
        second.say({"id": 2, "result": {}})
        assert relayed.client.hear()["id"] == 2
