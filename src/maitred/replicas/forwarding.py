"""Requests from one replica to another, over the internal HTTP endpoint.

A request has a kind, a viewer who acts, and a body in JSON. All of it is signed, and the answer is JSON, too.
Who gives up a request closes its connection, and the other replica cancels what it does for it.
"""

import json
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import anyio
import structlog

from maitred.background import Background
from maitred.errors import MaitredError, ReplicaError, ReplicaGoneError, StoreError
from maitred.model.access import Viewer
from maitred.model.replicas import LiveReplica
from maitred.replicas.internal_token import InternalClaims, InternalTokenError, InternalTokens
from maitred.replicas.membership import Membership
from maitred.replicas.wire_forms import error_from_wire, error_to_wire, viewer_from_wire, viewer_to_wire
from maitred.storage.database import Database

if TYPE_CHECKING:  # a gateway that is alone needs none
    from collections.abc import AsyncIterator

    import httpx2

log = structlog.get_logger(__name__)

PATH: Final = "/internal/v1/forward"
"""The path of the internal endpoint; no token of a client opens it."""
HEADER: Final = "X-Maitred-Internal"
"""The header with the internal token."""
_CONNECT_S: Final = 3.0
_AGAIN_S: Final = 0.5
_IDLE_S: Final = 20.0
_OK: Final = 200
_REFUSED: Final = 401
_SIGNATURE_CHARS: Final = 64
_PING: Final = "ping"
_PING_S: Final = 5.0
"""How often a replica is asked whether it is there, while requests wait for it, and how long it may take."""
_MOST_SILENT: Final = 3


@dataclass(frozen=True, kw_only=True)
class ReplicaRequest:
    """A request of another replica. `viewer` acts, if the request is about one."""

    sender: str
    kind: str
    body: Mapping[str, Any]
    viewer: Viewer | None = None


def reachable(address: str) -> str:
    """The address of a listener as other machines reach it: that of the host's name if it is on all."""
    parts = urlsplit(address)
    if parts.hostname not in ("0.0.0.0", "::"):  # noqa: S104  # compared, and not listened on
        return address
    try:
        host = socket.gethostbyname(socket.gethostname())
    except OSError:
        host = socket.gethostname()
    return urlunsplit(parts._replace(netloc=f"{host}:{parts.port}"))


async def _answer_ping(_: "ReplicaRequest") -> Mapping[str, Any]:
    return {}


def _to_bytes(wire: Mapping[str, Any]) -> bytes:
    """JSON without escapes: a message must not grow by them, since its size is limited at the other end."""
    return json.dumps(wire, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


Handler = Callable[[ReplicaRequest], Awaitable[Mapping[str, Any]]]


class Replicas:
    """The replicas of a database, and the requests between them.

    `own` is this process, with the address that is configured; `key` is the secret that all share. A process
    on SQLite, or one that listens nowhere, is alone: it knows only itself. Requests to itself are carried out
    at once.
    """

    def __init__(self, database: Database, own: LiveReplica, key: Callable[[], bytes]) -> None:
        self.membership = Membership(database)
        self._configured, self._own = own.address, replace(own, address="")
        self._is_shared = database.writes_together
        self._joins = False
        self._tokens = InternalTokens(own.id, key)
        self._handlers: dict[str, Handler] = {}
        self._background = Background()
        self._client: httpx2.AsyncClient | None = None
        self._waiting: dict[str, set[anyio.CancelScope]] = {}
        self._probed: set[str] = set()
        self._handlers[_PING] = _answer_ping
        self._answering = 0
        self._drained = anyio.Event()
        self.on_drain: list[Callable[[], Awaitable[None]]] = []
        """What is done before this replica ends; it still answers the others meanwhile."""
        self.membership.on_gone.append(self._give_up)

    @property
    def id(self) -> str:
        """The id of this process."""
        return self._own.id

    @property
    def own(self) -> LiveReplica:
        """This process, as the others know it; without an address it is alone."""
        return self._own

    @property
    def is_member(self) -> bool:
        """Whether this process is one of several that know each other."""
        return bool(self._own.address)

    def expect_to_join(self) -> None:
        """Note that this process will listen: until then it must not do what one replica does for all."""
        self._joins = self._is_shared

    async def settled(self) -> bool:
        """Wait until this process is a replica if it will be one; returns whether it is."""
        if self._joins:
            await self.membership.joined.wait()
        return self._joins

    @asynccontextmanager
    async def serving(self) -> "AsyncIterator[None]":
        """Be ready to join the others until the context is left."""
        async with self._background:
            try:
                yield
            finally:
                if self._client is not None:
                    await self._client.aclose()

    def join(self, address: str) -> None:
        """Become a replica. The others reach it where it is configured, else at the address of its listener.

        Does nothing on SQLite.
        """
        if self._is_shared and not self._own.address:
            self._own = replace(self._own, address=self._configured or reachable(address))
            self._background.start(self.membership.keep_up, lambda: self._own)

    def drain(self) -> None:
        """Begin to end: no server is placed here any more, and those that run here go to other replicas.

        Without another replica that runs servers, all goes on until there is one.
        """
        if self.is_member and self._background.is_open:
            self._background.start(self._drain)

    async def _drain(self) -> None:
        while not self._is_replaceable:  # noqa: ASYNC110  # a look at the table sets no event
            await anyio.sleep(_AGAIN_S)
        self._own = replace(self._own, role="draining")
        self.membership.hurry()
        for function in self.on_drain:
            await function()
        self._drained.set()

    @property
    def _is_replaceable(self) -> bool:
        return any(one.runs_servers for one in self.membership.live if one.id != self.id)

    @property
    def is_drained(self) -> bool:
        """Whether no other replica needs this one now, after `drain`; a process that is alone needs none."""
        is_given = self._drained.is_set() or not self._is_replaceable
        return not self.is_member or (is_given and not self._answering)

    def register(self, kind: str, handler: Handler) -> None:
        """Have requests of a kind answered by a function.

        Raises:
            ValueError: Another function answers them.
        """
        if kind in self._handlers:
            raise ValueError(f"requests of the kind {kind!r} are answered already")
        self._handlers[kind] = handler

    # --- sending ------------------------------------------------------------------------------------------

    async def forward(
        self, replica: str, kind: str, body: Mapping[str, Any], *, viewer: Viewer | None = None
    ) -> dict[str, Any]:
        """Send a request to a replica, and return its answer, however long that takes.

        Cancelling the awaiting task cancels what the other replica does.

        Raises:
            ReplicaGoneError: It has ended or cannot be reached. `unread` says whether it certainly did not
                begin.
            MaitredError: What the other replica raised.
        """
        if replica == self.id:
            return dict(
                await self._handle(ReplicaRequest(sender=self.id, kind=kind, body=body, viewer=viewer))
            )
        there = await self._find(replica)
        acting = None if viewer is None else viewer_to_wire(viewer)
        sent = _to_bytes({"kind": kind, "viewer": acting, "body": body})
        with anyio.CancelScope() as scope:
            waiting = self._waiting.setdefault(replica, set())
            waiting.add(scope)
            if replica not in self._probed and self._background.is_open:
                self._probed.add(replica)
                self._background.start(self._probe, there)
            try:
                return await self._send(there, sent)
            finally:
                waiting.discard(scope)
        raise ReplicaGoneError(replica, "it has not been heard of for too long")

    async def _probe(self, there: LiveReplica) -> None:
        """Give up the requests to a replica that is silent, though it still renews its lease."""
        silent = 0
        try:
            while self._waiting.get(there.id):
                await anyio.sleep(_PING_S)
                if not self._waiting.get(there.id):
                    return
                silent = 0 if await self._is_heard(there) else silent + 1
                if silent >= _MOST_SILENT:
                    log.warning("a replica is silent", replica=there.id, address=there.address)
                    self._give_up(frozenset({there.id}))
                    return
        finally:
            self._probed.discard(there.id)

    async def _is_heard(self, there: LiveReplica) -> bool:
        """Whether anything comes back from a replica, also that it refuses the connection."""
        begun = anyio.current_time()
        with anyio.move_on_after(_PING_S):
            try:
                await self._send(there, _to_bytes({"kind": _PING, "viewer": None, "body": {}}))
            except MaitredError:
                return anyio.current_time() - begun < min(_PING_S, _CONNECT_S)
            return True
        return False

    def start(self, function: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> None:
        """Run a coroutine function in the background of this replica, if that is open."""
        if self._background.is_open:
            self._background.start(function, *args)

    def tell(self, replica: str, kind: str, body: Mapping[str, Any]) -> None:
        """Send a request soon; nothing waits for its answer, and a failure is logged."""
        if self._background.is_open:
            self._background.start(self._tell, replica, kind, body)

    async def ask_others(self, kind: str, body: Mapping[str, Any]) -> None:
        """Send a request to all other replicas, and wait for them; a failure of one is logged."""
        others = [one.id for one in self.membership.live if one.id != self.id] if self.is_member else []
        async with anyio.create_task_group() as tasks:
            for replica in others:
                tasks.start_soon(self._tell, replica, kind, body)

    async def _tell(self, replica: str, kind: str, body: Mapping[str, Any]) -> None:
        try:
            await self.forward(replica, kind, body)
        except MaitredError as error:
            log.info("a replica was not reached", replica=replica, kind=kind, reason=str(error))

    async def _find(self, replica: str) -> LiveReplica:
        there = self.membership.get(replica)
        if there is None:
            try:
                await self.membership.look()
            except StoreError as error:
                raise ReplicaGoneError(replica, f"it is not known: {error.reason}", unread=True) from error
            there = self.membership.get(replica)
        if there is None:
            raise ReplicaGoneError(replica, "it has ended", unread=True)
        return there

    async def _send(self, there: LiveReplica, sent: bytes) -> dict[str, Any]:
        import httpx2  # noqa: PLC0415  # a gateway that is alone needs none

        token = self._tokens.make(there.id, sent)
        headers = {HEADER: token, "Content-Type": "application/json"}
        try:
            answer = await self._client_for_all().post(there.address + PATH, content=sent, headers=headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            why = f"it cannot be reached at {there.address}: {error or type(error).__name__}"
            raise ReplicaGoneError(there.id, why, unread=True) from error
        except httpx2.HTTPError as error:
            why = f"the connection to it was lost: {error or type(error).__name__}"
            raise ReplicaGoneError(there.id, why) from error
        return self._answer_of(there, answer, token)

    def _answer_of(self, there: LiveReplica, answer: "httpx2.Response", token: str) -> dict[str, Any]:
        if answer.status_code == _REFUSED:  # before the request was read
            raise ReplicaGoneError(there.id, f"it refused the request: {answer.text[:400]}", unread=True)
        if answer.status_code != _OK:
            raise ReplicaError(there.id, f"it answered with status {answer.status_code}")
        signature, body = answer.content[:_SIGNATURE_CHARS], answer.content[_SIGNATURE_CHARS:]
        try:
            self._tokens.check_answer(token, signature, body)
        except InternalTokenError as error:
            raise ReplicaError(there.id, f"its answer is refused: {error}") from error
        wire = json.loads(body)
        if "error" in wire:
            raise error_from_wire(there.id, wire["error"])
        return dict(wire["answer"])

    def _client_for_all(self) -> "httpx2.AsyncClient":
        import httpx2  # noqa: PLC0415  # a gateway that is alone needs none

        from maitred.tls import tls_context  # noqa: PLC0415  # the same

        if self._client is None:
            limits = httpx2.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=_IDLE_S
            )
            timeout = httpx2.Timeout(None, connect=_CONNECT_S)
            self._client = httpx2.AsyncClient(
                verify=tls_context(), timeout=timeout, limits=limits, trust_env=False
            )
        return self._client

    def _give_up(self, gone: frozenset[str]) -> None:
        """End the requests to replicas that have not been heard of for too long."""
        for replica in gone:
            for scope in self._waiting.pop(replica, ()):
                scope.cancel()

    # --- answering ----------------------------------------------------------------------------------------

    def check(self, token: str) -> InternalClaims:
        """Check the token of a request before its body is read.

        Raises:
            InternalTokenError: It is refused.
        """
        if not self.is_member:
            raise InternalTokenError("this gateway is no replica")
        return self._tokens.check(token)

    async def answer(self, claims: InternalClaims, sent: bytes) -> bytes:
        """Answer a request of another replica; the answer begins with its signature.

        Raises:
            InternalTokenError: The token was made for another body.
        """
        claims.check_body(sent)
        wire = json.loads(sent)
        acting = wire["viewer"]
        request = ReplicaRequest(
            sender=claims.sender,
            kind=wire["kind"],
            body=wire["body"],
            viewer=None if acting is None else viewer_from_wire(acting),
        )
        self._answering += 1
        try:
            answer = {"answer": await self._handle(request)}
        except MaitredError as error:
            answer = {"error": error_to_wire(error)}
        finally:
            self._answering -= 1
        body = _to_bytes(answer)
        return self._tokens.sign_answer(claims.nonce, body) + body

    async def _handle(self, request: ReplicaRequest) -> Mapping[str, Any]:
        handler = self._handlers.get(request.kind)
        if handler is None:
            raise ReplicaError(self.id, f"it knows no requests of the kind {request.kind!r}", unread=True)
        return await handler(request)
