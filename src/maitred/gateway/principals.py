"""The kill switch for one principal, as methods of `Gateway`: suspend, resume, and who is suspended."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from maitred.access.suspended_principals import SuspendedPrincipal, SuspendedPrincipals
from maitred.access.token_store import RESERVED
from maitred.audit.service import AuditService
from maitred.errors import PrincipalError
from maitred.gateway.held_calls import HeldCallService
from maitred.model.access import Viewer
from maitred.wording import quote_input

_MOST_NAME: Final = 500
_MOST_WHY: Final = 500


@dataclass(frozen=True, kw_only=True)
class PrincipalSuspension:
    """What a suspension did: the principal, and how many calls that waited for a person it refused."""

    principal: str
    refused_calls: int


class PrincipalMethods:
    """The methods of a gateway that suspend principals."""

    _auditing: AuditService
    _held: HeldCallService
    _suspended: SuspendedPrincipals

    async def suspend_principal(
        self, principal: str, viewer: Viewer, *, why: str = ""
    ) -> PrincipalSuspension:
        """Refuse all tokens of a principal at once, and end what it has open, on every process within 1 s.

        Raises:
            NotAllowedError: The viewer may not suspend.
            PrincipalError: It cannot be suspended, or is so already.
            StoreError: It cannot be written.
        """
        self._auditing.require(viewer, "approve")
        _check(principal, viewer)
        if not await self._suspended.suspend(principal, who=viewer.principal, why=why[:_MOST_WHY]):
            raise PrincipalError(f"{quote_input(principal)} is suspended already")
        try:
            refused = await self._held.refuse_all(principal, viewer)
        finally:
            await self._suspended.end(principal)
            await self._auditing.record(viewer, "principal.suspend", detail=_described(principal, why))
        return PrincipalSuspension(principal=principal, refused_calls=refused)

    async def resume_principal(self, principal: str, viewer: Viewer, *, why: str = "") -> None:
        """Give a principal back what its tokens and groups give it.

        Raises:
            NotAllowedError: The viewer may not resume.
            PrincipalError: It is not suspended.
            StoreError: It cannot be written.
        """
        self._auditing.require(viewer, "approve")
        if not await self._suspended.resume(principal):
            raise PrincipalError(f"{quote_input(principal)} is not suspended")
        await self._auditing.record(viewer, "principal.resume", detail=_described(principal, why))

    async def suspended_principals(self, viewer: Viewer) -> Sequence[SuspendedPrincipal]:
        """Who is suspended, the first first.

        Raises:
            NotAllowedError: The viewer may not suspend.
            StoreError: They cannot be read.
        """
        self._auditing.require(viewer, "approve")
        return await self._suspended.listed()

    def hold_request(self, principal: str) -> AbstractContextManager[None]:
        """Run a request of a principal; it is left early, without an error, when that is suspended."""
        return self._suspended.hold(principal, "request")

    async def why_suspended(self, principal: str) -> str:
        """Why a principal is refused, without a full stop; empty if it is not suspended.

        Raises:
            StoreError: It could never be read.
        """
        return await self._suspended.why(principal)

    def follow_suspensions(self) -> AbstractContextManager[None]:
        """Have suspensions by other processes noticed in the meantime, though nothing is held."""
        return self._suspended.follow()

    def watch_suspensions(self, listener: Callable[[], None]) -> None:
        """Call a function after a principal was suspended; it must not block."""
        self._suspended.listen(listener)


def _check(principal: str, viewer: Viewer) -> None:
    """Refuse the suspension of those who could not be resumed, or have other ways.

    Raises:
        PrincipalError: The text says which.
    """
    name = quote_input(principal)
    if principal == viewer.principal:
        raise PrincipalError(f"{name} is who asks, and could not resume itself")
    if principal in RESERVED:
        raise PrincipalError(
            f"{name} has no tokens of its own: change `http.token` for 'http', `http.anonymous` for 'local'"
        )
    if not principal.strip() or len(principal) > _MOST_NAME:
        raise PrincipalError("name the principal, as the audit trail has it")


def _described(principal: str, why: str) -> str:
    return f"{principal}{f': {why[:_MOST_WHY]}' if why else ''}"
