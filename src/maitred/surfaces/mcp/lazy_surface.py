"""The MCP surface of a gateway, whose SDK is imported when something needs it, and not before.

The first requests of a client on a wire need no SDK. A thread imports it as soon as a client sends something
else, or lists change that a client has read. `maitred serve` has it imported once no first request has come
for a second, so that a later call need not wait.
"""

from itertools import count
from typing import TYPE_CHECKING, Final

import anyio

from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, NO_START, ClientStart, Grant, Viewer
from maitred.surfaces.mcp.client_keys import key_of
from maitred.surfaces.mcp.first_answers import FirstAnswers, Opening
from maitred.surfaces.mcp.list_tracker import ListTracker
from maitred.surfaces.mcp.wire import Wire
from maitred.thread_import import import_in_thread

if TYPE_CHECKING:  # the SDK takes longer to import than a client waits for its first list
    from maitred.surfaces.mcp.server import McpSurface

_LONGEST_LINE: Final = 64 * 1024
_SERVING: Final = "maitred.surfaces.mcp.line_client"


class LazySurface:
    """Serves a gateway to clients on wires; `announce` must run beside it.

    `viewer` is the viewer of requests that name none.
    """

    def __init__(self, gateway: Gateway, *, viewer: Viewer = LOCAL_USER) -> None:
        self._gateway = gateway
        self._viewer = viewer
        self._lists = ListTracker(gateway)
        self._surface: McpSurface | None = None
        self._loading = anyio.Lock()
        self._needed = anyio.Event()
        self._made = anyio.Event()
        self._announces = False
        self._begun = anyio.Event()
        self._waiting: set[anyio.CancelScope] = set()
        self._shown = 0
        self._answered = 0
        self._numbers = count(1)
        gateway.listen(lists=self._on_change, resource=lambda *_: None, visibility=self._on_change)

    async def load(self) -> "McpSurface":
        """The surface itself, as soon as the SDK is imported."""
        async with self._loading:
            if self._surface is None:
                await import_in_thread(_SERVING)
                from maitred.surfaces.mcp.server import McpSurface  # noqa: PLC0415  # loaded by now

                self._surface = McpSurface(self._gateway, viewer=self._viewer, lists=self._lists)
                self._made.set()
                for scope in self._waiting:
                    scope.cancel()
            if self._announces:  # before that, a call could not be parked
                await self._begun.wait()
        return self._surface

    async def announce(self) -> None:
        """Notify clients of changes, see `McpSurface.announce`; runs until cancelled."""
        self._announces = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._load_when_needed)
                await self._made.wait()
                if self._surface is not None:
                    await tasks.start(self._surface.announce)
                self._begun.set()
        finally:
            self._announces = False
            self._begun.set()

    async def _load_when_needed(self) -> None:
        await self._needed.wait()
        await self.load()

    async def quiet(self, seconds: float) -> None:
        """Wait until no first request was answered for a number of seconds."""
        answered = -1
        while answered != self._answered:
            answered = self._answered
            await anyio.sleep(seconds)

    def close(self) -> None:
        """End open change streams in good order."""
        if self._surface is not None:
            self._surface.close()

    def _on_change(self) -> None:
        """Have the SDK announce a change to the clients that it does not serve yet."""
        if self._shown and self._surface is None:
            self._needed.set()

    # --- clients ------------------------------------------------------------------------------------------

    async def serve(
        self, wire: Wire, *, admitted: Grant | None = None, start: ClientStart = NO_START
    ) -> None:
        """Serve until the client closes the wire.

        `admitted` is the client's grant; without it, the client has the grant of the surface's own viewer.
        `start` is what its program said when it connected.
        """
        number = next(self._numbers)
        guest = None
        if admitted is not None:
            guest = Viewer(grant=admitted, connection=f"wire {number}", surface="mcp", start=start)
        first = FirstAnswers(self._gateway, self._lists, self._viewer, guest, f"line {number}")
        try:
            if self._surface is None and await self._is_finished(wire, first):
                self._left(first.opening)
                return
            surface = await self.load()
        except BaseException:
            self._left(first.opening)
            raise
        from maitred.surfaces.mcp.line_client import serve_wire  # noqa: PLC0415  # loaded by now

        await serve_wire(surface, wire, first.opening)

    async def _is_finished(self, wire: Wire, first: FirstAnswers) -> bool:
        """Answer what needs no SDK; whether the client has gone, or else the SDK has to go on."""
        self._shown += 1
        try:
            while self._surface is None:
                with anyio.CancelScope() as scope:
                    self._waiting.add(scope)
                    try:
                        line = await wire.arrival(_LONGEST_LINE)
                    finally:
                        self._waiting.discard(scope)
                if scope.cancelled_caught:
                    return False
                answer = await first.answer(line) if line.strip() else b""
                if answer is None:
                    return False
                wire.take_line()
                self._answered += 1
                if answer and (behind := wire.write(answer)) is not None:
                    await behind.wait()
        except EOFError:
            return wire.ended
        except BrokenPipeError:
            return True
        finally:
            self._shown -= 1
        return False

    def _left(self, opening: Opening) -> None:
        """Release the state of a client that left before the SDK served it."""
        for viewer in (opening.viewer, opening.guest):
            if viewer is not None:
                self._lists.forget(viewer)
                self._gateway.forget(viewer, key_of(viewer))
