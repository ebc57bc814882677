"""Where the gateway may listen, and whose tokens it takes: on loopback, or anywhere with a token."""

import ipaddress
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

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
        ConfigError: The address is not loopback and there is neither a token nor an issuer of tokens.
    """
    if not is_loopback(settings.host) and not settings.token and not settings.jwt:
        fault = (
            f"http.host: {settings.host} can be reached from other machines, so a token is needed:"
            " set `http.token` or pass --token, or set `http.jwt`"
        )
        raise ConfigError("serve", [fault])
    if not settings.token.isascii():
        raise ConfigError("serve", ["http.token: HTTP headers carry ASCII only; choose another token"])


def http_faults(section: Http) -> Iterator[tuple[Sequence[str], str]]:
    """What is wrong with the section as a whole: pairs of the keys below it and a text."""
    jwt = section.jwt
    if jwt is None:
        return
    if not _is_safe(jwt.jwks_url):
        yield ["jwt", "jwks_url"], "must start with https:// (http:// only on this machine)"
    if not (jwt.roles or jwt.default_role):
        yield ["jwt", "roles"], "names no role, so nobody is let in; fill `roles` or set `default_role`"


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def is_any(host: str) -> bool:
    """Whether an address stands for all addresses of the machine."""
    return host in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound
