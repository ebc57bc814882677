"""The parts of a gateway; `maitred.wiring` makes them."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from maitred.access.credentials import Credentials
from maitred.admission.allow_list import AllowList
from maitred.admission.gatekeeper import Gatekeeper
from maitred.audit.service import AuditService
from maitred.backends.base import ServerPool
from maitred.backends.oauth.login_requests import LoginRequests
from maitred.calls.cache import ResultCache
from maitred.calls.result_rules import ResultRules
from maitred.calls.results import ResultStore, Shortener
from maitred.calls.screening import AnswerScreen
from maitred.calls.subscriptions import Subscriptions
from maitred.catalog.discovery import Discoverer
from maitred.catalog.live import LiveCatalog
from maitred.catalog.stages import Placer
from maitred.chains.base import IsolatedSandbox
from maitred.config.settings import Settings
from maitred.gateway.admission import MakeNamesakes, ManifestReviewer
from maitred.gateway.events import Events
from maitred.gateway.held_calls import Notify
from maitred.gateway.session_stubs import SessionStubs
from maitred.gateway.sign_in import MakeSignInClient
from maitred.gateway.state import GatewayState
from maitred.gateway.use_cases import OpenWriter
from maitred.held_calls.store import HeldCallStore
from maitred.mediation.service import MediationService
from maitred.replicas.forwarding import Replicas
from maitred.search.engine import SearchEngine
from maitred.storage.leader import Jobs
from maitred.storage.shared_state import SharedState
from maitred.storage.signals import Signals
from maitred.telemetry.activity import Activity
from maitred.usage.observations import ToolObservations
from maitred.usage.recorder import UsageRecorder
from maitred.visibility.visibility import VisibilityTable


@dataclass(frozen=True, kw_only=True)
class GatewayParts:
    """All parts that a gateway gets.

    `reserved_names` are those of the meta-tools, for no other tool. `note_token` gets each principal with the
    token of an authorization server by which it just came in, and says whether the token is new.
    """

    catalog: LiveCatalog
    pool: ServerPool
    keeper: Discoverer
    search: SearchEngine
    usage: UsageRecorder
    observations: ToolObservations
    results: ResultStore
    shortener: Shortener
    make_rules: Callable[[GatewayState], ResultRules]
    cache: ResultCache
    subscriptions: Subscriptions
    credentials: Credentials
    make_sign_in_client: MakeSignInClient
    events: Events
    activity: Activity
    auditing: AuditService
    screen: AnswerScreen
    gatekeeper: Gatekeeper
    allow_list: AllowList
    make_front: Callable[[Settings], ManifestReviewer]
    make_namesakes: MakeNamesakes
    check_policy: Callable[[Settings], None]
    make_placer: Callable[[Settings], Placer]
    make_mender: Callable[[Settings], Awaitable[MediationService]]
    make_tables: Callable[[Settings], Mapping[str, VisibilityTable]]
    open_writer: OpenWriter
    reserved_names: frozenset[str]
    task_key: Callable[[], bytes]
    held_calls: HeldCallStore
    logins: LoginRequests
    note_token: Callable[[str, str], bool]
    notify_of_held: Notify
    signals: Signals
    jobs: Jobs
    shared: SharedState
    session_stubs: SessionStubs | None
    replicas: Replicas
    make_sandbox: Callable[[Settings], AbstractAsyncContextManager[IsolatedSandbox]]
