"""The honest server behind a pool, as the gateway has it, for what every transport owes in every era."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from tests.backends.rig import LONG_S, Heard

from maitred.backends.base import Backend, Connection, SupervisionEvent
from maitred.backends.pool import BackendPool
from maitred.model.servers import EraChoice

ERAS: list[tuple[str, EraChoice]] = [
    ("stdio", "handshake"),
    ("stdio", "stateless"),
    ("http", "handshake"),
    ("http", "stateless"),
    ("sse", "handshake"),
    ("memory", "handshake"),
    ("memory", "stateless"),
]


class Subject:
    """A server behind a pool, as the gateway has it: the connection stays open from test to test."""

    name = "honest"

    def __init__(self, make: Callable[[], Backend], era: EraChoice) -> None:
        self.make = make
        self.era = era
        self.heard = Heard()
        self.pool = BackendPool(lambda _: make(), max_starting=1, on_close=lambda: None)
        self.pool.listener = self

    def started(self, server: str, key: str) -> None:
        assert server == self.name
        self.heard("started")

    def tools_changed(self, server: str, key: str) -> None:
        assert server == self.name
        self.heard("tools")

    def offers_changed(self, server: str, key: str) -> None:
        assert server == self.name
        self.heard("offers")

    def updated(self, server: str, uri: str, key: str) -> None:
        assert server == self.name
        self.heard(uri)

    def task_changed(self, server: str, task: Mapping[str, Any], key: str) -> None:
        assert server == self.name
        self.heard(task["taskId"])

    def facts_changed(self, server: str, facts: Mapping[str, Any], key: str) -> None:
        raise AssertionError("these servers report no facts")

    def health_changed(self, server: str, key: str) -> None:
        assert server == self.name
        self.heard(self.pool.health()[server].state)

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        assert server == self.name
        self.heard(event)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        with anyio.fail_after(LONG_S):
            async with self.pool.connection(self.name) as connection:
                yield connection
