"""A server in this process: for tests, demonstrations, and programs that embed maitred."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client._memory import InMemoryTransport
from mcp.server import Server

from maitred.backends.base import Backend, Connection, ConnectOptions
from maitred.backends.dispatcher import EndingDispatcher
from maitred.backends.session import open_session
from maitred.config.settings import Limits
from maitred.model.servers import ServerSpec


class MemoryBackend(Backend):
    """Speaks with an SDK `Server` object over streams in memory."""

    def __init__(self, spec: ServerSpec, server: Server[Any], *, limits: Limits | None = None) -> None:
        self.spec = spec
        self._server = server
        self._limits = limits or Limits()

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Open a session with the server object."""
        async with InMemoryTransport(self._server) as (read, write):
            dispatcher = EndingDispatcher(read, write)
            async with open_session(self.spec, dispatcher, dispatcher, options, self._limits) as connection:
                yield connection
