"""Gateways of this process on one PostgreSQL, each at an address of its own."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_http import over_http
from tests.support.postgres import Postgres

from maitred.config.load import parse
from maitred.gateway import Gateway
from maitred.wiring import open_gateway
from maitred.wiring.storage import _DATABASES

OpenReplica = Callable[..., AbstractAsyncContextManager["OwnReplica"]]


class OwnReplica:
    """A gateway of this process, as one of several."""

    def __init__(self, gateway: Gateway, url: str) -> None:
        self.gateway = gateway
        self.url = url.removesuffix("/mcp")
        self.replicas = gateway._replicas


@pytest.fixture
def open_replica(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenReplica:
    """Opens one more gateway on the database of the test; options are sections of its configuration."""
    monkeypatch.setenv("MAITRED_KEY", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    database = postgres.new_database()

    @asynccontextmanager
    async def opened(**sections: Any) -> AsyncIterator[OwnReplica]:
        _DATABASES.clear()  # as in a process of its own, which shares no connections with others
        document = {"catalog": {"url": database}, "isolation": {"jail": "none"}} | sections
        settings = parse(tmp_path / "maitred.yaml", json.dumps(document))
        async with open_gateway(settings, serves=True, joins=True) as gateway, over_http(gateway) as url:
            gateway.join_replicas(url.removesuffix("/mcp"))
            yield OwnReplica(gateway, url)

    return opened
