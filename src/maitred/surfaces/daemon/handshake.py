"""The first line each way on a gateway's socket: the request of a client, and whether the gateway accepts it.

A client also sends digests of its environment, so that it never shares servers with a client that has other
credentials. The values themselves are neither sent nor stored, but for `PATH`. With it go a random id of the
client's program and the folder that it works in.
"""

import hashlib
import json
import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from maitred.surfaces.daemon.sockets import is_ours

HERE: Final = "./"
"""The key among the names of variables for the folder that a process runs in."""

PLACE: Final = "/"
"""The key there for the namespaces, groups and rights of a process: sharing must not open a sandbox."""

MOST_BYTES: Final = 1024 * 1024
_REST_S: Final = 0.02
_SLICE_S: Final = 1.0
_PRIVATE: Final = "MAITRED_AS_TOKEN"
_NAMESPACES: Final = ("mnt", "net", "pid", "user")
_RIGHTS: Final = ("CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:")


def values(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Digests of the process's environment, by the names of variables, and of `HERE` and `PLACE`."""
    seen = {**environ, HERE: working_folder(), PLACE: _place()}
    return {name: _digest(text) for name, text in seen.items() if name != _PRIVATE}


def start(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a client's program says of itself, with an id that is made here."""
    return {"client": os.urandom(8).hex(), "folder": working_folder(), "path": environ.get("PATH", "")}


def working_folder() -> str:
    """The folder that this process works in; empty if that is gone."""
    try:
        return os.getcwd()  # noqa: PTH109  # the same
    except FileNotFoundError:
        return ""


def _place() -> str:
    spaces = []
    for name in _NAMESPACES:
        try:
            spaces.append(os.readlink(f"/proc/self/ns/{name}"))  # noqa: PTH115  # the same
        except OSError:  # not Linux
            spaces.append("")
    groups = (sorted(os.getgroups()), os.getgid()) if sys.platform != "win32" else ()
    return repr((spaces, *groups, _rights()))


def _rights() -> list[str]:
    """The rights that the system gives the process, as far as it reports them."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return []
    return [line for line in lines if line.startswith(_RIGHTS)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def encode_line(message: Mapping[str, Any]) -> bytes:
    """The line of a message of our own."""
    return json.dumps(message).encode() + b"\n"


def decode_line(line: bytes) -> dict[str, Any]:
    """The message of a line; empty if it is not one of ours."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) and isinstance(message.get("maitred"), str) else {}


class GatewayConnection:
    """A blocking connection to a gateway, for a process that has nothing else to do meanwhile.

    `safe_tools` are the tools that change nothing, as the gateway names them when it welcomes a client.
    """

    safe_tools: frozenset[str] = frozenset()

    def __init__(self, path: Path, timeout_s: float) -> None:
        """Connect.

        Raises:
            OSError: No gateway listens there.
        """
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path = path
        self.rest = b""
        self._timeout_s = timeout_s
        try:
            self.socket.settimeout(timeout_s)
            self._connect(str(path), time.monotonic() + timeout_s)
            if not is_ours(self.socket):
                raise PermissionError
        except OSError:
            self.socket.close()
            raise

    def _connect(self, path: str, until: float) -> None:
        while True:
            try:
                self.socket.connect(path)
            except BlockingIOError:  # a gateway listens there, and many clients connect at once
                if time.monotonic() > until:
                    raise
                time.sleep(_REST_S)
            else:
                return

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message and wait for the answer; empty if the gateway hung up instead.

        `rest` then has the bytes after the answer.

        Raises:
            TimeoutError: The gateway did not answer in time.
        """
        try:
            self.socket.sendall(encode_line(message))
            while b"\n" not in self.rest:
                self._await_news()
                data = self.socket.recv(65536)
                if not data:
                    return {}
                self.rest += data
        except ConnectionError:
            return {}
        line, _, self.rest = self.rest.partition(b"\n")
        return decode_line(line)

    def _await_news(self) -> None:
        """Wait in slices: while the system is suspended, only one slice passes, not the whole time limit."""
        slices = max(1, round(self._timeout_s / _SLICE_S))
        for _ in range(slices):
            if select.select([self.socket], [], [], self._timeout_s / slices)[0]:
                return
        raise TimeoutError

    def hang_up(self) -> None:
        """End the connection, also for a thread that reads from it."""
        with suppress(OSError):  # the gateway ended it first
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
