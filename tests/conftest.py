"""What all tests share: they run on asyncio, and they never see the operator's own configuration."""

import gc
import os
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy import Connection
from tests.support.arrangement import arrange, bounded
from tests.support.podman import Podman, podman_service
from tests.support.postgres import Postgres, postgres_service
from tests.support.valkey import ValkeyService, valkey_service

from maitred.catalog.token_count import count_tokens
from maitred.catalog.token_worker import TokenWorker
from maitred.config.redaction import SECRETS
from maitred.storage import migrate

_MIGRATE = migrate.migrate
FILES_AT_ONCE = 20
"""After so many files, what is left in memory counts as loaded for good."""
_FILES: list[Path] = []
_MADE: list[tuple[str, tuple[object, ...]]] = []
"""Statements, with their values, that make what all migrations make of a new file."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Make garbage collections cheap: what is loaded for all tests is no garbage before the end.

    Each would otherwise visit all modules and all tests again, thousands of times in a run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Make garbage collections cheap again: what outlives many files is loaded for good, as caches are.

    Tests of memory collect garbage dozens of times, each time in all that the tests before them left.
    """
    done = yield
    if nextitem is not None and nextitem.path != item.path:
        _FILES.append(item.path)
        if len(_FILES) == FILES_AT_ONCE:
            _FILES.clear()
            gc.collect()
            gc.freeze()
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest first; before xdist takes note of the groups."""
    arrange(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """What is made for a test is bounded as the test is."""
    with bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """See `tests/support/arrangement.py`."""
    with bounded(item):
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the time of the whole `make test`, installation and checks included."""
    if started := os.environ.get("MAKE_STARTED"):
        terminalreporter.write_line(f"make test: {time.time() - int(started):.0f} s from its start")


@pytest.fixture
def anyio_backend() -> str:
    """maitred runs on asyncio only: its child processes and its HTTP server do."""
    return "asyncio"


@pytest.fixture
def earlier_objects_kept() -> None:
    """For a test that collects garbage often: what other tests left is not looked through each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _private_sockets() -> Iterator[None]:
    """Gateways of tests are not found by those of whoever runs the tests; the path has to be short."""
    with tempfile.TemporaryDirectory(prefix="maitred-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """Podman with an image of the tests; who asks for it is in the xdist group `podman`."""
    with podman_service() as service:
        yield service


@pytest.fixture(scope="session")
def llm_packages() -> None:
    """Import the packages of the extra `llm` before a test that waits for them under a limit."""
    for name in ("anthropic", "openai"):
        if find_spec(name):
            import_module(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server; tests are skipped where none can be started."""
    with postgres_service() as service:
        yield service


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyService]:
    """A Valkey server; tests are skipped where none can be started."""
    with valkey_service() as service:
        yield service


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configuration, state and credentials of whoever runs the tests stay out of reach."""
    for name in ("MAITRED_CONFIG", "MAITRED_TOKEN", "MAITRED_AS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    """What a test gave a server is no credential for the next."""
    yield
    SECRETS.forget()


async def _count(_: TokenWorker, texts: Sequence[str]) -> Sequence[int]:
    return count_tokens(texts)


@pytest.fixture(autouse=True)
def count_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tokens in this process: a worker for each gateway would load the vocabulary again each time.

    So do the forks of `tests/support/prefork.py`. Gateways that are started as `python -m maitred` have their
    workers, and `tests/catalog/test_tokens.py` has.
    """
    monkeypatch.setattr(TokenWorker, "count", _count)


@pytest.fixture(scope="module")
def counted_here() -> Iterator[None]:
    """As `count_here`, which comes too late for a gateway that outlives a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TokenWorker, "count", _count)
        yield


@pytest.fixture(autouse=True)
def migrate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrate one new catalog for all gateways in this process; the others get what came of it.

    Gateways in processes of their own migrate theirs, and `tests/catalog` does.
    """
    monkeypatch.setattr(migrate, "migrate", _made_as_the_first)


def _made_as_the_first(connection: Connection, revision: str | None) -> None:
    if connection.dialect.name != "sqlite":
        _MIGRATE(connection, revision)
        return
    tables = "SELECT sql, name, type FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    if revision is not None or connection.exec_driver_sql(tables).all():
        _MIGRATE(connection, revision)
    elif not _MADE:
        _MIGRATE(connection, revision)
        made = connection.exec_driver_sql(tables).all()
        _MADE.extend((sql, ()) for sql, _, _ in made)
        for name in (name for _, name, kind in made if kind == "table"):
            rows = connection.exec_driver_sql(f'SELECT * FROM "{name}"').all()
            _MADE.extend(
                (f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', tuple(row)) for row in rows
            )
    else:
        for statement, values in _MADE:
            connection.exec_driver_sql(statement, values)


settings.register_profile("maitred", deadline=None)  # machines are shared; pytest-timeout bounds every test
settings.load_profile("maitred")
