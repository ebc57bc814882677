"""The form in which errors leave: one status for each kind, and bytes that every client can read."""

import json

import pytest

from maitred import errors
from maitred.errors import (
    ArgumentsError,
    CallTimeoutError,
    ConnectionLostError,
    CursorError,
    MaitredError,
    ProtocolError,
    ServerUnavailableError,
    StoreError,
    ToolNotFoundError,
    ToolWithheldError,
)
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.errors import refusal_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ToolNotFoundError("x", nearest=["y"]), 404),
        (ToolWithheldError("x", "why"), 409),
        (ArgumentsError("x", ["a: is missing"]), 422),
        (CursorError("x"), 400),
        (ServerUnavailableError("s", "why"), 503),
        (CallTimeoutError("s", "tools/call", 1), 504),
        (ConnectionLostError("s", "why"), 502),
        (ProtocolError("s", -32603, "why"), 502),
        (StoreError("c.db", "full"), 503),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MaitredError) else str(value),
)
def test_each_error_has_the_status_that_fits_it(error: MaitredError, status: int) -> None:
    """The code and the text are the error's own."""
    answer = refusal_of(error)

    assert answer.status_code == status
    assert json.loads(bytes(answer.body)) | {"error": error.code, "message": str(error)} == json.loads(
        bytes(answer.body)
    )


def test_every_error_that_maitred_raises_has_a_status() -> None:
    """One that is added later does not end in a traceback."""
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MaitredError)
    ]
    for kind in kinds:
        assert 400 <= refusal_of(kind.__new__(kind)).status_code <= 504


def test_a_server_that_is_tried_again_says_when() -> None:
    """As HTTP clients understand it."""
    answer = refusal_of(ServerUnavailableError("s", "it failed", retry_in_s=11.2))

    assert answer.headers["Retry-After"] == "12"


@pytest.mark.parametrize(
    "odd", ["half \ud83d", {"\udc00": 1}, [float("nan")], ["\ud83d", float("inf")]], ids=repr
)
def test_what_json_cannot_say_does_not_make_an_answer_unreadable(odd: object) -> None:
    """Halves of characters and numbers that are none come from servers, and must not stop the rest."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    encoded = encode({"text": "fine", "odd": odd})

    assert json.loads(encoded.decode(), parse_constant=refuse)["text"] == "fine"
