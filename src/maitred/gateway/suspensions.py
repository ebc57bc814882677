"""What follows from supervision beyond the servers themselves: lines of audit, and suspensions that last.

The pool gives a server up by itself, at once; here that becomes an event in the registry's log, as if a
person had suspended it. So every process that serves the catalog leaves it alone, a restart of the gateway
does not forget it, it is explained where all decisions are, and `maitred resume` ends it.
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
    """Hears what supervision did. `keep_up` has to run for suspensions to be written down."""

    def __init__(self, context: GatewayState, admission: AdmissionService, auditing: AuditService) -> None:
        self._context = context
        self._admission = admission
        self._auditing = auditing
        self._given_up: deque[tuple[str, str]] = deque()
        self._came = anyio.Event()

    def heard(self, server: str, event: SupervisionEvent) -> None:
        """Take note of what was done about a server; called from owner tasks."""
        if event.kind == "suspend":
            self._given_up.append((server, event.why))
            self._came.set()
        else:
            self._auditing.note_act(
                AuditEntry(who=SUPERVISOR, action=event.kind, server=server, detail=event.why)
            )

    async def keep_up(self) -> None:
        """Write suspensions down; never returns."""
        while True:
            await self._came.wait()
            self._came = anyio.Event()
            while self._given_up:
                await self._suspend(*self._given_up.popleft())

    async def _suspend(self, server: str, why: str) -> None:
        """Until it is written, the server stays given up in this process; others do not know of it yet."""
        while self._context.pool.is_given_up(server):  # not made anew since, by an edit or a decision
            try:
                await self._admission.suspend(server, why)
            except AdmissionError as error:
                log.warning("a server is given up, but not suspended", server=server, reason=error.reason)
            except StoreError as error:
                log.warning("a suspension is not written down yet", server=server, reason=error.reason)
                await anyio.sleep(_AGAIN_S)
                continue
            return
