"""Logins of principals to servers, asked for by the question of a call (elicitation in URL mode)."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from maitred.backends.oauth.grants import login_command
from maitred.backends.oauth.login_requests import LoginRequest, LoginRequests
from maitred.calls.pipeline import Call
from maitred.errors import CallerRefusedError, ServerUnavailableError
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.asking import ELICIT, ELICITED, check_askable
from maitred.model.logins import BrowserLogin

_MODE: Final = {"mode": "url"}


class PersonalLogins:
    """Implements `maitred.calls.steps.ask_for_login.LoginAsker`."""

    def __init__(self, context: GatewayState, requests: LoginRequests) -> None:
        self._context = context
        self._requests = requests

    def wants_login(self, server: str) -> bool:
        """See `LoginAsker`."""
        spec = self._context.settings.servers.get(server)
        return spec is not None and spec.auth is not None and spec.auth.per == "user" and spec.auth.has_logins

    async def admit(self, call: Call) -> None:
        """See `LoginAsker`."""
        server, principal = call.tool.server, call.viewer.principal
        if await self._requests.has_login(server, principal):
            return
        needed = f"it needs a login of {principal!r}: run `{login_command(server, principal)}`"
        try:
            check_askable(ELICIT, _MODE, call.caller.capabilities)
        except CallerRefusedError as error:
            raise ServerUnavailableError(server, needed) from error
        request = await self._requests.begin(self._context.spec(server), principal)
        if request is None or not request.address:
            why = f" ({request.error.rstrip('.')})" if request and request.error else ""
            raise ServerUnavailableError(server, needed + why)
        await self._ask(call, request, needed)
        if not await self._requests.has_login(server, principal):
            why = request.error.rstrip(".") or "the login was declined"
            raise ServerUnavailableError(server, f"{needed} ({why})")

    async def _ask(self, call: Call, request: LoginRequest, needed: str) -> None:
        """Let the client open the address, and wait until its person has logged in there."""
        call.note_question(ELICIT)
        elicitation = secrets.token_hex(16)
        text = f"{request.server} needs your own login ({request.principal}). Open this address to log in."
        question = {**_MODE, "message": text, "url": request.address, "elicitationId": elicitation}
        try:
            answer = await call.caller.ask(ELICIT, question)
        except CallerRefusedError as error:
            raise ServerUnavailableError(request.server, f"{needed} ({error.message})") from error
        if answer.get("action") == "accept":
            await request.over.wait()
            await call.caller.notify(ELICITED, {"elicitationId": elicitation})


class LoginMethods:
    """The methods of the gateway for browsers that log a principal in, before anything proves whose they are.

    A ticket or a state proves that the principal was asked; see `maitred.backends.oauth.login_requests`.
    """

    _logins: LoginRequests
    _access: Authorization
    _context: GatewayState

    async def login_owners(self, server: str, viewer: Viewer) -> Sequence[str] | None:
        """Who has a login to a server at which each principal has its own; `None` for any other server.

        Names come in order; the empty name is that of the gateway, by whose login tools are listed.

        Raises:
            NotAllowedError: The viewer may not watch the server.
            StoreError: The logins cannot be read.
        """
        self._access.check(viewer, "watch", server=server)
        spec = self._context.settings.servers.get(server)
        if spec is None or spec.auth is None or spec.auth.per != "user" or not spec.auth.has_logins:
            return None
        return await self._logins.owners(server)

    def take_logins_at(self, address: str) -> None:
        """Let principals log in by this address, at which browsers reach the gateway."""
        self._logins.serve_at(address)

    def find_login(self, ticket: str) -> BrowserLogin | None:
        """The open login of a ticket."""
        return self._logins.find(ticket)

    def continue_login(self, ticket: str) -> BrowserLogin | None:
        """Use up a ticket, and bind the login to a browser."""
        return self._logins.go_on(ticket)

    def finish_login(self, values: Mapping[str, str], proofs: Mapping[str, str]) -> tuple[bool, str]:
        """Take a browser's return from the authorization server."""
        return self._logins.come_back(values, proofs)
