"""One call: whether its arguments fit, and the way to its server and back."""

from collections.abc import Callable, Mapping
from typing import Any

from maitred.backends.base import Connections, Progress
from maitred.calls.arguments import ArgumentChecker
from maitred.catalog.snapshot import Snapshot
from maitred.errors import ArgumentsError, ConnectionLostError, ToolWithheldError
from maitred.model.servers import ServerSpec
from maitred.model.tools import Tool, ToolCall


class Caller:
    """Checks and relays calls for a gateway. `spec_of` tells the present specification of a server."""

    def __init__(self, connections: Connections, spec_of: Callable[[str], ServerSpec]) -> None:
        self._connections = connections
        self._spec_of = spec_of
        self._checker = ArgumentChecker()

    async def call(
        self,
        tool: Tool,
        call: ToolCall,
        *,
        recheck: Callable[[], object],
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Relay one call; the result is what the server answered.

        Args:
            tool: What is called.
            call: Its arguments.
            recheck: Raises if the call may not be made any more. It is asked last of all: when its server
                was started for the call, the catalog may know something else of the tool than before.
            progress: Gets the server's progress notices.

        Raises:
            MaitredError: What `recheck` raises.
            ServerError: The server could not be reached, or did not answer.
        """
        try:
            return await self._relay(tool, call, recheck, progress)
        except ConnectionLostError as error:
            if not error.unread:
                raise
            return await self._relay(tool, call, recheck, progress)

    def check(
        self, snapshot: Snapshot, tool: Tool, arguments: Mapping[str, Any], *, read_only: bool = False
    ) -> None:
        """Whether a tool may be called with these arguments, by what the catalog knows of it.

        Args:
            snapshot: The catalog that `tool` comes from.
            tool: What would be called.
            arguments: What it would be called with.
            read_only: Whether a tool is refused that its server does not call read-only.

        Raises:
            ToolWithheldError: Not read-only though that was asked for.
            ArgumentsError: The arguments do not fit the tool's schema.
        """
        if read_only and not tool.read_only:
            reason = "its server does not mark it read-only; use `call_tool` if changing something is meant"
            raise ToolWithheldError(tool.name, reason)
        if faults := self._checker.faults(tool.input_hash, snapshot.schema, arguments, tool=tool.name):
            raise ArgumentsError(tool.name, faults)

    async def _relay(
        self, tool: Tool, call: ToolCall, recheck: Callable[[], object], progress: Progress | None
    ) -> dict[str, Any]:
        timeout_s = self._spec_of(tool.server).timeouts.call_s
        async with self._connections.connection(tool.server) as connection:
            recheck()
            return await connection.call_tool(tool.key.name, call, timeout_s=timeout_s, progress=progress)
