"""A socket that a service manager listens on for us and passes on, as systemd does (sd_listen_fds(3)).

The manager keeps it while the gateway restarts, so clients that connect meanwhile wait and are not refused.
"""

import os
import socket
from collections.abc import MutableMapping
from typing import Final

from maitred.config.sections import is_loopback
from maitred.config.settings import Http
from maitred.errors import ConfigError

_FIRST: Final = 3
"""The file descriptor of the first socket."""


def inherited_socket(settings: Http, environ: MutableMapping[str, str] = os.environ) -> socket.socket | None:
    """The socket that was passed to this process, or `None`. Programs that we start do not hear of it.

    Raises:
        ConfigError: There are several, or it listens elsewhere than the configuration says.
    """
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if not count or pid != str(os.getpid()):
        return None
    if count != "1":
        raise ConfigError("serve", [f"the service manager passes {count} sockets; pass one"])
    try:
        held = socket.socket(fileno=_FIRST)
    except OSError as error:
        fault = f"the service manager passes no socket at descriptor {_FIRST}: {error}"
        raise ConfigError("serve", [fault]) from error
    held.set_inheritable(False)
    if not _is_meant(held, settings):
        fault = (
            f"the socket of the service manager is {held.getsockname()!r}, and the configuration says"
            f" {settings.host}:{settings.port}; make both the same"
        )
        held.close()
        raise ConfigError("serve", [fault])
    return held


def _is_meant(held: socket.socket, settings: Http) -> bool:
    """Whether it listens where the configuration says, by whose address the token was asked for."""
    if held.family not in (socket.AF_INET, socket.AF_INET6) or held.type != socket.SOCK_STREAM:
        return False
    host, port = held.getsockname()[:2]
    is_same = host == settings.host or (is_loopback(host) and is_loopback(settings.host))
    return is_same and port == settings.port
