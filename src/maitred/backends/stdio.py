"""A server that is a child process and speaks over its standard streams."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from maitred.backends.base import (
    Backend,
    Connection,
    ConnectOptions,
    Ending,
    Resolve,
)
from maitred.backends.connection_faults import reference_error
from maitred.backends.isolation.jail import ProgramJail
from maitred.backends.launch import Launch
from maitred.backends.process import ChildProcess, Warden, environment, start
from maitred.backends.references import resolve_aside
from maitred.backends.session import open_session
from maitred.backends.written_output import OutputWriter
from maitred.config.interpolate import UnresolvedReferenceError, resolve_named
from maitred.config.redaction import SECRETS
from maitred.config.settings import Limits
from maitred.jsonrpc import LineChannel
from maitred.model.servers import ServerSpec


class StdioBackend(OutputWriter, Backend):
    """Starts the program for each session, in a `jail` if there is one, and ends it with its descendants."""

    def __init__(
        self,
        spec: ServerSpec,
        *,
        resolve: Resolve,
        limits: Limits,
        warden: Warden,
        jail: ProgramJail | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.cage = "jail" if jail is not None else ""
        self._resolve = resolve
        self._limits = limits
        self._warden = warden
        self._jail = jail
        self._child: ChildProcess | None = None
        self._ending: Ending | None = None
        self._misspoke = False

    @property
    def pid(self) -> int | None:
        """The running process; for a program in a jail, the process outside that waits for it."""
        return self._child.pid if self._child else None

    def ending(self, reason: str) -> Ending:
        """How the process ended, if it ended before the session.

        If only the session ended, the process did not speak MCP.
        """
        return self._ending or Ending(kind="protocol" if self._misspoke else "lost", reason=reason)

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Start the program and open a session with it."""
        self._ending, self._misspoke = None, False
        self.tail.begin()
        self._warden.start()
        spec = self.spec
        texts = (spec.command, *spec.args, *spec.env.values(), spec.cwd)
        launch = await resolve_aside(texts, self._launch)
        async with AsyncExitStack() as stack:
            if self._jail is not None:
                launch = await stack.enter_async_context(self._jail.cell(self.spec, launch))
            child = await self._start(launch)
            try:
                self._child, self._misspoke = child, True
                self._warden.watch(child.pid)
                async with open_session(
                    self.spec, self._channel, self._channel, options, self._limits
                ) as session:
                    yield session
                    self._misspoke = not self._channel.alive
            finally:
                await child.stop()
                self._warden.forget(child.pid)
                self._child, self._ending = None, child.ending

    def _launch(self) -> Launch:
        """The configured command with references resolved; a jail's environment has only what was granted."""
        spec = self.spec
        try:
            argv = [self._resolve(part) for part in (spec.command, *spec.args)]
            granted = resolve_named(spec.env, "env", self._resolve)
            cwd = self._resolve(spec.cwd) or None
        except UnresolvedReferenceError as error:
            raise reference_error(error) from error
        SECRETS.learn_launch(argv, granted)
        if self._jail is not None:
            return Launch(argv=argv, env=granted, cwd=cwd)
        return Launch(argv=argv, env=environment(granted) | self._warden.environment, cwd=cwd)

    async def _start(self, launch: Launch) -> ChildProcess:
        child: ChildProcess | None = None

        def write(data: bytes) -> anyio.Event | None:
            if child is None:
                raise BrokenPipeError
            return child.write(data)

        self._channel = channel = LineChannel(write, max_message_bytes=self._limits.max_message_bytes)
        child = await start(
            launch,
            lambda: ChildProcess(launch, on_stdout=channel.feed, on_end=channel.close, tail=self.tail),
        )
        return child
