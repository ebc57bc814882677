"""What the tests of containers share: backends on the tests' own Podman, and calls to what runs in them."""

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import pytest
from tests.support.podman import IMAGE, Podman

from maitred.backends.base import NOT_ASKED, Backend, Connection, ConnectOptions, Notice
from maitred.backends.isolation.container import ContainerBackend
from maitred.backends.isolation.engine_api import Engine, EngineError, Engines
from maitred.backends.isolation.images import Images
from maitred.backends.isolation.scan import Trivy
from maitred.backends.process import Warden
from maitred.config.interpolate import resolver
from maitred.config.settings import Isolation, Limits
from maitred.errors import ConnectionLostError
from maitred.model.servers import Cage, ServerSpec
from maitred.model.tools import ToolCall
from maitred.wiring.isolation import open_engine

PODMAN = [pytest.mark.anyio, pytest.mark.xdist_group("podman")]
"""The marks of tests that start containers."""

CAGE = Cage(memory=96 * 2**20, nano_cpus=1_000_000_000, pids=24, disk=8 * 2**20)
SOON_S = 120.0


class Rig:
    """Makes backends that share an engine and a warden, as those of a gateway do."""

    def __init__(self, podman: Podman, catalog: str = "c0ffee00") -> None:
        self.podman = podman
        self.warden = Warden(catalog)
        self.admitted: list[tuple[str, str]] = []
        self.refusal = ""
        self.engines = Engines(lambda: known(podman.address), catalog=catalog)

    def images(
        self,
        *,
        pull: Literal["missing", "never", "always"] = "never",
        scan: Literal["off", "warn", "block"] = "off",
    ) -> Images:
        self.trivy = Trivy(self.warden.environment)
        return Images(admit=self._admit, scanner=self.trivy, pull=pull, scan=scan)

    async def _admit(self, server: str, identity: str) -> str:
        self.admitted.append((server, identity))
        return self.refusal

    def backend(
        self, *, images: Images | None = None, cage: Mapping[str, Any] | None = None, **fields: Any
    ) -> ContainerBackend:
        """The backend of the probe server, unless `fields` say otherwise."""
        usual: dict[str, Any] = {"name": "probe", "image": IMAGE, "era": "handshake"}
        caged = replace(CAGE, **(cage or {}))
        spec = ServerSpec(transport="container", registered=True, cage=caged, **usual | fields)
        return ContainerBackend(
            spec,
            resolve=resolver(os.environ),
            limits=Limits(),
            warden=self.warden,
            engines=self.engines,
            images=images or self.images(),
        )

    def close(self) -> None:
        self.engines.close()
        self.warden.close()


_KNOWN: dict[str, Engine] = {}


async def known(address: str) -> Engine:
    """An engine that was tried out already, since that takes a while, or else a new one."""
    try:
        await _KNOWN[address].ping()
    except (KeyError, EngineError):
        _KNOWN[address] = await open_engine(Isolation(engine=address))
    return _KNOWN[address]


def options(on_notice: Callable[[Notice], None] = lambda _: None) -> ConnectOptions:
    return ConnectOptions(era="handshake", on_notice=on_notice)


@asynccontextmanager
async def probing(backend: Backend) -> AsyncIterator["Probe"]:
    """A session with the probe server."""
    async with backend.connect(options()) as connection:
        yield Probe(connection)


class Probe:
    """Calls the tools of the probe server; see `tests/support/probe_server.py`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answered."""
        call = ToolCall(name=tool, arguments=arguments)
        result = await self.connection.call_tool(tool, call, timeout_s=SOON_S, caller=NOT_ASKED)
        answer: dict[str, Any] = json.loads(result["content"][0]["text"])
        return answer

    async def last_call(self, tool: str, **arguments: Any) -> str:
        """Call a tool that does not come back, and return why the session ended."""
        with pytest.raises(ConnectionLostError):
            await self.call(tool, **arguments)
        return await self.connection.closed()
