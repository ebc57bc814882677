"""People who sign in at an OpenID provider: what they may do here, and the record of it.

`SignInMethods` has the methods of `Gateway` for it. `maitred.access.oidc` speaks to the provider.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

from maitred.access.claims import claim_mapping, grant_from_claims
from maitred.access.credentials import Credentials
from maitred.audit.service import AuditService
from maitred.config.settings import SignIn
from maitred.errors import SignInError
from maitred.gateway.state import GatewayState
from maitred.model.access import Grant, RefusedAccess, Viewer
from maitred.model.sign_in import SignedIn, SignInStart

_ACT: Final = "sign_in"


class SignInClient(Protocol):
    """Signs people in at one provider; see `maitred.access.oidc.OidcClient`."""

    settings: SignIn

    async def start(self) -> SignInStart:
        """Begin a sign-in."""
        ...

    async def finish(self, answer: Mapping[str, str], begun: SignInStart) -> SignedIn:
        """The person of the provider's answer."""
        ...


MakeSignInClient = Callable[[SignIn], SignInClient]


class SignInMethods:
    """The methods of a gateway about people who sign in. They are asked before there is a viewer."""

    _context: GatewayState
    _auditing: AuditService
    _credentials: Credentials
    _make_sign_in_client: MakeSignInClient
    _sign_in_client: SignInClient | None = None

    @property
    def sign_in(self) -> SignIn | None:
        """The provider of the settings; `None` if people enter by tokens alone."""
        return self._context.settings.access.sign_in

    @property
    def sign_in_name(self) -> str:
        """What people call the provider; empty if there is none."""
        settings = self.sign_in
        return (settings.name or urlsplit(settings.issuer).netloc) if settings else ""

    async def start_sign_in(self) -> SignInStart:
        """Begin a sign-in at the provider.

        Raises:
            SignInError: There is no provider, or it cannot be used now.
        """
        return await self._client().start()

    async def finish_sign_in(self, answer: Mapping[str, str], begun: SignInStart) -> tuple[SignedIn, Grant]:
        """The person of the provider's answer, and what that person may do here; recorded.

        Raises:
            SignInError: The answer is not good, or gives no role here.
            StoreError: It cannot be recorded, so no person enters.
        """
        try:
            person = await self._client().finish(answer, begun)
            grant = await self._granted(person)
        except SignInError as error:
            nobody = Viewer(grant=Grant(principal="", role="viewer"), surface="web")
            self._auditing.note(nobody, _ACT, outcome=SignInError.code, detail=error.reason)
            raise
        viewer = Viewer(grant=grant, surface="web")
        await self._auditing.record(viewer, _ACT, detail=_describe(grant))
        return person, grant

    async def grant_of_person(self, person: SignedIn) -> Grant | RefusedAccess:
        """What a person may do by the present settings, or why nothing."""
        settings = self._context.settings
        meaning = claim_mapping(settings.http.jwt, settings.access)
        return await self._credentials.admit(grant_from_claims(person.claims, meaning))

    async def _granted(self, person: SignedIn) -> Grant:
        grant = await self.grant_of_person(person)
        if isinstance(grant, RefusedAccess):
            raise SignInError(grant.reason, "ask the operator of this gateway for a role")
        return grant

    def _client(self) -> SignInClient:
        """The client of the present settings; what it knows of the provider stays until they change."""
        settings = self.sign_in
        if settings is None:
            raise SignInError("no provider is set here", "enter with an access token")
        if self._sign_in_client is None or self._sign_in_client.settings != settings:
            self._sign_in_client = self._make_sign_in_client(settings)
        return self._sign_in_client


def _describe(grant: Grant) -> str:
    """What a person got, for the audit trail."""
    groups = [f"groups {', '.join(grant.groups)}"] if grant.groups else []
    return "; ".join([grant.role, *groups])
