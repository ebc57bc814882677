"""Who may do what is decided behind the gateway: a viewer who may nothing gets nothing from any method."""

import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.access.house import opened, settings_of

import maitred.surfaces
from maitred.access.tokens import TokenRequest
from maitred.catalog.snapshot import Snapshot
from maitred.chains.answer import check_answer
from maitred.config.settings import Admission
from maitred.disclosure.budget import estimate
from maitred.errors import NotAllowedError, NotFoundError
from maitred.gateway import NOT_ASKED, Gateway, SectionChange, ToolChange
from maitred.gateway.resources import ResourceService
from maitred.gateway.search_reasons import TrialText
from maitred.model.access import Grant, Scope, Viewer
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

NOTHING: Final = Scope(servers=frozenset(), categories=frozenset(), read_only=True)
NOBODY: Final = Viewer(grant=Grant(principal="nobody", role="viewer", scope=NOTHING))
TOOL: Final = "files__read_note"
SECRET: Final = re.compile(r"read_note|write_note|list_tickets|close_ticket|sum_up|About files|About tickets")
"""What stands in the catalog of the house, and in none of the arguments below."""

FORM: Final = "says how lists are made, and nothing of what is in them"
OWN: Final = "is about what this viewer did or was given itself"
UPKEEP: Final = "is the gateway's own upkeep, which no request starts"
WRITES: Final = "writes down who did what, whoever it is; it tells nothing"
SIGNAL: Final = "tells the surfaces of this process that something changed, and not what it is now"
NEEDS_NO_RIGHT: Final[Mapping[str, str]] = {
    "listen": SIGNAL,
    "watch": SIGNAL,
    "watch_held_calls": SIGNAL,
    "watch_visibility": SIGNAL,
    "decision_count": SIGNAL,
    "settled": SIGNAL,
    "warm": UPKEEP,
    "join_replicas": UPKEEP,
    "drain_replica": UPKEEP,
    "answer_replica": "a signed token proves that another replica asks, before there is a viewer",
    "serving": UPKEEP,
    "mode": FORM,
    "forget": OWN,
    "grant_of": "says whose a token is, before there is a viewer",
    **dict.fromkeys(
        ("start_sign_in", "finish_sign_in", "grant_of_person"),
        "a provider says who a person is, before there is a viewer",
    ),
    "why_suspended": "says why a principal is refused, before there is a viewer",
    "hold_request": OWN,
    "follow_suspensions": UPKEEP,
    "watch_suspensions": SIGNAL,
    "take_logins_at": UPKEEP,
    **dict.fromkeys(
        ("find_login", "continue_login", "finish_login"),
        "a random ticket or state proves that a principal was asked, before there is a viewer",
    ),
    "audit_request": WRITES,
    "record_menu_answer": WRITES,
    "outline_of": OWN,
    "tokens_of": OWN,
    **dict.fromkeys(
        (
            f"auditing.{name}"
            for name in ("note", "record", "note_act", "call", "menu", "request", "entry", "chain")
        ),
        WRITES,
    ),
    "auditing.require": "is what refuses",
    "allow_list.joined": "is what a review reads, and shown to none",
    **dict.fromkeys(("auditing.use", "auditing.keep_up"), UPKEEP),
    **dict.fromkeys(("answer_limit", "menu_for", "shown_tool"), FORM),
    "fit_answer": OWN,
    "published_name": "is the name that the viewer gave, or the whole name of a tool that it may see",
    "list_state": "is a key by which the lists of viewers are compared, and shown to none",
    **dict.fromkeys(("count_menu", "count_tools", "count_categories", "count_answer", "count_result"), OWN),
}
"""Methods that check nothing, each with the reason.

Methods of `offers` and `running_tasks` know their viewer already."""

SHOWING_ROLES: Final = 4
"""Lines of the Access screen and of the navigation, which show what roles may do and decide nothing."""
SERVER: Final = {"name": "files", "viewer": NOBODY}
GIVEN: Final[Mapping[str, Any]] = {
    "viewer": NOBODY,
    "server": "files",
    "servers": ["files"],
    "name": TOOL,
    "names": [TOOL],
    "path": "server/files",
    "phrases": ["read a note"],
    "call": ToolCall(name=TOOL, arguments={}),
    "result_id": "r1",
    "answer_id": "r1",
    "kind": "resource",
    "uri": "files://all",
    "code": "return 1",
    "task_id": "WyJmaWxlcyIsInJlYWRfbm90ZSIsIjEiXQ.AAAAAAAAAAAAAAAAAAAAAAAA",
    "whole": True,
    "again": True,
    "capabilities": {},
    "responses": {},
    "origin": None,
    "key": "eve 1",
    "days": 7,
    "text": "name: new\ntransport: stdio\ncommand: no-such-program\n",
    "source": "new.yaml",
    "verdict": "approve",
    "principal": "eve",
    "principals": ["eve"],
    "by": "principal",
    "held_id": "5b1f0c7ad2e9",
    "decision": "once",
    "held": None,
    "heard": lambda: None,
    "ability": "approve",
    "change": SectionChange(name="limits", text="limits: {}", seen=""),
    "pattern": "ghcr.io/acme/*",
    "section": Admission(),
    "trial": TrialText(tool=TOOL, description="Another text."),
    "tool_change": ToolChange(enabled=False),
    "id_or_name": "nobody",
    "request": TokenRequest(name="eve", role="admin", scope=Scope()),
    "progress": lambda *_: None,
    "argument": {"name": "name", "value": ""},
    "arguments": {},
    "context": None,
    "keys": (),
    "digests": ["0f"],
    "timeout_ms": 1_000,
    "max_output_size": 1_000,
    "dry_run": False,
    "caller": NOT_ASKED,
    "request_id": "r1",
    "profile": "review",
    "result": {"content": []},
    "definitions": [],
    "client": "cursor",
    "job": "tiers",
    "enabled": False,
}
"""A value for each parameter without default, by its name."""
OF_SERVERS: Final = {"watched_server"}
KINDS: Final[Mapping[str, Any]] = {"offers.complete": "prompt", "plan_client_file": "connect"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """Two servers, whose tools are known and placed."""
    async with opened(settings_of(tmp_path)) as running:
        yield running


def services(gateway: Gateway) -> Mapping[str, object]:
    """The gateway, what it has for one viewer, and services that commands also use beside a gateway."""
    beside = {"auditing": gateway._auditing, "tokens": gateway._tokens, "allow_list": gateway._allow_list}
    running = gateway.running_tasks(NOBODY)
    return {"": gateway, "offers": gateway.offers(NOBODY), "running_tasks": running, **beside}


def methods(gateway: Gateway) -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public methods with their names as a surface would write them."""
    for service, it in services(gateway).items():
        for name in dir(it):
            if name.startswith("_") or isinstance(getattr(type(it), name, None), property):
                continue
            found = getattr(it, name)
            if inspect.ismethod(found):
                yield f"{service}.{name}".lstrip("."), found


def arguments(name: str, method: Callable[..., Any], gateway: Gateway) -> dict[str, Any]:
    """Arguments with which a viewer who may all would get an answer."""
    known: dict[str, Any] = {
        **GIVEN,
        "tool": gateway.snapshot.by_name[TOOL],
        "tools": [gateway.snapshot.by_name[TOOL]],
        "settings": gateway.settings,
        "made": check_answer([], code="", estimate=estimate, max_output_size=0, asked=True),
    }
    if name in OF_SERVERS:
        known["name"] = "files"
    if name in KINDS:
        known["kind"] = KINDS[name]
    parameters = inspect.signature(method).parameters.values()
    wanted = [one.name for one in parameters if one.default is one.empty]
    for one in wanted:
        assert one in known, f"{name}: add an example value of parameter {one!r} to GIVEN"
    return {one: known[one] for one in wanted}


async def asked(name: str, method: Callable[..., Any], gateway: Gateway) -> Any:
    """What a method answers to a viewer who may nothing."""
    answer = method(**arguments(name, method, gateway))
    return await answer if inspect.isawaitable(answer) else answer


def told(answer: object) -> str:
    """What a viewer would learn from an answer."""
    if isinstance(answer, Snapshot):
        return repr((answer.tools, answer.servers, answer.offers))
    return "" if isinstance(answer, ResourceService) else repr(answer)


async def test_no_method_does_or_tells_anything_for_a_viewer_who_may_nothing(gateway: Gateway) -> None:
    """It refuses, or what was asked for does not exist for this viewer, or nothing is in the answer."""
    before, faults = gateway.settings, []
    for name, method in methods(gateway):
        if name in NEEDS_NO_RIGHT:
            continue
        try:
            answer = await asked(name, method, gateway)
        except (NotAllowedError, NotFoundError) as error:
            answer = str(error).replace(TOOL, "")
        if found := SECRET.search(told(answer)):
            faults.append(f"{name} tells of {found[0]!r}")

    assert faults == []
    assert gateway.settings is before


async def test_surfaces_reach_no_service_through_the_gateway(gateway: Gateway) -> None:
    """What a gateway is made of is private, so that each request passes a method that takes a viewer."""
    assert [name for name in vars(gateway) if not name.startswith("_")] == []


async def test_every_method_takes_a_viewer_who_has_to_be_given(gateway: Gateway) -> None:
    """Nobody acts for the user of the machine by leaving the viewer out."""
    for name, method in methods(gateway):
        if name not in NEEDS_NO_RIGHT and not name.startswith(("offers.", "running_tasks.")):
            viewer = inspect.signature(method).parameters.get("viewer")
            assert viewer is not None, name
            assert viewer.default is viewer.empty, name


async def test_what_changes_something_is_refused_with_the_reason(gateway: Gateway) -> None:
    """That what was asked for does not exist is no answer to who wants to change it."""
    changing = {
        "configure", "sync", "update_tiers", "write_use_cases", "authorize_stop", "tool_to_call",
        "stats", "spending_stats", "whole_catalog", "withheld_answer", "last_output", "catalog_status",
        "held_calls", "held_call", "decide_call",
        "register_server", "check_manifest", "decide", "case", "cases", "registrations",
        "server_configurations", "refresh", "restart", "authorize_restart",
        "audit_lines", "verify_audit", "make_token", "access_tokens", "revoke_tokens", "mediation_diff",
        "ask_model", "estimate_mediation", "model_spending", "chain_isolation_fault", "run_chain",
        "auditing.latest", "auditing.verify", "auditing.lines", "auditing.head", "auditing.prune",
        "keep_text", "drop_text", "change_tool", "switched_off_tools", "switch_server", "switch_tool",
        "allow_patterns", "allow_history", "add_allow_pattern", "remove_allow_pattern",
        "allow_list.listed", "allow_list.history", "allow_list.add", "allow_list.remove",
        "tokens.make", "tokens.listed", "tokens.revoke", "offers.read", "offers.hold", "offers.get_prompt",
    }  # fmt: skip
    found = dict(methods(gateway))
    assert changing <= found.keys()
    for name in sorted(changing):
        with pytest.raises(NotAllowedError):
            await asked(name, found[name], gateway)


async def test_the_list_of_what_needs_no_right_names_only_methods(gateway: Gateway) -> None:
    """One that is gone, or was renamed, must not excuse another one later."""
    assert NEEDS_NO_RIGHT.keys() <= dict(methods(gateway)).keys()


def test_surfaces_ask_the_gateway_and_do_not_decide() -> None:
    """But for commands that work on files beside any gateway, which `console.acting` checks."""
    deciding = re.compile(r"\.access\b|\bwhy_not\(|[^_]\brefusal\(|[^_]\bmay\(|LEAST\b|ROLES\b")
    found = {
        f"{path.relative_to(root)}: {line.strip()}"
        for root in map(Path, maitred.surfaces.__path__)
        for path in root.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if deciding.search(line) and "import" not in line
    }

    shown = {one for one in found if one.startswith(("web/access/", "web/screen.py: return ROLES"))}
    assert found - shown == {"cli/console.py: if why := refusal(viewer.grant, ability):"}
    assert len(shown) == SHOWING_ROLES


def test_only_commands_on_files_beside_the_gateway_name_abilities() -> None:
    """They write the configuration or a login, read that or another file alone, or begin to listen."""
    commands = Path(*maitred.surfaces.__path__) / "cli"
    naming = {
        path.stem
        for path in commands.glob("*.py")
        if re.search(r"\b(acting|prepare)\(.*, \"", path.read_text(encoding="utf-8"))
    }

    assert naming == {
        "browser",
        "chains",
        "choices",
        "console",
        "find",
        "login",
        "mediate",
        "menu",
        "registry_add",
        "serve",
        "server_logs",
        "switches",
    }
