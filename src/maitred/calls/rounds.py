"""The caller's side of a request to a server: questions are recorded, and rounds are driven for a client.

A server of the stateless era does not ask. It answers `input_required`, and the request is made again with
the answers. A client that takes no such answer gets the questions as requests, and the final answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from maitred.backends.base import Caller
from maitred.backends.forwarding_caller import ForwardingCaller
from maitred.errors import CallerRefusedError, ProtocolError
from maitred.model.access import Viewer
from maitred.model.sharing import Sharer, sharer_of

MOST_ROUNDS: Final = 10
MOST_QUESTIONS: Final = 64
"""The questions of one round."""
_INTERNAL_ERROR: Final = -32603
_NOT_MCP: Final = "it asked for input in a form that is not MCP"

Again = Callable[[Mapping[str, Any], str | None], Awaitable[dict[str, Any]]]
"""Makes a request again with `inputResponses` and `requestState`."""


class RecordedCaller(ForwardingCaller):
    """A caller, with a function that gets the method of each question."""

    def __init__(self, caller: Caller, asked: Callable[[str], None]) -> None:
        super().__init__(caller)
        self._asked = asked

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Record and ask; see `Caller`."""
        self._asked(method)
        return await super().ask(method, params)


class ViewerCaller(ForwardingCaller):
    """The caller of a viewer's call. The viewer says whose client it is, also of one that answers nothing."""

    def __init__(self, caller: Caller, viewer: Viewer) -> None:
        super().__init__(caller)
        self._viewer = viewer

    @property
    def principal(self) -> str:
        """The principal of the viewer; see `Caller`."""
        return self._viewer.principal

    @property
    def sharer(self) -> Sharer:
        """The client of the viewer; see `Caller`."""
        return sharer_of(self._viewer)


async def finish_rounds(server: str, result: dict[str, Any], caller: Caller, again: Again) -> dict[str, Any]:
    """The final answer of a request, after as many rounds of questions as the caller has to be asked.

    Raises:
        CallerRefusedError: The caller cannot answer, or answered with an error.
        ProtocolError: The questions are malformed or too many, or there are more than ten rounds of them.
    """
    if caller.takes_rounds:
        return result
    for _ in range(MOST_ROUNDS):
        if result.get("resultType") != "input_required":
            return result
        asked, state = result.get("inputRequests") or {}, result.get("requestState")
        if not isinstance(asked, Mapping):
            raise ProtocolError(server, _INTERNAL_ERROR, _NOT_MCP)
        if len(asked) > MOST_QUESTIONS:
            why = f"it asked {len(asked):,} questions at once; at most {MOST_QUESTIONS} are passed on"
            raise ProtocolError(server, _INTERNAL_ERROR, why)
        responses = {name: await _answer(server, one, caller) for name, one in asked.items()}
        result = await again(responses, state if isinstance(state, str) else None)
    if result.get("resultType") != "input_required":
        return result
    raise ProtocolError(server, _INTERNAL_ERROR, f"it asked for input more than {MOST_ROUNDS} times")


async def _answer(server: str, asked: Any, caller: Caller) -> dict[str, Any]:
    method = asked.get("method") if isinstance(asked, Mapping) else None
    params = asked.get("params") if isinstance(asked, Mapping) else None
    if not isinstance(method, str) or not (params is None or isinstance(params, Mapping)):
        raise ProtocolError(server, _INTERNAL_ERROR, _NOT_MCP)
    try:
        return await caller.ask(method, params or {})
    except CallerRefusedError as error:
        raise CallerRefusedError(error.rpc_code, error.message, error.data, server=server) from error
