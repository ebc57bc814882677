"""Shared values in a Valkey or Redis server; see `shared_state`.

A server that does not answer costs one caller the time limit; then for a second no other caller tries. Rate
limits are one script, which runs in the server as a whole. Times are the server's.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import anyio
import structlog
import valkey.asyncio as client
from valkey.exceptions import ValkeyError

from maitred.background import Background
from maitred.config.redaction import redact
from maitred.errors import StoreAwayError
from maitred.storage.shared_state import (
    LEASE_S,
    MOST_SEALED_BYTES,
    Allowance,
    RunningCalls,
    SharedState,
    Shortage,
    check_message,
    renew_for_ever,
)

log = structlog.get_logger(__name__)

T = TypeVar("T")

_TIMEOUT_S: Final = 2.0
_AGAIN_S: Final = 1.0
_PING_S: Final = 5.0
_DAY_MS: Final = 86_400_000
_ADMIT: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local most = tonumber(ARGV[2])
local left = {}
for place = 1, #KEYS / 2 do
    local at = 2 + (place - 1) * 3
    local per_s, size, at_once = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    local bucket, slots = KEYS[2 * place - 1], KEYS[2 * place]
    if at_once > 0 then
        redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
        local running = redis.call('ZCARD', slots)
        if running >= at_once then return {place, running, '1'} end
    end
    local known = redis.call('HMGET', bucket, 'tokens', 'at')
    left[place] = size
    if known[1] then
        left[place] = math.min(size, tonumber(known[1]) + math.max(0, now - tonumber(known[2])) * per_s)
    end
    if per_s > 0 and left[place] < 1 then
        return {place, 0, tostring((1 - left[place]) / per_s)}
    end
end
for place = 1, #KEYS / 2 do
    local at = 2 + (place - 1) * 3
    if tonumber(ARGV[at + 1]) > 0 then left[place] = left[place] - 1 end
    redis.call('HSET', KEYS[2 * place - 1], 'tokens', tostring(left[place]), 'at', string.format('%.6f', now))
    redis.call('PEXPIRE', KEYS[2 * place - 1], 86400000)
    if tonumber(ARGV[at + 3]) > 0 then
        redis.call('ZADD', KEYS[2 * place], now + most, ARGV[1])
        redis.call('PEXPIRE', KEYS[2 * place], most * 1000)
    end
end
return {0, 0, '0'}
"""
_SWAP: Final = """
local present = redis.call('GET', KEYS[1])
if ARGV[1] == '0' and present or ARGV[1] == '1' and present ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
return 1
"""
_RENEW: Final = """
local time = redis.call('TIME')
local most = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], time[1] + most, ARGV[1])
redis.call('PEXPIRE', KEYS[1], most * 1000)
"""


class ValkeyState(SharedState):
    """The values at a server under keys that begin with `prefix`; connections are opened when needed."""

    def __init__(self, url: str, *, prefix: str) -> None:
        super().__init__()
        parts = urlsplit(url)
        self.name = (
            f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
        )
        self._prefix = prefix
        self._server = client.Valkey.from_url(
            url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
        )
        self._admission = self._server.register_script(_ADMIT)
        self._swapping = self._server.register_script(_SWAP)
        self._renewal = self._server.register_script(_RENEW)
        self._running = RunningCalls()
        self._away_until = 0.0

    async def close(self) -> None:
        """See `SharedState.close`."""
        await self._server.aclose()

    async def get(self, key: str) -> bytes | None:
        """See `SharedState.get`."""
        return await self._ask(lambda: self._server.get(self._key(key)))

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """See `SharedState.put`."""
        await self._ask(lambda: self._server.set(self._key(key), value, px=_milliseconds(ttl_s)))

    async def touch(self, key: str, ttl_s: float) -> bool:
        """See `SharedState.touch`."""
        return bool(await self._ask(lambda: self._server.pexpire(self._key(key), _milliseconds(ttl_s))))

    async def delete(self, key: str) -> bool:
        """See `SharedState.delete`."""
        return bool(await self._ask(lambda: self._server.delete(self._key(key))))

    async def swap(self, key: str, before: bytes | None, after: bytes, ttl_s: float) -> bool:
        """See `SharedState.swap`."""
        values = [0 if before is None else 1, before or b"", after, _milliseconds(ttl_s)]
        return bool(await self._ask(lambda: self._swapping([self._key(key)], values)))

    async def add(self, key: str, number: int, ttl_s: float) -> int:
        """See `SharedState.add`."""

        async def add() -> int:
            pipeline = self._server.pipeline(transaction=True)
            pipeline.incrby(self._key(key), number)
            pipeline.pexpire(self._key(key), _milliseconds(ttl_s))
            return int((await pipeline.execute())[0])

        return await self._ask(add)

    async def admit(self, allowances: Sequence[Allowance], holder: str) -> Shortage | None:
        """See `SharedState.admit`."""
        keys = [f"{kind}:{one.key}" for one in allowances for kind in ("bucket", "slots")]
        values = [value for one in allowances for value in (one.per_s, one.size, one.at_once)]

        async def admit() -> Any:
            return await self._admission(
                keys=[self._key(key) for key in keys], args=[holder, LEASE_S, *values]
            )

        place, running, wait_s = await self._ask(admit)
        if place:
            return Shortage(place=place - 1, running=running, wait_s=float(wait_s))
        self._running.added(allowances, holder)
        return None

    async def release(self, keys: Sequence[str], holder: str) -> None:
        """See `SharedState.release`."""
        for key in self._running.ended(holder):
            await self._ask(lambda key=key: self._server.zrem(self._key(f"slots:{key}"), holder))  # type: ignore[misc]

    async def publish(self, message: str) -> None:
        """See `SharedState.publish`."""
        check_message(message, MOST_SEALED_BYTES)
        await self._ask(lambda: self._server.publish(self._key("messages"), message))

    async def watch(self) -> None:
        """See `SharedState.watch`."""
        async with Background() as background:
            background.start(renew_for_ever, self._renew)
            while True:
                try:
                    await self._hear()
                except (ValkeyError, OSError) as error:
                    self._note(error)
                finally:
                    self._is_live = False
                await anyio.sleep(_AGAIN_S)

    async def _hear(self) -> None:
        """Pass messages on until the connection is lost."""
        async with self._server.pubsub() as subscription:
            await subscription.subscribe(self._key("messages"))
            heard_at = time.monotonic()
            while True:
                message = await subscription.get_message(timeout=_PING_S)
                if message is None:
                    if time.monotonic() - heard_at > 3 * _PING_S:
                        raise ConnectionError("the server is silent")
                    await subscription.ping()
                    continue
                heard_at = time.monotonic()
                if message["type"] == "subscribe":
                    self._is_live, self._why_away = True, ""
                    self._reset()
                elif message["type"] == "message":
                    self._deliver(message["data"].decode("utf-8", "replace"))

    async def _renew(self) -> None:
        for holder, keys in [*self._running.keys.items()]:
            for key in keys:
                slots = self._key(f"slots:{key}")
                await self._ask(lambda slots=slots, holder=holder: self._renewal([slots], [holder, LEASE_S]))  # type: ignore[misc]

    def _key(self, key: str) -> str:
        return f"{self._prefix}:{key}"

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the server.

        Raises:
            StoreAwayError: It does not answer, or did not a moment ago.
        """
        if self._away_until > time.monotonic():
            raise self._away(self.why_away)
        try:
            answer = await ask()
        except (ValkeyError, OSError) as error:
            self._away_until = time.monotonic() + _AGAIN_S
            self._note(error)
            raise self._away(self.why_away) from error
        self._why_away = ""
        return answer

    def _note(self, error: Exception) -> None:
        reason = redact(str(error).strip().partition("\n")[0]) or type(error).__name__
        if not self.why_away:
            log.warning("the store of shared values does not answer", store=self.name, reason=reason)
        self._why_away = reason

    def _away(self, reason: str) -> StoreAwayError:
        return StoreAwayError(
            self.name, f"it does not answer ({reason})", advice="Start it, or correct `shared.url`."
        )


def _milliseconds(seconds: float) -> int:
    return max(1, min(int(seconds * 1_000), 30 * _DAY_MS))
