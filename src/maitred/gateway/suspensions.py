"""Records acts of supervision: lines in the audit trail, and lasting suspensions.

The pool gives a server up at once. This module writes that as an event into the registry's log, as if a
person had suspended the server. So no process on the catalog starts it, also after a restart. `maitred
explain` shows the suspension, and `maitred resume` ends it.
"""

from collections import deque
from typing import Final

import anyio
import structlog

from maitred.audit.log import AuditEntry
from maitred.audit.service import AuditService
from maitred.backends.base import SupervisionEvent
from maitred.errors import AdmissionError, StoreError
from maitred.gateway.admission import SUPERVISOR, AdmissionService
from maitred.gateway.state import GatewayState

log = structlog.get_logger(__name__)

_AGAIN_S: Final = 2.0


class SuspensionRecorder:
    """Records acts of supervision. `keep_up` must run, or suspensions are not written."""

    def __init__(self, context: GatewayState, admission: AdmissionService, auditing: AuditService) -> None:
        self._context = context
        self._admission = admission
        self._auditing = auditing
        self._given_up: deque[tuple[str, str]] = deque()
        self._came = anyio.Event()

    def heard(self, server: str, event: SupervisionEvent) -> None:
        """Record an act of supervision on a server; called from owner tasks."""
        if event.kind == "suspend":
            self._given_up.append((server, event.why))
            self._came.set()
        else:
            self._auditing.note_act(
                AuditEntry(who=SUPERVISOR, action=event.kind, server=server, detail=event.why)
            )

    async def keep_up(self) -> None:
        """Write suspensions into the log; never returns."""
        while True:
            await self._came.wait()
            self._came = anyio.Event()
            while self._given_up:
                await self._suspend(*self._given_up.popleft())

    async def _suspend(self, server: str, why: str) -> None:
        """Write a suspension. Until then, only this process has given the server up."""
        while self._context.pool.is_given_up(server):  # not replaced since, by an edit or a decision
            try:
                await self._admission.suspend(server, why)
            except AdmissionError as error:
                log.warning("a server is given up, but not suspended", server=server, reason=error.reason)
            except StoreError as error:
                log.warning("a suspension is not written down yet", server=server, reason=error.reason)
                await anyio.sleep(_AGAIN_S)
                continue
            return
