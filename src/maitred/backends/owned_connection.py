"""The connection to a server that this replica runs for all, fenced: who lost it sends it no call more."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from maitred.backends.base import Caller, Connection
from maitred.backends.runner_link import READING_TASKS
from maitred.errors import ConnectionLostError, ReplicaError
from maitred.model.tools import ToolCall


class OwnedConnection:
    """Passes on what `Connection` has, and refuses requests once another replica may run the server.

    `check` raises `ReplicaError` then; it gets whether the request may change something. `reads` says of the
    raw name of a tool whether calls of it are known to change nothing. `under_way` counts requests.
    """

    def __init__(
        self, server: str, connection: Connection, check: Callable[[bool], None], reads: Callable[[str], bool]
    ) -> None:
        self._server = server
        self._connection = connection
        self._check = check
        self._reads = reads
        self.under_way = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """See `Connection`."""
        with self._passing(changes=not self._reads(name)):
            return await self._connection.call_tool(name, call, timeout_s=timeout_s, caller=caller)

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """See `Connection`."""
        with self._passing(changes=False):
            return await self._connection.request(method, params, timeout_s=timeout_s, caller=caller)

    async def ask_about_task(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """See `Connection`."""
        with self._passing(changes=method not in READING_TASKS):
            return await self._connection.ask_about_task(method, params, timeout_s=timeout_s, caller=caller)

    @contextmanager
    def _passing(self, *, changes: bool) -> Iterator[None]:
        try:
            self._check(changes)
        except ReplicaError as error:
            raise ConnectionLostError(self._server, error.reason, unread=True) from error
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
