"""What a gateway is made of; `maitred.wiring` makes all of it."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from maitred.access.credentials import Credentials
from maitred.admission.gatekeeper import Gatekeeper
from maitred.audit.service import Auditing
from maitred.backends.base import ServerPool
from maitred.calls.cache import ResultCache
from maitred.calls.results import ResultStore, Shortener
from maitred.calls.screening import Screen
from maitred.calls.subscriptions import Subscriptions
from maitred.catalog.discovery import Keeper
from maitred.catalog.live import LiveCatalog
from maitred.catalog.stages import Placer
from maitred.chains.base import CagedSandbox
from maitred.config.settings import Settings
from maitred.gateway.admission import Front, MakeNamesakes
from maitred.gateway.events import Events
from maitred.gateway.use_cases import OpenWriter
from maitred.mediation.service import MediatingMender
from maitred.search.engine import SearchEngine
from maitred.usage.recorder import UsageRecorder
from maitred.visibility.visibility import VisibilityTable


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
