"""Keep the servers of a watched folder registered: each manifest file in the folder is one server.

A folder that cannot be listed, or that holds no manifest, may not be mounted: the gateway then unregisters
nothing. A faulty file changes nothing either. The gateway also lists the folder every few seconds. Network
drives report no changes, and a mount over the folder replaces the watched one.
"""

import codecs
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from maitred.errors import MaitredError, StoreError
from maitred.model.access import Grant, Viewer
from maitred.wiring.reload import until_cancelled

if TYPE_CHECKING:  # not needed where no folder is watched
    from maitred.gateway import Gateway

log = structlog.get_logger(__name__)

FOLDER: Final = Viewer(grant=Grant(principal="folder", role="operator"))
"""The viewer who registers and withdraws the servers of the folder."""

_SUFFIXES: Final = (".yml", ".yaml")
_LOOK_S: Final = 5.0
_MOST_BYTES: Final = 1024 * 1024  # far more than a manifest may have, so that the error names its length

Stamp = tuple[int, int, int]


async def follow_manifests(gateway: "Gateway", *, look_s: float = _LOOK_S) -> None:
    """Follow the folder `admission.folder` of the current settings; never returns."""
    manifests = Manifests(gateway)
    while True:
        folder = manifests.folder
        await manifests.look()
        if folder is None or not await anyio.Path(folder).is_dir():
            await anyio.sleep(look_s)
            continue
        try:
            await _watch(manifests, folder, look_s)
        except (OSError, UnicodeError) as error:  # gone, not UTF-8, or too many files are watched
            log.debug("the folder of manifests cannot be watched", reason=str(error))
            await anyio.sleep(look_s)


async def _watch(manifests: "Manifests", folder: Path, look_s: float) -> None:
    """Look after each change and after each `look_s` seconds, until the settings name another folder."""
    from watchfiles import awatch  # noqa: PLC0415  # where no folder is watched, it is not needed

    timeout_ms = int(look_s * 1_000)
    async with until_cancelled() as stop:
        async for _ in awatch(
            folder,
            recursive=False,
            step=100,
            rust_timeout=timeout_ms,
            yield_on_timeout=True,
            stop_event=stop,
        ):
            if manifests.folder != folder or not await anyio.Path(folder).is_dir():
                return
            await manifests.look()


class Manifests:
    """The manifests of the folder, as the gateway last registered them."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._taken: dict[Path, Stamp] = {}
        self._names: dict[Path, str] = {}
        self._twice: set[Path] = set()
        self._policy: object = None
        self._told = ""

    @property
    def folder(self) -> Path | None:
        """The folder to watch; a relative path begins at the folder of the configuration file."""
        settings = self._gateway.settings
        given = settings.admission.folder
        return (settings.source.absolute().parent / Path(given).expanduser()) if given else None

    async def look(self) -> None:
        """Register the servers of new and changed files, and withdraw those whose file is gone."""
        folder = self.folder
        if folder is None:
            return
        try:
            found = await anyio.to_thread.run_sync(_stamps, folder)
        except OSError as error:
            self._tell("the folder of manifests cannot be read; nothing is unregistered", folder, str(error))
            return
        self._forget(found)
        try:
            for path in sorted(found):
                if self._taken.get(path) != found[path]:
                    await self._register(path)
                    self._taken[path] = found[path]
            if found:
                self._told = ""
                await self._withdraw(folder, found)
            else:
                self._tell("the folder holds no manifest; nothing is unregistered", folder, "is it mounted?")
        except StoreError as error:
            log.warning("manifests are taken over later", reason=error.reason)

    def _tell(self, what: str, folder: Path, reason: str) -> None:
        """Log a warning once, not at each look."""
        if what != self._told:
            log.warning(what, folder=str(folder), reason=reason)
        self._told = what

    def _forget(self, found: Collection[Path]) -> None:
        """Forget files that are gone; after a change of the admission policy, forget all files."""
        policy = self._gateway.settings.admission
        gone = self._taken.keys() - found
        again = set(self._taken) if policy != self._policy else gone | (self._twice if gone else set())
        for path in again:
            del self._taken[path]
        for path in gone:
            self._names.pop(path, None)
            self._twice.discard(path)
        self._policy = policy

    async def _register(self, path: Path) -> None:
        """Register one file. A fault is logged and leaves the earlier registration as it is.

        Raises:
            StoreError: The catalog cannot be written now.
        """
        try:
            text = await anyio.to_thread.run_sync(read_text, path)
            decision = await self._gateway.check_manifest(text, source=str(path), viewer=FOLDER)
            first = next(
                (p for p, name in self._names.items() if name == decision.server and p != path), None
            )
            if first is not None:
                self._twice.add(path)
                log.warning("two manifests are of one server", server=decision.server, file=str(path),
                            used=str(first))  # fmt: skip
                return
            registered = await self._gateway.register_server(text, source=str(path), viewer=FOLDER)
        except StoreError:
            raise
        except (OSError, UnicodeDecodeError, MaitredError) as error:
            log.warning("a manifest is not registered", file=str(path), reason=str(error))
            return
        for finding in registered.decision.findings if registered.case is None else ():
            log.warning("a manifest is refused; what was registered before stays", fault=str(finding))
        if registered.case is not None:
            self._names[path] = registered.case.server
            self._twice.discard(path)
            if registered.happened != "unchanged":
                log.info("registered from the folder", server=registered.case.server, file=str(path))

    async def _withdraw(self, folder: Path, found: Mapping[Path, Stamp]) -> None:
        """Withdraw the servers that came from the folder and are in none of its files now."""
        named = set(self._names.values())
        for server, (source, state) in (await self._gateway.registrations(FOLDER)).items():
            path = Path(source)
            unread = path in found and path not in self._names
            if path.parent != folder or state == "withdrawn" or server in named or unread:
                continue
            try:
                await self._gateway.decide(server, "withdraw", viewer=FOLDER, why="its file is gone")
            except StoreError:
                raise
            except MaitredError as error:
                log.warning("a server is not withdrawn", server=server, reason=str(error))
            else:
                log.info("withdrawn, since its manifest is gone", server=server, file=source)


def read_text(path: Path) -> str:
    """The text of a manifest; of a file that is far too long, only enough to show that it is too long.

    Raises:
        OSError: The file cannot be read.
        UnicodeDecodeError: The file is not UTF-8 text.
    """
    with path.open("rb") as file:
        return codecs.getincrementaldecoder("utf-8")().decode(file.read(_MOST_BYTES))


def _stamps(folder: Path) -> Mapping[Path, Stamp]:
    """The manifest files of a folder, each with a stamp that changes when the file changes."""
    with os.scandir(folder) as entries:
        files = [
            e for e in entries if e.name.endswith(_SUFFIXES) and not e.name.startswith(".") and e.is_file()
        ]
        stats = {folder / entry.name: entry.stat() for entry in files}
    return {path: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in stats.items()}
