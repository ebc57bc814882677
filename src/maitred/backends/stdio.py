"""A server that is a child process and speaks over its standard streams."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from maitred.backends.base import ConnectError, Connection, ConnectOptions, Resolve
from maitred.backends.process import ChildProcess, Tail, Warden, environment, start
from maitred.backends.session import open_session
from maitred.channel import LineChannel
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.settings import Limits
from maitred.model.servers import ServerSpec


class StdioBackend:
    """Starts the configured program for each session and ends it with all it started."""

    def __init__(self, spec: ServerSpec, *, resolve: Resolve, limits: Limits, warden: Warden) -> None:
        self.spec = spec
        self._resolve = resolve
        self._limits = limits
        self._warden = warden
        self._tail = Tail()
        self._child: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """The running process."""
        return self._child.pid if self._child else None

    def last_output(self) -> Sequence[str]:
        """The last lines of standard error, of the running process or of the one before."""
        return self._tail.lines()

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Start the program and open a session with it."""
        self._warden.start()
        child = await self._start()
        try:
            self._child = child
            self._warden.watch(child.pid)
            async with open_session(
                self.spec, self._channel, self._channel, options, self._limits
            ) as session:
                yield session
        finally:
            await child.stop()
            self._warden.forget(child.pid)
            self._child = None

    async def _start(self) -> ChildProcess:
        spec, self._tail = self.spec, Tail()
        try:
            argv = [self._resolve(part) for part in (spec.command, *spec.args)]
            env = environment({key: self._resolve(value) for key, value in spec.env.items()})
            env |= self._warden.environment
            cwd = self._resolve(spec.cwd) or None
        except UnresolvedReferenceError as error:
            raise ConnectError(f"its configuration refers to something missing: {error}") from error
        child: ChildProcess | None = None

        async def write(data: bytes) -> None:
            if child is None:
                raise BrokenPipeError
            await child.write(data)

        self._channel = channel = LineChannel(write, max_message_bytes=self._limits.max_message_bytes)
        child = await start(
            argv,
            env=env,
            cwd=cwd,
            make=lambda: ChildProcess(on_stdout=channel.feed, on_end=channel.close, tail=self._tail),
        )
        return child
