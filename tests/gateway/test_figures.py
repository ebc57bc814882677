"""Figures of use, and the tiers that are made of them: when they are computed, and what they change."""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.gateway.rig import Upstream, call, opened, settings_of
from tests.support.viewers import agent
from tests.support.waiting import eventually

from maitred.config.settings import Disclosure, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolKey
from maitred.model.usage import Score

pytestmark = pytest.mark.anyio

TOOLS = {f"tool_{n:02}": "Read a file from the disk." for n in range(30)}
PINNED = {ToolKey(server="files", name="tool_20"): ToolChoice(pinned=True)}


def hot(gateway: Gateway) -> list[str]:
    return [summary.tool.key.name for summary in gateway.hot(LOCAL_USER).tools]


def computed(settings: Settings, ago: timedelta) -> str:
    """Have the tiers of a closed catalog been computed so long ago; when that was."""
    at = (datetime.now(UTC) - ago).isoformat(timespec="seconds")
    with closing(sqlite3.connect(settings.catalog.path)) as database, database:
        database.execute("UPDATE state SET tiers_at = ?", (at,))
    return at


async def test_the_hot_list_is_ordered_by_use_once_the_tiers_are_computed(tmp_path: Path) -> None:
    """Most used first, and each with its figures; pinned ones before all."""
    settings = settings_of(tmp_path, "files", tools=PINNED)
    async with opened(settings, Upstream("files", TOOLS)) as gateway:
        assert hot(gateway)[0] == "tool_20"
        assert len(hot(gateway)) == 10
        await call(gateway, "files__tool_29", 9)
        await call(gateway, "files__tool_28", 2)
        standings = await gateway.update_tiers(LOCAL_USER)

        assert hot(gateway)[:3] == ["tool_20", "tool_29", "tool_28"]
        line = r"files__tool_29\(path: str\) - Read a file from the disk\. \[9 calls, \d+ ms, 100% ok\]"
        assert re.search(line, gateway.browse(viewer=LOCAL_USER).text)
        assert gateway.browse("server/files", viewer=LOCAL_USER).text.startswith("files__tool_29(")
        assert sorted(key.name for key in standings) == ["tool_28", "tool_29"]


async def test_the_menu_does_not_change_by_calls_alone(tmp_path: Path) -> None:
    """A model's prompt cache holds as long as nobody computes the tiers."""
    async with opened(settings_of(tmp_path, "files"), Upstream("files", TOOLS)) as gateway:
        pages = ("", "server/files", "categories", "servers")
        before = (
            [gateway.browse(page, viewer=LOCAL_USER).text for page in pages],
            gateway.overview(LOCAL_USER),
            gateway.index(LOCAL_USER),
        )
        version = gateway.version
        await call(gateway, "files__tool_29", 50)
        assert (
            [gateway.browse(page, viewer=LOCAL_USER).text for page in pages],
            gateway.overview(LOCAL_USER),
            gateway.index(LOCAL_USER),
        ) == before
        assert gateway.version == version

        await gateway.update_tiers(LOCAL_USER)
        assert gateway.browse(viewer=LOCAL_USER).text != before[0][0]
        assert gateway.version != version


async def test_tiers_that_come_out_the_same_are_no_news(tmp_path: Path) -> None:
    """Computing them twice announces nothing, so no client lists again."""
    async with opened(settings_of(tmp_path, "files"), Upstream("files", TOOLS)) as gateway:
        await call(gateway, "files__tool_29")
        await gateway.update_tiers(LOCAL_USER)
        generation = gateway.snapshot.generation
        heard: list[str] = []
        gateway.listen(lists=lambda: heard.append("changed"), resource=lambda *_: None)
        await gateway.update_tiers(LOCAL_USER)

    assert heard == []
    assert gateway.snapshot.generation == generation


async def test_a_gateway_that_is_never_idle_computes_its_tiers_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour after they were due: else the menu of a busy gateway would show the use of its first day."""
    monkeypatch.setattr("maitred.gateway.stats._CHECK_S", 0.01)
    monkeypatch.setattr("maitred.gateway.stats._QUIET_S", float("inf"))
    monkeypatch.setattr("maitred.gateway.stats._LATEST_S", 0.05)
    async with opened(settings_of(tmp_path, "files"), Upstream("files", TOOLS)) as gateway:
        await call(gateway, "files__tool_29")
        await eventually(lambda: hot(gateway)[0] == "tool_29")


async def test_the_operator_chooses_the_formula_of_the_score(tmp_path: Path) -> None:
    """One quick call scores well by plain shares, and proves little otherwise. Source: document 003."""
    scores: dict[str, float] = {}
    formulas: tuple[Score, ...] = ("smoothed", "plain")
    for score in formulas:
        settings = replace(settings_of(tmp_path, "files"), disclosure=Disclosure(score=score))
        async with opened(settings, Upstream("files", TOOLS)) as gateway:
            key = ToolKey(server="files", name=f"tool_2{len(scores)}")
            await call(gateway, f"files__{key.name}")
            standings = await gateway.update_tiers(LOCAL_USER)
            scores[score] = standings[key].score
    assert scores["plain"] > scores["smoothed"] + 0.15


async def test_tiers_are_computed_once_a_day(tmp_path: Path) -> None:
    """When the gateway is opened and they are older than that; not without any use to compute them from."""
    settings = settings_of(tmp_path, "files")
    async with opened(settings, Upstream("files", TOOLS)) as gateway:
        await gateway._figures.update_if_due()
        assert (gateway.snapshot.tiers_at, gateway._figures.due) == ("", True)
        await call(gateway, "files__tool_29")
        await gateway._figures.update_if_due()
        first = gateway.snapshot
        assert first.tiers_at
        assert not gateway._figures.due
        await call(gateway, "files__tool_28")
        await gateway._figures.update_if_due()
        assert gateway.snapshot is first

    recent = computed(settings, timedelta(hours=23))
    async with opened(settings, Upstream("files", TOOLS)) as gateway:
        assert (gateway.snapshot.tiers_at, len(gateway.snapshot.standings)) == (recent, 1)
    old = computed(settings, timedelta(hours=25))
    async with opened(settings, Upstream("files", TOOLS)) as gateway:
        assert gateway.snapshot.tiers_at > old
        assert len(gateway.snapshot.standings) == 2


async def test_a_time_that_cannot_be_read_counts_as_long_ago(tmp_path: Path) -> None:
    """Whatever stands in the file, the gateway opens."""
    settings = settings_of(tmp_path, "files")
    async with opened(settings, Upstream("files", TOOLS)) as gateway:
        await call(gateway, "files__tool_29")
    for odd in ("yesterday", "2024-01-01"):
        with closing(sqlite3.connect(settings.catalog.path)) as database, database:
            database.execute("UPDATE state SET tiers_at = ?", (odd,))
        async with opened(settings, Upstream("files", TOOLS)) as gateway:
            assert gateway.snapshot.tiers_at > "2026"


async def test_figures_name_tools_servers_and_what_was_spent(tmp_path: Path) -> None:
    """Busiest first; a tool that is gone since is still counted."""
    upstream = Upstream("files", TOOLS)
    async with opened(settings_of(tmp_path, "files"), upstream) as gateway:
        await call(gateway, "files__tool_02")
        await call(gateway, "files__tool_01", 2)
        gateway.count_answer("some text", agent("ada"))
        del upstream.tools["tool_02"]
        await gateway.sync(viewer=LOCAL_USER)
        stats = await gateway.stats(7, viewer=LOCAL_USER)

    assert {name: usage.calls for name, usage in stats.used.items()} == {
        "files__tool_01": 2,
        "files/tool_02 (gone)": 1,
    }
    assert list(stats.used) == ["files__tool_01", "files/tool_02 (gone)"]
    assert (stats.calls, stats.by_server["files"].calls, stats.tools, stats.servers) == (3, 3, 29, 1)
    assert [(row.principal, row.answers) for row in stats.spending] == [
        ("ada", 1),
        ("local", 0),
    ]  # who called
    assert stats.raw_tokens == sum(tool.cost_tokens for tool in gateway.snapshot.tools)


async def test_figures_can_be_given_to_a_program(tmp_path: Path) -> None:
    """As JSON; every tool has a level."""
    async with opened(settings_of(tmp_path, "files"), Upstream("files", TOOLS)) as gateway:
        await call(gateway, "files__tool_01", 2)
        await gateway.update_tiers(LOCAL_USER)
        said = json.loads(json.dumps((await gateway.stats(viewer=LOCAL_USER)).to_json()))

    assert sum(said["levels"].values()) == 30
    assert said["used"]["files__tool_01"]["success_rate"] == 1.0
    assert said["by_server"]["files"]["calls"] == 2


async def test_levels_count_the_tools_that_are_there(tmp_path: Path) -> None:
    """A tool that was used and is gone has none."""
    upstream = Upstream("files", {"a": "Read.", "b": "Write."})
    async with opened(settings_of(tmp_path, "files"), upstream) as gateway:
        await call(gateway, "files__a")
        await gateway.update_tiers(LOCAL_USER)
        upstream.tools = {"b": "Write."}
        await gateway.sync(viewer=LOCAL_USER)
        levels = (await gateway.stats(viewer=LOCAL_USER)).levels

    assert {level: count for level, count in levels.items() if count} == {"cold": 1}
