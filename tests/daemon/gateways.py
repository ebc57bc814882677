"""A relay between a client and gateways that do what a test says: no process, no gateway of ours."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from maitred.errors import DaemonError
from maitred.meta_tools.menu import safe_tools
from maitred.surfaces.daemon.client_relay import ClientRelay
from maitred.surfaces.daemon.handshake import GatewayConnection, encode_line

SOON_S = 120.0
LEGACY = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

Json = dict[str, Any]


class Lines:
    """Writes messages as lines, and reads them; each wait ends after a while."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(SOON_S)
        self._file = connection.makefile("rb")

    def say(self, *messages: Json) -> None:
        self.write(b"".join(compact(message) for message in messages))

    def write(self, data: bytes) -> None:
        self._connection.sendall(data)

    def hear(self) -> Json:
        line = self._file.readline()
        assert line, "the other side has closed"
        message: Json = json.loads(line)
        return message

    def hears_nothing_more(self) -> bool:
        return self._file.readline() == b""

    def close(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._connection.close()


class Rig:
    """`client` is one end of the relay; each gateway that it reaches is given by `gateway`.

    `safe` are the tools that each gateway names as those that change nothing.
    """

    def __init__(self, safe: Sequence[str]) -> None:
        self._safe = frozenset(safe)
        ours, theirs = socket.socketpair()
        self.client = Lines(ours)
        self.codes: list[int] = []
        self.ended = threading.Event()
        self.faults: list[str | Exception] = []
        self._theirs = theirs
        self._gateways: list[Lines] = []
        self._made: list[Lines] = []
        self._talks: list[GatewayConnection] = []
        self._there = threading.Condition()
        self._relay = ClientRelay(self._reach, theirs.fileno(), theirs.fileno(), self._end)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._end(self._relay.run(self._reach()))

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()

    def _reach(self) -> GatewayConnection:
        if self.faults:
            fault = self.faults.pop()
            raise DaemonError(fault) if isinstance(fault, str) else fault
        ours, theirs = socket.socketpair()
        talk = GatewayConnection.__new__(GatewayConnection)
        talk.socket, talk.rest, talk.safe_tools = theirs, b"", self._safe
        self._talks.append(talk)
        with self._there:
            self._made.append(Lines(ours))
            self._gateways.append(self._made[-1])
            self._there.notify_all()
        return talk

    def gateway(self) -> Lines:
        """The next gateway that the relay has reached, once it has."""
        with self._there:
            assert self._there.wait_for(lambda: self._gateways, SOON_S)
            return self._gateways.pop(0)

    def is_alone(self) -> bool:
        """Whether the relay has reached no gateway that the test has not taken."""
        with self._there:
            return not self._gateways

    def close(self) -> None:
        self.client.close()
        self._thread.join(SOON_S)
        self._relay._answering.join(SOON_S)  # it writes to a number that may be another file's soon
        for gateway in self._made:
            gateway.close()
        for talk in self._talks:
            talk.close()
        self._theirs.close()


@contextmanager
def rig(safe: Sequence[str] | None = None) -> Iterator[Rig]:
    """A relay whose gateways name the safe tools of the menu, or others."""
    made = Rig(safe_tools() if safe is None else safe)
    try:
        yield made
    finally:
        made.close()


def compact(message: Json) -> bytes:
    """A line as a gateway writes it."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def request(number: int | str, method: str, **params: Any) -> Json:
    return {"id": number, "method": method, "params": params}


def call(number: int | str, tool: str, **arguments: Any) -> Json:
    return request(number, "tools/call", name=tool, arguments=arguments)


def shake_hands(client: Lines, gateway: Lines) -> None:
    """The handshake, answered by a gateway."""
    client.say(request(0, "initialize", **LEGACY))
    assert gateway.hear()["method"] == "initialize"
    gateway.say({"id": 0, "result": {"protocolVersion": "2025-11-25"}})
    assert client.hear()["id"] == 0
    client.say({"method": "notifications/initialized"})
    assert gateway.hear()["method"] == "notifications/initialized"


def bye(gateway: Lines, word: str) -> None:
    gateway.write(encode_line({"maitred": word}))
    gateway.close()
