"""Find the background gateway of a configuration, or start it: one, however many look for it at once.

A gateway may be there and not serve us: it has other values in its environment, or is about to end. Only who
holds the lock of the configuration starts one, and the one that is started holds it on until it listens.
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
from maitred.surfaces.daemon.handshake import GatewayConnection, unpacked
from maitred.surfaces.daemon.liveness import ended
from maitred.surfaces.daemon.sockets import Address, GatewayEndpoint, hold

_ANSWER_S: Final = 30.0
_START_S: Final = 120.0
_STARTS: Final = 3
_REST_S: Final = 0.2
_LOOK_S: Final = 0.02


class AloneError(DaemonError):
    """The configuration says that nothing is to be shared, so there is nothing to start."""


class RefusalError(DaemonError):
    """Whoever could serve us says why it does not; to ask again at once is of no use."""


class VanishedError(DaemonError):
    """A gateway that was started ended without saying why: somebody may have killed it."""


class EndpointQuery(NamedTuple):
    """What is looked for; `options` are those of `maitred` itself for a gateway that has to be started."""

    address: Address
    hello: Mapping[str, Any]
    options: Sequence[str] = ()


def reach(wanted: EndpointQuery) -> GatewayConnection:
    """A conversation with a gateway that has welcomed us.

    Raises:
        AloneError: None is to be shared.
        DaemonError: There is none, and none can be started; or it refuses us.
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
    """A conversation with a gateway that is there and welcomes us.

    Raises:
        DaemonError: One refuses us, or does not answer and cannot be ended.
    """
    return _find(wanted)[0]


def _find(wanted: EndpointQuery) -> tuple[GatewayConnection | None, Sequence[GatewayEndpoint]]:
    """A gateway that welcomes us; and the endpoints that are held and listen no more."""
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
    """What a gateway says to us: `welcome`, `other` if it serves others, or nothing if it is ending.

    One that hangs is ended.

    Raises:
        RefusalError: It refuses us.
        DaemonError: It does not answer, and it is not certain that it may be ended.
    """
    try:
        answer = talk.ask({"maitred": "serve", **wanted.hello})
    except TimeoutError:
        if ended(talk):
            return ""
        talk.close()
        raise DaemonError(
            f"the background gateway (process {seat.pid()}) does not answer; end it by hand"
        ) from None
    if answer.get("maitred") == "refused":
        talk.close()
        raise RefusalError(str(answer.get("why")))
    return str(answer.get("maitred", ""))


def _wait_for_end(seat: GatewayEndpoint) -> None:
    """Wait for a gateway that is ending, so that no server runs twice.

    Raises:
        DaemonError: It does not end.
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
    """Hold a lock that others may hold for as long as a gateway takes to start.

    Raises:
        DaemonError: It is not given up.
    """
    until = time.monotonic() + _START_S
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as lock:
        while not hold(lock.fileno()):
            if time.monotonic() > until:
                raise DaemonError(f"{path} is held by another start that does not end")
            time.sleep(_LOOK_S)
        yield lock


def log_path(address: Address, environ: Mapping[str, str] = os.environ) -> Path:
    """Where background gateways of a configuration write what goes to standard error."""
    return state_folder(environ) / f"gateway-{address.key}.log"


def environment_of_gateway(environ: Mapping[str, str]) -> dict[str, str]:
    """What a gateway that is started sees: no token of ours, and no mark, since it belongs to nobody.

    A gateway whose server started us would else end it for all others when it ends itself.
    """
    return {name: text for name, text in environ.items() if name not in ("MAITRED_AS_TOKEN", MARK)}


def _start(wanted: EndpointQuery, lock: IO[bytes]) -> GatewayConnection:
    """Start a gateway, which takes over the lock as its standard input, and speak with it.

    Raises:
        AloneError: The configuration forbids it.
        RefusalError: The configuration is faulty, or it refuses us.
        DaemonError: It does not start, or refuses us.
    """
    import subprocess  # noqa: PLC0415  # slow to import, and hardly ever needed

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
        process.wait(1)  # the gateway itself is a child of this one, so that no client ends it with us
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
        raise DaemonError(f"the background gateway does not take who started it; {log} may say why")
    return talk


def opened_log(log: Path, flags: int = 0) -> IO[bytes]:
    """A log to append to, readable by its owner alone."""
    make_folder(log.parent)
    always = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    return os.fdopen(os.open(log, always | flags, 0o600), "ab")


def _report(pipe: IO[bytes]) -> Mapping[str, Any]:
    """What a gateway that starts says of that; empty if it ended without a word, or takes too long."""
    until, said = time.monotonic() + _START_S, b""
    while not said.endswith(b"\n"):
        if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            return {}
        data = os.read(pipe.fileno(), 65536)
        if not data:
            return {}
        said += data
    return unpacked(said)
