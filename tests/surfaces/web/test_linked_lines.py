"""Activity and Replay lead to each other, and from a held call to the person's decision and back."""

import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.surfaces.web.held import HOLDS_BUYING, holding
from tests.surfaces.web.person import chromium, person
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_call import words_of

from maitred.audit.log import AuditEntry, AuditLog
from maitred.config.settings import Audit
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Grant, Viewer
from maitred.model.tools import ToolCall
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

ANN = Viewer(grant=Grant(principal="ann", role="agent"), surface="mcp", client="editor")
BUY = ToolCall(name="shop__buy", arguments={"item": "a house"})
FAIL = ToolCall(name="shop__fail", arguments={})
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


async def load(house: House, path: str, **fields: str) -> str:
    client = await house.person()
    answer: httpx2.Response = await client.get(path.partition("#")[0], params=fields or None)
    assert answer.status_code == 200
    return answer.text


def row_of(page: str, seq: int) -> str:
    """The row of a line; a page has it once."""
    [row] = re.findall(rf'<tr id="act-{seq}".*?</tr>', page, re.DOTALL)
    return str(row)


def link_of(row: str, words: str) -> str:
    """Where the link with these words leads."""
    links = re.findall(r'<a href="([^"]+)"[^>]*>(.*?)</a>', row, re.DOTALL)
    return next(html.unescape(to) for to, text in links if words_of(text) == words)


def seq_in(address: str) -> int:
    return int(address.partition("#act-")[2])


@dataclass(kw_only=True)
class Decided:
    """A house where ann made two calls that were held; lines by action, the newest first."""

    house: House
    lines: list[dict[str, Any]]

    def line(self, action: str, **fields: str) -> dict[str, Any]:
        chosen = {"action": action, **fields}
        return next(one for one in self.lines if {name: one.get(name) for name in chosen} == chosen)


@pytest.fixture(scope="module")
async def decided(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Decided]:
    folder: Path = tmp_path_factory.mktemp("house")
    servers = {"shop": [tool("buy"), tool("fail"), tool("look")]}
    audit = Audit(arguments="full", answers="all")
    async with opened(folder, servers, audit=audit, held_calls=HOLDS_BUYING) as house:
        for decision in ("once", "refuse"):
            async with holding(house, BUY, ANN) as held:
                await house.gateway.decide_call(held.id, decision, LOCAL_USER)
                await held.outcome()
        await house.gateway.call(FAIL, viewer=ANN)
        found = await house.gateway.audit_lines(LOCAL_USER)
        yield Decided(house=house, lines=[dict(line) for line in found.lines])


@pytest.mark.parametrize("screen", ["activity", "replay"])
@pytest.mark.parametrize(
    ("action", "words"), [("call.approve", "approved by local"), ("call.refuse", "refused by local")]
)
async def test_a_call_leads_to_the_decision_and_the_decision_to_its_call(
    decided: Decided, screen: str, action: str, words: str
) -> None:
    """Also from one page to another: they are in the sessions of two principals."""
    decision = decided.line(action)
    call = decided.line("call", held=decision["held"])
    start = "/ui/activity" if screen == "activity" else f"/ui/replay?of={call['seq']}"
    page = await load(decided.house, start)

    to = link_of(row_of(page, call["seq"]), words)
    assert seq_in(to) == decision["seq"]
    page = page if to.startswith("#") else await load(decided.house, to)
    back = link_of(row_of(page, decision["seq"]), "the call of ann")
    assert seq_in(back) == call["seq"]
    page = page if back.startswith("#") else await load(decided.house, back)
    assert row_of(page, call["seq"])
    hold = decided.line("call.hold", held=decision["held"])
    assert seq_in(link_of(row_of(page, hold["seq"]), words)) == decision["seq"]


async def test_each_act_leads_to_its_replay_and_back(decided: Decided) -> None:
    activity = await load(decided.house, "/ui/activity")
    for line in decided.lines:
        number = line["seq"]
        to = re.search(r'href="(/ui/replay\?of=\d+#act-\d+)"', row_of(activity, number))
        assert to
        assert seq_in(to[1]) == number
        replay = await load(decided.house, to[1])
        back = re.search(r'href="(/ui/activity\?before=\d+#act-\d+)"', row_of(replay, number))
        assert back
        assert row_of(await load(decided.house, back[1]), number)


async def test_a_replay_of_an_act_in_the_middle_is_of_the_whole_session(decided: Decided) -> None:
    """A filter of Activity may show the middle alone."""
    own = [line["seq"] for line in decided.lines if line["who"] == "ann"]
    page = await load(decided.house, "/ui/replay", of=str(own[2]))
    assert sorted(map(int, re.findall(r'<tr id="act-(\d+)"', page))) == sorted(own)


async def test_all_lines_of_a_held_call_are_found_by_its_id(decided: Decided) -> None:
    """Its page in Approvals leads there."""
    held = decided.line("call.refuse")["held"]
    page = await load(decided.house, "/ui/activity", held=held)
    assert set(map(int, re.findall(r'<tr id="act-(\d+)"', page))) == {
        line["seq"] for line in decided.lines if line.get("held") == held
    }
    assert f'href="/ui/activity?held={held}"' in await load(decided.house, f"/ui/held/{held}")


async def test_a_held_call_that_waits_has_no_green_sign_and_no_code_word(tmp_path: Path) -> None:
    """It leads to where it is decided."""
    async with (
        opened(tmp_path, {"shop": [tool("buy")]}, held_calls=HOLDS_BUYING) as house,
        holding(house, BUY, ANN) as held,
    ):
        [line] = (await house.gateway.audit_lines(LOCAL_USER, held=held.id)).lines
        for path in ("/ui/activity", f"/ui/replay?of={line['seq']}"):
            row = row_of(await load(house, path), line["seq"])
            assert 'class="state warn"' in row
            assert "held for a person" in words_of(row)
            assert "call.hold" not in row
            assert link_of(row, "the held call") == f"/ui/held/{held.id}"


async def test_why_a_call_failed_is_said_where_its_answer_is_kept(decided: Decided) -> None:
    line = decided.line("call", outcome="call_not_approved")
    for path in ("/ui/activity", f"/ui/replay?of={line['seq']}"):
        row = words_of(row_of(await load(decided.house, path), line["seq"]))
        assert "The call of 'shop__buy' was not made: a person refused it." in html.unescape(row)


async def test_without_texts_the_page_says_what_would_keep_them(tmp_path: Path) -> None:
    async with opened(tmp_path, {"shop": [tool("fail")]}) as house:
        await house.gateway.call(FAIL, viewer=ANN)
        page = words_of(await load(house, "/ui/activity"))
    assert "Why a call failed is kept with audit.answers: all" in page


async def test_one_act_has_the_same_time_everywhere_and_sums_have_names(tmp_path: Path) -> None:
    """Half a millisecond was 1 ms in Activity and 0 in Replay. A pause is elapsed time, and no work time."""
    async with opened(tmp_path, {}) as house:
        path = Path(house.gateway.settings.catalog.path)
        for after_s, ms in ((0, 0.6), (65, 0.7)):
            at = START + timedelta(seconds=after_s)
            async with AuditLog(SqliteDatabase(path), clock=lambda at=at: at) as trail:  # type: ignore[misc]
                number = await trail.record(AuditEntry(who="ann", action="call", ms=ms))
        activity = await load(house, "/ui/activity")
        replay = await load(house, "/ui/replay", of=str(number))
        listed = words_of(await load(house, "/ui/replay"))
    for page in (activity, replay):
        assert re.search(r'data-label="Took" class="number">&lt;1 ms</td>', row_of(page, number))
        assert "2 acts, work time 1 ms, elapsed time 1 min 5 s" in words_of(page)
    assert "Work time Elapsed time" in listed
    assert "2 1 ms 1 min 5 s" in listed


async def test_a_long_session_is_replayed_around_the_act_with_links_to_its_rest(tmp_path: Path) -> None:
    async with opened(tmp_path, {}) as house:
        path = Path(house.gateway.settings.catalog.path)
        moments = iter([START + timedelta(seconds=number) for number in range(1_000)])
        async with AuditLog(SqliteDatabase(path), clock=lambda: next(moments)) as trail:
            for _ in range(900):
                trail.note(AuditEntry(who="ann", action="call"))
            last = await trail.record(AuditEntry(who="ann", action="call"))
        page = await load(house, "/ui/replay", of=str(last - 600))
        shown = sorted(map(int, re.findall(r'<tr id="act-(\d+)"', page)))
        assert shown[-1] == last - 350
        assert last - 600 in shown
        later = link_of(page, "Later acts")
        beyond = await load(house, later)
        assert last - 349 in set(map(int, re.findall(r'<tr id="act-(\d+)"', beyond)))
        assert "Earlier acts" in beyond


_OUT_OF_SIGHT = """[...document.querySelectorAll('main td, main tbody th, main button, main .state')]
  .filter((one) => one.getBoundingClientRect().width > 1)
  .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth
    || one.getBoundingClientRect().left < 0).map((one) => one.textContent.trim())"""


async def test_nothing_of_a_row_is_out_of_sight_on_a_telephone(decided: Decided) -> None:
    """At 390 pixels no act, outcome or button needs scrolling to the side."""
    house, number = decided.house, decided.line("call")["seq"]
    async with chromium() as connection:
        reader = await person(connection)
        await reader.open(house.url + house.web.entry_path(LOCAL_GRANT))
        await reader.resize(390, dark=False)
        for path in ("activity", "replay", f"replay?of={number}", "approvals", "approvals/shop"):
            await reader.open(f"{house.url}/ui/{path}")
            assert await reader.run("document.querySelectorAll('main td').length") > 0
            assert await reader.run(_OUT_OF_SIGHT) == [], path
