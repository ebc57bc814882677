"""What a client must have declared so that a server may ask it."""

from typing import Any

import pytest

from maitred.errors import CallerRefusedError
from maitred.model.asking import ELICIT, LIST_ROOTS, SAMPLE, check_askable

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
URL = {"mode": "url", "message": "Log in", "url": "https://example.org", "elicitationId": "1"}
PROMPT = {"messages": [], "maxTokens": 5}


@pytest.mark.parametrize(
    ("method", "params", "capabilities"),
    [
        (ELICIT, FORM, {"elicitation": {}}),
        (ELICIT, {**FORM, "mode": "form"}, {"elicitation": {"form": {}}}),
        (ELICIT, URL, {"elicitation": {"url": {}}}),
        (SAMPLE, PROMPT, {"sampling": {}}),
        (SAMPLE, {**PROMPT, "tools": []}, {"sampling": {"tools": {}}}),
        (LIST_ROOTS, {}, {"roots": {}}),
    ],
)
def test_a_client_may_be_asked_what_it_declared(
    method: str, params: dict[str, Any], capabilities: dict[str, Any]
) -> None:
    """An empty `elicitation` means forms alone. Source: specification 2025-11-25, Elicitation."""
    check_askable(method, params, capabilities)


@pytest.mark.parametrize(
    ("method", "params", "capabilities", "code", "text"),
    [
        (ELICIT, FORM, {}, -32601, "'elicitation'"),
        (ELICIT, FORM, {"elicitation": {"url": {}}}, -32602, "'elicitation.form'"),
        (ELICIT, URL, {"elicitation": {}}, -32602, "'elicitation.url'"),
        (SAMPLE, PROMPT, {"roots": {}}, -32601, "'sampling'"),
        (SAMPLE, {**PROMPT, "toolChoice": {}}, {"sampling": {}}, -32602, "'sampling.tools'"),
        (LIST_ROOTS, {}, {"roots": None}, -32601, "'roots'"),
        ("tools/call", {}, {"tools": {}}, -32601, "'tools/call'"),
    ],
)
def test_a_client_is_not_asked_what_it_did_not_declare(
    method: str, params: dict[str, Any], capabilities: dict[str, Any], code: int, text: str
) -> None:
    """The server gets the error with which the protocol refuses: no method, or no such mode of it."""
    with pytest.raises(CallerRefusedError, match=text) as caught:
        check_askable(method, params, capabilities)
    assert caught.value.rpc_code == code
