"""The way of a call, from top to bottom: each step sees the call before those below it, and the answer after.

`maitred.calls.pipeline` says what a step is. To add one, write its class and put a line where it belongs.
"""

from maitred.access.team_budget import TeamBudgets, has_budgets
from maitred.calls.pipeline import Step
from maitred.calls.steps.annotate_answer import AnnotateAnswer
from maitred.calls.steps.announce_tools import AnnounceTools
from maitred.calls.steps.apply_result_rules import ApplyResultRules
from maitred.calls.steps.ask_for_login import AskForLogin
from maitred.calls.steps.audit_call import AuditCall
from maitred.calls.steps.audit_change import AuditChange
from maitred.calls.steps.audit_outcome import AuditOutcome
from maitred.calls.steps.authorize import Authorize
from maitred.calls.steps.check_arguments import CheckArguments
from maitred.calls.steps.check_budget import CheckBudget
from maitred.calls.steps.clean_answer import CleanAnswer
from maitred.calls.steps.count_usage import CountUsage
from maitred.calls.steps.find_tool import FindTool
from maitred.calls.steps.follow_visibility import FollowVisibility
from maitred.calls.steps.hold_call import HoldCall
from maitred.calls.steps.limit_rate import LimitRate
from maitred.calls.steps.mark_cached import MarkCached
from maitred.calls.steps.observe_answer import ObserveAnswer
from maitred.calls.steps.refuse_nested_chain import RefuseNestedChain
from maitred.calls.steps.refuse_suspended import RefuseSuspended
from maitred.calls.steps.relay import Relay
from maitred.calls.steps.run_as_task import RunAsTask
from maitred.calls.steps.run_saved_chain import RunSavedChain
from maitred.calls.steps.screen_answer import ScreenAnswer
from maitred.calls.steps.shorten_answer import ShortenAnswer
from maitred.calls.steps.take_result_tools import TakeResultTools
from maitred.calls.steps.trace_call import TraceCall
from maitred.calls.steps.use_cache import UseCache
from maitred.gateway.calls import CallServices
from maitred.gateway.client_shapes import answer_limit


def make_call_steps(given: CallServices) -> tuple[Step, ...]:
    """The steps of every call: from an agent, over HTTP, from the command line, and from within a chain."""
    state, lookup = given.state, given.lookup
    budgets = TeamBudgets(given.usage, given.access.credentials.groups)
    return (
        TraceCall(given.activity),  # a span, and figures of how it ended
        AuditCall(given.auditing.call),  # every call has an audit entry, also one that is refused
        RefuseSuspended(given.suspensions),  # refuses, and ends, calls of a principal who is suspended
        FindTool(lookup),  # name -> tool; waits for a server that is being discovered
        Authorize(lookup.authorize),  # may this caller call it, and is it offered now
        # What is done to an answer, the last thing first.
        AnnotateAnswer(),  # audience and priority, where the server says none
        MarkCached(),  # "[cached]"
        AnnounceTools(given.shapes.shown_name),  # "Now available: ..."
        ShortenAnswer(  # to the budget of tokens
            given.shortener,
            lambda server: server in state.settings.servers and state.spec(server).pages is not None,
            answer_limit,
        ),
        ApplyResultRules(given.rules),  # drops parts, shows only what changed
        ScreenAnswer(given.screen),  # orders and secrets in answers and errors
        TakeResultTools(given.result_tools),  # the field `tools` of an answer
        # What a call has to pass, the first thing first.
        FollowVisibility(given.visibility),  # makes sense now; updates the facts afterwards
        CheckArguments(lookup.check),  # against the schema; read-only where the caller wants that
        RefuseNestedChain(state.is_composed),  # no saved chain within a saved chain
        AuditOutcome(),  # how it ended, before a step changes the answer
        CheckBudget(  # tokens of a team a day
            lambda server: has_budgets(state.settings.access.teams) and not state.is_composed(server),
            lambda viewer: budgets.check(viewer, state.settings.access.teams),
        ),
        LimitRate(given.access.is_limited, given.access.enter),  # calls a minute, calls at once
        AskForLogin(given.logins),  # a login of the principal itself, where the server wants that
        HoldCall(given.held_calls, lookup.check_again),  # waits for a person where the rules say so
        UseCache(given.cache, given.cache_policy, given.usage),  # answers from the cache, or empties it
        # What happens only if the call is made.
        AuditChange(),  # "begun" is written before something can change
        CountUsage(
            given.usage, given.watchers, given.succeeded, given.price_of
        ),  # how often, how long, how well
        ObserveAnswer(given.observe),  # what answers look like, for the menu
        CleanAnswer(lambda server: state.spec(server).allowed_origins),  # no marks of ours, no foreign links
        RunSavedChain(state.is_composed, given.run_saved),  # answers here; all others go to a server
        RunAsTask(given.tasks),  # asks the server for a task, and waits for it if the caller takes none
        Relay(state.keeper.connections, state.spec, given.recheck),  # leaves the process
    )
