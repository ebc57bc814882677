"""Open a gateway: make all of its parts, in the reverse order of their closing."""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from maitred.background import Background
from maitred.config.settings import Settings
from maitred.model.access import LOCAL_USER
from maitred.wiring.audit_stream import make_audit_stream
from maitred.wiring.exceptions import single_error
from maitred.wiring.features import (
    check_policy,
    make_credentials,
    make_front,
    make_judge,
    make_menders,
    make_namesakes,
    make_oidc_client,
    make_placer,
    make_result_rules,
    make_sandbox,
    make_screen,
    make_tables,
    notify_of_held,
    open_search,
    open_trail,
    open_writer,
)
from maitred.wiring.logins import make_login_requests
from maitred.wiring.orphans import remove_containers
from maitred.wiring.references import operator_resolver
from maitred.wiring.replicas import make_placement, open_replicas, serve_links
from maitred.wiring.shared_state import make_shared_state
from maitred.wiring.storage import database_of, open_store, shared_key, task_key_of
from maitred.wiring.telemetry import make_exporter
from maitred.wiring.transports import make_pool

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server

    from maitred.backends.pool import BackendPool
    from maitred.catalog.live import LiveCatalog
    from maitred.gateway import Gateway
    from maitred.gateway.calls import MakeCallSteps
    from maitred.gateway.events import Events
    from maitred.gateway.parts import GatewayParts
    from maitred.mediation.base import Middleware
    from maitred.replicas.forwarding import Replicas
    from maitred.visibility.rules import RuleFunction


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
    retries: bool = True,
    serves: bool = False,
    alone: bool = False,
    joins: bool = False,
) -> "AsyncIterator[Gateway]":
    """Open a gateway. It loads its catalog, and starts servers when they are needed.

    Args:
        settings: The settings, from `maitred.config.load` or made by the program.
        in_process: SDK server objects by name, for specifications with transport `memory`.
        rules: Visibility rules in Python, by the name that configurations use.
        tool_middleware: Has the last word on the tools of each server when they are read: an async function,
            tools -> tools, that changes names, titles, descriptions or schemas and drops or moves nothing.
        call_steps: Makes the steps of every call, in place of `maitred.wiring.call_steps.make_call_steps`.
        asks_models: Whether mediation may ask its language model in the background.
        discovers: Whether the gateway starts unknown servers in the background to list their tools.
        retries: Whether these include servers that failed when they were asked last.
        serves: Whether the gateway serves clients. Then it keeps servers with `start: always` running, and
            first ends what killed gateways of the same catalog left.
        alone: Whether the gateway has one client only, so that no server needs an instance for each.
        joins: Whether the gateway becomes a replica beside others on a PostgreSQL; it then starts no program
            before `Gateway.join_replicas`.

    Raises:
        ConfigError: The catalog is damaged, or what the settings refer to has faults.
        StoreError: The catalog cannot be read now, or has to be brought to the present tables and cannot be.
    """
    from maitred.backends.oauth.caller_token_memory import CallerTokens
    from maitred.catalog.live import LiveCatalog
    from maitred.gateway.events import Events

    async with single_error(), AsyncExitStack() as stack:
        events = Events()
        callers = CallerTokens()
        replica = secrets.token_hex(4) if discovers else ""
        replicas = await stack.enter_async_context(open_replicas(settings, replica, joins=joins))
        store = open_store(settings, allows_memory=discovers)
        catalog = LiveCatalog(await stack.enter_async_context(store))
        placement = make_placement(settings, replicas, catalog) if joins else None
        pool, containers = make_pool(
            settings,
            in_process or {},
            callers,
            listener=events,
            serves=serves,
            alone=alone,
            placement=placement,
        )
        stream = make_audit_stream(settings) if serves else None
        exporter = make_exporter(settings, operator_resolver(settings)) if serves else None
        parts = await _make_parts(
            stack,
            settings,
            (catalog, pool, replicas),
            events,
            callers.note,
            discovers=discovers,
            retries=retries,
            serves=serves,
            rules=rules or {},
            tool_middleware=tool_middleware,
        )
        if placement is not None:
            await stack.enter_async_context(serve_links(placement, pool))
        gateway = _make_gateway(settings, parts, call_steps)
        if exporter is not None:
            parts.activity.tracer = exporter.tracer
            await stack.enter_async_context(exporter.sending(gateway.metrics.collect))
        with parts.catalog.serving_unwritten():
            await gateway.configure(settings, viewer=LOCAL_USER)
        await stack.enter_async_context(gateway.serving(asks_models=asks_models))
        background = await stack.enter_async_context(Background())
        if discovers:  # no short command, which would have one connection more for nothing
            background.start(database_of(settings).watch)
        background.start(parts.shared.watch)
        if serves:
            background.start(remove_containers, gateway, containers)
        if stream is not None:
            background.start(stream.run)
        yield gateway


async def _make_parts(
    stack: AsyncExitStack,
    settings: Settings,
    base: "tuple[LiveCatalog, BackendPool, Replicas]",
    events: "Events",
    note_token: "Callable[[str, str], bool]",
    *,
    discovers: bool,
    retries: bool,
    serves: bool,
    rules: "Mapping[str, RuleFunction]",
    tool_middleware: "Middleware | None",
) -> "GatewayParts":
    """Make and open all parts of a gateway, in the reverse order of their closing."""
    from maitred.admission.allow_list import AllowList, AllowLog
    from maitred.admission.gatekeeper import Gatekeeper
    from maitred.admission.registry import Registry
    from maitred.audit.masking import mask_value
    from maitred.calls.cache import ResultCache
    from maitred.calls.results import ResultStore, Shortener
    from maitred.calls.subscriptions import Subscriptions
    from maitred.catalog.discovery import MOST_AT_ONCE, Discoverer
    from maitred.catalog.token_worker import TokenWorker
    from maitred.disclosure.budget import estimate
    from maitred.gateway.parts import GatewayParts
    from maitred.gateway.session_stubs import SessionStubs
    from maitred.held_calls.store import HeldCallStore
    from maitred.meta_tools.menu import META_TOOLS
    from maitred.storage.leader import Jobs
    from maitred.telemetry.activity import Activity
    from maitred.usage.observations import ToolObservations
    from maitred.usage.recorder import UsageRecorder

    database = database_of(settings)
    catalog, pool, replicas = base
    await catalog.refresh()
    usage = await stack.enter_async_context(UsageRecorder(database))
    observations = await stack.enter_async_context(ToolObservations(database, mask_value))
    auditing = await stack.enter_async_context(open_trail(settings, replica=replicas.id))
    await stack.enter_async_context(pool)
    search = await stack.enter_async_context(open_search(settings))
    allow_list = AllowList(AllowLog(database), auditing)
    gatekeeper = Gatekeeper(Registry(database), catalog, make_judge)
    counter = await stack.enter_async_context(TokenWorker())
    most_at_once = max(MOST_AT_ONCE, 2 * settings.limits.max_starting)
    activity = Activity()
    shared = make_shared_state(settings, database, serves=serves)
    stack.push_async_callback(shared.close)
    jobs = Jobs(database)
    keeper = Discoverer(
        catalog,
        pool,
        counter.count,
        gatekeeper,
        most_at_once=most_at_once,
        retries=retries,
        activity=activity,
        signals=database.signals,
        jobs=jobs,
    )
    if discovers:
        await stack.enter_async_context(keeper)
    subscriptions = Subscriptions(keeper.connections, on_updated=events.updated)
    results = ResultStore(
        ttl_s=settings.results.keep_s, max_bytes=settings.results.keep_bytes, shares=shared.is_shared
    )
    return GatewayParts(
        catalog=catalog,
        pool=pool,
        keeper=keeper,
        search=search,
        usage=usage,
        observations=observations,
        results=results,
        shortener=Shortener(results, estimate=estimate, limit_tokens=settings.results.max_tokens),
        make_rules=partial(make_result_rules, settings.results, results),
        cache=ResultCache(max_bytes=settings.cache.max_bytes, state=shared),
        subscriptions=await stack.enter_async_context(subscriptions),
        credentials=make_credentials(settings),
        make_sign_in_client=partial(make_oidc_client, resolve=operator_resolver(settings)),
        events=events,
        activity=activity,
        auditing=auditing,
        screen=make_screen(settings.results),
        gatekeeper=gatekeeper,
        allow_list=allow_list,
        make_front=partial(make_front, rules=rules),
        make_namesakes=make_namesakes,
        check_policy=check_policy,
        make_placer=make_placer,
        make_mender=make_menders(settings, tool_middleware, observations.arguments_of).make,
        make_tables=partial(make_tables, rules=rules),
        open_writer=open_writer,
        reserved_names=frozenset(META_TOOLS),
        task_key=task_key_of(settings),
        held_calls=HeldCallStore(database, gateway=secrets.token_hex(16)),
        logins=await stack.enter_async_context(make_login_requests(settings)),
        note_token=note_token,
        notify_of_held=partial(notify_of_held, resolve=operator_resolver(settings)),
        signals=database.signals,
        jobs=jobs,
        shared=shared,
        session_stubs=(
            SessionStubs(shared, shared_key(settings, "ids of sessions"), replica=replicas.id)
            if shared.is_shared
            else None
        ),
        replicas=replicas,
        make_sandbox=make_sandbox,
    )
