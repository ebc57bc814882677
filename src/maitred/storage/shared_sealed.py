"""What gateways share, sealed: who can read or write the store alone learns and forges nothing.

Values and messages are encrypted and authenticated (AES-SIV) with a key that derives from `MAITRED_KEY`, and
keys of values are digests. So a role of the database that may only listen, or another user of a Valkey,
hears no session id and no answer of a person. Counters and rate limits are not sealed. A value or message
that was not sealed with the key counts as none.
"""

import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import structlog
from cachetools import TTLCache
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from maitred.storage.shared_state import Allowance, SharedState, Shortage, check_message

log = structlog.get_logger(__name__)

_VALID_S: Final = 60.0
"""How far the time at which a message was sent may be from now, by this machine's clock."""
_MOST_SEEN: Final = 100_000
_NONCE_BYTES: Final = 16
_MARK: Final = b"1"
_MESSAGE: Final = b"message"


class SealedState(SharedState):
    """Another state, sealed with `key`, which is called at first use and is the same in all processes."""

    def __init__(
        self, state: SharedState, key: Callable[[], bytes], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.name, self.is_shared = state.name, state.is_shared
        self._state = state
        self._key = key
        self._clock = clock
        self._seen: TTLCache[bytes, None] = TTLCache(_MOST_SEEN, 2 * _VALID_S)
        self._has_refused = False
        state.listen(self._heard, self._reset)

    @property
    def is_live(self) -> bool:
        """See `SharedState.is_live`."""
        return self._state.is_live

    @property
    def why_away(self) -> str:
        """See `SharedState.why_away`."""
        return self._state.why_away

    @cached_property
    def _cipher(self) -> AESSIV:
        return AESSIV(self._key()[:32])

    @cached_property
    def _digest_key(self) -> bytes:
        return hmac.digest(self._key(), b"keys of values", "sha256")

    def _place(self, key: str) -> str:
        """Where a value is: its kind in clear, for who looks after the store, and a digest."""
        digest = hmac.digest(self._digest_key, key.encode("utf-8", "surrogatepass"), "sha256")
        return f"{key.partition(':')[0]}:{base64.urlsafe_b64encode(digest[:24]).decode()}"

    def _seal(self, place: str, value: bytes) -> bytes:
        return self._cipher.encrypt(_MARK + value, [place.encode()])

    def _open(self, place: str, sealed: bytes | None) -> bytes | None:
        if sealed is None:
            return None
        try:
            return self._cipher.decrypt(sealed, [place.encode()]).removeprefix(_MARK)
        except (InvalidTag, ValueError):
            self._refuse("a value")
            return None

    def _refuse(self, what: str) -> None:
        if not self._has_refused:
            hint = "give all gateways the same MAITRED_KEY and the right time, if it came from one of them"
            log.warning("what another process shares is refused", what=what, store=self.name, hint=hint)
        self._has_refused = True

    async def get(self, key: str) -> bytes | None:
        """See `SharedState.get`."""
        place = self._place(key)
        return self._open(place, await self._state.get(place))

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """See `SharedState.put`."""
        place = self._place(key)
        await self._state.put(place, self._seal(place, value), ttl_s)

    async def touch(self, key: str, ttl_s: float) -> bool:
        """See `SharedState.touch`."""
        return await self._state.touch(self._place(key), ttl_s)

    async def delete(self, key: str) -> bool:
        """See `SharedState.delete`."""
        return await self._state.delete(self._place(key))

    async def swap(self, key: str, before: bytes | None, after: bytes, ttl_s: float) -> bool:
        """See `SharedState.swap`; the same value is sealed in the same way, so it can be compared."""
        place = self._place(key)
        sealed = None if before is None else self._seal(place, before)
        return await self._state.swap(place, sealed, self._seal(place, after), ttl_s)

    async def add(self, key: str, number: int, ttl_s: float) -> int:
        """See `SharedState.add`; the number is not sealed, and `get` does not read it."""
        return await self._state.add(self._place(key), number, ttl_s)

    async def admit(self, allowances: Sequence[Allowance], holder: str) -> Shortage | None:
        """See `SharedState.admit`."""
        return await self._state.admit(allowances, holder)

    async def release(self, keys: Sequence[str], holder: str) -> None:
        """See `SharedState.release`."""
        await self._state.release(keys, holder)

    async def publish(self, message: str) -> None:
        """See `SharedState.publish`."""
        check_message(message)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        said = f"{self._clock():.0f} {message}".encode()
        await self._state.publish(
            base64.b85encode(nonce + self._cipher.encrypt(said, [_MESSAGE, nonce])).decode()
        )

    async def watch(self) -> None:
        """See `SharedState.watch`."""
        await self._state.watch()

    async def close(self) -> None:
        """See `SharedState.close`."""
        await self._state.close()

    def _heard(self, sealed: str) -> None:
        """Pass on a message that another process with the key sent a short while ago, once."""
        try:
            data = base64.b85decode(sealed)
            nonce = data[:_NONCE_BYTES]
            sent_at, _, message = (
                self._cipher.decrypt(data[_NONCE_BYTES:], [_MESSAGE, nonce]).decode().partition(" ")
            )
        except (InvalidTag, ValueError, binascii.Error):
            self._refuse("a message")
            return
        if abs(self._clock() - float(sent_at)) > _VALID_S or nonce in self._seen:
            self._refuse("a message of another time")
            return
        self._seen[nonce] = None
        self._deliver(message)
