"""Notify clients of both eras which lists changed, and which resources that they subscribe to.

The gateway reports changes; the changes within `visibility.debounce_ms` become one notice of each kind. A
list is announced only if it differs from every version that a client can have seen. Clients of the handshake
era get notices on their connection, stateless clients on the SDK's streams that they opened. For a resource
of a server, the gateway subscribes at that server as long as the client's connection or stream lasts.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
import mcp_types as types
import structlog
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from maitred.background import Background
from maitred.errors import MaitredError
from maitred.gateway import Gateway
from maitred.gateway.events import Origin
from maitred.gateway.resources import is_ours
from maitred.model.access import EVERYTHING, Grant, Viewer
from maitred.surfaces.mcp.identity import Viewers
from maitred.surfaces.mcp.list_tracker import ListKind, ListTracker, Scope
from maitred.surfaces.mcp.task_notices import TaskNotices

log = structlog.get_logger(__name__)

Context = ServerRequestContext[Any, Any]
Release = Callable[[], None]

_EVENTS: Mapping[ListKind, ServerEvent] = {
    "tools": ToolsListChanged(),
    "resources": ResourcesListChanged(),
    "prompts": PromptsListChanged(),
}
_TELL_S: Final = 5.0
_AGREE_S: Final = 3.0
_RETRY_S: Final = 30.0
_MOST_RESOURCES: Final = 1_000
_RESULTS: Final = "maitred://result/"


@dataclass(frozen=True)
class _Updated(ResourceUpdated):
    """The same with the instance that reported it; the SDK's streams do not look at that."""

    origin: Origin | None = None


class _OwnChanges(InMemorySubscriptionBus):
    """Gives each stream only the changes that concern its viewer. The SDK knows no viewers."""

    def __init__(self, concerns: Callable[[Viewer, Origin | None], bool]) -> None:
        super().__init__()
        self._concerns = concerns
        self._viewer: ContextVar[Viewer | None] = ContextVar("viewer", default=None)

    @contextmanager
    def subscribing(self, viewer: Viewer) -> Iterator[None]:
        """Count the streams that begin in this context as those of a viewer."""
        before = self._viewer.set(viewer)
        try:
            yield
        finally:
            self._viewer.reset(before)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a stream."""
        viewer = self._viewer.get()

        def deliver(event: ServerEvent) -> None:
            if viewer is None or not isinstance(event, _Updated) or self._concerns(viewer, event.origin):
                listener(event)

        return super().subscribe(deliver)


@dataclass(eq=False, kw_only=True)
class _Audience:
    """The change streams of stateless clients with one scope: they hear of what is within it alone."""

    viewer: Viewer
    bus: _OwnChanges
    streams: ListenHandler
    open: int = 0


class Notices:
    """Collects changes and notifies clients; `run` must run beside the server.

    Args:
        gateway: Reports the changes, and subscribes at servers.
        lists: Knows which lists differ.
        viewers: Identifies the viewer of a request.
        text_of: Returns the text of a resource of ours; raises if it does not exist for a viewer.
    """

    def __init__(
        self,
        gateway: Gateway,
        lists: ListTracker,
        viewers: Viewers,
        text_of: Callable[[str, Viewer], Awaitable[str]],
    ) -> None:
        self._gateway = gateway
        self._lists = lists
        self._viewers = viewers
        lists.begin(viewers.stateless)
        self._tasks = TaskNotices(gateway)
        self._text_of = text_of
        self._everyone = _make_audience(viewers.stateless, gateway)
        self._audiences: dict[Grant, _Audience] = {}
        self._numbers = count(1)
        self._texts: dict[Scope, dict[str, int]] = {}
        self._connections: WeakKeyDictionary[Connection, Viewer] = WeakKeyDictionary()
        self._subscribed: WeakKeyDictionary[Connection, dict[str, Release]] = WeakKeyDictionary()
        self._watched: Counter[str] = Counter()
        self._updated: set[tuple[str, Origin | None]] = set()
        self._look_at_lists = False
        self._news = anyio.Event()
        gateway.listen(lists=self._on_lists, resource=self._on_resource, visibility=self._on_visibility)

    def close(self) -> None:
        """End open change streams in good order."""
        for audience in (self._everyone, *self._audiences.values()):
            audience.streams.close()

    def connected(self, connection: Connection, viewer: Viewer) -> None:
        """Notify a client of the handshake era of changes from now on."""
        if self._lists.is_tracked(viewer):  # its first lists were answered without the SDK
            self._on_visibility()
        else:
            self._lists.begin(viewer)
        self._connections[connection] = viewer
        self._tasks.connected(connection, viewer)

    async def announce_lists(self, viewer: Viewer) -> None:
        """Notify a client of the handshake era of its changed lists at once, before an answer names them."""
        for connection, one in list(self._connections.items()):
            if one.scope == viewer.scope:
                await self._tell(connection, self._lists.changed(one), ())

    # --- what changed -------------------------------------------------------------------------------------

    def _on_lists(self) -> None:
        self._look_at_lists = True
        ours = (uri for uri in self._watched if is_ours(uri) and not uri.startswith(_RESULTS))
        self._updated.update((uri, None) for uri in ours)
        self._news.set()

    def _on_visibility(self) -> None:
        self._look_at_lists = True
        self._news.set()

    def _on_resource(self, uri: str, origin: Origin | None = None) -> None:
        if uri in self._watched:
            self._updated.add((uri, origin))
            self._news.set()

    async def run(self) -> None:
        """Notify clients of changes as they come; runs until cancelled."""
        async with Background() as background:
            background.start(self._tasks.run)
            await self._run()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            await anyio.sleep(self._gateway.settings.visibility.debounce_ms / 1_000)
            self._news = anyio.Event()
            updated, self._updated = self._updated, set()
            look, self._look_at_lists = self._look_at_lists, False
            told = {c: self._lists.changed(viewer) if look else [] for c, viewer in self._connections.items()}
            for audience in (self._everyone, *self._audiences.values()):
                kinds = self._lists.changed(audience.viewer) if look else []
                uris = await self._differing([uri for uri, _ in updated], audience.viewer)
                differing = [_Updated(*one) for one in updated if one[0] in uris]
                for event in (*(_EVENTS[kind] for kind in kinds), *differing):
                    await audience.bus.publish(event)
            async with anyio.create_task_group() as tasks:
                for connection, changed in told.items():
                    if (viewer := self._connections.get(connection)) is not None:
                        own = {uri for uri, origin in updated if self._gateway.concerns(viewer, origin)}
                        uris = await self._differing(sorted(own), viewer)
                        tasks.start_soon(self._tell, connection, changed, uris)

    async def _differing(self, updated: Sequence[str], viewer: Viewer) -> Sequence[str]:
        """Those of the updated resources that a viewer has to hear of.

        Ours change with every server. To a viewer with a scope, a resource of ours counts as updated only if
        its text differs from the last one: a notice would otherwise tell of servers outside of the scope.
        """
        if viewer.grant.scope == EVERYTHING:
            return updated
        texts = self._texts.get(viewer.scope, {})
        found = []
        for uri in updated:
            if not is_ours(uri):
                found.append(uri)
            elif uri in texts:
                before = texts[uri]
                with suppress(MaitredError):  # it does not exist any more
                    texts[uri] = hash(await self._text_of(uri, viewer))
                    if texts[uri] == before:
                        continue
                found.append(uri)
        return found

    async def _tell(self, connection: Connection, kinds: Sequence[ListKind], updated: Sequence[str]) -> None:
        send = {
            "tools": connection.send_tool_list_changed,
            "resources": connection.send_resource_list_changed,
            "prompts": connection.send_prompt_list_changed,
        }
        with anyio.move_on_after(_TELL_S):
            for kind in kinds:
                await send[kind]()
            for uri in updated:
                if uri in self._subscribed.get(connection, {}):
                    await connection.send_resource_updated(uri)

    # --- who wants to hear: handshake era -----------------------------------------------------------------

    async def subscribe(self, connection: Connection, uri: str, viewer: Viewer) -> None:
        """Notify a connection of changes of a resource until it unsubscribes or ends; idempotent.

        Raises:
            MaitredError: The resource does not exist, or its server sends no notices of changes.
            MCPError: The connection has too many subscriptions.
        """
        held = self._subscribed.get(connection)
        if held is None:
            held = self._subscribed[connection] = {}
            connection.exit_stack.callback(self._end, held, viewer.scope)
        if uri in held:
            return
        if len(held) >= _MOST_RESOURCES:
            raise MCPError(
                INVALID_PARAMS, f"only {_MOST_RESOURCES} subscriptions are possible; end some first"
            )
        with self._watching([uri]):  # changes while the server agrees are not lost
            release = await self._hold(uri, viewer)
            if uri in held:  # two requests for it ran at once
                release()
            else:
                held[uri] = release
                self._watched[uri] += 1

    def unsubscribe(self, connection: Connection, uri: str) -> None:
        """Undo `subscribe`; a resource without a subscription is ignored."""
        held = self._subscribed.get(connection, {})
        if (release := held.pop(uri, None)) is not None:
            self._forget(uri)
            release()

    def resources_of(self, connection: Connection) -> Sequence[str]:
        """The resources to which a connection is subscribed."""
        return [*self._subscribed.get(connection, {})]

    async def follow(
        self, connection: Connection, uris: Sequence[str], viewer: Viewer, *, announces: bool = False
    ) -> None:
        """Have a connection subscribed to these resources alone; with `announces`, they count as updated.

        A resource that is not there any more is left out.
        """
        for uri in self.resources_of(connection):
            if uri not in uris:
                self.unsubscribe(connection, uri)
        for uri in uris:
            try:
                await self.subscribe(connection, uri, viewer)
            except (MaitredError, MCPError) as error:
                log.info("a resource is not followed", uri=uri, reason=str(error))
        if announces:
            self._updated.update((uri, None) for uri in self.resources_of(connection))
            self._on_visibility()

    def _end(self, held: dict[str, Release], scope: Scope) -> None:
        """Release all subscriptions of a connection that has ended."""
        self._texts.pop(scope, None)
        while held:
            uri, release = held.popitem()
            self._forget(uri)
            release()

    async def _hold(self, uri: str, viewer: Viewer) -> Release:
        if is_ours(uri):
            text = await self._text_of(uri, viewer)
            if viewer.grant.scope != EVERYTHING:
                self._texts.setdefault(viewer.scope, {})[uri] = hash(text)
            return lambda: None
        return await self._gateway.offers(viewer).hold(uri, viewer=viewer)

    @contextmanager
    def _watching(self, uris: Sequence[str]) -> Iterator[Sequence[str]]:
        """Note changes of resources while the context is open."""
        self._watched.update(uris)
        try:
            yield uris
        finally:
            for uri in uris:
                self._forget(uri)

    def _forget(self, uri: str) -> None:
        self._watched[uri] -= 1
        if self._watched[uri] <= 0:
            del self._watched[uri]

    # --- who wants to hear: stateless era -----------------------------------------------------------------

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a change stream; it promises only resources that exist and whose changes a server reports."""
        wanted = params.notifications.resource_subscriptions or ()
        with self._watching(list(dict.fromkeys(wanted))[:_MOST_RESOURCES]) as uris:
            outcome = await self._stream(ctx, params, uris)
        if isinstance(outcome, MCPError):
            raise outcome
        return outcome

    async def _stream(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams, uris: Sequence[str]
    ) -> types.SubscriptionsListenResult | MCPError:
        """The result of a stream, or its error as a value, because a task group would wrap a raised one."""
        with self._audience(self._viewers.of(ctx)) as audience:
            return await self._serve(ctx, params, uris, audience)

    @contextmanager
    def _audience(self, viewer: Viewer) -> Iterator[_Audience]:
        """The audience to which a viewer belongs while a stream of it is open."""
        if viewer.grant.scope == EVERYTHING:
            yield self._everyone
            return
        if (audience := self._audiences.get(viewer.grant)) is None:
            own = Viewer(grant=viewer.grant, connection=f"streams {next(self._numbers)}", surface="mcp")
            audience = self._audiences[viewer.grant] = _make_audience(own, self._gateway)
            self._lists.begin(own)
        audience.open += 1
        try:
            yield audience
        finally:
            audience.open -= 1
            if not audience.open:
                del self._audiences[viewer.grant]
                self._lists.forget(audience.viewer)
                self._texts.pop(audience.viewer.scope, None)

    async def _serve(
        self,
        ctx: Context,
        params: types.SubscriptionsListenRequestParams,
        uris: Sequence[str],
        audience: _Audience,
    ) -> types.SubscriptionsListenResult | MCPError:
        answered = [anyio.Event() for _ in uris]
        refused: set[str] = set()
        tasks = self._tasks.listened(ctx, params, self._viewers.of(ctx))
        viewer = audience.viewer if audience is not self._everyone else self._viewers.of(ctx)
        outcome: types.SubscriptionsListenResult | MCPError
        async with Background() as background:
            for uri, event in zip(uris, answered, strict=True):
                background.start(self._follow, uri, viewer, event, refused)
            with anyio.move_on_after(_AGREE_S):
                for event in answered:
                    await event.wait()
            kept = [uri for uri in uris if uri not in refused]
            promised = params.notifications.model_copy(update={"resource_subscriptions": kept or None})
            if tasks is not None:
                ctx = replace(ctx, session=tasks.session)
                for task_id in tasks.task_ids:
                    background.start(tasks.follow, task_id)
            try:
                with audience.bus.subscribing(viewer):
                    outcome = await audience.streams(
                        ctx, params.model_copy(update={"notifications": promised})
                    )
            except MCPError as error:
                outcome = error
        return outcome

    async def _follow(self, uri: str, viewer: Viewer, answered: anyio.Event, refused: set[str]) -> None:
        """Keep a subscription to a resource until cancelled; its changes come through the gateway."""
        started = anyio.current_time()
        while True:
            try:
                release = await self._hold(uri, viewer)
                break
            except MaitredError as error:
                log.info("a resource is not followed", uri=uri, reason=str(error))
                if anyio.current_time() - started <= _AGREE_S:
                    refused.add(uri)
                    return
            finally:
                answered.set()
            await anyio.sleep(_RETRY_S)  # the stream has promised it: the server's answer came too late
        try:
            if anyio.current_time() - started > _AGREE_S:
                self._on_resource(uri)  # it may have changed before the server agreed; others look once more
            await anyio.sleep_forever()
        finally:
            release()


def _make_audience(viewer: Viewer, gateway: Gateway) -> _Audience:
    bus = _OwnChanges(gateway.concerns)
    return _Audience(viewer=viewer, bus=bus, streams=ListenHandler(bus))
