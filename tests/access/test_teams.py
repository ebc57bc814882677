"""Teams share limits: a call over one is refused with the team's name, and takes nothing from its caller."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from tests.access.house import SOON_S, opened, settings_of
from tests.catalog.databases import new_catalog

from maitred.access.rate_limit import CallPermit, Limiter, LimitReached, RateLimits, TeamLimits
from maitred.access.team_budget import TeamBudgets
from maitred.access.teams import PrincipalGroups
from maitred.config.load import parse
from maitred.config.settings import AccessSettings, GroupEntry, TeamEntry
from maitred.errors import BusyError, ConfigError
from maitred.model.access import LOCAL_USER, Grant, Viewer
from maitred.model.sign_in import SignedIn
from maitred.model.tools import ToolCall
from maitred.storage.sqlite import SqliteDatabase
from maitred.usage.recorder import UsageRecorder

pytestmark = pytest.mark.anyio

READ = ToolCall(name="files__read_note", arguments={})
MONEY = TeamEntry(groups=("payments",), principals=("ci",), calls_per_minute=1, burst=2)


def member(name: str, *groups: str) -> Viewer:
    return Viewer(grant=Grant(principal=name, role="agent", groups=groups))


async def test_members_share_the_limit_of_their_team(tmp_path: Path) -> None:
    """By group and by name; who is in no team goes on."""
    access = AccessSettings(teams={"money": MONEY})
    async with opened(settings_of(tmp_path, access=access)) as gateway:
        await gateway.call(READ, viewer=member("oauth:ann", "payments"))
        await gateway.call(READ, viewer=member("ci"))
        with pytest.raises(BusyError, match="the team 'money' may call 1 times a minute; try again in 60 s"):
            await gateway.call(READ, viewer=member("oauth:bob", "payments", "staff"))
        await gateway.call(READ, viewer=member("oauth:eve", "staff"))


def test_a_call_that_the_team_refuses_takes_nothing_from_its_caller() -> None:
    """Nor the other way round; what runs counts for both until it ends."""
    now = 0.0
    limiter = Limiter(RateLimits(per_minute=60, burst=2), clock=lambda: now)
    team = TeamLimits(name="money", limits=RateLimits(at_once=1))

    first = limiter.enter("ann", team=team)
    second = limiter.enter("ann", team=team)
    assert isinstance(first, CallPermit)
    assert isinstance(second, LimitReached)
    assert second.reason.startswith("1 of 1 calls of the team 'money' are running")
    with first:
        pass
    for _ in range(1):
        permit = limiter.enter("ann", team=team)
        assert isinstance(permit, CallPermit)
        with permit:
            pass
    spent = limiter.enter("ann", team=team)
    assert isinstance(spent, LimitReached)
    assert spent.reason.startswith("'ann' may call 60 times a minute")
    other = limiter.enter("bob", team=team)
    assert isinstance(other, CallPermit)


async def test_a_team_that_used_its_tokens_of_the_day_makes_no_more_calls(tmp_path: Path) -> None:
    """What members used at another gateway on the catalog counts. Other teams go on, and so does search."""
    money = TeamEntry(principals=("ann", "bob"), tokens_per_day=500)
    wide = TeamEntry(principals=("eve",), tokens_per_day=1_000_000)
    settings = settings_of(tmp_path, access=AccessSettings(teams={"money": money, "wide": wide}))
    async with opened(settings) as gateway:
        await gateway.call(READ, viewer=member("ann"))
        gateway.count_answer("word " * 600, member("bob"))  # as what a search answered
        gateway.count_answer("word " * 900, member("eve"))
    async with opened(settings) as other:
        for name in ("ann", "bob"):
            with pytest.raises(BusyError, match="of its 500 tokens of today; try again after") as error:
                await other.call(READ, viewer=member(name))
            assert error.value.reason.startswith("the team 'money' has used ")
            assert 0 < error.value.retry_in_s <= 86_400
        await other.call(READ, viewer=member("eve"))
        await other.call(READ, viewer=member("mallory"))
        assert await other.search("read a note", viewer=member("ann"))


async def test_a_budget_begins_again_at_midnight(tmp_path: Path) -> None:
    """And while the database cannot be read, the last figures count."""
    money = TeamEntry(principals=("ann",), tokens_per_day=100)
    now = datetime(2026, 3, 1, 21, 30, tzinfo=UTC)
    async with SqliteDatabase(new_catalog(tmp_path)) as database:
        usage = UsageRecorder(database, clock=lambda: now)
        budgets = TeamBudgets(usage, PrincipalGroups(database), clock=lambda: now)
        async with usage:
            usage.spent("ann", result_tokens=100)
            with pytest.raises(
                BusyError, match="100 of its 100 tokens of today; try again after midnight UTC, in 3 h"
            ):
                await budgets.check(member("ann"), {"money": money})
            now += timedelta(hours=3)
            await budgets.check(member("ann"), {"money": money})


async def test_the_team_of_a_principal_is_known_after_it_left(tmp_path: Path) -> None:
    """By the groups that it came with last, also to another gateway on the catalog."""
    groups = {"*": GroupEntry(role="viewer")}
    settings = settings_of(tmp_path, access=AccessSettings(groups=groups, teams={"money": MONEY}))
    async with opened(settings) as gateway:
        for name, own in (("ann", ["payments"]), ("eve", ["staff"])):
            person = SignedIn(claims={"sub": name, "groups": own}, expires_at=0.0)
            assert isinstance(await gateway.grant_of_person(person), Grant)
        async with opened(replace(settings, servers={})) as other:
            with anyio.fail_after(SOON_S):
                while True:
                    teams = await other.teams_of(["oauth:ann", "oauth:eve", "ci", "nobody"], LOCAL_USER)
                    if teams["oauth:ann"]:
                        break
                    await anyio.sleep(0.02)
            assert teams == {"oauth:ann": "money", "oauth:eve": "", "ci": "money", "nobody": ""}
            assert await gateway.team_of("oauth:ann", LOCAL_USER) == "money"
            moved = replace(settings, access=AccessSettings(teams={"all": TeamEntry(groups=("*",))}))
            await gateway.configure(moved, viewer=LOCAL_USER)
            assert await gateway.team_of("oauth:eve", LOCAL_USER) == "all"


def test_teams_are_read_from_the_file() -> None:
    """The first that fits counts; one without members is a fault."""
    text = "access: {teams: {a: {groups: [x], calls_at_once: 3}, b: {principals: [ci]}}}"
    assert parse(Path("maitred.yaml"), text).access.teams == {
        "a": TeamEntry(groups=("x",), calls_at_once=3),
        "b": TeamEntry(principals=("ci",)),
    }
    with pytest.raises(ConfigError, match="has no members"):
        parse(Path("maitred.yaml"), "access: {teams: {a: {calls_at_once: 3}}}")
