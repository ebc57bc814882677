"""What makes tools easier to find and to read, and what runs chains."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

import structlog

from maitred.config.load import catalog_path
from maitred.config.settings import Settings

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.catalog.placing import Placer
    from maitred.disclosure.rules import RuleFunction
    from maitred.disclosure.visibility import VisibilityTable
    from maitred.execution.chain.base import CagedSandbox
    from maitred.gateway.menders import Menders
    from maitred.gateway.use_cases import Writer
    from maitred.mediation.base import Middleware
    from maitred.mediation.proof import Ranker
    from maitred.search.base import Embedder
    from maitred.search.engine import SearchEngine

log = structlog.get_logger(__name__)


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

    return read_tables(settings, RuleRegistry({**plugged_rules(), **rules}))


def plugged_rules() -> "Mapping[str, RuleFunction]":
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
