"""Open a gateway: all of its parts are made here, in the order in which they are not to be closed."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from maitred.config.settings import Results, Settings
from maitred.wiring.backends import make_pool, remove_containers
from maitred.wiring.exceptions import plainly
from maitred.wiring.features import (
    check_policy,
    make_credentials,
    make_front,
    make_judge,
    make_menders,
    make_namesakes,
    make_placer,
    make_sandbox,
    make_screen,
    make_tables,
    open_search,
    open_trail,
    open_writer,
)
from maitred.wiring.storage import database_of, open_store

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server

    from maitred.backends.pool import BackendPool
    from maitred.catalog.live import CheckedStore, LiveCatalog
    from maitred.gateway import Gateway
    from maitred.gateway.calls import MakeCallSteps
    from maitred.gateway.parts import GatewayParts
    from maitred.mediation.base import Middleware
    from maitred.visibility.rules import RuleFunction

_MAKERS: Final[Mapping[str, Any]] = {
    "check_policy": check_policy,
    "make_namesakes": make_namesakes,
    "make_placer": make_placer,
    "make_sandbox": make_sandbox,
    "open_writer": open_writer,
}
"""What a gateway makes of settings whenever it needs it."""


def _make_gateway(settings: Settings, parts: "GatewayParts", call_steps: "MakeCallSteps | None") -> "Gateway":
    from maitred.gateway import Gateway
    from maitred.wiring.call_steps import make_call_steps

    return Gateway(settings, parts, call_steps or make_call_steps)


@asynccontextmanager
async def open_gateway(
    settings: Settings,
    *,
    in_process: "Mapping[str, Server] | None" = None,
    rules: "Mapping[str, RuleFunction] | None" = None,
    tool_middleware: "Middleware | None" = None,
    call_steps: "MakeCallSteps | None" = None,
    asks_models: bool = True,
    discovers: bool = True,
    serves: bool = False,
) -> "AsyncIterator[Gateway]":
    """Open a gateway: its catalog is loaded, its servers are started when they are needed.

    Args:
        settings: What `maitred.config.load` made of a file, or built by hand.
        in_process: SDK server objects by name, for specifications with transport `memory`.
        rules: Visibility rules in Python, by the name that configurations use.
        tool_middleware: Has the last word on the tools of each server when they are read: an async function,
            tools -> tools, that changes names, titles, descriptions or schemas and drops or moves nothing.
        call_steps: Makes the steps of every call, in place of `maitred.wiring.call_steps.make_call_steps`.
        asks_models: Whether a language model that mediation is to ask is asked in the background.
        discovers: Whether servers that are not known yet are started in the background.
        serves: Whether it is there to stay: servers with `start: always` are then kept running, and what a
            gateway of the same catalog left that was killed is ended first.

    Raises:
        ConfigError: The catalog is damaged, or what the settings refer to has faults.
        StoreError: The catalog cannot be read now, or has to be brought to the present tables and cannot be.
    """
    async with plainly(), AsyncExitStack() as stack:
        pool, containers = make_pool(settings, in_process or {}, serves=serves)
        parts = await _make_parts(
            stack,
            settings,
            pool,
            discovers=discovers,
            make_mender=make_menders(settings, tool_middleware).make,
            make_tables=partial(make_tables, rules=rules or {}),
            make_front=partial(make_front, rules=rules or {}),
        )
        gateway = _make_gateway(settings, parts, call_steps)
        with parts.catalog.serving_unwritten():
            await gateway.configure(settings)
        await gateway.figures.update_if_due()
        await stack.enter_async_context(gateway.chains.serving())
        await stack.enter_async_context(gateway.mediation.serving(asks=asks_models))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(gateway.figures.keep_up)
        tasks.start_soon(gateway.visibility.keep_time)
        tasks.start_soon(gateway.auditing.keep_up)
        tasks.start_soon(gateway.admission.follow)
        tasks.start_soon(gateway.supervising.keep_up)
        tasks.start_soon(gateway.storage.keep_up)
        if serves:
            tasks.start_soon(remove_containers, gateway, containers)
        yield gateway
        tasks.cancel_scope.cancel()


async def _make_parts(
    stack: AsyncExitStack,
    settings: Settings,
    pool: "BackendPool",
    *,
    discovers: bool,
    **made: Any,
) -> "GatewayParts":
    """Open all that a gateway is made of but what is `made`, in the order in which it is not to be closed."""
    from maitred.calls.cache import ResultCache
    from maitred.calls.subscriptions import Subscriptions
    from maitred.gateway.parts import GatewayParts
    from maitred.usage.recorder import UsageRecorder

    store = open_store(settings, stands_by=discovers)
    catalog = await _load_catalog(await stack.enter_async_context(store))
    usage = await stack.enter_async_context(UsageRecorder(database_of(settings)))
    auditing = await stack.enter_async_context(open_trail(settings))
    await stack.enter_async_context(pool)
    search = await stack.enter_async_context(open_search(settings))
    kept = await _make_keeper(stack, settings, catalog, pool, discovers=discovers)
    updated = kept["events"].updated
    return GatewayParts(
        catalog=catalog,
        pool=pool,
        search=search,
        usage=usage,
        cache=ResultCache(max_bytes=settings.cache.max_bytes),
        credentials=make_credentials(settings),
        subscriptions=await stack.enter_async_context(
            Subscriptions(kept["keeper"].connections, on_updated=updated)
        ),
        auditing=auditing,
        **kept,
        **_make_answers(settings.results),
        **_MAKERS,
        **made,
    )


async def _make_keeper(
    stack: AsyncExitStack,
    settings: Settings,
    catalog: "LiveCatalog",
    pool: "BackendPool",
    *,
    discovers: bool,
) -> dict[str, Any]:
    """What keeps the catalog in step with the servers, and judges what they publish."""
    from maitred.admission.gatekeeper import Gatekeeper
    from maitred.admission.registry import Registry
    from maitred.catalog.discovery import Discoverer
    from maitred.catalog.token_worker import TokenWorker
    from maitred.gateway.events import Events

    gatekeeper = Gatekeeper(Registry(database_of(settings)), catalog, make_judge)
    keeper = Discoverer(catalog, pool, (await stack.enter_async_context(TokenWorker())).count, gatekeeper)
    events = Events(keeper, lambda: frozenset(pool.refused()))
    pool.listener = events
    if discovers:
        await stack.enter_async_context(keeper)
    return {"keeper": keeper, "events": events, "gatekeeper": gatekeeper}


def _make_answers(settings: Results) -> dict[str, Any]:
    """Where answers that are too long are kept, what cuts them, and what looks through them."""
    from maitred.calls.results import ResultStore, Shortener
    from maitred.disclosure.budget import estimate

    store = ResultStore(ttl_s=settings.keep_s, max_bytes=settings.keep_bytes)
    shortener = Shortener(store, estimate=estimate, limit_tokens=settings.max_tokens)
    return {"results": store, "shortener": shortener, "screen": make_screen(settings)}


async def _load_catalog(store: "CheckedStore") -> "LiveCatalog":
    from maitred.catalog.live import LiveCatalog

    catalog = LiveCatalog(store)
    await catalog.refresh()
    return catalog
