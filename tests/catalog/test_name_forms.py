"""Names as models write them: `a.echo`, `a/echo`, `mcp__a__echo` mean `a__echo`, and nothing is guessed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from tests.catalog.makers import raw, snapshot_of
from tests.catalog.test_names import key_sets

from maitred.catalog.name_forms import meant_by, servers_named
from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import ToolKey


def catalog(*tools: tuple[str, str]) -> Snapshot:
    return snapshot_of(raw(server, name) for server, name in tools)


def found(name: str, snapshot: Snapshot) -> list[ToolKey]:
    return [tool.key for tool in meant_by(name, snapshot)]


@pytest.mark.parametrize(
    "name",
    ["echo", "a.echo", "a/echo", "a:echo", "a::echo", "a.a__echo", "mcp__a__echo", "mcp__gate-way__a__echo"],
)
def test_every_usual_way_to_write_a_name_means_the_tool(name: str) -> None:
    """Models put a dot, a slash, or the prefix of their client. Source: docs/tools.md, names."""
    assert found(name, catalog(("a", "echo"), ("b", "add"))) == [ToolKey(server="a", name="echo")]


@pytest.mark.parametrize(
    ("name", "server", "tool"),
    [
        ("io.github.x/y.z", "io.github.x/y", "z"),
        ("io_github_x_y.z", "io.github.x/y", "z"),
        ("files.read.all", "files", "read.all"),
        ("files/read/all", "files", "read/all"),
        ("chrome_devtools.take_shot", "chrome-devtools", "take-shot"),
        ("files.read_all", "files", "read.all"),
    ],
)
def test_servers_and_tools_may_have_dots_and_hyphens_themselves(name: str, server: str, tool: str) -> None:
    """The name is cut where a server and a tool of it stand on the two sides."""
    assert found(name, catalog((server, tool), ("other", "tool"))) == [ToolKey(server=server, name=tool)]


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("echo", [("a", "echo"), ("b", "echo")]),
        ("a.echo", [("a", "echo"), ("b", "a.echo")]),
        ("a.b.c", [("a", "b.c"), ("a.b", "c")]),
        ("a_b.c", [("a-b", "c"), ("a.b", "c")]),
        ("mcp__a__b__c", [("a", "b__c"), ("b", "c")]),
    ],
)
def test_where_two_tools_fit_both_are_given_and_none_is_chosen(
    name: str, tools: Sequence[tuple[str, str]]
) -> None:
    """Whoever asked is told of both; a server that publishes `a.echo` takes no call of another's `echo`."""
    assert sorted((key.server, key.name) for key in found(name, catalog(*tools))) == sorted(tools)


def test_a_pages_tool_is_meant_by_its_name_in_the_page_where_no_server_has_that_name() -> None:
    """Texts of pages name their tools so; a page takes no name from a server, nor from another page."""
    one, other = ("web", "https://app.example#echo"), ("web", "http://127.0.0.1:80#echo")
    assert found("echo", catalog(one, ("a", "x#echo"))) == [ToolKey(server="web", name=one[1])]
    assert found("echo", catalog(one, ("a", "echo"))) == [ToolKey(server="a", name="echo")]
    assert {key.name for key in found("echo", catalog(one, other))} == {one[1], other[1]}


def test_an_exact_name_goes_before_one_that_is_only_alike() -> None:
    """`a-b.c` is the tool of `a-b`, though `a_b.c` is written alike."""
    snapshot = catalog(("a-b", "c"), ("a_b", "c"))

    assert found("a-b.c", snapshot) == [ToolKey(server="a-b", name="c")]
    assert found("a_b.c", snapshot) == [ToolKey(server="a_b", name="c")]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a.",
        ".echo",
        "a",
        "A.echo",
        "a.Echo",
        "a..",
        "mcp__",
        "mcp__a",
        "b.echo",
        "a echo",
        "\u00fc.x",
    ],
)
def test_what_is_no_name_means_nothing(name: str) -> None:
    """Neither half a name nor one in other letters is taken for a tool."""
    assert found(name, catalog(("a", "echo"), ("b", "add"), ("\u00e9", "x"))) == []


@pytest.mark.parametrize(
    "mark", ["\u200b", "\u202e", "\u2060", "\U000e0041", "\u00ad", "\x07", "\u200d", "\ufe0f"]
)
@pytest.mark.parametrize("name", ["a.ec{}ho", "{}a.echo", "mcp__a__echo{}", "ec{}ho"])
def test_a_name_with_characters_that_nobody_sees_means_nothing(mark: str, name: str) -> None:
    """What a person reads in a log must be what is called; so such a tool has its published name only."""
    snapshot = catalog(("a", "echo"), ("b", f"ec{mark}ho"))

    assert found(name.format(mark), snapshot) == []


@given(key_sets)
def test_every_tool_is_among_those_that_its_server_and_name_with_a_dot_mean(
    keys: list[ToolKey],
) -> None:
    """Whatever names servers publish, nothing but what was named is found."""
    snapshot = snapshot_of(raw(key.server, key.name) for key in keys)
    for key in keys:
        name = f"{key.server}.{key.name}"
        assert key in found(name, snapshot) or not name.isprintable() or not name.isascii()


@pytest.mark.parametrize("name", ["a__x", "a.x", "a/x", "a:x", "mcp__a__x", "mcp__gateway__a__x"])
def test_a_name_tells_its_server_before_the_tools_of_that_are_known(name: str) -> None:
    """A call right after the start waits for the server that it names."""
    assert servers_named(name, ["a", "b"]) == ["a"]


@pytest.mark.parametrize("name", ["x", "ab__x", "c.x", "mcp__c__x", "a\u200b.x", "a"])
def test_other_names_tell_no_server(name: str) -> None:
    assert servers_named(name, ["a", "b"]) == []
