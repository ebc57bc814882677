"""What a client is told while there is no gateway, or only one that hangs."""

import threading

import pytest
from tests.daemon.gateways import MODERN, SOON_S, call, request, rig, shake_hands

from maitred.errors import DaemonError
from maitred.surfaces.daemon.discovery import AloneError, RefusalError
from maitred.surfaces.daemon.handshake import GatewayConnection
from maitred.surfaces.daemon.session_replay import LOST

LISTS = [f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")]


@pytest.mark.parametrize("fault", [DaemonError("no room"), OSError("no room")])
def test_while_no_gateway_can_be_started_each_request_is_told_why_and_the_next_one_tries_again(
    fault: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client need not be started again; standard error has the reason once."""
    monkeypatch.setattr("maitred.surfaces.daemon.client_relay._DELAYS_S", (0.0, 0.0))
    with rig() as relayed:
        first = relayed.gateway()
        shake_hands(relayed.client, first)
        relayed.faults[:] = [fault] * 4
        relayed.client.say(request(1, "ping"))
        first.hear()
        first.close()
        assert relayed.client.hear()["error"]["message"] == "no room"
        relayed.client.say(call(2, "call_tool"))
        assert relayed.client.hear()["result"] == {
            "content": [{"type": "text", "text": "no room"}],
            "isError": True,
        }
        relayed.client.say(call(3, "call_tool"))
        second = relayed.gateway()
        said = [second.hear() for _ in range(3)]
        assert [message["method"] for message in said] == [
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]
        second.say({"id": said[0]["id"], "result": {}}, {"id": 3, "result": {}})
        assert [relayed.client.hear()["method"] for _ in range(3)] == LISTS
        assert relayed.client.hear()["id"] == 3
        assert relayed.codes == []
    assert capsys.readouterr().err == "error: no room\n"


def test_a_refusal_is_told_at_once_and_ends_no_stream_of_changes() -> None:
    """To ask again is of no use until somebody has mended something; the stream is opened again then."""
    with rig() as relayed:
        first = relayed.gateway()
        relayed.client.say(request("s", "subscriptions/listen", notifications={}, _meta=MODERN))
        first.hear()
        relayed.faults[:] = [RefusalError("line 3 is wrong")] * 9
        first.close()
        for number in (1, 2):
            relayed.client.say(request(number, "ping", _meta=MODERN))
            assert relayed.client.hear() == {
                "jsonrpc": "2.0",
                "id": number,
                "error": {"code": -32000, "message": "line 3 is wrong"},
            }
        assert len(relayed.faults) >= 6
        relayed.faults.clear()
        relayed.client.say(request(3, "ping", _meta=MODERN))
        second = relayed.gateway()
        assert [second.hear()["id"] for _ in range(2)] == ["s", 3]


def test_a_process_that_has_to_serve_alone_ends_so_that_the_client_starts_it_again() -> None:
    """Only from its beginning can it be the gateway itself."""
    with rig() as relayed:
        first = relayed.gateway()
        relayed.faults[:] = [AloneError("start the client again")]
        relayed.client.say(request(1, "ping"))
        first.hear()
        first.close()
        assert relayed.client.hear()["error"]["message"] == "start the client again"
        assert relayed.ended.wait(SOON_S)
        assert relayed.codes == [1]


def test_a_gateway_that_hangs_is_ended_and_its_calls_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """One from which nobody waits for anything is left in peace meanwhile."""
    hangs = threading.Event()
    ends: list[GatewayConnection] = []

    def end(talk: GatewayConnection) -> None:
        ends.append(talk)
        hangs.clear()

    monkeypatch.setattr("maitred.surfaces.daemon.client_relay._QUIET_S", 0.01)
    monkeypatch.setattr("maitred.surfaces.daemon.client_relay.answers", lambda _: not hangs.is_set())
    monkeypatch.setattr("maitred.surfaces.daemon.client_relay.end_gateway", end)
    with rig() as relayed:
        first = relayed.gateway()
        shake_hands(relayed.client, first)
        hangs.set()
        relayed.client.say(call(1, "call_tool"))
        assert relayed.client.hear()["result"]["content"][0]["text"] == LOST
        assert len(ends) == 1
        assert relayed.gateway().hear()["method"] == "initialize"
