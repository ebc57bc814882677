"""Ask running gateways for their status, and stop those in the background.

To add a request, send it with `_ask_one` here and answer it in `server`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from maitred.errors import DaemonError
from maitred.surfaces.daemon.discovery import EndpointQuery, reach
from maitred.surfaces.daemon.handshake import GatewayConnection, start, values
from maitred.surfaces.daemon.sockets import Address, GatewayEndpoint, address_of, every_seat

_ANSWER_S: Final = 5.0
_END_S: Final = 30.0
_PAGES_S: Final = 30.0
"""The first page that a gateway shows takes a while to load."""
_KINDS: Final = ("daemon", "http", "stdio")
_LOOK_S: Final = 0.02


@dataclass(frozen=True, kw_only=True)
class RunningGateway:
    """A gateway that lives: its status, or why there is none."""

    pid: int
    status: Mapping[str, Any] | None = None
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """The status as JSON for programs."""
        return dict(self.status) if self.status is not None else {"pid": self.pid, "fault": self.fault}


def gateways(config: Path, token: str) -> Sequence[RunningGateway]:
    """All gateways that serve a configuration now, the oldest first.

    Raises:
        DaemonError: The folder of sockets cannot be used, or a gateway refuses its status.
    """
    found = []
    for seat in _address(config).seats():
        if seat.lives():
            answer = _ask_one(seat, "status", token)
            if answer.get("maitred") == "refused":
                raise DaemonError(str(answer.get("why")))
            status = {key: value for key, value in answer.items() if key != "maitred"}
            if status:
                found.append(RunningGateway(pid=status["pid"], status=status))
            elif seat.lives():
                found.append(
                    RunningGateway(pid=seat.pid(), fault="does not answer: it is starting, ending or hanging")
                )
    return sorted(found, key=lambda one: str((one.status or {}).get("since")))


def stop_gateways(config: Path, token: str, *, all_of_them: bool) -> Sequence[int]:
    """Stop the background gateways of a configuration, or all of this user; returns their process ids.

    Raises:
        DaemonError: A gateway refuses or does not end, or the folder of sockets cannot be used.
    """
    address = _address(config)
    seats = every_seat(address.folder) if all_of_them else address.seats()
    ending = []
    for seat in seats:
        if seat.is_daemon and seat.lives():
            pid = seat.pid()
            answer = _ask_one(seat, "stop", token)
            if answer.get("maitred") == "refused":
                raise DaemonError(str(answer.get("why")))
            ending.append((seat, pid))
    until = time.monotonic() + _END_S
    for seat, pid in ending:
        while seat.lives():
            if time.monotonic() > until:
                raise DaemonError(f"the gateway of process {pid} does not end; `kill -9 {pid}` ends it")
            time.sleep(_LOOK_S)
    return [pid for _, pid in ending]


def ask_for_pages(config: Path, token: str) -> str:
    """The address by which a person enters the web interface of a running gateway; empty if none runs.

    A gateway that clients share is asked first, then one that serves HTTP, then any.

    Raises:
        DaemonError: A gateway refuses it, or the folder of sockets cannot be used.
    """
    seats = [seat for seat in _address(config).seats() if seat.lives()]
    for seat in sorted(seats, key=lambda one: _KINDS.index(one.kind)):
        answer = _ask_one(seat, "pages", token, timeout_s=_PAGES_S)
        if answer.get("maitred") == "refused":
            raise DaemonError(str(answer.get("why")))
        if address := answer.get("address"):
            return str(address)
    return ""


def start_shared(config: Path, token: str) -> GatewayConnection:
    """A connection to the gateway that clients share; it is started, and stays while this is open.

    Raises:
        DaemonError: None can be started, or it refuses this environment.
    """
    hello = {"token": token, "values": values(), "start": start()}
    return reach(EndpointQuery(_address(config), hello))


def _address(config: Path) -> Address:
    try:
        return address_of(config)
    except OSError as error:
        raise DaemonError(f"gateways cannot be looked for: {error}") from error


def _ask_one(
    seat: GatewayEndpoint, wants: str, token: str, timeout_s: float = _ANSWER_S
) -> Mapping[str, Any]:
    """A gateway's answer; empty if it gives none."""
    try:
        talk = GatewayConnection(seat.socket, timeout_s)
    except OSError:
        return {}
    try:
        return talk.ask({"maitred": wants, "token": token})
    except TimeoutError:
        return {}
    finally:
        talk.close()
