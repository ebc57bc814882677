"""Programs that share a gateway in the background, as clients start them, and what is there of gateways."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
from tests.backends.rig import eventually, is_gone
from tests.daemon.gateways import MODERN
from tests.faults.client import Client

from maitred.surfaces.daemon.control import gateways, stop_gateways
from maitred.surfaces.daemon.sockets import GatewayEndpoint, address_of

SPY = Path(__file__).parents[1] / "faults" / "spy_server.py"
WAIT_S = 120.0


def spied(log: Path, mode: str = "count", **keys: Any) -> dict[str, Any]:
    """The entry of a server that writes down each of its starts."""
    args = ["-I", "-S", str(SPY), str(log), mode]
    return {"command": sys.executable, "args": args, "era": "handshake", **keys}


def starts(log: Path) -> int:
    """How often such a server was started."""
    return len(log.read_text().split("\n\n")) if log.exists() else 0


class Stateless(Client):
    """The same of the stateless era."""

    async def hello(self) -> None:
        await self.send("server/discover")
        assert "result" in await self.answer()

    async def send(self, method: str, **params: Any) -> int:
        return await super().send(method, **params, _meta=MODERN)


class Home:
    """A folder with a configuration."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "maitred.yaml"
        self._errors = folder / "errors"
        self._clients: list[Client] = []

    def write(self, servers: Mapping[str, Any], **sections: Any) -> None:
        """Write the configuration; JSON is YAML."""
        document = {"servers": servers, "catalog": {"path": "catalog.db"}, **sections}
        self.config.write_text(json.dumps(document), encoding="utf-8")

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "maitred", "serve", "--config", str(self.config), *options]

    async def started(self, *options: str, **environment: str) -> Client:
        """A client of the handshake era with the program that it started."""
        return await self.started_as(Client, *options, **environment)

    async def started_as(self, kind: type[Client], *options: str, **environment: str) -> Client:
        """A client of an era."""
        return await self._started(kind, options, environment)

    async def started_in(self, folder: Path, *options: str) -> Client:
        """A client of the handshake era whose program was started in a folder."""
        return await self._started(Client, options, {}, folder)

    async def _started(
        self,
        kind: type[Client],
        options: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> Client:
        with self._errors.open("ab") as errors:
            process = await anyio.open_process(
                self.command(*options),
                env={**os.environ, **environment},
                stderr=errors,
                start_new_session=True,
                cwd=folder,
            )
        client = kind(process)
        self._clients.append(client)
        with anyio.fail_after(WAIT_S):
            await client.hello()
        return client

    async def end(self, client: Client) -> None:
        """Have a client and its program be gone."""
        self._clients.remove(client)
        if client.process.returncode is None:
            client.process.kill()
        await client.process.aclose()

    @asynccontextmanager
    async def client(self, *options: str, **environment: str) -> AsyncIterator[Client]:
        """The same for a while."""
        client = await self.started(*options, **environment)
        with anyio.fail_after(WAIT_S):
            yield client
        await self.end(client)

    def errors(self) -> str:
        return self._errors.read_text()

    def seats(self) -> list[GatewayEndpoint]:
        """The gateways that live."""
        return [seat for seat in address_of(self.config).seats() if seat.lives()]

    def daemons(self) -> list[int]:
        """The processes of those in the background."""
        return [seat.pid() for seat in self.seats() if seat.is_daemon]

    async def told(self) -> list[dict[str, Any]]:
        """What each gateway tells of itself."""
        found = await anyio.to_thread.run_sync(gateways, self.config, "")
        return [one.to_json() for one in found]

    async def running(self, server: str, calls: int = 1) -> None:
        """Wait until so many calls of a server are under way."""

        def are_there() -> bool:
            told = [one.to_json() for one in gateways(self.config, "")]
            servers = [status for one in told for status in one["servers"]]
            return any(one["in_flight"] >= calls for one in servers if one["name"] == server)

        with anyio.fail_after(WAIT_S):
            while not await anyio.to_thread.run_sync(are_there):  # noqa: ASYNC110  # another process
                await anyio.sleep(0.02)  # each look is work for the gateways too

    async def gone(self, *pids: int) -> None:
        """Wait until processes have ended."""
        await eventually(lambda: all(map(is_gone, pids)), within_s=WAIT_S)

    async def leave(self) -> None:
        """End what serves still, and see that nothing is left of it."""
        for client in list(self._clients):
            await self.end(client)
        daemons = self.daemons()
        below = [child.pid for pid in daemons for child in psutil.Process(pid).children(recursive=True)]
        await anyio.to_thread.run_sync(lambda: stop_gateways(self.config, "", all_of_them=False))
        await self.gone(*daemons, *below)


@asynccontextmanager
async def at_home(folder: Path) -> AsyncIterator[Home]:
    """A home whose gateways are gone afterwards, whatever becomes of the test."""
    home = Home(folder)
    try:
        yield home
    finally:
        with anyio.CancelScope(shield=True):
            await home.leave()
