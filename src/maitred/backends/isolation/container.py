"""A server that runs in a container and speaks over its standard streams.

Each session has its own container, which is removed when the session ends. If the gateway is killed, the
warden removes the container, or else the next gateway of the same catalog does.
A container that could not be removed is removed before the next one is made. So a server never runs twice.
"""

import re
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import structlog

from maitred.backends.base import Backend, ConnectError, Connection, ConnectOptions, Ending, Resolve
from maitred.backends.isolation.container_spec import container_spec
from maitred.backends.isolation.endings import MemoryWatch, container_ending, from_outside, memory_count
from maitred.backends.isolation.engine_api import ContainerSpec, Engine, EngineError, EngineGoneError, Engines
from maitred.backends.isolation.images import Images
from maitred.backends.isolation.streams import Streams, attach_socket
from maitred.backends.isolation.threads import in_thread
from maitred.backends.process import Warden
from maitred.backends.session import open_session
from maitred.backends.written_output import OutputWriter
from maitred.background import Background
from maitred.config.settings import Limits
from maitred.jsonrpc import LineChannel
from maitred.model.servers import Cage, ServerSpec

log = structlog.get_logger(__name__)

_ASK_S: Final = 1.0
_TERMINATE_S: Final = 1.0
_REMOVE_S: Final = 10.0
_ENDING_S: Final = 5.0
_POLL_S: Final = 0.05
_LONGEST_NAME: Final = 40
_PART: Final = 0.8


class ContainerBackend(OutputWriter, Backend):
    """Makes a container of the server's image for each session; `others` are the other servers that run."""

    cage = "container"

    def __init__(
        self,
        spec: ServerSpec,
        *,
        resolve: Resolve,
        limits: Limits,
        warden: Warden,
        engines: Engines,
        images: Images,
        others: Callable[[], Collection[ServerSpec]] = tuple,
    ) -> None:
        super().__init__()
        self.spec = spec
        self._cage = spec.cage or Cage()
        self._resolve = resolve
        self._limits = limits
        self._warden = warden
        self._engines = engines
        self._images = images
        self._others = others
        self._pid: int | None = None
        self._ending: Ending | None = None
        self._since = 0.0
        self._watch = MemoryWatch(None)

    @property
    def pid(self) -> int | None:
        """The first process of the container, if the engine is on this machine."""
        return self._pid

    def last_output(self, *, earlier: bool = False) -> Sequence[str]:
        """The last lines of standard error; if there are none, the progress of fetching the image."""
        return super().last_output(earlier=earlier) or self._images.progress(self.spec.image)

    def ending(self, reason: str) -> Ending:
        """Why the last session ended, as the engine reports it."""
        return self._ending or Ending(kind="lost", reason=reason)

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Make a container and open a session with the server in it."""
        self._ending = None
        self.tail.begin()
        engine = await self._engines.engine()
        await self._clear(engine)
        self._warden.start()
        made = await self._container_spec(engine)
        name = f"maitred-{_plain(self.spec.name)}-{secrets.token_hex(6)}"
        self._warden.hold(engine.info.socket, name)
        streams = Streams(on_stdout=self._heard, tail=self.tail, rate=self._cage.output)
        self._channel = LineChannel(streams.write, max_message_bytes=self._limits.max_message_bytes)
        try:
            await self._run(engine, name, made, streams)
            async with Background() as background:
                background.start(self._follow, engine, name, streams)
                async with open_session(
                    self.spec, self._channel, self._channel, options, self._limits
                ) as session:
                    yield session
        finally:
            self._pid = None
            self._watch.close()
            with anyio.CancelScope(shield=True):
                await self._end(engine, name, streams)

    def _heard(self, data: bytes) -> None:
        self._channel.feed(data)

    async def _clear(self, engine: Engine) -> None:
        """Remove the containers that could not be removed before, so that a server never runs twice."""
        for name in self._engines.left(self.spec.name):
            await engine.remove(name)
            self._gone(name)

    def _gone(self, name: str) -> None:
        self._engines.removed(self.spec.name, name)
        self._warden.let_go(name)

    async def _container_spec(self, engine: Engine) -> ContainerSpec:
        spec = self.spec
        within_s = _PART * spec.timeouts.start_s  # the rest is for reporting what took so long
        image = await self._images.ready(engine, spec.name, spec.image, within_s=within_s)
        labels = self._engines.labels(spec.name, self._warden.mark)
        given: Mapping[str, Any] = {"labels": labels, "resolve": self._resolve, "others": self._others()}
        return await in_thread(lambda: container_spec(spec, image, engine.info, **given))

    async def _run(self, engine: Engine, name: str, made: ContainerSpec, streams: Streams) -> None:
        self._since = time.time()
        try:
            await engine.create(name, made)
            await attach_socket(
                await engine.attach(name), streams
            )  # before it starts, so that no output is lost
            await engine.start(name)
            state = await engine.state(name)
        except EngineGoneError:
            raise
        except EngineError as error:
            what = "its image was removed" if error.missing else "its container cannot be started"
            raise ConnectError(f"{what}: {error}") from error
        self._pid = state.pid if state else None
        self._watch = MemoryWatch(memory_count(self._pid))

    async def _follow(self, engine: Engine, name: str, streams: Streams) -> None:
        """When the output ends, find out why, and end the session with that reason."""
        await streams.ended.wait()
        told = Ending(kind="lost", reason=f"the engine at {engine.info.address} ended the connection to it")
        with anyio.move_on_after(_ENDING_S):
            told = await self._why(engine, name)
        words = [line.strip() for line in self.tail.lines() if line.strip()]
        reason = f"{told.reason}; its last words: {words[-1][:300]}" if words else told.reason
        self._ending = Ending(kind=told.kind, reason=reason)
        self._channel.close(reason)

    async def _why(self, engine: Engine, name: str) -> Ending:
        by_kernel = self._watch.counted()  # at once: the kernel forgets it with the container
        try:
            state = await engine.state(name)
            while state is not None and state.running:  # the stream ends a little before the container
                await anyio.sleep(_POLL_S)
                state = await engine.state(name)
            if state is None:
                return Ending(kind="killed", reason="its container was removed from outside")
            actions = await engine.actions(name, self._since)
            if by_kernel is None and state.code != 0 and not from_outside(actions):
                by_kernel = await self._watch.heard()
            return container_ending(state, actions, by_kernel, self._cage.memory)
        except EngineError as error:
            return Ending(kind="lost", reason=str(error))

    async def _end(self, engine: Engine, name: str, streams: Streams) -> None:
        """Ask the server to end, and remove the container in any case. Bounded in time."""
        self._engines.leave(self.spec.name, name)  # until its removal is confirmed
        try:
            with anyio.fail_after(_REMOVE_S):
                if streams.open:
                    await self._ask(engine, name, streams)
                await engine.remove(name)
            self._gone(name)
        except (EngineError, TimeoutError) as error:
            reason = str(error) or f"the engine did not do so within {_REMOVE_S:g} s"
            log.warning("a container could not be removed yet", server=self.spec.name, reason=reason)
        finally:
            streams.close()

    async def _ask(self, engine: Engine, name: str, streams: Streams) -> None:
        """Close its standard input, and send SIGTERM if the server does not end within a second."""
        streams.end_input()
        with anyio.move_on_after(_ASK_S):
            await streams.ended.wait()
            return
        with suppress(EngineError):  # it has ended by now, or its removal will fail as well
            await engine.signal(name, signal.SIGTERM)
        with anyio.move_on_after(_TERMINATE_S):
            await streams.ended.wait()


def _plain(name: str) -> str:
    """A server's name with only the characters that a container's name may have."""
    return re.sub("[^a-zA-Z0-9]+", "-", name)[:_LONGEST_NAME]
