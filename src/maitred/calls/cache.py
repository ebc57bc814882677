"""A cache for answers of tools, so that equal calls need only one request.

The code that uses it decides for which tools, and for how long. Equal calls at the same time become one call,
which runs in the task of one caller, with its deadline and context. If that caller is cancelled, another
waiting caller makes the call again. The cache stores answers as encoded JSON. So it counts the bytes that it
holds, and no code can change a stored answer.
"""

import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import structlog
from cachetools import LRUCache
from pydantic_core import from_json, to_json

from maitred.backends.listing import TOOLS_KEY
from maitred.calls.answer import Answer, text_block
from maitred.errors import StoreError
from maitred.model.tools import Tool, canonical, content_hash
from maitred.storage.shared_state import SharedState

log = structlog.get_logger(__name__)

CACHED = "maitred/cached"
_OURS = "maitred/"
_EPOCH_S = 30 * 86_400.0
_MOST_SHARED_BYTES = 1024 * 1024
_ENTRY_BYTES = 600  # memory of an entry besides its bytes: its key and table entries


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheKey:
    """What makes two calls equal.

    `version` changes when the server may answer differently: with its specification, or its release. `tool`
    is the server's own name of the tool. `arguments` is a hash of their canonical JSON. `instance` is the
    share key of the instance that answers.
    """

    server: str
    version: str
    tool: str
    arguments: str
    principal: str
    instance: str = ""


def cache_key(
    version: str, tool: Tool, arguments: Mapping[str, Any], principal: str, instance: str = ""
) -> CacheKey:
    """The key of a call, whose arguments are checked already (plain JSON, not nested too deep)."""
    return CacheKey(
        server=tool.server,
        version=version,
        tool=tool.key.name,
        arguments=content_hash(canonical(arguments)),
        principal=principal,
        instance=instance,
    )


def cacheable(tool: Tool) -> bool:
    """Whether the server declares that a second equal call does no more than the first; the default is no."""
    return tool.read_only or tool.annotations.get("idempotentHint") is True


def is_own_mark(key: str) -> bool:
    """Whether only the gateway may set a key of `_meta`, except the key that `TakeResultTools` reads."""
    return key.startswith(_OURS) and key != TOOLS_KEY


def mark_cached(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result with the mark that it came from the cache: in `_meta` for clients, in a last block for models.

    Its texts stay as they are. Mark a result after it was shortened. Otherwise the added block would hide
    that the texts repeat the structured content.
    """
    answer = Answer(wire=dict(result))
    if answer.meta.get(CACHED) is True:
        return answer.wire
    block = text_block("[cached]", annotations={"audience": ["assistant"], "priority": 0.1})
    return answer.with_last(block).with_meta({CACHED: True}).wire


@dataclass(frozen=True, kw_only=True, slots=True)
class _CachedAnswer:
    data: bytes
    since: float

    @property
    def size(self) -> int:
        return len(self.data) + _ENTRY_BYTES


@dataclass(kw_only=True, slots=True)
class _Flight:
    """A call under way. If it is `over` without an answer or an error, its caller was cancelled."""

    over: anyio.Event = field(default_factory=anyio.Event)
    answer: Callable[[], dict[str, Any]] | None = None
    error: Exception | None = None
    is_private: bool = False


class ResultCache:
    """Stores answers in memory, the most recently used within `max_bytes`; 0 stores none.

    With a `state` that is shared, other gateways have them too, as long as no call at any gateway changed
    the server: each change begins a new epoch of the server, and the answers of former ones count no more.
    An epoch has a random name, so that one that was lost with the store never comes again. While the shared
    store is away, nothing is answered from the cache; when it is back, all servers begin a new epoch, since
    calls may have changed them meanwhile.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        state: SharedState | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self._state = state if state is not None and state.is_shared and max_bytes else None
        self._epochs: dict[str, bytes] = {}
        self._ended: set[str] = set()
        """Servers whose epoch has to end before anything is answered."""
        if self._state is not None:
            self._state.listen(self._message, self._lost)
        self._clock = clock
        # no TTLCache: how long an answer is fresh differs by tool
        self._answers: LRUCache[CacheKey, _CachedAnswer] = LRUCache(max_bytes, lambda answer: answer.size)
        self._flights: dict[CacheKey, _Flight] = {}

    async def get_or_call(
        self, key: CacheKey, ttl_s: float, call: Callable[[], Awaitable[dict[str, Any]]]
    ) -> tuple[dict[str, Any], bool]:
        """The stored answer, else that of an equal call under way, else that of `call`.

        Args:
            key: The call and its principal.
            ttl_s: How old a stored answer may be, in seconds since its call was sent.
            call: Makes the call. It runs in this task, and not at all if there is an answer.

        Returns:
            The answer, which the caller may change, and whether it came without a call by this caller.

        Raises:
            Exception: The error of `call`, here or in the task that made the call for all waiting callers.
        """
        place = ""
        if self._state is not None:
            try:
                place = await self._place(self._state, key)
            except StoreError:
                return await call(), False
        while True:
            kept = self._fresh(key, ttl_s)
            if kept is None and place:
                kept = await self._fetch(place)
            if kept is not None:
                return _decode(kept), True
            flight = self._flights.get(key)
            if flight is None:
                result = await self._fly(key, call)
                if place and key in self._answers:
                    await self._share(place, self._answers[key].data, ttl_s)
                return result, False
            await flight.over.wait()
            if flight.error is not None:
                raise flight.error
            if flight.answer is not None:
                return flight.answer(), True

    async def _place(self, state: SharedState, key: CacheKey) -> str:
        """Where gateways share the answer of a call in the present epoch of its server.

        Raises:
            StoreError: The epoch is not known.
        """
        for server in [*self._ended]:
            await self._begin_epoch(state, server)
        epoch = await state.get(_epoch_key(key.server))
        if epoch is None:
            await state.swap(_epoch_key(key.server), None, _new_epoch(), _EPOCH_S)
            epoch = await state.get(_epoch_key(key.server)) or _new_epoch()
        if self._epochs.get(key.server, epoch) != epoch:
            self.clear(key.server)
        self._epochs[key.server] = epoch
        parts = [key.server, key.version, key.tool, key.arguments, key.principal, key.instance]
        return f"cached:{content_hash(canonical([*parts, epoch.decode()]))}"

    async def _begin_epoch(self, state: SharedState, server: str) -> None:
        epoch = _new_epoch()
        await state.put(_epoch_key(server), epoch, _EPOCH_S)
        self._epochs[server] = epoch
        self._ended.discard(server)

    def _message(self, text: str) -> None:
        """Nothing: each call reads the epoch."""

    def _lost(self) -> None:
        self._ended.update(self._epochs)
        for server in self._epochs:
            self.clear(server)

    async def _fetch(self, place: str) -> bytes | None:
        with suppress(StoreError):
            return await self._state.get(place) if self._state is not None else None
        return None

    async def _share(self, place: str, data: bytes, ttl_s: float) -> None:
        with suppress(StoreError):
            if self._state is not None and len(data) <= _MOST_SHARED_BYTES:
                await self._state.put(place, data, min(ttl_s, _EPOCH_S / 2))

    async def changed(self, server: str, *, but: CacheKey | None = None) -> None:
        """Forget the answers of a server, here and at other gateways, because a call may have changed it."""
        self.clear(server, but=but)
        if self._state is None:
            return
        try:
            await self._begin_epoch(self._state, server)
        except StoreError as error:
            self._ended.add(server)
            log.warning("other gateways may answer from their caches", server=server, reason=error.reason)

    def clear(self, server: str, *, but: CacheKey | None = None) -> None:
        """Forget all answers of a server but one. The answer of a call under way is not stored or shared."""
        for key in [key for key in self._answers if key.server == server and key != but]:
            del self._answers[key]
        for key in [key for key in self._flights if key.server == server and key != but]:
            del self._flights[key]

    def forget(self, key: CacheKey) -> None:
        """Neither store nor share the answer of a call under way: it depends on what its caller answered."""
        if flight := self._flights.pop(key, None):
            flight.is_private = True

    async def _fly(self, key: CacheKey, call: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        flight = self._flights[key] = _Flight()
        since = self._clock()
        try:
            result = await call()
            data = _encode(result)
            if not flight.is_private:
                flight.answer = (lambda: result) if data is None else (lambda: _decode(data))
            if data is not None and _is_lasting(result) and self._flights.get(key) is flight:
                self._keep(key, _CachedAnswer(data=data, since=since))
        except Exception as error:
            flight.error = error
            raise
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.over.set()
        return result

    def _fresh(self, key: CacheKey, ttl_s: float) -> bytes | None:
        try:
            kept = self._answers[key]  # hashes the key once less than `get`
        except KeyError:
            return None
        if self._clock() - kept.since >= ttl_s:
            del self._answers[key]
            return None
        return kept.data

    def _keep(self, key: CacheKey, kept: _CachedAnswer) -> None:
        if kept.size <= self.max_bytes:
            self._answers[key] = kept


def _new_epoch() -> bytes:
    return secrets.token_hex(8).encode()


def _epoch_key(server: str) -> str:
    return f"epoch:{server}"


def _is_lasting(result: Mapping[str, Any]) -> bool:
    """Whether to store an answer: not an error, which may pass, and not a question to the caller."""
    return not result.get("isError") and result.get("resultType", "complete") == "complete"


def _encode(result: dict[str, Any]) -> bytes | None:
    """An answer as bytes; None if it has no plain encoding (a lone surrogate, or nested too deep)."""
    try:
        return to_json(result)
    except ValueError:
        return None


def _decode(data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = from_json(data)
    except ValueError:  # the quick decoder goes less deep than the quick encoder
        found = json.loads(data)
    return found
