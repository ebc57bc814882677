"""Prepares the image of a server: fetched, equal to the approved one, and without known faults.

A container is made from an image's identity, a hash of its content, and never from its name. So the image
cannot change between the check and the start.
Fetching and scanning may take longer than a server may take to start. They go on after a start was given
up, and the next start uses the result. With `isolation.scan: warn` no start waits for the scan.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, Protocol

import anyio
import structlog

from maitred.backends.base import ConnectError
from maitred.backends.isolation.engine_api import Engine, EngineError, EngineGoneError, ImageInfo
from maitred.backends.isolation.threads import SharedThreads
from maitred.errors import StoreError
from maitred.wording import count_of

log = structlog.get_logger(__name__)

Admit = Callable[[str, str], Awaitable[str]]
"""Returns why a server may not run the image of an identity; empty if it may."""

_SCANNED: Final = "looked at for known faults"
_SHOWN: Final = 3
_KEPT_LINES: Final = 200


class Scanner(Protocol):
    """Looks for known faults in images; `maitred.backends.isolation.scan` has the implementation."""

    def faults(self, engine: Engine, identity: str) -> Sequence[str]:
        """The faults of high or critical severity, the worst first. Blocks, perhaps for minutes.

        Raises:
            ConnectError: The image cannot be scanned.
        """
        ...


class Images:
    """The images of all servers of a gateway.

    Args:
        admit: Decides on images that are named without a digest.
        scanner: Looks for faults; `scan` says what follows from them.
        pull: When images are fetched, as in `Isolation`.
        scan: Whether faults are ignored, logged, or keep an image from starting.
    """

    def __init__(
        self,
        *,
        admit: Admit,
        scanner: Scanner,
        pull: Literal["missing", "never", "always"],
        scan: Literal["off", "warn", "block"],
    ) -> None:
        self._admit = admit
        self._scanner = scanner
        self._pull = pull
        self._scan = scan
        self._errands = SharedThreads()
        self._progress_lines: dict[str, list[str]] = {}
        self._faults: dict[str, Sequence[str]] = {}

    def progress(self, reference: str) -> Sequence[str]:
        """The last lines of progress while an image was fetched, oldest first; empty if it never was."""
        return self._progress_lines.get(reference, [])[-_KEPT_LINES:]

    async def ready(self, engine: Engine, server: str, reference: str, *, within_s: float) -> ImageInfo:
        """The image that a server is to run; what takes longer than `within_s` goes on without the caller.

        Raises:
            ConnectError: The image is not here and cannot be fetched in time, or is not the approved one,
                or has faults and `scan` is `block`. The text says which, and what to do.
        """
        until = anyio.current_time() + within_s
        pinned = "@" in reference
        found = None if self._pull == "always" and not pinned else await engine.image(reference)
        if found is None:
            found = await self._fetch(engine, reference, until)
        if not pinned:
            await self._check_admission(server, found.identity)
        if self._scan == "block":
            await self._free_of_faults(engine, found.identity, until)
        elif self._scan == "warn":
            self._warn(engine, server, found.identity)
        return found

    async def _errand(self, kind: str, about: str, work: Callable[[], None], until: float) -> None:
        with anyio.CancelScope(deadline=until):
            await self._errands.run((kind, about), work)
            return
        raise ConnectError(f"its image is still being {kind}; that goes on, so try again in a while")

    async def _check_admission(self, server: str, identity: str) -> None:
        try:
            why = await self._admit(server, identity)
        except StoreError as error:
            raise ConnectError(
                f"the gateway cannot read whether its image was approved: {error.reason}"
            ) from error
        if why:
            raise ConnectError(why)

    async def _fetch(self, engine: Engine, reference: str, until: float) -> ImageInfo:
        if self._pull == "never":
            raise ConnectError(
                f"its image {reference} is not on this machine, and `isolation.pull` is `never`;"
                f" fetch it with {engine.info.name.lower()} pull {reference}"
            )
        told: list[str] = []

        def fetch() -> None:
            self._progress_lines[reference] = told
            log.info("fetching an image", image=reference)
            engine.pull(reference, say)
            log.info("an image was fetched", image=reference)

        def say(line: str) -> None:
            told.append(line)
            log.debug("fetching an image", image=reference, step=line)

        try:
            await self._errand("fetched", reference, fetch, until)
        except EngineGoneError:
            raise
        except EngineError as error:
            raise ConnectError(
                f"its image {reference} cannot be fetched: {error}", fault="image_not_fetched"
            ) from error
        if (found := await engine.image(reference)) is None:
            raise ConnectError(f"its image {reference} was fetched, but the engine does not have it")
        return found

    def _look(self, engine: Engine, identity: str) -> None:
        """Scan an image, once for each identity. Blocks."""
        if identity not in self._faults:
            self._faults[identity] = self._scanner.faults(engine, identity)

    async def _free_of_faults(self, engine: Engine, identity: str, until: float) -> None:
        try:
            await self._errand(_SCANNED, identity, lambda: self._look(engine, identity), until)
        except ConnectError as error:
            raise ConnectError(f"`isolation.scan` is `block`, and {error}") from error
        if faults := self._faults[identity]:
            raise ConnectError(
                f"its image has {_in_words(faults)}; use a mended image, or set `isolation.scan` to `warn`"
            )

    def _warn(self, engine: Engine, server: str, identity: str) -> None:
        """Scan an image in the background, and log its faults."""

        def look() -> None:
            try:
                self._look(engine, identity)
            except ConnectError as error:
                log.warning("an image was not looked at for known faults", server=server, reason=str(error))
                return
            if faults := self._faults[identity]:
                log.warning("an image has known faults", server=server, faults=_in_words(faults))

        self._errands.begin((_SCANNED, identity), look)


def _in_words(faults: Sequence[str]) -> str:
    count = count_of(len(faults), "known fault")
    shown = "; ".join(faults[:_SHOWN]) + ("; ..." if len(faults) > _SHOWN else "")
    return f"{count} of high or critical severity ({shown})"
