"""The services of a gateway for the steps of a call, which `maitred.wiring.call_steps` makes from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maitred.audit.service import AuditService
from maitred.calls.cache import ResultCache
from maitred.calls.pipeline import Step
from maitred.calls.results import Shortener
from maitred.calls.screening import AnswerScreen
from maitred.calls.steps.count_usage import CallWatcher
from maitred.calls.steps.run_as_task import TaskRunner
from maitred.calls.steps.run_saved_chain import RunSaved
from maitred.gateway.authorization import Authorization
from maitred.gateway.cache_policy import CachePolicy
from maitred.gateway.lookup import ToolLookup
from maitred.gateway.result_tools import ResultTools
from maitred.gateway.state import GatewayState
from maitred.gateway.visibility import VisibilityService
from maitred.model.tools import ToolKey
from maitred.usage.recorder import UsageRecorder


@dataclass(frozen=True, kw_only=True)
class CallServices:
    """`succeeded` is called with every tool that answered without error, `watchers` after every call."""

    state: GatewayState
    access: Authorization
    lookup: ToolLookup
    visibility: VisibilityService
    auditing: AuditService
    screen: AnswerScreen
    shortener: Shortener
    cache: ResultCache
    cache_policy: CachePolicy
    usage: UsageRecorder
    result_tools: ResultTools
    succeeded: Callable[[ToolKey], None]
    watchers: Sequence[CallWatcher]
    run_saved: RunSaved
    tasks: TaskRunner


MakeCallSteps = Callable[[CallServices], Sequence[Step]]
