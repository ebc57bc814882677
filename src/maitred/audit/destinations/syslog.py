"""Lines as messages of syslog (RFC 5424): over TLS or TCP with octet counting, UDP, or a local socket.

Syslog confirms nothing. Over TCP and TLS lines count as sent once the receiver's system has acknowledged all
bytes, and the connection is still open. A line that is too long for a datagram goes without its arguments.
"""

import errno
import json
import os
import select
import socket
import ssl
import sys
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio

from maitred.audit.destinations.base import DestinationError, StreamLine
from maitred.tls import tls_context

if sys.platform != "win32":
    import fcntl
    import termios

_TIMEOUT_S: Final = 10.0
_LOOK_S: Final = 0.01
_INFO, _WARNING = 6, 4
_MOST_ID: Final = 2**31 - 1
_MOST_DATAGRAM: Final = 60_000
_MOST_HOST: Final = 255


class SyslogDestination:
    """Sends each line as one message; `facility` is that of all. It connects with the first line."""

    def __init__(self, url: str, *, facility: int, ca_file: str = "") -> None:
        self._parts = urlsplit(url)
        self._facility = facility
        self._ca_file = ca_file
        self._socket: socket.socket | None = None
        self._is_stream = False
        self._host = _as_word(socket.gethostname())

    async def send(self, lines: Sequence[StreamLine]) -> str:
        """Send lines; see `Destination`.

        Raises:
            DestinationError: The receiver cannot be reached, or closed the connection.
        """
        await anyio.to_thread.run_sync(self._send, lines, abandon_on_cancel=True)
        return ""

    def close(self) -> None:
        """Close the connection; the next line opens one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, lines: Sequence[StreamLine]) -> None:
        try:
            if self._socket is not None and self._is_stream and _is_over(self._socket):
                self.close()
            to = self._socket = self._socket or self._connect()
            if self._is_stream:
                to.sendall(b"".join(self._framed(line) for line in lines))
                self._wait_until_taken(to)
            else:
                for line in lines:
                    to.send(self._datagram(line))
        except (OSError, ValueError) as error:
            self.close()
            raise DestinationError(_reason_of(error)) from error

    # --- messages -----------------------------------------------------------------------------------------

    def _message(self, line: StreamLine, text: str) -> bytes:
        priority = self._facility * 8 + (_WARNING if line.is_remarkable else _INFO)
        number = (line.seq - 1) % _MOST_ID + 1
        head = f"<{priority}>1 {line.at} {self._host} maitred {os.getpid()} audit"
        return f'{head} [meta sequenceId="{number}"] {text}'.encode("ascii", "backslashreplace")

    def _framed(self, line: StreamLine) -> bytes:
        message = self._message(line, line.text)
        if self._parts.scheme == "unix":
            return message + b"\n"
        return b"%d %s" % (len(message), message)

    def _datagram(self, line: StreamLine) -> bytes:
        message = self._message(line, line.text)
        if len(message) <= _MOST_DATAGRAM:
            return message
        short = {key: value for key, value in line.fields.items() if key != "arguments"}
        return self._message(line, json.dumps({**short, "cut": True}, separators=(",", ":")))

    # --- connections --------------------------------------------------------------------------------------

    def _connect(self) -> socket.socket:
        scheme = self._parts.scheme
        self._is_stream = scheme in ("tcp", "tls")
        if scheme == "unix":
            return self._connect_locally(unquote(self._parts.path))
        host, port = self._parts.hostname or "", self._parts.port or 0
        if scheme == "udp":
            return _connected_datagram(host, port)
        plain = socket.create_connection((host, port), _TIMEOUT_S)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if scheme == "tcp":
            return plain
        context = ssl.create_default_context(cafile=self._ca_file) if self._ca_file else tls_context()
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def _connect_locally(self, path: str) -> socket.socket:
        """Connect to a socket of this machine, of datagrams or of a stream."""
        if sys.platform == "win32":
            raise OSError(errno.EAFNOSUPPORT, "there are no such sockets on Windows")
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            found = socket.socket(socket.AF_UNIX, kind)
            found.settimeout(_TIMEOUT_S)
            try:
                found.connect(path)
            except OSError as error:
                found.close()
                if error.errno != errno.EPROTOTYPE:
                    raise
            else:
                self._is_stream = kind == socket.SOCK_STREAM
                return found
        raise OSError(errno.EPROTOTYPE, "it takes neither datagrams nor a stream")

    def _wait_until_taken(self, to: socket.socket) -> None:
        """Wait until the system of the receiver has acknowledged all bytes; it may close meanwhile."""
        until = time.monotonic() + _TIMEOUT_S
        while _unacknowledged(to):
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(_LOOK_S)
        if _is_over(to):
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")


def _connected_datagram(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    found = socket.socket(family, kind, protocol)
    found.settimeout(_TIMEOUT_S)
    try:
        found.connect(address)
    except OSError:
        found.close()
        raise
    return found


def _unacknowledged(to: socket.socket) -> int:
    """How many bytes the receiver's system has not acknowledged; 0 where that cannot be known."""
    if sys.platform != "linux" or to.family == socket.AF_UNIX:
        return 0
    count = fcntl.ioctl(to.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    return int.from_bytes(count, sys.byteorder)


def _is_over(to: socket.socket) -> bool:
    """Whether the receiver has closed the connection. What it sends is read and dropped."""
    while select.select([to], [], [], 0)[0]:
        to.settimeout(0)
        try:
            if not to.recv(4_096):
                return True
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        finally:
            to.settimeout(_TIMEOUT_S)
    return False


def _as_word(name: str) -> str:
    return "".join(c for c in name if "!" <= c <= "~")[:_MOST_HOST] or "-"


def _reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it did not take the lines in time"
    if isinstance(error, ssl.SSLError):
        return f"the TLS connection failed ({error.reason or type(error).__name__})"
    return f"it cannot be reached ({getattr(error, 'strerror', None) or type(error).__name__})"
