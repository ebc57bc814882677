"""The services of a gateway for the steps of a call, which `maitred.wiring.call_steps` makes from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maitred.access.suspended_principals import SuspendedPrincipals
from maitred.audit.service import AuditService
from maitred.calls.cache import ResultCache
from maitred.calls.pipeline import Call, Step
from maitred.calls.result_rules import ResultRules
from maitred.calls.results import Shortener
from maitred.calls.screening import AnswerScreen
from maitred.calls.steps.count_usage import CallWatcher
from maitred.calls.steps.observe_answer import Observe
from maitred.calls.steps.run_as_task import TaskRunner
from maitred.calls.steps.run_saved_chain import RunSaved
from maitred.gateway.authorization import Authorization
from maitred.gateway.cache_policy import CachePolicy
from maitred.gateway.client_shapes import ClientShapes
from maitred.gateway.held_calls import HeldCallService
from maitred.gateway.lookup import ToolLookup
from maitred.gateway.personal_logins import PersonalLogins
from maitred.gateway.result_tools import ResultTools
from maitred.gateway.state import GatewayState
from maitred.gateway.visibility import VisibilityService
from maitred.model.tools import ToolKey
from maitred.telemetry.activity import Activity
from maitred.usage.recorder import UsageRecorder


@dataclass(frozen=True, kw_only=True)
class CallServices:
    """`succeeded` is called with every tool that answered, `price_of` for the price of each call."""

    state: GatewayState
    access: Authorization
    suspensions: SuspendedPrincipals
    lookup: ToolLookup
    visibility: VisibilityService
    auditing: AuditService
    screen: AnswerScreen
    shortener: Shortener
    shapes: ClientShapes
    rules: ResultRules
    cache: ResultCache
    cache_policy: CachePolicy
    usage: UsageRecorder
    observe: Observe
    result_tools: ResultTools
    succeeded: Callable[[ToolKey], None]
    price_of: Callable[[ToolKey], int]
    watchers: Sequence[CallWatcher]
    run_saved: RunSaved
    tasks: TaskRunner
    held_calls: HeldCallService
    activity: Activity
    logins: PersonalLogins

    async def recheck(self, call: Call) -> None:
        """Check a call once more before it goes to its server, which may have changed its tools.

        Raises:
            MaitredError: The call may not be made any more.
        """
        self.lookup.recheck(call)
        await self.held_calls.recheck(call)


MakeCallSteps = Callable[[CallServices], Sequence[Step]]
