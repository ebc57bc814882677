"""`maitred serve` as clients start it, before any slow import: most clients wait for it.

It understands only the usual words of the command line. It leaves all others, and gateways that run in this
process, to the full command line, which has the same results.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from maitred.config.paths import default_path
from maitred.surfaces.daemon.client_relay import ClientRelay, end_when_told
from maitred.surfaces.daemon.discovery import AloneError, EndpointQuery, reach
from maitred.surfaces.daemon.handshake import GatewayConnection, start, values
from maitred.surfaces.daemon.sockets import address_of, can_share

AS_TOKEN: Final = "MAITRED_AS_TOKEN"  # noqa: S105  # a name


def serve_command(words: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Serve by the words of a command line; returns the exit code, or `None` to leave it to the command line.

    Raises:
        DaemonError: No gateway can be reached.
    """
    options = _options_of(words)
    if options is None or AS_TOKEN in environ:
        return None
    path, profile = options
    config = Path(path).expanduser() if path else default_path(environ)
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "daemon" in text and "enabled" in text:  # it may turn sharing off
        return None
    return serve_shared(config, profile=profile, tells=False)


def serve_shared(
    config: Path, *, token: str = "", profile: str = "", options: Sequence[str] = (), tells: bool = True
) -> int | None:
    """Pass standard streams to the gateway that clients share; `None` if this process has to serve alone.

    `tells` writes the reason for that to standard error, unless the configuration is the reason.

    Raises:
        DaemonError: No gateway can be reached.
    """
    if not can_share():
        return None
    hello = {"token": token, "profile": profile, "values": values(), "start": start()}

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


def _options_of(words: Sequence[str]) -> tuple[str, str] | None:
    """The configuration and the profile in the words of `serve`, each empty without one.

    `None` if there are other words too.
    """
    config, profile, rest = "", "", list(words)
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
        elif name == "--profile" and text:
            profile = text
        elif (name, text) != ("--transport", "stdio"):
            return None
    return config, profile
