"""Logins that principals are asked for while a gateway runs, each for exactly the principal that was asked.

The local person comes back to a port of this machine, as with `maitred login`. Everyone else comes back to
the gateway's own address, by two steps. The page of a ticket names the principal, and binds the browser by a
cookie. Then the authorization server sends that browser back. Tickets, states and cookies are random, good
once, and for some minutes.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self

import anyio

from maitred.background import Background
from maitred.errors import MaitredError
from maitred.model.access import LOCAL
from maitred.model.logins import CALLBACK, LOGIN_BASE, LOGIN_S, BrowserLogin
from maitred.model.servers import ServerSpec
from maitred.thread_import import import_in_thread

if TYPE_CHECKING:  # the SDK is slow to import
    from maitred.backends.oauth.client import LoginTarget
    from maitred.backends.oauth.login import BrowserReturn

_MOST_OPEN: Final = 1_000


class LoginStore(Protocol):
    """Knows the logins of one principal."""

    async def has(self, server: str) -> bool:
        """Whether there is a login. Raises `StoreError` if the database cannot be read."""
        ...

    async def owners(self) -> Sequence[tuple[str, str]]:
        """The server and the principal of each login of all principals. Raises `StoreError`, too."""
        ...


@dataclass(kw_only=True, eq=False)
class LoginRequest:
    """One login that a principal was asked for. `address` is what its browser opens; `error` says why not.

    `over` is set when the login was stored, or failed.
    """

    server: str
    principal: str
    ticket: str = field(repr=False)
    address: str = field(default="", repr=False)
    error: str = ""
    over: anyio.Event = field(default_factory=anyio.Event)
    begun: anyio.Event = field(default_factory=anyio.Event)
    page: str = field(default="", repr=False)
    proof: str = field(default="", repr=False)
    at: "BrowserReturn | None" = field(default=None, repr=False)


class LoginRequests(anyio.AsyncContextManagerMixin):
    """The open login requests of a gateway, which go on when the call that asked has ended.

    Args:
        make_target: What the login of a principal to a server needs.
        store_of: The logins of a principal.
    """

    def __init__(
        self,
        make_target: "Callable[[ServerSpec, str], LoginTarget]",
        store_of: Callable[[str], LoginStore],
    ) -> None:
        self._make_target = make_target
        self._store_of = store_of
        self._background = Background()
        self._open: dict[tuple[str, str], LoginRequest] = {}
        self._address = ""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with self._background:
            yield self

    def serve_at(self, address: str) -> None:
        """Browsers reach the gateway at this address, such as `https://tools.example.com`."""
        self._address = address.rstrip("/")

    async def has_login(self, server: str, principal: str) -> bool:
        """Whether a principal has a login to a server.

        Raises:
            StoreError: The database cannot be read.
        """
        return await self._store_of(principal).has(server)

    async def owners(self, server: str) -> Sequence[str]:
        """The principals who have a login to a server, by name; the empty name is that of the gateway.

        Raises:
            StoreError: The database cannot be read.
        """
        return [who for of_server, who in await self._store_of("").owners() if of_server == server]

    async def begin(self, spec: ServerSpec, principal: str) -> LoginRequest | None:
        """Begin a login, or return the open one of the same principal and server.

        `None` if no browser of the principal could come back, or too many logins are open.
        """
        if principal != LOCAL and not self._address:
            return None
        place = (spec.name, principal)
        request = self._open.get(place)
        if request is None:
            if len(self._open) >= _MOST_OPEN or not self._background.is_open:
                return None
            request = LoginRequest(server=spec.name, principal=principal, ticket=secrets.token_urlsafe(32))
            self._open[place] = request
            self._background.start(self._log_in, request, spec)
        await request.begun.wait()
        return request

    async def _log_in(self, request: LoginRequest, spec: ServerSpec) -> None:
        async def browse(page: str) -> None:
            request.page = page
            here = f"{self._address}{LOGIN_BASE}{request.ticket}"
            request.address = page if request.at is None else here
            request.begun.set()

        try:
            await import_in_thread("maitred.backends.oauth.login")
            from maitred.backends.oauth.login import BrowserReturn, log_in  # noqa: PLC0415  # slow to import

            if request.principal != LOCAL:
                request.at = BrowserReturn(self._address + CALLBACK, LOGIN_S)
            target = self._make_target(spec, request.principal)
            await log_in(target, browse, timeout_s=LOGIN_S, at=request.at)
        except MaitredError as error:
            request.error = str(error)
        finally:
            self._open.pop((request.server, request.principal), None)
            request.begun.set()
            request.over.set()

    # --- a browser, which proves nothing but that it has a ticket or a state ------------------------------

    def find(self, ticket: str) -> BrowserLogin | None:
        """The open login of a ticket that no browser has continued yet."""
        request = self._of_ticket(ticket)
        return _browser_login(request) if request else None

    def go_on(self, ticket: str) -> BrowserLogin | None:
        """Use up a ticket: from now on the login belongs to the browser that gets the proof as a cookie."""
        request = self._of_ticket(ticket)
        if request is None:
            return None
        request.proof = secrets.token_urlsafe(32)
        return _browser_login(request)

    def _of_ticket(self, ticket: str) -> LoginRequest | None:
        for request in self._open.values():
            if secrets.compare_digest(request.ticket.encode(), ticket.encode()):
                return request if request.at and request.address and not request.proof else None
        return None

    def come_back(self, values: Mapping[str, str], proofs: Mapping[str, str]) -> tuple[bool, str]:
        """Take a browser's return; returns whether it counts, and what to show.

        `values` is the query of its request. `proofs` has cookies, by their names.
        """
        for request in self._open.values():
            at = request.at
            if at is None or not at.is_of(values.get("state", "")):
                continue
            given = proofs.get(_cookie(request), "")
            if not request.proof or not secrets.compare_digest(given.encode(), request.proof.encode()):
                return False, "This login was begun in another browser. Ask for it again in yours."
            counts, text = at.take(values)
            at.arrived()
            return counts, text
        return False, "No login waits for this. It may have taken too long; make the call again."


def _cookie(request: LoginRequest) -> str:
    """The name of the cookie of a login, of which a browser may have several."""
    return f"maitred-login-{hashlib.sha256(request.ticket.encode()).hexdigest()[:8]}"


def _browser_login(request: LoginRequest) -> BrowserLogin:
    return BrowserLogin(
        server=request.server,
        principal=request.principal,
        page=request.page,
        cookie=_cookie(request),
        proof=request.proof,
        is_secure=request.address.startswith("https:"),
    )
