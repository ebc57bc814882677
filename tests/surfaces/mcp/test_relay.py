"""What passes between client and server, shaped for the client's era and otherwise left alone."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maitred.surfaces.mcp.result_shape import for_handshake, for_stateless, read_call, without_owned

INFO_KEY = "io.modelcontextprotocol/serverInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
TEXT = {"type": "text", "text": "hello"}
OURS = {"name": "maitred", "version": "1"}


def test_content_structure_and_unknown_fields_pass_as_they_are() -> None:
    """Compared by identity where nothing may touch it. Source: issue "Foundation", MCP surface."""
    content, structured = [TEXT, {"type": "odd", "x": 1}], {"a": [1, 2]}
    result = {"content": content, "structuredContent": structured, "isError": True, "novel": 5}

    for out in (for_handshake(result), for_stateless(result, OURS)):
        assert out["content"] is content
        assert out["structuredContent"] is structured
        assert (out["isError"], out["novel"]) == (True, 5)
    assert set(result) == {"content", "structuredContent", "isError", "novel"}


def test_meta_passes_but_for_what_belongs_to_a_connection() -> None:
    """The server's own name and a progress token mean nothing on another connection."""
    result = {"content": [], "_meta": {"mine": 1, INFO_KEY: {"name": "upstream"}, "progressToken": 3}}

    assert for_handshake(result)["_meta"] == {"mine": 1}
    assert for_stateless(result, OURS)["_meta"] == {"mine": 1, INFO_KEY: OURS}
    assert "_meta" not in for_handshake({"content": [], "_meta": {INFO_KEY: {}}})


def test_a_stateless_result_says_what_kind_it_is() -> None:
    """`resultType` is required from 2026-07-28 on; what the server said of it stands."""
    asked = {"resultType": "input_required", "inputRequests": {"q": {}}, "requestState": "s"}

    assert for_stateless({"content": []}, OURS)["resultType"] == "complete"
    out = for_stateless(asked, OURS)
    assert {key: out[key] for key in asked} == asked
    assert "content" not in out


def test_a_handshake_client_learns_that_input_was_asked_for_and_nothing_done() -> None:
    """It has no way to answer, so it gets an error that a model understands."""
    out = for_handshake({"resultType": "input_required", "inputRequests": {"q": {}}})

    assert out["isError"] is True
    assert "not carried out" in out["content"][0]["text"]
    assert "resultType" not in out


def test_structure_that_is_no_object_reaches_a_handshake_client_as_text() -> None:
    """Only objects are allowed before 2026-07-28; nothing of the answer is lost."""
    out = for_handshake({"content": [], "structuredContent": [1, "ü"]})

    assert out == {"content": [{"type": "text", "text": '[1, "ü"]'}]}
    assert for_stateless({"content": [], "structuredContent": [1]}, OURS)["structuredContent"] == [1]


@pytest.mark.parametrize("content", [5, "text", [5], [{"text": "no type"}], {"a": 1}])
def test_content_that_is_none_is_shown_as_text(content: Any) -> None:
    """A client would refuse the whole result; an agent can still read what came."""
    [shown] = for_handshake({"content": content})["content"]

    assert shown["type"] == "text"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    | st.sampled_from(["complete", "input_required", "task"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3) | st.just("type"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
fields = st.sampled_from(["content", "structuredContent", "isError", "resultType", "_meta", "other"])


@example({"resultType": "task"})
@example({"resultType": "task", "isError": True, "content": []})
@given(st.dictionaries(fields, json_values))
def test_no_result_of_a_server_breaks_the_relay(result: dict[str, Any]) -> None:
    """Whatever a server answers, a handshake client gets content and no structure that it must refuse."""
    for_stateless(result, OURS)
    out = for_handshake(result)

    assert isinstance(out["content"], list)
    assert isinstance(out.get("structuredContent"), dict | None)


def test_a_call_carries_what_is_the_callers_and_not_what_is_the_connections() -> None:
    """The caller's `_meta`, its answers to questions and its state go on; the envelope does not."""
    call = read_call(
        "t",
        {
            "arguments": {"a": 1},
            "_meta": {
                "mine": 1,
                VERSION_KEY: "2026-07-28",
                CAPABILITIES_KEY: {"sampling": {}},
                "progressToken": 1,
            },
            "inputResponses": {"q": {}},
            "requestState": "s",
        },
    )

    assert (call.name, call.arguments, call.meta) == ("t", {"a": 1}, {"mine": 1})
    assert (call.input_responses, call.request_state) == ({"q": {}}, "s")
    assert call.client_capabilities == {"sampling": {}}


@pytest.mark.parametrize("meta", [None, 5, []])
def test_meta_that_is_no_object_is_no_meta(meta: Any) -> None:
    """A malformed `_meta` does not end a call."""
    assert without_owned(meta) == {}
    assert read_call("t", {"_meta": meta, "inputResponses": 5, "requestState": 5}).meta == {}
