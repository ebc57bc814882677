"""A gateway that lives and answers nobody: how that is told from one that is busy, and how it is ended.

Silence on a client's own connection says nothing, since a call may take long; so it is asked on another. What
is ended is the process that holds the lock of an endpoint and the other end of a connection to it, both at
the moment when it is ended: a process id that was given to somebody else since then is never meant.
"""

import os
import select
import signal
import sys
from contextlib import suppress
from typing import Final

from maitred.surfaces.daemon.handshake import GatewayConnection
from maitred.surfaces.daemon.sockets import GatewayEndpoint, peer_pid

_ANSWER_S: Final = 30.0  # longer than any pause of a gateway that is only busy


def answers(talk: GatewayConnection) -> bool:
    """Whether a gateway is well, as far as can be told; one that has gone is, since its connection tells.

    Takes half a minute if it is not.
    """
    try:
        second = GatewayConnection(talk.path, _ANSWER_S)
    except BlockingIOError:  # too many stand there, and nobody lets them in
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


def ended(talk: GatewayConnection) -> bool:
    """End the gateway at the other end of a connection at once; false if it is not certainly one of ours.

    It is not asked to end in good order, since it does not listen; what it had started ends with it.
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
    except OSError:  # it has just gone, or the system does not let us
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _handle(pid: int) -> int | None:
    """What stands for the process that has an id now, and for no later one, where the system has that."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _has_news(talk: GatewayConnection) -> bool:
    """Whether the gateway has said something or closed the connection, which is then no longer open."""
    return bool(select.select([talk.socket], [], [], 0)[0])
