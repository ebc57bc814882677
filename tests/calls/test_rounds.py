"""Rounds of questions of a stateless server to a client that takes requests."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.callers import Answering

from maitred.calls.rounds import MOST_QUESTIONS, finish_rounds
from maitred.errors import ProtocolError
from maitred.model.asking import LIST_ROOTS

pytestmark = pytest.mark.anyio


async def _again(responses: Mapping[str, Any], state: str | None) -> dict[str, Any]:
    return {"content": [], "answers": len(responses), "state": state}


def _asks(number: int) -> dict[str, Any]:
    questions = {str(one): {"method": LIST_ROOTS} for one in range(number)}
    return {"resultType": "input_required", "inputRequests": questions, "requestState": "s"}


async def test_a_server_that_asks_too_much_at_once_gets_no_answer() -> None:
    """Or one answer of it could keep a person busy for ever."""
    caller = Answering({LIST_ROOTS: {"roots": []}})
    result = await finish_rounds("s", _asks(MOST_QUESTIONS), caller, _again)
    assert result == {"content": [], "answers": MOST_QUESTIONS, "state": "s"}

    caller = Answering({LIST_ROOTS: {"roots": []}})
    with pytest.raises(ProtocolError, match="65 questions at once"):
        await finish_rounds("s", _asks(MOST_QUESTIONS + 1), caller, _again)
    assert caller.asked == []
