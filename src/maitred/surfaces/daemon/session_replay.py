"""The part of a client's session that has to be sent to the next gateway if the present one ends.

It follows the messages both ways. It stores the requests that wait for an answer, also those of the gateway,
the client's handshake and its subscriptions. Lines pass unchanged; of most lines from the gateway, only the
beginning is parsed.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

Id = str | int

_LISTEN: Final = "subscriptions/listen"
_SAFE: Final = frozenset(
    [
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        _LISTEN,
    ]
)

LOST: Final = (
    "The background gateway of maitred ended while this was under way; it may or may not have been carried"
    " out. Look at what it would have changed before you try again."
)
_CONNECTION_CLOSED: Final = -32000
_MOST_TRIES: Final = 3
_MODERN: Final = "io.modelcontextprotocol/protocolVersion"
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_OURS: Final = "maitred-again-"
_ANSWER: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d{1,40}|"[^"\\]*"),"(result|error)":')
_NOTICE: Final = b'{"jsonrpc":"2.0","method":'
_LISTS: Final = ("tools", "resources", "prompts")


class PendingRequest(NamedTuple):
    """A request that waits for its answer.

    `tool` is the tool it calls, `uri` the resource it subscribes to, and `tries` is how often it was sent.
    `unsent`: no gateway has read it.
    """

    line: bytes
    method: str
    is_modern: bool
    tool: str = ""
    uri: str = ""
    tries: int = 1
    unsent: bool = False


class Replay:
    """The state of one client's connection, to be sent to another gateway."""

    def __init__(self) -> None:
        self._waiting: dict[Id, PendingRequest] = {}
        self._opening: bytes = b""
        self._initialized: bytes = b""
        self._level: bytes = b""
        self._subscribed: dict[str, bytes] = {}
        self._again = 0
        self._swallowed: set[Id] = set()
        self._reopened: set[Id] = set()
        self._questions: set[Id] = set()

    @property
    def is_pressing(self) -> bool:
        """Whether the client waits for an answer that another gateway can give now."""
        return any(one.method != _LISTEN for one in self._waiting.values())

    @property
    def awaits_answers(self) -> bool:
        """Whether the client waits for an answer that it can get without another word of its own."""
        return self.is_pressing and not self._questions

    @property
    def waiting(self) -> int:
        """How many requests wait for an answer."""
        return len(self._waiting)

    # --- what the client says -----------------------------------------------------------------------------

    def sent(self, line: bytes) -> Id | None:
        """Record a line from the client; returns the id if it is a request that will be answered."""
        message = _parsed(line)
        method, number = message.get("method"), message.get("id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            if isinstance(number, str | int):
                self._questions.discard(number)
            return None
        if "id" not in message:
            self._noticed(method, params, line)
            return None
        if not isinstance(number, str | int) or isinstance(number, bool):
            return None
        meta, uri = params.get("_meta"), params.get("uri")
        tool = params.get("name") if method == "tools/call" else None
        self._waiting[number] = PendingRequest(
            line,
            method,
            is_modern=isinstance(meta, dict) and _MODERN in meta,
            tool=tool if isinstance(tool, str) else "",
            uri=uri if isinstance(uri, str) else "",
        )
        self._requested(method, line, self._waiting[number].uri)
        return number

    def _requested(self, method: str, line: bytes, uri: str) -> None:
        if method == "initialize":
            self._opening = line
        elif method == "logging/setLevel":
            self._level = line
        elif method == "resources/subscribe":
            self._subscribed[uri] = line
        elif method == "resources/unsubscribe":
            self._subscribed.pop(uri, None)

    def _noticed(self, method: str, params: Mapping[str, Any], line: bytes) -> None:
        number = params.get("requestId")
        if method == "notifications/cancelled" and isinstance(number, str | int):
            self._waiting.pop(number, None)
            self._reopened.discard(number)
        elif method == "notifications/initialized":
            self._initialized = line

    def unsent(self, number: Id) -> None:
        """Record that a request has certainly not reached the gateway."""
        if (one := self._waiting.get(number)) is not None:
            self._waiting[number] = one._replace(unsent=True)

    # --- what the gateway says ----------------------------------------------------------------------------

    def received(self, line: bytes) -> bytes:
        """Record a line from the gateway; returns the bytes for the client, mostly the same line."""
        if (answer := _ANSWER.match(line)) is not None:
            return self._answered(json.loads(answer[1]), line, failed=answer[2] == b"error")
        if line.startswith(_NOTICE):
            return self._news(line) if self._reopened else line
        message = _parsed(line)
        number = message.get("id")
        if not isinstance(number, str | int):
            return line
        if "method" in message:
            self._questions.add(number)
            return line
        return self._answered(number, line, failed="error" in message)

    def _answered(self, number: Id, line: bytes, *, failed: bool) -> bytes:
        if number in self._swallowed:
            self._swallowed.discard(number)
            return b""
        one = self._waiting.pop(number, None)
        self._reopened.discard(number)
        if failed and one is not None:
            if one.method == "initialize":
                self._opening = b""
            elif one.method == "resources/subscribe":
                self._subscribed.pop(one.uri, None)
        return line

    def _news(self, line: bytes) -> bytes:
        """Replace the acknowledgement of a reopened stream with changes that the client may have missed."""
        message = _parsed(line)
        if message.get("method") != _ACKNOWLEDGED:
            return line
        params = message["params"]
        number = params["_meta"][_SUBSCRIPTION]
        if number not in self._reopened:
            return line
        self._reopened.discard(number)
        if (one := self._waiting.get(number)) is not None:  # this request does not end gateways
            self._waiting[number] = one._replace(tries=1)
        meta, honored = {_SUBSCRIPTION: number}, params.get("notifications", {})
        kinds = [kind for kind in _LISTS if honored.get(f"{kind}ListChanged")]
        return b"".join(_changes(kinds, honored.get("resourceSubscriptions") or (), meta))

    # --- when the gateway has ended -----------------------------------------------------------------------

    def lost(self, safe_tools: Collection[str]) -> Iterator[bytes]:
        """Answers to the requests that cannot be sent again; they wait no more. Questions are withdrawn.

        `safe_tools` are the tools of the gateway that change nothing, whatever their arguments are.
        """
        self._swallowed.clear()
        for number in self._questions:
            params = {"requestId": number, "reason": "the gateway that asked has ended"}
            yield _line({"method": "notifications/cancelled", "params": params})
        self._questions.clear()
        for number, one in list(self._waiting.items()):
            is_safe = one.method in _SAFE or one.tool in safe_tools
            if not (is_safe or one.unsent) or one.tries >= _MOST_TRIES:
                del self._waiting[number]
                yield _refused(number, one, LOST)

    def failed(self, why: str, *, all_of_them: bool = False) -> Iterator[bytes]:
        """Answers to the requests that cannot be carried out, because there is no other gateway now.

        Open streams of changes are kept for a later gateway, unless `all_of_them` says that there will be
        none.
        """
        for number, one in list(self._waiting.items()):
            if all_of_them or one.unsent or one.method != _LISTEN:
                self._answered(number, b"", failed=True)
                yield _refused(number, one, why)

    def again(self) -> Iterator[tuple[Id | None, bytes]]:
        """The lines for the next gateway in order, each with the request's id if it is the client's own.

        If the client's handshake already has an answer, the new answer is not passed on to the client.
        """
        waiting = {one.line for one in self._waiting.values()}
        if self._opening and self._opening not in waiting:
            yield None, self._renumbered(self._opening)
        if self._initialized and self._opening:
            yield None, self._initialized
        for line in (self._level, *self._subscribed.values()):
            if line and line not in waiting:
                yield None, self._renumbered(line)
        for number, one in self._waiting.items():
            self._waiting[number] = one._replace(tries=one.tries + (not one.unsent), unsent=False)
            if one.method == _LISTEN and not one.unsent:
                self._reopened.add(number)
            yield number, one.line

    def news(self) -> Iterator[bytes]:
        """Notices for a client of the handshake era about everything that may have changed meanwhile."""
        if self._initialized:
            yield from _changes(_LISTS, self._subscribed, {})

    def _renumbered(self, line: bytes) -> bytes:
        """The same request under an id of ours, whose answer is not passed on."""
        self._again += 1
        number = f"{_OURS}{self._again}"
        self._swallowed.add(number)
        return json.dumps({**_parsed(line), "id": number}).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    """The message of a line; empty if it has none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return {}
    return message if isinstance(message, dict) else {}


def _refused(number: Id, one: PendingRequest, why: str) -> bytes:
    """The answer with the reason for the failure; for a call it is a result, so that the model reads it."""
    if one.method != "tools/call":
        return _line({"id": number, "error": {"code": _CONNECTION_CLOSED, "message": why}})
    result: dict[str, Any] = {"content": [{"type": "text", "text": why}], "isError": True}
    if one.is_modern:
        result["resultType"] = "complete"
    return _line({"id": number, "result": result})


def _changes(kinds: Any, uris: Any, meta: Mapping[str, Any]) -> Iterator[bytes]:
    stamp = {"_meta": dict(meta)} if meta else {}
    for kind in kinds:
        yield _line({"method": f"notifications/{kind}/list_changed"} | ({"params": stamp} if stamp else {}))
    for uri in uris:
        yield _line({"method": "notifications/resources/updated", "params": {"uri": uri, **stamp}})


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
