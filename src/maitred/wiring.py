"""The composition root: it alone knows concrete classes, and puts a gateway together from settings.

What is slow to import is imported here when it is needed, so that `maitred --help` is quick.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from maitred.config.load import catalog_path, load
from maitred.config.settings import Settings
from maitred.errors import ConfigError

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server
    from sqlalchemy import Connection

    from maitred.backends.base import Backend
    from maitred.backends.process import Warden
    from maitred.catalog.sqlite import SqliteStore
    from maitred.catalog.store import SqlStore
    from maitred.gateway import Gateway
    from maitred.model.servers import ServerSpec
    from maitred.search.base import Embedder
    from maitred.search.engine import SearchEngine

log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_gateway(
    settings: Settings, *, in_process: "Mapping[str, Server] | None" = None
) -> "AsyncIterator[Gateway]":
    """Open a gateway: its catalog is loaded, its servers are started when they are needed.

    Args:
        settings: What `maitred.config.load` made of a file, or built by hand.
        in_process: SDK server objects by name, for specifications with transport `memory`.

    Raises:
        ConfigError: The catalog cannot be opened.
    """
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden
    from maitred.catalog.keeper import Keeper
    from maitred.catalog.live import LiveCatalog
    from maitred.catalog.tokens import TokenWorker
    from maitred.gateway import Gateway

    warden = Warden()

    def make(spec: "ServerSpec") -> "Backend":
        return make_backend(spec, settings, warden, in_process or {})

    pool = BackendPool(make, max_starting=settings.limits.max_starting, on_close=warden.close)
    async with plainly(), open_store(catalog_path(settings)) as store:
        catalog = LiveCatalog(store)
        await catalog.refresh()
        async with TokenWorker() as tokens, pool, open_search(settings) as search:
            keeper = Keeper(catalog, pool, tokens.count)
            pool.listener = keeper
            async with keeper:
                gateway = Gateway(settings, catalog=catalog, pool=pool, keeper=keeper, search=search)
                await gateway.configure(settings)
                yield gateway


@asynccontextmanager
async def plainly() -> AsyncIterator[None]:
    """Let a single error leave as itself: the task groups inside wrap what passes through them in groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaf: BaseException = group
        while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
            leaf = leaf.exceptions[0]
        if isinstance(leaf, BaseExceptionGroup):
            raise
        raise leaf from leaf.__cause__


def make_backend(
    spec: "ServerSpec", settings: Settings, warden: "Warden", in_process: "Mapping[str, Server]"
) -> "Backend":
    """The backend of a specification, by its transport."""
    from maitred.backends.http import HttpBackend
    from maitred.backends.memory import MemoryBackend
    from maitred.backends.stdio import StdioBackend
    from maitred.config.interpolate import resolver

    resolve = resolver(os.environ)
    if spec.transport == "memory":
        return MemoryBackend(spec, in_process[spec.name], limits=settings.limits)
    if spec.transport == "stdio":
        return StdioBackend(spec, resolve=resolve, limits=settings.limits, warden=warden)
    return HttpBackend(spec, resolve=resolve, limits=settings.limits)


def open_store(path: Path) -> "SqliteStore":
    """The catalog's store, which loads SQLAlchemy only to write and Alembic only to migrate."""
    from maitred.catalog.sqlite import SqliteStore

    def full() -> "SqlStore":
        from maitred.catalog.store import SqlStore

        return SqlStore(str(path), migrate=_migrate)

    return SqliteStore(path, full)


@asynccontextmanager
async def open_search(settings: Settings) -> "AsyncIterator[SearchEngine]":
    """The search engine with the embedder and the reranker that were chosen; connections end with it."""
    from maitred.catalog.vectors import SqliteVectors
    from maitred.config.interpolate import resolver
    from maitred.search.engine import SearchEngine

    resolve = resolver(os.environ)
    async with AsyncExitStack() as stack:
        ends = stack.enter_context(ExitStack())  # after the engine that uses what is made

        def embedder() -> "Embedder | None":
            from maitred.search.embedders import OpenAiEmbedder, make_embedder

            made = make_embedder(settings.search, resolve)
            if isinstance(made, OpenAiEmbedder):
                ends.callback(made.close)
            return made

        reranker = None
        if settings.search.reranker != "none":
            from maitred.search.llm import make_reranker
            from maitred.search.rerank import RerankStage

            model = make_reranker(settings.search, resolve)
            if model is not None:
                stack.push_async_callback(model.aclose)
                reranker = RerankStage(model, timeout_s=settings.search.rerank_timeout_s)
        cache = SqliteVectors(catalog_path(settings))
        mode = settings.search.mode
        engine = SearchEngine(mode=mode, make_embedder=embedder, cache=cache, reranker=reranker)
        yield await stack.enter_async_context(engine)


def _migrate(connection: "Connection", revision: str | None) -> None:
    from maitred.catalog.migrate import migrate

    migrate(connection, revision)


async def follow_settings(gateway: "Gateway", settings: Settings) -> None:
    """Reload the configuration whenever its file changes; a file with faults is reported and not used.

    The `http` section keeps what the gateway was started with: the address cannot change while it listens.
    """
    from watchfiles import awatch

    wanted = settings.source.absolute()
    async for changes in awatch(wanted.parent, recursive=False, step=100):
        if not any(Path(changed) == wanted for _, changed in changes):
            continue
        try:
            fresh = replace(load(settings.source), http=settings.http)
        except ConfigError as error:
            log.warning("the changed configuration is not used", reason=str(error))
            continue
        if fresh != gateway.settings:
            log.info("configuration reloaded", path=str(settings.source))
            await gateway.configure(fresh)
