"""Reading the audit trail, and the texts of answers beside it; these are methods of `Gateway`."""

from collections.abc import Mapping, Sequence

from maitred.audit.answers import KeptText
from maitred.audit.hash_chain import AuditLines, Mark, Verification
from maitred.audit.service import AuditService
from maitred.audit.stream_store import StreamState
from maitred.model.access import Viewer


class AuditMethods:
    """The methods of a gateway that read the audit trail."""

    _auditing: AuditService

    async def audit_lines(
        self,
        viewer: Viewer,
        *,
        since: str = "",
        who: str = "",
        client: str = "",
        project: str = "",
        server: str = "",
        tool: str = "",
        outcome: str = "",
        chain: str = "",
        held: str = "",
        before: int = 0,
        limit: int = 50,
    ) -> AuditLines:
        """The newest lines of the audit trail; see `AuditService.latest`.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        return await self._auditing.latest(
            viewer,
            since=since,
            who=who,
            client=client,
            project=project,
            server=server,
            tool=tool,
            outcome=outcome,
            chain=chain,
            held=held,
            before=before,
            limit=limit,
        )

    async def audit_answers(self, digests: Sequence[str], viewer: Viewer) -> Mapping[str, KeptText]:
        """The texts that agents read and that are still kept, by the field `answer` of lines of the trail.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: They cannot be read.
        """
        return await self._auditing.answers(viewer, digests)

    async def audit_stream(self, viewer: Viewer) -> Mapping[str, StreamState]:
        """Where each destination of the audit trail is, by name.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: That cannot be read.
        """
        return await self._auditing.stream_states(viewer)

    async def verify_audit(self, viewer: Viewer, known: Mark | None = None) -> Verification:
        """Check the whole audit trail; `known` is a head that was saved elsewhere.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        return await self._auditing.verify(viewer, known)
