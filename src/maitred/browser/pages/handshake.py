"""Decides by its handshake whether a page may dial in, and whose page it is.

The origin is the one that the browser names; what the page says later cannot change it. A name of another
machine in `Host` is DNS rebinding. The token keeps out programs of other users of this machine, which can
claim any origin. It is a subprotocol, since browsers send pages' own values nowhere else but in the URL.
"""

import re
import secrets
from dataclasses import dataclass
from typing import Final

from websockets.http11 import Request

from maitred.model.pages import OriginRules

PROTOCOL: Final = "maitred.v1"
_TOKEN: Final = "token."  # noqa: S105  # what precedes it
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_PATH: Final = re.compile(r"/\?tab=([A-Za-z0-9_-]{1,64})")


class DialInRefusedError(Exception):
    """A page may not dial in; the text says why, for the operator. `status` is the HTTP status."""

    def __init__(self, reason: str, *, status: int = 403) -> None:
        self.reason = reason
        self.status = status
        super().__init__(reason)


@dataclass(frozen=True, kw_only=True)
class Dialer:
    """A page that may dial in: its origin, and its name for its tab."""

    origin: str
    tab: str


def read_handshake(request: Request, *, port: int, token: str, rules: OriginRules) -> Dialer:
    """The page that a request comes from.

    Raises:
        DialInRefusedError: It may not dial in.
    """
    host = _only(request, "Host").lower()
    if host not in {f"{one}:{port}" for one in _HOSTS}:
        raise DialInRefusedError(f"the host {host[:100]!a} is not this machine")
    origin = _only(request, "Origin")
    if not rules.allows(origin):
        raise DialInRefusedError(f"the origin {origin[:100]!a} is not in `pages.allow` or `pages.ask`")
    offers = ",".join(request.headers.get_all("Sec-WebSocket-Protocol")).split(",")
    offered = [one.strip() for one in offers]
    tokens = [one.removeprefix(_TOKEN) for one in offered if one.startswith(_TOKEN)]
    sent = tokens[0] if len(tokens) == 1 and PROTOCOL in offered else ""
    if not secrets.compare_digest(sent.encode(errors="surrogateescape"), token.encode()):
        raise DialInRefusedError(f"a page of {origin} has no valid token of this run")
    tab = _PATH.fullmatch(request.path)
    if tab is None:
        raise DialInRefusedError(f"a page of {origin} names no tab; load the module of this version")
    return Dialer(origin=origin, tab=tab[1])


def _only(request: Request, name: str) -> str:
    """The value of a header that comes once; empty if it does not."""
    values = request.headers.get_all(name)
    return values[0] if len(values) == 1 else ""
