"""A whole gateway over chosen servers, as the tests of faults need it."""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from tests.backends.rig import faulty_args, text_of

from maitred.config.load import parse
from maitred.config.settings import Settings
from maitred.disclosure.answers import ServerStatus
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

SLOW_S = 120.0


def faulty(mode: str, *arguments: str, **keys: Any) -> dict[str, Any]:
    """An entry of `servers` that starts the faulty server; its era is given, so that it is not probed."""
    return {
        "command": sys.executable,
        "args": list(faulty_args(mode, *arguments)),
        "era": "handshake",
    } | keys


def settings_for(folder: Path, servers: Mapping[str, Mapping[str, Any]], **sections: Any) -> Settings:
    """The settings that a file with these servers would give; JSON is YAML."""
    document = {"servers": servers, "catalog": {"path": "catalog.db"}} | sections
    return parse(folder / "maitred.yaml", json.dumps(document))


class House:
    """A gateway, and short words for what the tests do with it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return await self.gateway.call(ToolCall(name=name, arguments=arguments), viewer=LOCAL_USER)

    async def text(self, name: str, /, **arguments: Any) -> str:
        """The text that a call answers."""
        return text_of(await self.call(name, **arguments))

    def status(self, server: str = "s") -> ServerStatus:
        return next(status for status in self.gateway.servers(LOCAL_USER) if status.name == server)

    def tools(self, server: str = "s") -> list[str]:
        """The raw names of a server's tools."""
        return [tool.key.name for tool in self.gateway.snapshot.by_server.get(server, ())]

    async def known(self) -> None:
        """Wait until the first discoveries are over."""
        assert await self.gateway.settled(SLOW_S)

    async def changed(self, condition: Any) -> None:
        """Wait for a change of the catalog that makes a condition true."""
        event = anyio.Event()

        def look() -> None:
            if condition():
                event.set()

        self.gateway.listen(lists=look, resource=lambda *_: None)
        look()
        await event.wait()


@asynccontextmanager
async def open_house(
    folder: Path, servers: Mapping[str, Mapping[str, Any]], *, serves: bool = False, **sections: Any
) -> AsyncIterator[House]:
    """Open a gateway, which may be one that serves clients, and wait until its servers are known."""
    with anyio.fail_after(SLOW_S * 2):
        async with open_gateway(settings_for(folder, servers, **sections), serves=serves) as gateway:
            house = House(gateway)
            await house.known()
            yield house
