"""Where gateways of this user are found: a folder of sockets, each with a lock that its gateway holds.

Names contain the configuration and the installation, so that a client never speaks with another version. The
system releases a lock when its process ends for any reason. So a held lock shows that a gateway lives,
without a request to it.
"""

import hashlib
import os
import socket
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

import maitred
from maitred.config.paths import make_folder, state_folder
from maitred.errors import DaemonError

if sys.platform != "win32":  # no gateway is shared there, and none has a socket
    import fcntl

Kind = Literal["daemon", "stdio", "http"]

_LETTERS: Final[Mapping[Kind, str]] = {"daemon": "d", "stdio": "s", "http": "h"}
_LONGEST_PATH: Final = 103  # the limit of the smallest of the systems, without the NUL
_LONGEST_NAME: Final = 40
_LOCK, _SOCKET = ".lock", ".sock"


class GatewayEndpoint(NamedTuple):
    """The endpoint of one gateway, which may be gone by now."""

    folder: Path
    name: str

    @classmethod
    def at(cls, path: Path) -> "GatewayEndpoint":
        """The endpoint with this path of its socket."""
        return cls(path.parent, path.name.removesuffix(_SOCKET))

    @property
    def socket(self) -> Path:
        """The path of the socket where it listens."""
        return self.folder / f"{self.name}{_SOCKET}"

    @property
    def lock(self) -> Path:
        """The path of the lock that it holds while it lives; its text is the process id."""
        return self.folder / f"{self.name}{_LOCK}"

    @property
    def is_daemon(self) -> bool:
        """Whether it accepts clients at its socket."""
        return self.name.split("-")[2].startswith(_LETTERS["daemon"])

    @property
    def kind(self) -> Kind:
        """How clients reach the gateway."""
        letter = self.name.split("-")[2][:1]
        return next((kind for kind, known in _LETTERS.items() if known == letter), "stdio")

    def pid(self) -> int:
        """The process id in its lock file; 0 if there is none."""
        try:
            return int(self.lock.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def lives(self) -> bool:
        """Whether its process lives; removes the files of a dead one."""
        try:
            held = os.open(self.lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            if not hold(held, shared=True):
                return True
            self.socket.unlink(missing_ok=True)
            self.lock.unlink(missing_ok=True)
            return False
        finally:
            os.close(held)


def hold(lock: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until it is closed; false if another process holds it and `wait` is false."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(lock, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Address(NamedTuple):
    """The gateways of one configuration. `build` distinguishes installations of maitred."""

    folder: Path
    config: Path
    key: str
    build: str

    def seats(self, *, of_build: bool = False) -> list[GatewayEndpoint]:
        """The gateways of the configuration, live or dead; `of_build` selects those of this installation."""
        start = f"{self.key}-{self.build}-" if of_build else f"{self.key}-"
        return [seat for seat in every_seat(self.folder) if seat.name.startswith(start)]

    @property
    def door(self) -> Path:
        """The lock of a start, held from a client's failed search until the background gateway listens."""
        return self.folder / f"{self.key}-{self.build}{_LOCK}"


def can_share() -> bool:
    """Whether this system has Unix sockets, by which gateways are found and shared."""
    return sys.platform != "win32" and hasattr(socket, "AF_UNIX")


def address_of(config: Path, environ: Mapping[str, str] = os.environ) -> Address:
    """The address of a configuration; its file need not exist.

    Raises:
        OSError: The folder cannot be made.
        DaemonError: The folder may not be used, or this system has no Unix sockets.
    """
    if not can_share():
        raise DaemonError("this system has no Unix sockets")
    where = config.absolute()
    build = [sys.executable, maitred.__file__, os.stat(maitred.__file__).st_mtime_ns]  # noqa: PTH116
    return Address(
        folder=_made(run_folder(environ)),
        config=where,
        key=_digest(os.uname().nodename, where)[:10],
        build=_digest(*build)[:6],
    )


def run_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of sockets; a shorter one if the user's own path is too long for a socket."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    own = Path(runtime) / "maitred" if runtime.startswith("/") else state_folder(environ) / "run"
    if len(os.fsencode(own)) + 1 + _LONGEST_NAME <= _LONGEST_PATH:
        return own
    return Path("/tmp") / f"maitred-{os.getuid()}-{_digest(own)[:8]}"  # noqa: S108  # its owner is checked


def _made(folder: Path) -> Path:
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise DaemonError(f"{folder} is not a folder of this user, so no gateway is shared in it; remove it")
    if found.st_mode & 0o022:
        raise DaemonError(f"{folder} can be written by others, so no gateway is shared in it; remove it")
    if found.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def every_seat(folder: Path) -> list[GatewayEndpoint]:
    """All endpoints in a folder, live or dead."""
    names = [name.removesuffix(_LOCK) for name in os.listdir(folder) if name.endswith(_LOCK)]  # noqa: PTH208
    return [GatewayEndpoint(folder, name) for name in sorted(names) if name.count("-") == 2]  # noqa: PLR2004


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogateescape")).hexdigest()


class EndpointLock:
    """The lock of an endpoint, which this process holds until it leaves."""

    def __init__(self, address: Address, kind: Kind) -> None:
        """Make an endpoint and lock it.

        Raises:
            OSError: The folder cannot be written.
        """
        while True:
            name = f"{address.key}-{address.build}-{_LETTERS[kind]}{os.urandom(4).hex()}"
            self.seat = GatewayEndpoint(address.folder, name)
            self._lock = os.open(self.seat.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            hold(self._lock, wait=True)
            try:
                if os.path.samestat(os.fstat(self._lock), self.seat.lock.stat()):
                    break
            except FileNotFoundError:  # a process found it unlocked and removed it as a dead one's
                pass
            os.close(self._lock)
        with suppress(OSError):  # no space: clients find and ask it all the same
            os.write(self._lock, str(os.getpid()).encode())

    def listen(self) -> socket.socket:
        """A socket that only this user can connect to.

        Raises:
            OSError: It cannot be made.
        """
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(self.seat.socket))
        self.seat.socket.chmod(0o600)
        listening.listen(128)
        listening.setblocking(False)  # noqa: FBT003  # the parameter has no name
        return listening

    def hide(self) -> None:
        """Remove the socket, so that no client finds it; the endpoint remains locked."""
        self.seat.socket.unlink(missing_ok=True)

    def leave(self) -> None:
        """Remove the endpoint and its lock."""
        self.hide()
        self.seat.lock.unlink(missing_ok=True)
        os.close(self._lock)


def is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user, if the system reports that."""
    told = _credentials(connection)
    return not told or peer_uid(told) == os.getuid()  # else the folder's rights keep other users out


def peer_pid(connection: socket.socket) -> int:
    """The id of the process that listens at the other end; 0 if the system does not report it."""
    return int.from_bytes(_credentials(connection)[:4], sys.byteorder)


def _credentials(connection: socket.socket) -> bytes:
    option = getattr(socket, "SO_PEERCRED", None)
    return b"" if option is None else connection.getsockopt(socket.SOL_SOCKET, option, 12)


def peer_uid(credentials: bytes) -> int:
    """The user id in the value of `SO_PEERCRED`: three numbers of the system's size for int."""
    return int.from_bytes(credentials[4:8], sys.byteorder)
