"""The composition root: it alone knows concrete classes, and puts a gateway together from settings.

What is slow to import is imported here when it is needed, so that `maitred --help` is quick.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import structlog

from maitred.config.load import catalog_path, load
from maitred.config.settings import Results, Settings
from maitred.errors import ConfigError, StoreError

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server
    from sqlalchemy import Connection

    from maitred.backends.base import Backend
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden
    from maitred.catalog.live import LiveCatalog, Store
    from maitred.catalog.placing import Placer
    from maitred.catalog.sqlite import SqliteStore
    from maitred.catalog.store import SqlStore
    from maitred.disclosure.rules import RuleFunction
    from maitred.disclosure.visibility import VisibilityTable
    from maitred.execution.chain.base import CagedSandbox
    from maitred.execution.results import ResultStore, Shortener
    from maitred.gateway import Gateway
    from maitred.gateway.menders import Menders
    from maitred.gateway.parts import Parts
    from maitred.gateway.use_cases import Writer
    from maitred.mediation.base import Middleware
    from maitred.mediation.proof import Ranker
    from maitred.model.servers import ServerSpec
    from maitred.search.base import Embedder
    from maitred.search.engine import SearchEngine

log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_gateway(
    settings: Settings,
    *,
    in_process: "Mapping[str, Server] | None" = None,
    rules: "Mapping[str, RuleFunction] | None" = None,
    tool_middleware: "Middleware | None" = None,
    asks_models: bool = True,
) -> "AsyncIterator[Gateway]":
    """Open a gateway: its catalog is loaded, its servers are started when they are needed.

    Args:
        settings: What `maitred.config.load` made of a file, or built by hand.
        in_process: SDK server objects by name, for specifications with transport `memory`.
        rules: Visibility rules in Python, by the name that configurations use.
        tool_middleware: Has the last word on the tools of each server when they are read: an async function,
            tools -> tools, that changes names, titles, descriptions or schemas and drops or moves nothing.
        asks_models: Whether a language model that mediation is to ask is asked in the background.

    Raises:
        ConfigError: The catalog cannot be opened, or what the settings refer to has faults.
    """
    from maitred.gateway import Gateway

    async with plainly(), AsyncExitStack() as stack:
        parts = await _make_parts(
            stack,
            settings,
            in_process or {},
            make_mender=make_menders(settings, tool_middleware).make,
            make_tables=partial(make_tables, rules=rules or {}),
        )
        gateway = Gateway(settings, parts)
        await gateway.configure(settings)
        await gateway.figures.update_if_due()
        await stack.enter_async_context(gateway.chains.serving())
        await stack.enter_async_context(gateway.mediation.serving(asks=asks_models))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(gateway.figures.keep_up)
        tasks.start_soon(gateway.visibility.keep_time)
        yield gateway
        tasks.cancel_scope.cancel()


async def _make_parts(
    stack: AsyncExitStack, settings: Settings, in_process: "Mapping[str, Server]", **made: Any
) -> "Parts":
    """Open all that a gateway is made of but what is `made`, in the order in which it is not to be closed."""
    from maitred.catalog.keeper import Keeper
    from maitred.catalog.tokens import TokenWorker
    from maitred.catalog.usage import UsageRecorder
    from maitred.execution.cache import ResultCache
    from maitred.execution.subscriptions import Subscriptions
    from maitred.gateway.events import Events
    from maitred.gateway.parts import Parts

    pool = _make_pool(settings, in_process)
    catalog = await _load_catalog(await stack.enter_async_context(open_store(catalog_path(settings))))
    usage = await stack.enter_async_context(UsageRecorder(catalog_path(settings)))
    await stack.enter_async_context(pool)
    search = await stack.enter_async_context(open_search(settings))
    keeper = Keeper(catalog, pool, (await stack.enter_async_context(TokenWorker())).count)
    events = Events(keeper, lambda: frozenset(pool.refused()))
    pool.listener = events
    await stack.enter_async_context(keeper)
    results, shortener = _make_results(settings.results)
    return Parts(
        catalog=catalog,
        pool=pool,
        keeper=keeper,
        search=search,
        usage=usage,
        results=results,
        shortener=shortener,
        cache=ResultCache(max_bytes=settings.cache.max_bytes),
        subscriptions=await stack.enter_async_context(Subscriptions(pool, on_updated=events.updated)),
        events=events,
        make_placer=make_placer,
        open_writer=open_writer,
        make_sandbox=make_sandbox,
        **made,
    )


def _make_pool(settings: Settings, in_process: "Mapping[str, Server]") -> "BackendPool":
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden

    warden = Warden()
    return BackendPool(
        lambda spec: make_backend(spec, settings, warden, in_process),
        max_starting=settings.limits.max_starting,
        on_close=warden.close,
    )


def _make_results(settings: Results) -> "tuple[ResultStore, Shortener]":
    """Where answers that are too long are kept, and what cuts them."""
    from maitred.disclosure.budget import estimate
    from maitred.execution.results import ResultStore, Shortener

    store = ResultStore(ttl_s=settings.keep_s, max_bytes=settings.keep_bytes)
    return store, Shortener(store, estimate=estimate, limit_tokens=settings.max_tokens)


@asynccontextmanager
async def open_writer(settings: Settings) -> "AsyncIterator[Writer | None]":
    """The language model that writes use cases, if one is configured."""
    from maitred.config.interpolate import resolver
    from maitred.search.phrases import make_phrase_writer

    writer = make_phrase_writer(settings.use_cases, resolver(os.environ))
    try:
        yield writer
    finally:
        if writer is not None:
            await writer.aclose()


def make_sandbox(settings: Settings) -> "AbstractAsyncContextManager[CagedSandbox]":
    """The engine of chains; it is loaded with the first one."""
    from maitred.execution.chain.monty import MontySandbox

    return MontySandbox(processes=settings.chain.processes, jail=settings.chain.jail)


@cache
def bundled() -> "Embedder":
    """The embedder that comes with the package; nothing is loaded before its first use."""
    from maitred.search.static import StaticEmbedder

    return StaticEmbedder()


def make_placer(settings: Settings) -> "Placer":
    """What puts tools in categories: by words, by the bundled model, and by what persons chose."""
    from maitred.config.vocabulary import merged
    from maitred.disclosure.categories import Classifier
    from maitred.search.base import documents
    from maitred.search.words import index_terms

    return Classifier(
        merged(settings.categories),
        stems=index_terms,
        choices=settings.tools,
        embed_tools=lambda tools, schema: bundled().documents(documents(tools, schema)),
        embed_texts=lambda texts: bundled().queries(texts),
    )


def make_tables(
    settings: Settings, *, rules: "Mapping[str, RuleFunction]"
) -> "Mapping[str, VisibilityTable]":
    """What servers declare about visibility, with rules in Python from a program and from plug-ins.

    Raises:
        ConfigError: A declaration has faults; all are listed.
    """
    if not any(spec.visibility for spec in settings.servers.values()):
        return {}
    from maitred.disclosure.rules import RuleRegistry
    from maitred.gateway.tables import read_tables

    return read_tables(settings, RuleRegistry({**_plugged_rules(), **rules}))


def _plugged_rules() -> "Mapping[str, RuleFunction]":
    """The rules of installed packages, which name them as entry points; one that cannot be loaded is told."""
    from importlib.metadata import entry_points

    found = {}
    for entry in entry_points(group="maitred.visibility_rules"):
        try:
            found[entry.name] = entry.load()
        except Exception:  # a plug-in may fail in any way
            log.exception("a visibility rule cannot be loaded", rule=entry.name)
    return found


def make_menders(settings: Settings, middleware: "Middleware | None") -> "Menders":
    """What makes menders, with the memory of what models answered and of what was proven."""
    from maitred.catalog.memos import SqliteMemos
    from maitred.gateway.menders import Menders

    def make_ranker() -> "Ranker":
        from maitred.gateway.proving import SearchRanker

        return SearchRanker(bundled())

    return Menders(SqliteMemos(catalog_path(settings)), make_ranker, middleware=middleware)


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


async def _load_catalog(store: "Store") -> "LiveCatalog":
    from maitred.catalog.live import LiveCatalog

    catalog = LiveCatalog(store)
    await catalog.refresh()
    return catalog


def make_backend(
    spec: "ServerSpec", settings: Settings, warden: "Warden", in_process: "Mapping[str, Server]"
) -> "Backend":
    """The backend of a specification, by its transport."""
    if spec.transport == "chain":
        from maitred.gateway.saved import SavedBackend

        return SavedBackend(spec)

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
    """Reload the configuration whenever its file, or that of overrides, changes; faulty ones are not used.

    The `http` section keeps what the gateway was started with: the address cannot change while it listens.
    """
    from watchfiles import awatch

    from maitred.gateway.menders import overrides_path

    source = settings.source.absolute()
    applied = settings
    while True:
        overrides = overrides_path(applied)
        folders = {path.parent for path in (source, overrides) if path and path.parent.is_dir()}
        async for changes in awatch(*folders, recursive=False, step=100):
            changed = {Path(path) for _, path in changes}
            if source in changed or overrides in changed:
                applied = await _reloaded(gateway, applied, again=overrides in changed)
            if overrides_path(applied) != overrides:
                break


async def _reloaded(gateway: "Gateway", applied: Settings, *, again: bool) -> Settings:
    """The settings in force after a change; `again` takes over what they refer to even if they are equal."""
    try:
        fresh = replace(load(applied.source), http=applied.http)
        if fresh == applied and not again:
            return applied
        await gateway.configure(fresh)
    except ConfigError as error:
        log.warning("the changed configuration is not used", reason=str(error))
    except StoreError as error:
        log.warning("the changed configuration is taken over only in part", reason=error.reason)
    else:
        log.info("configuration reloaded", path=str(applied.source))
        return fresh
    return applied
