"""Clients that hear of changes in the way of their era: by notifications, or on a stream that they open."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from tests.interaction.harness import WAIT_S, Mode

_LISTS: dict[type, str] = {
    types.ToolListChangedNotification: "tools",
    types.ResourceListChangedNotification: "resources",
    types.PromptListChangedNotification: "prompts",
    ToolsListChanged: "tools",
    ResourcesListChanged: "resources",
    PromptsListChanged: "prompts",
}


@dataclass(kw_only=True)
class Listener:
    """A client with all that it was told: `tools`, `resources`, `prompts`, or the URI of a resource."""

    client: Client
    told: list[str] = field(default_factory=list)
    honored: Sequence[str] = ()
    news: anyio.Event = field(default_factory=anyio.Event)

    def take(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.told.append(str(message.params.uri))
        elif isinstance(message, ResourceUpdated):
            self.told.append(message.uri)
        elif (name := _LISTS.get(type(message))) is not None:
            self.told.append(name)
        else:
            return
        self.news.set()
        self.news = anyio.Event()

    async def hears(self, what: str, start: int = 0) -> None:
        """Wait until the client was told, not counting the first `start` notices."""
        with anyio.fail_after(WAIT_S):
            while what not in self.told[start:]:
                await self.news.wait()


@asynccontextmanager
async def listening(
    connect: Callable[..., Any], mode: Mode, *, uris: Sequence[str] = ()
) -> AsyncIterator[Listener]:
    """A client that listens to all lists and some resources; `connect(message_handler=…)` opens it."""
    early: list[object] = []
    listeners: list[Listener] = []

    async def on_message(message: object) -> None:
        if listeners:
            listeners[0].take(message)
        else:
            early.append(message)

    handler = on_message if mode == "legacy" else None
    async with connect(message_handler=handler) as client, anyio.create_task_group() as tasks:
        listener = Listener(client=client, honored=uris)
        listeners.append(listener)
        for message in early:
            listener.take(message)
        if mode == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)
        else:
            await tasks.start(_follow, listener, uris)
        yield listener
        tasks.cancel_scope.cancel()


async def _follow(
    listener: Listener, uris: Sequence[str], *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    async with listener.client.listen(
        tools_list_changed=True,
        resources_list_changed=True,
        prompts_list_changed=True,
        resource_subscriptions=list(uris),
    ) as stream:
        listener.honored = list(stream.honored.resource_subscriptions or ())
        task_status.started()
        async for event in stream:
            listener.take(event)
