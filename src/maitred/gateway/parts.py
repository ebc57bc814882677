"""What a gateway is made of; `maitred.wiring` makes all of it."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from maitred.backends.base import ServerPool
from maitred.catalog.keeper import Keeper
from maitred.catalog.live import LiveCatalog
from maitred.catalog.placing import Placer
from maitred.catalog.usage import UsageRecorder
from maitred.config.settings import Settings
from maitred.disclosure.visibility import VisibilityTable
from maitred.execution.cache import ResultCache
from maitred.execution.chain.base import CagedSandbox
from maitred.execution.results import ResultStore, Shortener
from maitred.execution.screening import Screen
from maitred.execution.subscriptions import Subscriptions
from maitred.gateway.admission import Front, MakeNamesakes
from maitred.gateway.auditing import Auditing
from maitred.gateway.credentials import Credentials
from maitred.gateway.events import Events
from maitred.gateway.gatekeeper import Gatekeeper
from maitred.gateway.use_cases import OpenWriter
from maitred.mediation.mender import MediatingMender
from maitred.search.engine import SearchEngine


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All that a gateway is given."""

    catalog: LiveCatalog
    pool: ServerPool
    keeper: Keeper
    search: SearchEngine
    usage: UsageRecorder
    results: ResultStore
    shortener: Shortener
    cache: ResultCache
    subscriptions: Subscriptions
    credentials: Credentials
    events: Events
    auditing: Auditing
    screen: Screen
    gatekeeper: Gatekeeper
    make_front: Callable[[Settings], Front]
    make_namesakes: MakeNamesakes
    check_policy: Callable[[Settings], None]
    make_placer: Callable[[Settings], Placer]
    make_mender: Callable[[Settings], Awaitable[MediatingMender]]
    make_tables: Callable[[Settings], Mapping[str, VisibilityTable]]
    open_writer: OpenWriter
    make_sandbox: Callable[[Settings], AbstractAsyncContextManager[CagedSandbox]]
