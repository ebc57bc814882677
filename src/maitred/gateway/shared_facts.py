"""Declared facts that several gateways share: those of a principal, or of a session that all of them know.

Before a call, a gateway reads the facts that others may have changed. After it, it writes them if they are
still the ones that it read. A message brings them to the other gateways, whose lists may change with them.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import WeakMethod

import anyio
import structlog
from cachetools import LRUCache

from maitred.errors import StoreError
from maitred.model.access import SHARED_CONNECTION
from maitred.storage.shared_state import MOST_MESSAGE_BYTES, SharedState
from maitred.visibility.facts import Facts, as_fact

log = structlog.get_logger(__name__)

Scope = tuple[str, str]
"""A principal, and the name of its connection or nothing."""
Heard = Callable[[str, Scope, object], None]
"""Gets a server, a scope, and its facts on the wire, or `None` if they start again."""

_KEPT_S: Final = 7 * 86_400.0
_MOST_KNOWN: Final = 10_000


class SharedFacts:
    """The facts in a shared state. `replica` is the name of this process; `run` must run beside it."""

    def __init__(self, state: SharedState, *, replica: str) -> None:
        self._state = state
        self._replica = replica
        self._heard: WeakMethod[Heard] | None = None
        self._known: LRUCache[str, bytes | None] = LRUCache(_MOST_KNOWN)
        self._read: LRUCache[tuple[str, Scope], None] = LRUCache(_MOST_KNOWN)
        self._is_doubtful = False
        self._dropped: dict[tuple[str, Scope], None] = {}
        self._news = anyio.Event()
        state.listen(self._message, self._lost)

    def follow(self, heard: Heard) -> None:
        """Call a method with facts that another gateway changed."""
        self._heard = WeakMethod(heard)

    async def read(self, server: str, scope: Scope, begun: Facts) -> Facts | None:
        """The facts as any gateway wrote them last, or the first ones; `None` while they cannot be read."""
        key = _key(server, scope)
        try:
            data = await self._state.get(key)
        except StoreError as error:
            log.info("facts of other gateways are not known", server=server, reason=error.reason)
            return None
        self._known[key] = data
        self._read[server, scope] = None
        return begun if data is None else facts_from_wire(json.loads(data), begun)

    async def write(self, server: str, scope: Scope, facts: Facts) -> bool:
        """Write facts, if the store is there; false if another gateway wrote others since `read`."""
        key = _key(server, scope)
        before = self._known.pop(key, None)
        said = {"values": dict(facts.values), "doubts": dict(facts.doubts)}
        after = json.dumps(said, separators=(",", ":")).encode()
        if after == before:
            return True
        try:
            if not await self._state.swap(key, before, after, _KEPT_S):
                return False
            await self._send(server, scope, said)
        except StoreError as error:
            log.warning("other gateways do not know changed facts", server=server, reason=error.reason)
        return True

    def drop(self, server: str, scopes: Iterable[Scope]) -> None:
        """Have the facts of a server start again for these scopes, because its process did."""
        self._dropped.update(dict.fromkeys((server, scope) for scope in scopes))
        self._news.set()

    async def run(self) -> None:
        """Carry out what `drop` asks for, and read again what messages may have missed; never returns."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            if self._is_doubtful:
                self._is_doubtful = False
                await self._read_again()
            while self._dropped:
                (server, scope), _ = self._dropped.popitem()
                try:
                    if await self._state.delete(_key(server, scope)):
                        await self._send(server, scope, None)
                except StoreError as error:
                    log.warning("facts did not start again", server=server, reason=error.reason)

    async def _send(self, server: str, scope: Scope, said: object) -> None:
        text = json.dumps(["facts", self._replica, server, scope, said])
        if len(text) <= MOST_MESSAGE_BYTES:  # else the other gateways read them before the next call
            await self._state.publish(text)

    def _message(self, text: str) -> None:
        heard = self._heard() if self._heard is not None else None
        if heard is None or not text.startswith('["facts"'):
            return
        _, sender, server, scope, said = json.loads(text)
        if sender != self._replica:
            heard(server, (scope[0], scope[1]), said)

    def _lost(self) -> None:
        """Messages may be lost. Each call reads the facts before it is made, but lists hear of them alone."""
        self._is_doubtful = True
        self._news.set()

    async def _read_again(self) -> None:
        try:
            for server, scope in list(self._read):
                data = await self._state.get(_key(server, scope))
                heard = self._heard() if self._heard is not None else None
                if data is not None and heard is not None:
                    heard(server, scope, json.loads(data))
        except StoreError as error:  # there is a reset when it is back
            log.info("facts of other gateways are not known", reason=error.reason)


def is_known_everywhere(scope: Scope) -> bool:
    """Whether all gateways mean the same by a scope: a principal, or a session that they share."""
    return not scope[0].startswith("\0") and (not scope[1] or scope[1].startswith(SHARED_CONNECTION))


def facts_from_wire(said: Any, begun: Facts) -> Facts:
    """Facts of another gateway; those that are not declared here are left out, others have first values."""
    values = {
        name: as_fact(said["values"][name], "list" if isinstance(first, tuple) else "str")
        if name in said["values"]
        else first
        for name, first in begun.values.items()
    }
    fitting = {
        name: value if type(value) is type(begun.values[name]) else begun.values[name]
        for name, value in values.items()
    }
    return Facts(values=fitting, doubts={k: v for k, v in said["doubts"].items() if k in fitting})


def _key(server: str, scope: Scope) -> str:
    return f"facts:{json.dumps([server, *scope])}"
