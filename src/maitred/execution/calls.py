"""Route one call: check its arguments, reach its server, bring back the answer."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from maitred.backends.base import Connections, Progress
from maitred.catalog.snapshot import Snapshot
from maitred.errors import ArgumentsError, ConnectionLostError, ToolWithheldError
from maitred.execution.arguments import ArgumentChecker
from maitred.model.servers import ServerSpec
from maitred.model.tools import Tool, ToolCall

Run = Callable[..., Awaitable[dict[str, Any]]]
"""Carries out a call by its raw name instead of the server: `(name, call, progress=...)`."""


class Caller:
    """Makes calls for a gateway. `spec_of` tells the present specification of a server."""

    def __init__(self, connections: Connections, spec_of: Callable[[str], ServerSpec]) -> None:
        self._connections = connections
        self._spec_of = spec_of
        self._checker = ArgumentChecker()

    async def call(
        self,
        snapshot: Snapshot,
        tool: Tool,
        call: ToolCall,
        *,
        progress: Progress | None = None,
        read_only: bool = False,
        run: Run | None = None,
    ) -> dict[str, Any]:
        """Check and relay one call; the result is what the server answered.

        Args:
            snapshot: The catalog that `tool` comes from.
            tool: What to call.
            call: The caller's arguments and what else is relayed.
            progress: Gets the server's progress notices.
            read_only: Refuse a tool that its server does not call read-only.
            run: Carries the call out in place of the server.

        Raises:
            ToolWithheldError: Not read-only though `read_only` was asked for.
            ArgumentsError: The arguments do not fit the tool's schema.
            ServerError: The server could not be reached, or did not answer.
        """
        if read_only and not tool.read_only:
            reason = "its server does not mark it read-only; use `call_tool` if changing something is meant"
            raise ToolWithheldError(tool.name, reason)
        self.check(snapshot, tool, call.arguments)
        if run is not None:
            return await run(tool.key.name, call, progress=progress)
        try:
            return await self._relay(tool, call, progress)
        except ConnectionLostError as error:
            if not error.unread:
                raise
            return await self._relay(tool, call, progress)

    def check(self, snapshot: Snapshot, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Whether arguments fit a tool's schema.

        Raises:
            ArgumentsError: They do not.
        """
        if faults := self._checker.faults(tool.input_hash, snapshot.schema, arguments):
            raise ArgumentsError(tool.name, faults)

    async def _relay(self, tool: Tool, call: ToolCall, progress: Progress | None) -> dict[str, Any]:
        timeout_s = self._spec_of(tool.server).timeouts.call_s
        async with self._connections.connection(tool.server) as connection:
            return await connection.call_tool(tool.key.name, call, timeout_s=timeout_s, progress=progress)
