"""`maitred serve` as clients start it, before anything that is slow to import: most of them wait for it.

Only the usual words are understood here. All others, and whatever is to run in this process, are left to the
command line, which comes to the same.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from maitred.config.paths import default_path
from maitred.surfaces.daemon.client_relay import ClientRelay, end_when_told
from maitred.surfaces.daemon.discovery import AloneError, EndpointQuery, reach
from maitred.surfaces.daemon.handshake import GatewayConnection, values
from maitred.surfaces.daemon.sockets import address_of, can_share

AS_TOKEN: Final = "MAITRED_AS_TOKEN"  # noqa: S105  # a name


def served(words: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Serve as the words of a command line say; the exit code, or `None` if that is not for here.

    Raises:
        DaemonError: No gateway can be reached.
    """
    path = _config_of(words)
    if path is None or AS_TOKEN in environ:
        return None
    config = Path(path).expanduser() if path else default_path(environ)
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "daemon" in text and "enabled" in text:  # it may say that this process is to serve alone
        return None
    return serve_shared(config, tells=False)


def serve_shared(
    config: Path, *, token: str = "", options: Sequence[str] = (), tells: bool = True
) -> int | None:
    """Pass standard streams to the gateway that clients share; `None` if this process has to serve alone.

    `tells` has the reason for that written to standard error, unless the configuration is the reason.

    Raises:
        DaemonError: No gateway can be reached.
    """
    if not can_share():
        return None
    hello = {"token": token, "values": values()}

    def found() -> GatewayConnection:
        return reach(EndpointQuery(address_of(config), hello, options))

    end_when_told()
    try:
        talk = found()
    except AloneError:
        return None
    except OSError as error:
        if tells:
            sys.stderr.write(f"no gateway is shared: {error}\n")
        return None
    return ClientRelay(found, 0, 1).run(talk)


def _config_of(words: Sequence[str]) -> str | None:
    """The configuration that `serve` is given, empty if none is; `None` if other words stand there, too."""
    config, rest = "", list(words)
    if rest[:1] != ["serve"]:
        return None
    del rest[0]
    while rest:
        word = rest.pop(0)
        name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        if not equals and rest:
            text = rest.pop(0)
        if name in {"-c", "--config"} and text:
            config = text
        elif (name, text) != ("--transport", "stdio"):
            return None
    return config
