"""After a change, tools have the names that they would get if all were named together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.catalog.makers import one

from maitred.catalog.naming import named_after, named_together
from maitred.catalog.snapshot import Change, Snapshot
from maitred.model.tools import Mediation, Tool, ToolKey

_, TOOL = one()
BASE = ("t", "a b", "a_b", "a.b", "b__t", "x" * 70, "x" * 70 + "y")


def hashes(names: Sequence[str]) -> Iterator[str]:
    """Names of tools that are the published names of others: who publishes them meets a hash."""
    tools = {key: replace(TOOL, key=key, name="") for name in names for key in [_key("a", name)]}
    for tool in named_together(tools).values():
        yield tool.name.removeprefix("a__")


def _key(server: str, name: str) -> ToolKey:
    return ToolKey(server=server, name=name)


NAMES = (*BASE, *hashes(BASE))


def plain(name: str) -> Tool:
    return replace(TOOL, key=_key("a", name), name="")


keys = st.builds(_key, st.sampled_from(["a", "a__b", "c"]), st.sampled_from(NAMES))
tools = st.builds(
    lambda key, withheld, rename: replace(
        TOOL,
        key=key,
        name="",
        withheld="waits" if withheld else "",
        mending=Mediation(by="rules", rename=rename) if rename else None,
    ),
    keys,
    st.booleans(),
    st.sampled_from(["", "", "", "t", "a_b", "new"]),
)
steps = st.lists(st.lists(tools | keys, max_size=4), max_size=6)


@settings(deadline=None, max_examples=400)
@given(steps)
@example(
    [[replace(TOOL, key=_key("a", name), name="") for name in ("a b", "a_b", NAMES[-1])], [_key("a", "a b")]]
)
def test_names_after_a_change_are_those_of_all_together(story: list[list[Tool | ToolKey]]) -> None:
    """Each step adds, replaces or removes some tools; what is derived is as if made anew, too."""
    snapshot = Snapshot()
    for step in story:
        touched = {
            one.key if isinstance(one, Tool) else one: one if isinstance(one, Tool) else None for one in step
        }
        named = named_after(snapshot, touched)
        gone = [key for key, tool in touched.items() if tool is None]
        snapshot = snapshot.after(Change(tools=list(named.values()), removed_tools=gone), 1)

        assert snapshot.by_key == named_together(snapshot.by_key)
        assert [tool.name for tool in snapshot.tools] == sorted(snapshot.by_name)
        again = replace(snapshot)
        assert (snapshot.by_name, snapshot.by_server) == (again.by_name, again.by_server)
        assert {name: set(keys) for name, keys in snapshot.crowded.items()} == {
            name: set(keys) for name, keys in again.crowded.items()
        }
        assert snapshot.has_usual_names == again.has_usual_names
        assert snapshot._uses == again._uses


def test_a_snapshot_in_another_order_loses_no_tool_by_a_change() -> None:
    """A database may sort by the rules of a language; where a tool is not at its place, all are sorted."""
    named = named_together(
        {_key("s", name): replace(TOOL, key=_key("s", name)) for name in ["alpha", "Zeta", "beta"]}
    )
    snapshot = Snapshot(tools=tuple(sorted(named.values(), key=lambda tool: tool.name.casefold())))
    changed = replace(snapshot.by_name["s__Zeta"], withheld="waits")

    after = snapshot.after(Change(tools=[changed]), 1)

    assert [tool.name for tool in after.tools] == ["s__Zeta", "s__alpha", "s__beta"]
    assert after.tools[0] is changed


def test_a_schema_that_is_missing_hides_no_tool_and_comes_back() -> None:
    """It may be gone by a fault of another process; the next discovery stores it again."""
    tool = replace(TOOL, key=_key("s", "t"), name="s__t", input_hash="gone")
    snapshot = Snapshot(tools=(tool,))

    assert snapshot.portion(Change(), ["s"]).tools == (tool,)
    assert snapshot.schema("gone") is None
