"""The allow list of a gateway that runs: patterns as data, beside those of the file; methods of `Gateway`."""

from collections.abc import Sequence

from maitred.admission.allow_list import AllowEvent, AllowList, AllowPattern
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer


class AllowListMethods:
    """The methods of a gateway for its allow list."""

    _context: GatewayState
    _allow_list: AllowList

    async def allow_patterns(self, viewer: Viewer) -> Sequence[AllowPattern]:
        """All patterns that count, those of the configuration file first.

        Raises:
            NotAllowedError: The viewer may not configure.
            StoreError: The list cannot be read.
        """
        return await self._allow_list.listed(self._context.settings.admission, viewer)

    async def allow_history(self, viewer: Viewer) -> Sequence[AllowEvent]:
        """All changes of the list, the oldest first.

        Raises:
            NotAllowedError: The viewer may not configure.
            StoreError: The list cannot be read.
        """
        return await self._allow_list.history(viewer)

    async def add_allow_pattern(
        self, kind: str, pattern: str, *, why: str = "", viewer: Viewer
    ) -> AllowPattern:
        """Add a pattern; the next registration is judged by it.

        Raises:
            NotAllowedError: The viewer may not configure.
            AllowPatternError: The pattern or its kind is invalid, or it is there already.
            StoreError: The list cannot be written.
        """
        return await self._allow_list.add(kind, pattern, self._context.settings.admission, viewer, why=why)

    async def remove_allow_pattern(
        self, kind: str, pattern: str, *, why: str = "", viewer: Viewer
    ) -> AllowEvent:
        """Remove a pattern; what was approved by it stays approved.

        Raises:
            NotAllowedError: The viewer may not configure.
            PatternNotFoundError: The list has no such pattern.
            AllowPatternError: Only the configuration file has it.
            StoreError: The list cannot be written.
        """
        return await self._allow_list.remove(kind, pattern, self._context.settings.admission, viewer, why=why)
