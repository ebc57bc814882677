"""Where the gateway may listen: on loopback, or anywhere with a token."""

import ipaddress

from maitred.config.settings import Http
from maitred.errors import ConfigError


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(settings: Http) -> None:
    """Refuse to listen where everybody could call every tool.

    Raises:
        ConfigError: The address is not loopback and there is no token.
    """
    if not is_loopback(settings.host) and not settings.token:
        fault = (
            f"http.host: {settings.host} can be reached from other machines, so a token is needed:"
            " set `http.token` or pass --token"
        )
        raise ConfigError("serve", [fault])
    if not settings.token.isascii():
        raise ConfigError("serve", ["http.token: HTTP headers carry ASCII only; choose another token"])


def is_any(host: str) -> bool:
    """Whether an address stands for all addresses of the machine."""
    return host in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound
