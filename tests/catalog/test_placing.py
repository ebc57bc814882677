"""Tools in their categories: when discovered, when described anew, when rules or choices change."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.makers import FACTS, Counter, after, found, raw
from tests.gateway.rig import Upstream, opened, settings_of, until

from maitred.catalog.snapshot import Snapshot
from maitred.catalog.stages import replacement, with_placements
from maitred.catalog.sync import plan
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.categories import Category, Placement, ToolChoice
from maitred.model.tools import Tool, ToolKey

pytestmark = pytest.mark.anyio

READ = {"read_file": "Read a file from the disk."}
KEY = ToolKey(server="files", name="read_file")
CHOICE = ToolChoice(category="security", tags=("function:audit",), use_cases=("I want to see a log",))


class ByFirst:
    """Places a tool in the category that its description begins with, and keeps what it was told."""

    def __init__(self, fingerprint: str = "1") -> None:
        self.fingerprint = fingerprint
        self.asked: list[tuple[list[str], str]] = []

    def place(self, tools: Sequence[Tool], schema: Callable[[str], Any], about: str = "") -> Sequence[Tool]:
        self.asked.append(([tool.key.name for tool in tools], about))
        return [
            replace(tool, placement=Placement(category=tool.description.split()[0], by="rules"))
            for tool in tools
        ]


def at(snapshot: Snapshot) -> dict[str, str]:
    return {tool.name: tool.placement.category for tool in snapshot.tools}


async def discovered(snapshot: Snapshot, placer: ByFirst, *tools: Any, server: str = "s") -> Snapshot:
    change = await plan(snapshot, found(server, *tools), Counter())
    change = await with_placements(snapshot, change, server, placer)
    return snapshot.after(change, snapshot.generation + change.visible)


# --- with a discovery -------------------------------------------------------------------------------------


async def test_a_tool_is_never_without_a_category() -> None:
    """It is placed in the write that brings it, with the whole of its server and what that says of itself."""
    placer = ByFirst()
    known = await discovered(Snapshot(), placer, raw("s", "a", description="mail it"))
    known = await discovered(
        known, placer, raw("s", "a", description="mail it"), raw("s", "b", description="data it")
    )

    assert at(known) == {"s__a": "mail", "s__b": "data"}
    assert placer.asked[-1] == (["a", "b"], f"{FACTS.title}. {FACTS.instructions}")


async def test_a_discovery_that_finds_what_was_known_writes_no_tool() -> None:
    """Where all stand already where the rules put them."""
    known = await discovered(Snapshot(), ByFirst(), raw("s", "a", description="mail it"))
    change = await plan(known, found("s", raw("s", "a", description="mail it")), Counter())

    assert await with_placements(known, change, "s", ByFirst()) is change
    assert not change.visible


async def test_a_tool_that_is_described_anew_keeps_its_place_until_the_rules_move_it() -> None:
    """What a discovery alone changes is the text; category, tags and use cases are not the server's."""
    known = await after(Snapshot(), found("s", raw("s", "a", description="Old.")))
    placement = Placement(category="mail", confidence=0.5, by="rules", tags=("function:send",))
    [tool] = known.tools
    curated = replace(tool, placement=placement, use_cases=("I want to",), use_cases_by="model")
    known = replace(known, tools=(curated,))

    change = await plan(known, found("s", raw("s", "a", description="New.")), Counter())

    [now] = change.tools
    assert now == replace(curated, description="New.", cost_tokens=now.cost_tokens)


async def test_the_tools_of_a_server_that_lost_all_are_not_placed() -> None:
    known = await discovered(Snapshot(), ByFirst(), raw("s", "a", description="mail it"))

    assert (await discovered(known, ByFirst())).tools == ()


# --- with other rules -------------------------------------------------------------------------------------


async def test_other_rules_move_what_they_place_otherwise_and_are_remembered() -> None:
    """So they run once; rules that move nothing are no news."""
    known = await after(
        Snapshot(),
        found("s", raw("s", "a", description="mail it")),
        found("t", raw("t", "b", description="ai it")),
    )
    first = await replacement(known, ByFirst())
    placed = known.after(first, 2)
    second = await replacement(placed, ByFirst("2"))

    assert (at(placed), placed.placed_by, first.visible) == ({"s__a": "mail", "t__b": "ai"}, "1", True)
    assert not await replacement(placed, ByFirst())
    assert (list(second.tools), second.placed_by, second.visible) == ([], "2", False)


# --- in a gateway -----------------------------------------------------------------------------------------


def category(gateway: Gateway) -> str:
    return gateway.find("read_file", LOCAL_USER).placement.category


async def test_a_persons_choice_wins_survives_a_sync_and_is_undone_when_taken_out(tmp_path: Path) -> None:
    """The tool is found where it was put, with its tags and use cases; afterwards as if nothing had been."""
    settings = settings_of(tmp_path, "files")
    chosen = replace(settings, tools={KEY: CHOICE})
    upstream = Upstream("files", READ)
    async with opened(settings, upstream) as gateway:
        before = gateway.find("read_file", LOCAL_USER)
        assert before.placement.category == "files_text"

        await gateway.configure(chosen, viewer=LOCAL_USER)
        await until(gateway, lambda: category(gateway) == "security")
        assert "files__read_file(" in gateway.browse("category/security", viewer=LOCAL_USER).text
        upstream.tools["read_file"] = "Read a text file of a folder."
        await gateway.sync(viewer=LOCAL_USER)
        tool = gateway.find("read_file", LOCAL_USER)
        assert tool.description == "Read a text file of a folder."
        assert (tool.placement.category, tool.placement.by, tool.placement.confidence) == (
            "security",
            "person",
            1,
        )
        assert tool.placement.tags[0] == "function:audit"
        assert tool.use_cases == CHOICE.use_cases

        upstream.tools["read_file"] = READ["read_file"]
        await gateway.sync(viewer=LOCAL_USER)
        await gateway.configure(settings, viewer=LOCAL_USER)
        await until(gateway, lambda: category(gateway) != "security")
        after = gateway.find("read_file", LOCAL_USER)
        assert replace(after, since=before.since) == before


async def test_a_choice_is_there_when_the_gateway_is_opened_again(tmp_path: Path) -> None:
    """Made while no gateway ran, for a tool that is known; no server is started for it."""
    settings = settings_of(tmp_path, "files")
    async with opened(settings, Upstream("files", READ)):
        pass
    upstream = Upstream("files", READ)
    async with opened(replace(settings, tools={KEY: CHOICE}), upstream) as gateway:
        await until(gateway, lambda: category(gateway) == "security")
        assert upstream.starts == 0


async def test_a_category_of_ones_own_takes_the_tools_that_its_words_name(tmp_path: Path) -> None:
    """And gives them back when it is taken out."""
    settings = settings_of(tmp_path, "garden")
    own = {"gardening": Category(name="gardening", title="Gardening", words=("mole", "tulip", "tulip bed"))}
    tools = {"dig_mole": "Dig the mole out of the tulip bed.", "plant_tulip": "Plant a tulip."}
    async with opened(replace(settings, categories=own), Upstream("garden", tools)) as gateway:
        assert {tool.placement.category for tool in gateway.snapshot.tools} == {"gardening"}
        assert "category/gardening: Gardening - 2 tools" in gateway.browse(viewer=LOCAL_USER).text
        await gateway.configure(settings, viewer=LOCAL_USER)
        await until(gateway, lambda: "gardening" not in gateway.snapshot.by_category)
        assert "gardening" not in gateway.browse(viewer=LOCAL_USER).text
