"""The menu as a gateway keeps it: the first screen, the pages, and when they change."""

from dataclasses import replace

import pytest
from tests.catalog.makers import raw, snapshot_of
from tests.gateway.rig import SCHEMA, Shown

from maitred.catalog.snapshot import Snapshot
from maitred.errors import CursorError, PathNotFoundError
from maitred.model.categories import Category, Placement, ToolChoice
from maitred.model.tools import ToolKey
from maitred.model.usage import ToolStanding, Usage

ODD = ["my server", "team/notes", "会議 😀", "a:b", "it's", "100%", "server", "categories", 'back\\slash"']
PLACES = ("data", "security", "data", "ai", "below")
OWN = {"below": Category(name="below", title="Below", parent="data")}


def catalog(count: int = 40, *servers: str) -> Snapshot:
    """Tools that only read, on servers in turn, in the categories in turn."""
    names = servers or ("a", "b", "c")
    known = snapshot_of(
        raw(names[n % len(names)], f"tool_{n:02}", description=f"Does thing {n}.", input_schema=SCHEMA)
        for n in range(count)
    )
    placed = [
        replace(tool, placement=Placement(category=PLACES[int(tool.key.name[-2:]) % 5], by="rules"))
        for tool in known.tools
    ]
    return replace(known, tools=tuple(placed))


def used(snapshot: Snapshot, **scores: float) -> Snapshot:
    """The next generation, in which some tools were used, better or worse."""
    by_name = {tool.key.name: tool.key for tool in snapshot.tools}
    standings = {by_name[name]: ToolStanding(score=s, usage=Usage(calls=9)) for name, s in scores.items()}
    return replace(snapshot, generation=snapshot.generation + 1, standings=standings)


def hot(shown: Shown) -> list[str]:
    return [summary.tool.key.name for summary in shown.menu.hot().tools]


# --- the first screen -------------------------------------------------------------------------------------


def test_while_nothing_was_used_the_first_screen_is_a_spread_behind_what_is_pinned() -> None:
    """From every category and every server some, so that an agent sees what there is."""
    snapshot = catalog()
    pins = {
        tool.key: ToolChoice(pinned=True)
        for tool in snapshot.tools
        if tool.key.name in ("tool_33", "tool_07")
    }
    shown = Shown(snapshot, tools=pins, categories=OWN)

    assert sorted(hot(shown)[:2]) == ["tool_07", "tool_33"]
    listed = [summary.tool for summary in shown.menu.hot().tools]
    assert len(listed) == 10
    assert {tool.placement.category for tool in listed} == {"data", "security", "ai", "below"}
    assert {tool.server for tool in listed} == {"a", "b", "c"}


def test_what_is_pinned_but_not_there_takes_no_place() -> None:
    """Its server may be gone, or its name be misspelt."""
    gone = {ToolKey(server="a", name="nothing"): ToolChoice(pinned=True)}

    assert hot(Shown(catalog(), tools=gone)) == hot(Shown(catalog()))


def test_the_best_used_come_first_everywhere() -> None:
    """On the first screen, among the examples of a category, and on the pages."""
    shown = Shown(used(catalog(), tool_36=0.9, tool_00=0.5), categories=OWN)

    assert hot(shown)[:2] == ["tool_36", "tool_00"]
    assert "category/security: Security & compliance" in (text := shown.menu.browse("categories").text)
    assert ", such as a__tool_36, " in text
    assert shown.menu.browse("category/security").text.startswith("a__tool_36(")


# --- pages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD)
def test_a_server_of_any_name_has_a_page_that_can_be_walked(name: str) -> None:
    """By the path that the list of servers shows, with the cursor that the page shows."""
    shown = Shown(catalog(5, name))
    assert shown.menu.browse("servers").text.startswith(f"server/{name}: 5 tools")

    names: list[str] = []
    cursor = ""
    while not names or cursor:
        page = shown.menu.page(f"server/{name}", cursor, size=2).page
        names += [line.partition("(path")[0] for line in page.text.splitlines() if "(path" in line]
        cursor = page.cursor

    assert names == [tool.name for tool in shown.catalog.snapshot.tools]


def test_a_category_holds_what_stands_below_it_and_says_so_once() -> None:
    """The categories below are named on the first page only; their own pages hold their tools alone."""
    shown = Shown(catalog(), categories=OWN)
    first = shown.menu.browse("category/data", size=20)
    second = shown.menu.browse("category/data", first.cursor, size=20)

    assert first.text.splitlines()[0].strip().startswith("category/below: Below - 8 tools on 3 servers")
    assert "category/below" not in second.text
    assert (first.text + second.text).count("(path: str)") == 24
    assert shown.menu.browse("category/below").text.count("(path: str)") == 8


def test_a_tool_that_moves_up_between_two_pages_is_the_only_one_to_be_missed() -> None:
    """The walk goes on behind the last name that was shown, wherever that stands now."""
    shown = Shown(used(catalog(12, "a"), tool_03=0.9, tool_04=0.8))
    first = shown.menu.page("server/a", size=4)
    shown.show(used(shown.catalog.snapshot, tool_03=0.9, tool_04=0.8, tool_11=0.85))
    second = shown.menu.page("server/a", first.page.cursor, size=50)

    assert [summary.tool.key.name for summary in first.tools] == ["tool_03", "tool_04", "tool_00", "tool_01"]
    seen = [summary.tool.key.name for summary in (*first.tools, *second.tools)]
    assert sorted(seen) == sorted({f"tool_{n:02}" for n in range(12)} - {"tool_11"})


@pytest.mark.parametrize(
    "path", ["category/", "server/", "category/nothing", "x/a", "server/a/b", "servers/a"]
)
def test_a_page_that_does_not_exist_is_an_error_that_helps(path: str) -> None:
    with pytest.raises(PathNotFoundError):
        Shown(catalog()).menu.browse(path)


@pytest.mark.parametrize("path", ["", "server/a", "category/data", "servers", "categories"])
def test_a_cursor_that_is_none_is_refused_on_every_page(path: str) -> None:
    with pytest.raises(CursorError):
        Shown(catalog()).menu.browse(path, "zzz")


# --- what is kept -----------------------------------------------------------------------------------------


def test_the_menu_changes_with_the_catalog_and_the_settings_and_with_nothing_else() -> None:
    """Pages are worked out once for each version, and their version says when to fetch them again."""
    shown = Shown(catalog())
    version, page = shown.menu.version, shown.menu.hot()
    assert (shown.menu.version, shown.menu.hot()) == (version, page)
    assert shown.menu.hot() is page

    shown.show(used(catalog(), tool_36=0.9))
    assert shown.menu.version != version
    assert hot(shown)[0] == "tool_36"
    key = shown.catalog.snapshot.by_name["a__tool_00"].key
    shown.context.use(replace(shown.settings, tools={key: ToolChoice(pinned=True)}))
    assert hot(shown)[0] == "tool_00"


def test_settings_that_were_replaced_twice_are_not_taken_for_those_before() -> None:
    """Also where nobody read the menu in between, and the new ones lie where the first ones lay."""
    shown = Shown(catalog())
    keys = [tool.key for tool in shown.catalog.snapshot.tools]
    settings, shown.settings = shown.settings, shown.settings
    for key in keys:
        shown.context.use(replace(settings, tools={key: ToolChoice(pinned=True)}))
        assert shown.menu.hot().tools[0].tool.key == key
        shown.context.use(replace(settings, tools={}))
