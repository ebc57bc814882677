"""Sessions of the handshake era that any of several gateways can serve.

A session has a signed id and a stub of at most 1 KB in the shared state, from which another process makes the
session again. The id names the process that opened it, a digest of its principal and the time. So a forged
id, or that of another principal, is refused without a look at the store. Messages about sessions go from
process to process: that one has ended or has changed, or what a client has to hear or has said.
"""

import base64
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal
from weakref import WeakMethod

import structlog

from maitred.errors import StoreError
from maitred.storage.shared_state import MOST_MESSAGE_BYTES, SharedState

log = structlog.get_logger(__name__)

MOST_STUB_BYTES: Final = 1_024
MOST_LISTED_BYTES: Final = 256 * 1_024
"""Of the addresses of resources that a session is subscribed to; other processes know no more."""
_VERSION: Final = "1"
_MAC_BYTES: Final = 18
_DIGEST_BYTES: Final = 9
_TRIES: Final = 8
_LONG_MESSAGE_S: Final = 60.0
_CLIENT_CHARACTERS: Final = 100
_CAPABILITY_BYTES: Final = 480
_KNOWN: Final = ("elicitation", "roots", "sampling", "tasks")

Kind = Literal["ended", "changed", "listening", "send", "notice"]
"""What a message says of a session: it has ended; its stub differs; its client listens at the sender; the
client has to get a message; it has sent a notification."""
Handler = Callable[[Kind, str, str, Any], None]
"""Gets the kind of a message, the process that sent it, the id of the session, and what it says."""


@dataclass(frozen=True, kw_only=True)
class SessionStub:
    """What makes a session again.

    Attributes:
        client: What the client said in its handshake: `clientInfo` and `capabilities`, as on the wire.
        revision: The protocol revision.
        generation: The generation of the catalog when the session was opened.
        initialized: Whether the client has finished its handshake.
        log_level: The level of log messages that the client set; empty for none.
        resources: The addresses of the resources that it is subscribed to.
    """

    client: Mapping[str, Any]
    revision: str
    generation: int
    initialized: bool = False
    log_level: str = ""
    resources: tuple[str, ...] = field(default=())

    def to_bytes(self) -> bytes:
        """The stub without its resources, within its limit."""
        body = {
            "c": self.client,
            "r": self.revision,
            "g": self.generation,
            "i": int(self.initialized),
            "l": self.log_level,
        }
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")

    @staticmethod
    def from_bytes(data: bytes, resources: Sequence[str]) -> "SessionStub":
        """The stub of what `to_bytes` made, and its resources."""
        body = json.loads(data)
        return SessionStub(
            client=body["c"],
            revision=body["r"],
            generation=body["g"],
            initialized=bool(body["i"]),
            log_level=body["l"],
            resources=tuple(resources),
        )


def client_in_short(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a client says of itself, short enough for a stub: names, and what it can answer."""
    own = {key: str(info.get(key, ""))[:_CLIENT_CHARACTERS] for key in ("name", "version")}
    if len(json.dumps(capabilities)) > _CAPABILITY_BYTES:
        capabilities = {key: _flags(capabilities[key]) for key in _KNOWN if key in capabilities}
    if len(json.dumps(capabilities)) > _CAPABILITY_BYTES:
        capabilities = {key: {} for key in capabilities}
    return {"clientInfo": own, "capabilities": capabilities}


def _flags(value: Any, depth: int = 2) -> Any:
    """The parts of a capability that are flags, such as `{"listChanged": true}`."""
    if isinstance(value, bool):
        return value
    parts = value.items() if isinstance(value, Mapping) and depth else ()
    return {key[:40]: _flags(part, depth - 1) for key, part in [*parts][:10]}


class SessionStubs:
    """The stubs of all processes; `key` signs ids, and is the same in all processes."""

    def __init__(self, state: SharedState, key: Callable[[], bytes], *, replica: str) -> None:
        self._state = state
        self._key = key
        self.replica = replica
        """The name of this process."""
        self._handler: WeakMethod[Handler] | None = None
        self._on_loss: WeakMethod[Callable[[], None]] | None = None
        state.listen(self._heard, self._lost)

    @property
    def is_live(self) -> bool:
        """Whether messages of other processes arrive now."""
        return self._state.is_live

    # --- ids ----------------------------------------------------------------------------------------------

    def new_id(self, principal: str | None) -> str:
        """The id of a new session of a principal, in characters that fit into a header."""
        parts = [_VERSION, self.replica, _digest(principal), f"{int(time.time()):x}", secrets.token_hex(8)]
        body = ".".join(parts)
        return f"{body}.{self._signature(body)}"

    def is_of(self, session_id: str, principal: str | None) -> bool:
        """Whether a gateway with the same key made this id for this principal."""
        body, _, signature = session_id.rpartition(".")
        parts = body.split(".")
        if len(parts) != 5 or parts[0] != _VERSION or not session_id.isascii():  # noqa: PLR2004  # see `new_id`
            return False
        is_signed = hmac.compare_digest(signature, self._signature(body))
        return is_signed and hmac.compare_digest(parts[2], _digest(principal))

    def sign(self, purpose: str, data: bytes) -> str:
        """A signature that all gateways make of the same data."""
        return _text(hmac.digest(self._key(), purpose.encode() + b"\n" + data, "sha256"))

    def _signature(self, body: str) -> str:
        return _text(hmac.digest(self._key(), b"session\n" + body.encode(), "sha256")[:_MAC_BYTES])

    # --- stubs --------------------------------------------------------------------------------------------

    async def read(self, session_id: str) -> SessionStub | None:
        """The stub of a session; `None` if it has ended.

        Raises:
            StoreError: The store cannot be reached.
        """
        data = await self._state.get(f"session:{session_id}")
        if data is None:
            return None
        listed = await self._state.get(f"resources:{session_id}")
        return SessionStub.from_bytes(data, json.loads(listed) if listed else ())

    async def write(self, session_id: str, stub: SessionStub, ttl_s: float) -> None:
        """Write the whole stub of a session.

        Raises:
            StoreError: The store cannot be reached.
        """
        if stub.resources:
            await self._state.put(f"resources:{session_id}", _listed(stub.resources), ttl_s)
        await self._state.put(f"session:{session_id}", stub.to_bytes(), ttl_s)

    async def change(self, session_id: str, ttl_s: float, **changes: Any) -> None:
        """Change fields of a stub, and have the other processes hear of it; one that has ended stays so.

        Raises:
            StoreError: The store cannot be reached.
        """
        key = f"session:{session_id}"
        for _ in range(_TRIES):
            before = await self._state.get(key)
            if before is None:
                return
            after = replace(SessionStub.from_bytes(before, ()), **changes).to_bytes()
            if await self._state.swap(key, before, after, ttl_s):
                break
        await self.send("changed", session_id)

    async def subscribe(self, session_id: str, uri: str, ttl_s: float, *, ends: bool = False) -> None:
        """Note that a session is subscribed to a resource, or with `ends` that it is no more.

        Raises:
            StoreError: The store cannot be reached.
        """
        key = f"resources:{session_id}"
        for _ in range(_TRIES):
            before = await self._state.get(key)
            uris = [one for one in (json.loads(before) if before else []) if one != uri]
            after = _listed(uris if ends else [*uris, uri])
            if after == before or await self._state.swap(key, before, after, ttl_s):
                break
        await self.send("changed", session_id)

    async def touch(self, session_id: str, ttl_s: float) -> bool:
        """Let a stub expire later; false if the session has ended.

        Raises:
            StoreError: The store cannot be reached.
        """
        await self._state.touch(f"resources:{session_id}", ttl_s)
        return await self._state.touch(f"session:{session_id}", ttl_s)

    async def end(self, session_id: str) -> None:
        """End a session in all processes.

        Raises:
            StoreError: The store cannot be reached, so it has not ended.
        """
        await self._state.delete(f"session:{session_id}")
        await self._state.delete(f"resources:{session_id}")
        await self.send("ended", session_id)

    # --- messages -----------------------------------------------------------------------------------------

    def follow(self, handler: Handler, on_loss: Callable[[], None]) -> None:
        """Call a method with each message of another process, and one when some may have been lost."""
        self._handler, self._on_loss = WeakMethod(handler), WeakMethod(on_loss)

    async def send(self, kind: Kind, session_id: str, body: Any = None) -> None:
        """Send a message to the other processes.

        Raises:
            StoreError: The store cannot be reached.
        """
        text = json.dumps(["session", self.replica, kind, session_id, body])
        if len(text) > MOST_MESSAGE_BYTES:
            key = f"message:{secrets.token_hex(12)}"
            await self._state.put(key, text.encode(), _LONG_MESSAGE_S)
            text = json.dumps(["session", self.replica, kind, session_id, {"at": key}])
        await self._state.publish(text)

    async def long_body(self, body: Any) -> Any:
        """What a message says, also if it was too long for the message itself; `None` if it is lost.

        Raises:
            StoreError: The store cannot be reached.
        """
        if not (isinstance(body, Mapping) and isinstance(body.get("at"), str)):
            return body
        text = await self._state.get(body["at"])
        return json.loads(text)[4] if text is not None else None

    def _heard(self, message: str) -> None:
        handler = self._handler() if self._handler else None
        if handler is None or not message.startswith('["session"'):
            return
        _, sender, kind, session_id, body = json.loads(message)
        if sender != self.replica:
            handler(kind, sender, session_id, body)

    def _lost(self) -> None:
        if self._on_loss is not None and (on_loss := self._on_loss()) is not None:
            on_loss()

    async def send_if_reachable(self, kind: Kind, session_id: str, body: Any = None) -> None:
        """The same as `send`; if the store is away, the message is lost, which is logged."""
        try:
            await self.send(kind, session_id, body)
        except StoreError as error:
            log.warning("a message about a session was not sent", kind=kind, reason=error.reason)


def _listed(uris: Sequence[str]) -> bytes:
    text = json.dumps(uris)
    while len(text) > MOST_LISTED_BYTES:
        uris = uris[: len(uris) // 2]
        text = json.dumps(uris)
    return text.encode()


def _digest(principal: str | None) -> str:
    return _text(sha256(json.dumps(principal).encode()).digest()[:_DIGEST_BYTES])


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
