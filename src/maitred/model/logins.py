"""A login to a server that a browser makes for a principal, as pages of the gateway see it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

LOGIN_BASE: Final = "/ui/logins/"
"""Where the pages of logins are at the gateway's address, in reach of its cookies; a ticket follows."""

CALLBACK: Final = f"{LOGIN_BASE}callback"
"""The path to which authorization servers send a browser back."""

LOGIN_S: Final = 300.0
"""For how long a login that was asked for can be made, in seconds."""


@dataclass(frozen=True, kw_only=True)
class BrowserLogin:
    """An open login. `page` is that of the authorization server.

    `cookie` is the name of the cookie that binds the browser, `proof` its value, which is empty before a
    browser has continued the login. `is_secure` says whether browsers reach the gateway by https.
    """

    server: str
    principal: str
    page: str = field(repr=False)
    cookie: str = ""
    proof: str = field(default="", repr=False)
    is_secure: bool = False


def describe_owners(names: Sequence[str]) -> str:
    """Whose logins there are to a server at which each has its own; the empty name is the gateway."""
    shown = [name or "the gateway" for name in names]
    return f"logins of {', '.join(shown)}" if shown else "each principal needs a login, and none has one yet"
