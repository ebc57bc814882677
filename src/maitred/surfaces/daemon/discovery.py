"""Find the background gateway of a configuration, or start it: one, however many clients look for it at once.

A running gateway may refuse to serve a client: its environment differs, or it is ending. Only a process that
holds the lock of the configuration starts a gateway. The started gateway keeps the lock until it listens.
"""

import os
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from maitred.backends.warden import MARK
from maitred.config.paths import make_folder, state_folder
from maitred.errors import DaemonError
from maitred.surfaces.daemon.handshake import GatewayConnection, decode_line
from maitred.surfaces.daemon.liveness import end_gateway
from maitred.surfaces.daemon.sockets import Address, GatewayEndpoint, hold

_ANSWER_S: Final = 30.0
_START_S: Final = 120.0
_STARTS: Final = 3
_REST_S: Final = 0.2
_LOOK_S: Final = 0.02


class AloneError(DaemonError):
    """The configuration turns sharing off, so there is no gateway to start."""


class RefusalError(DaemonError):
    """The gateway, or its start, gives a reason for not serving us; an immediate retry would fail too."""


class VanishedError(DaemonError):
    """A started gateway ended and gave no reason; another process may have killed it."""


class EndpointQuery(NamedTuple):
    """The gateway to look for; `options` are those of `maitred` itself, if a gateway has to be started."""

    address: Address
    hello: Mapping[str, Any]
    options: Sequence[str] = ()


def reach(wanted: EndpointQuery) -> GatewayConnection:
    """A connection to a gateway that has welcomed us; starts one if there is none.

    Raises:
        AloneError: The configuration turns sharing off.
        DaemonError: No gateway is there and none can be started, or it refuses us.
    """
    found, _ = _find(wanted)
    if found is not None:
        return found
    with _held(wanted.address.door) as lock:
        found, leaving = _find(wanted)
        for seat in leaving:
            _wait_for_end(seat)
        for _ in range(_STARTS - 1):
            try:
                return found or _start(wanted, lock)
            except VanishedError:
                time.sleep(_REST_S)
        return _start(wanted, lock)


def found_now(wanted: EndpointQuery) -> GatewayConnection | None:
    """A connection to a running gateway that welcomes us; `None` if there is none.

    Raises:
        DaemonError: A gateway refuses us, or it does not answer and cannot be ended.
    """
    return _find(wanted)[0]


def _find(wanted: EndpointQuery) -> tuple[GatewayConnection | None, Sequence[GatewayEndpoint]]:
    """A gateway that welcomes us, and the endpoints whose lock is held but which no longer listen."""
    leaving = []
    for seat in wanted.address.seats(of_build=True):
        if not seat.is_daemon:
            continue
        try:
            talk = GatewayConnection(seat.socket, _ANSWER_S)
        except OSError:
            leaving.append(seat)
            continue
        said = _greeted(talk, wanted, seat)
        if said == "welcome":
            return talk, leaving
        talk.close()
        if said == "":
            leaving.append(seat)
    return None, leaving


def _greeted(talk: GatewayConnection, wanted: EndpointQuery, seat: GatewayEndpoint) -> str:
    """A gateway's answer to our greeting: `welcome`, `other` for another environment, empty if it is ending.

    A gateway that hangs is ended.

    Raises:
        RefusalError: The gateway refuses us.
        DaemonError: The gateway does not answer, and it is not certain that we may end it.
    """
    try:
        answer = talk.ask({"maitred": "serve", **wanted.hello})
    except TimeoutError:
        if end_gateway(talk):
            return ""
        talk.close()
        raise DaemonError(
            f"the background gateway (process {seat.pid()}) does not answer; end it by hand"
        ) from None
    if answer.get("maitred") == "refused":
        talk.close()
        raise RefusalError(str(answer.get("why")))
    talk.safe_tools = frozenset(map(str, answer.get("safe_tools") or ()))
    return str(answer.get("maitred", ""))


def _wait_for_end(seat: GatewayEndpoint) -> None:
    """Wait until an ending gateway is gone, so that no server runs twice.

    Raises:
        DaemonError: The gateway does not end.
    """
    until = time.monotonic() + _ANSWER_S
    while seat.lives():
        if time.monotonic() > until:
            raise DaemonError(
                f"the background gateway (process {seat.pid()}) neither listens nor ends; end it by hand"
            )
        time.sleep(_LOOK_S)


@contextmanager
def _held(path: Path) -> Iterator[IO[bytes]]:
    """Hold a lock; another process may hold it as long as a gateway takes to start.

    Raises:
        DaemonError: The other process does not release it.
    """
    until = time.monotonic() + _START_S
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as lock:
        while not hold(lock.fileno()):
            if time.monotonic() > until:
                raise DaemonError(f"{path} is held by another start that does not end")
            time.sleep(_LOOK_S)
        yield lock


def log_path(address: Address, environ: Mapping[str, str] = os.environ) -> Path:
    """The file for the standard error of background gateways of a configuration."""
    return state_folder(environ) / f"gateway-{address.key}.log"


def environment_of_gateway(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a gateway to start: without our token, and without the mark of a server's process.

    With the mark, a server that started us would end the gateway of all clients when it ends itself.
    """
    return {name: text for name, text in environ.items() if name not in ("MAITRED_AS_TOKEN", MARK)}


def _start(wanted: EndpointQuery, lock: IO[bytes]) -> GatewayConnection:
    """Start a gateway, which takes over the lock as its standard input, and connect to it.

    Raises:
        AloneError: The configuration turns sharing off.
        RefusalError: The configuration is faulty, or the gateway refuses us.
        DaemonError: The gateway does not start, or does not welcome us.
    """
    import subprocess  # noqa: PLC0415  # slow to import, and rarely needed

    log = log_path(wanted.address)
    command = [sys.executable, "-P", "-m", "maitred", *wanted.options, "serve", "--transport", "daemon"]
    with opened_log(log) as errors:
        process = subprocess.Popen(
            [*command, "--config", str(wanted.address.config)],
            stdin=lock,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment_of_gateway(os.environ),
            start_new_session=True,
        )
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    with process.stdout:
        report = _report(process.stdout)
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)  # it forks the gateway and exits, so that no client ends the gateway with us
    if report.get("alone"):
        raise AloneError("`daemon.enabled` is false in the configuration; start the client again")
    if why := report.get("error"):
        raise RefusalError(why) if report.get("lasts") else DaemonError(why)
    name = report.get("seat")
    if not isinstance(name, str):
        raise VanishedError(f"the background gateway did not start; {log} may say why")
    seat = GatewayEndpoint(wanted.address.folder, name)
    try:
        talk = GatewayConnection(seat.socket, _ANSWER_S)
    except OSError as error:
        raise VanishedError(f"the background gateway ended at once; {log} may say why") from error
    if _greeted(talk, wanted, seat) != "welcome":
        talk.close()
        raise DaemonError(f"the background gateway refuses the client that started it; {log} may say why")
    return talk


def opened_log(log: Path, flags: int = 0) -> IO[bytes]:
    """A log to append to; only its owner can read it."""
    make_folder(log.parent)
    always = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    return os.fdopen(os.open(log, always | flags, 0o600), "ab")


def _report(pipe: IO[bytes]) -> Mapping[str, Any]:
    """A starting gateway's report; empty if it ended without a report, or takes too long."""
    until, said = time.monotonic() + _START_S, b""
    while not said.endswith(b"\n"):
        if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            return {}
        data = os.read(pipe.fileno(), 65536)
        if not data:
            return {}
        said += data
    return decode_line(said)
