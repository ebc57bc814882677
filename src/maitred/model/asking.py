"""What a server may ask the caller of a request, and what a client must have declared so that it can answer.

The three requests are the same in both eras; the stateless era carries them in an answer (`input_required`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from maitred.errors import CallerRefusedError

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
LIST_ROOTS: Final = "roots/list"
ELICITED: Final = "notifications/elicitation/complete"

_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602

Params = Mapping[str, Any]


def _elicitation(params: Params) -> str:
    return "elicitation.url" if params.get("mode") == "url" else "elicitation.form"


def _sampling(params: Params) -> str:
    return "sampling.tools" if "tools" in params or "toolChoice" in params else "sampling"


_NEEDED: Final[Mapping[str, Callable[[Params], str]]] = {
    ELICIT: _elicitation,
    SAMPLE: _sampling,
    LIST_ROOTS: lambda _: "roots",
}
"""The capability that a client needs for a request, by its method."""

ASKING: Final = frozenset(_NEEDED)
"""The methods of the requests that a server may send to the caller of a request."""


def names_question(text: str, capabilities: Mapping[str, Any]) -> bool:
    """Whether a text names a request of a server that a client with these capabilities can answer.

    An error with such a text says that the server could not send the request.
    """
    return any(
        method in text and needs({}).partition(".")[0] in capabilities for method, needs in _NEEDED.items()
    )


def check_askable(method: str, params: Params, capabilities: Mapping[str, Any]) -> None:
    """Check that a client with these capabilities can answer a request of a server.

    Raises:
        CallerRefusedError: It cannot; the error is the one with which the protocol refuses.
    """
    needs = _NEEDED.get(method)
    if needs is None:
        raise CallerRefusedError(_METHOD_NOT_FOUND, f"a client does not answer {method!r}")
    path = needs(params)
    feature, _, part = path.partition(".")
    declared = capabilities.get(feature)
    if not isinstance(declared, Mapping):
        raise CallerRefusedError(
            _METHOD_NOT_FOUND, f"the client did not declare {feature!r}, so {method} is refused"
        )
    if part in declared or not part or (part == "form" and not declared):
        return
    raise CallerRefusedError(_INVALID_PARAMS, f"the client did not declare {path!r}, so {method} is refused")
