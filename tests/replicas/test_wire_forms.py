"""Viewers and errors are on another replica what they were on the first."""

import json

import pytest

from maitred.errors import (
    BusyError,
    CallerRefusedError,
    ConnectionLostError,
    MaitredError,
    ProtocolError,
    ReplicaError,
    ServerUnavailableError,
)
from maitred.model.access import LOCAL_USER, ClientStart, Grant, Scope, ScopePart, Viewer
from maitred.replicas.wire_forms import error_from_wire, error_to_wire, viewer_from_wire, viewer_to_wire

PART = ScopePart(group="g", role="agent", scope=Scope(categories=frozenset({"files", ""}), read_only=True))
ANN = Viewer(
    grant=Grant(
        principal="ann",
        role="admin",
        id="t1",
        groups=("g",),
        scope=Scope(servers=frozenset({"s"}), parts=(PART,)),
    ),
    connection="c1",
    client="x",
    era="handshake",
    surface="mcp",
    start=ClientStart(client="k", folder="/a"),
    version="1",
)


@pytest.mark.parametrize("viewer", [LOCAL_USER, ANN])
def test_a_viewer_keeps_all_its_limits(viewer: Viewer) -> None:
    assert viewer_from_wire(json.loads(json.dumps(viewer_to_wire(viewer)))) == viewer


@pytest.mark.parametrize(
    "error",
    [
        ServerUnavailableError("s", "it is away", retry_in_s=2.5),
        ConnectionLostError("s", "it ended", unread=True),
        ProtocolError("s", -32_000, "no", {"a": [1]}),
        CallerRefusedError(-1, "no", None, server="s"),
        BusyError("too much", retry_in_s=1),
    ],
)
def test_an_error_keeps_its_class_text_and_facts(error: MaitredError) -> None:
    same = error_from_wire("r", json.loads(json.dumps(error_to_wire(error))))
    assert type(same) is type(error)
    assert str(same) == str(error)
    assert vars(same) == vars(error)


def test_nothing_but_errors_of_the_gateway_is_made() -> None:
    error = error_from_wire("r", {"kind": "SystemExit", "text": "boom", "fields": {}})
    assert type(error) is ReplicaError
    assert "boom" in str(error)
