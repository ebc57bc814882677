"""Detect a gateway that lives but answers no client, distinguish it from a busy one, and end it.

Silence on a client's own connection shows nothing, because a call may take long. So the check uses a second
connection. A gateway is ended only if its process holds the endpoint's lock and the other end of a connection
at that moment. So a process that got the same id later is never ended.
"""

import os
import select
import signal
import sys
from contextlib import suppress
from typing import Final

from maitred.surfaces.daemon.handshake import GatewayConnection
from maitred.surfaces.daemon.sockets import GatewayEndpoint, peer_pid

_ANSWER_S: Final = 30.0  # longer than any pause of a busy gateway


def answers(talk: GatewayConnection) -> bool:
    """Whether a gateway is well, as far as we can see; true if it is gone, since its connection shows that.

    Takes half a minute if it is not.
    """
    try:
        second = GatewayConnection(talk.path, _ANSWER_S)
    except BlockingIOError:  # the queue is full, and the gateway accepts no connection
        return _has_news(talk)
    except OSError:
        return True
    try:
        second.ask({"maitred": "ping"})
    except TimeoutError:
        return _has_news(talk)
    finally:
        second.close()
    return True


def end_gateway(talk: GatewayConnection) -> bool:
    """End the gateway at the other end of a connection at once; false if it is not certainly one of ours.

    It gets SIGKILL, because it no longer listens; the processes that it started end with it.
    """
    seat = GatewayEndpoint.at(talk.path)
    pid = seat.pid()
    if pid in {0, 1, os.getpid()}:
        return False
    handle = _handle(pid)
    try:
        if not seat.lives() or seat.pid() != pid or peer_pid(talk.socket) not in {0, pid} or _has_news(talk):
            return False
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except OSError:  # it has just gone, or the system does not permit it
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _handle(pid: int) -> int | None:
    """A handle of the process that has this id now, and of no later process; `None` except on Linux."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _has_news(talk: GatewayConnection) -> bool:
    """Whether the gateway has sent bytes or closed the connection, which is then no longer open."""
    return bool(select.select([talk.socket], [], [], 0)[0])
