"""What one discovery changes in the catalog: as little as possible, and nothing by mistake."""

from dataclasses import replace
from typing import Any

import pytest
from tests.catalog.makers import Counter, after, found, raw, spec

from maitred.catalog.snapshot import Snapshot
from maitred.catalog.sync import failure, plan, removal
from maitred.model.resources import Offer, OfferKey
from maitred.model.servers import ServerFacts
from maitred.model.tools import ToolKey

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
SHUFFLED: dict[str, Any] = {
    "properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
    "type": "object",
}


def key(server: str, name: str) -> ToolKey:
    return ToolKey(server=server, name=name)


async def test_the_same_tools_again_change_nothing_that_a_reader_could_notice() -> None:
    """Most restarts of a server find what was known: no tool is written, counted or announced."""
    tools = [raw("s", "a", input_schema=SCHEMA), raw("s", "b", annotations={"readOnlyHint": True})]
    known = await after(Snapshot(), found("s", *tools))
    counter = Counter()

    change = await plan(known, found("s", *tools), counter)

    assert (change.tools, change.removed_tools, change.schemas) == ([], [], {})
    assert not change.visible
    assert counter.texts == []


async def test_the_order_of_keys_in_a_schema_is_no_change() -> None:
    """Some servers shuffle the keys of their schemas at every start. Source: notes/real-servers.md."""
    known = await after(Snapshot(), found("s", raw("s", "a", input_schema=SCHEMA, extra={"x": 1, "y": 2})))

    change = await plan(
        known, found("s", raw("s", "a", input_schema=SHUFFLED, extra={"y": 2, "x": 1})), Counter()
    )

    assert not change.visible


@pytest.mark.parametrize(
    "now",
    [
        {"description": "New."},
        {"title": "New"},
        {"input_schema": SCHEMA},
        {"output_schema": SCHEMA},
        {"annotations": {"readOnlyHint": True}},
        {"extra": {"_meta": {"k": 1}}},
    ],
    ids=lambda now: next(iter(now)),
)
async def test_a_tool_that_changed_is_written_under_the_name_it_had(now: dict[str, Any]) -> None:
    """A new description, schema or annotation reaches agents, and the name they know goes on working."""
    known = await after(Snapshot(), found("s", raw("s", "a"), raw("s", "b")))

    change = await plan(known, found("s", raw("s", "a", **now), raw("s", "b")), Counter())

    [tool] = change.tools
    assert (tool.key, tool.name) == (key("s", "a"), "s__a")
    assert change.visible


async def test_a_tool_is_known_since_it_is_as_it_is() -> None:
    """A copy made of another tool by a change is younger than that; the same again is as old as before."""
    known = await after(Snapshot(), found("s", raw("s", "a"), raw("s", "b")))
    assert all(tool.since for tool in known.tools)
    known = replace(known, tools=tuple(replace(tool, since="2026-01-01") for tool in known.tools))

    again = await after(known, found("s", raw("s", "a"), raw("s", "b", description="New.")))

    assert again.by_key[key("s", "a")].since == "2026-01-01"
    assert again.by_key[key("s", "b")].since > "2026-01-01"


async def test_only_what_changed_is_counted() -> None:
    """Counting tokens is dear; a known tool keeps its cost."""
    known = await after(Snapshot(), found("s", raw("s", "a"), raw("s", "b", description="x" * 400)))
    counter = Counter()

    change = await plan(
        known, found("s", raw("s", "a", description="New."), raw("s", "b", description="x" * 400)), counter
    )

    assert [text for text in counter.texts if "New." not in text] == []
    assert [tool.cost_tokens for tool in change.tools] == [len(text) // 4 for text in counter.texts]
    assert known.after(change, 1).by_name["s__b"].cost_tokens >= 100


async def test_a_tool_that_its_server_lists_no_longer_is_removed() -> None:
    """What cannot be called any more is not offered any more; its schema goes with it."""
    known = await after(Snapshot(), found("s", raw("s", "a", input_schema=SCHEMA), raw("s", "b")))

    change = await plan(known, found("s", raw("s", "b")), Counter())

    assert change.removed_tools == [key("s", "a")]
    left = known.after(change, 1)
    assert [tool.name for tool in left.tools] == ["s__b"]
    assert set(left.schemas) == {left.tools[0].input_hash}


async def test_a_clash_between_servers_renames_both_and_its_end_renames_them_back() -> None:
    """Names stay unique over all servers; a tool of another server is written only because of the clash."""
    known = await after(Snapshot(), found("a", raw("a", "b__c"), raw("a", "other")))

    both = await after(known, found("a__b", raw("a__b", "c")))
    alone = await after(both, found("a__b"))

    names = {tool.key.server: tool.name for tool in both.tools if tool.key.name != "other"}
    assert len(set(names.values())) == 2
    assert "a__b__c" not in names.values()
    assert alone.by_name["a__b__c"].server == "a"
    assert both.by_name["a__other"] == known.by_name["a__other"]


async def test_a_schema_beyond_all_measure_is_left_out_with_a_note() -> None:
    """A server cannot flood the catalog; the tool stays callable, and the operator learns why."""
    huge = {"type": "object", "description": "x" * 2_100_000}

    change = await plan(
        Snapshot(), found("s", raw("s", "a", input_schema=huge), notes=("earlier",)), Counter()
    )

    assert [(tool.name, tool.input_hash) for tool in change.tools] == [("s__a", "")]
    [record] = change.servers
    assert record.notes[0] == "earlier"
    assert "'a'" in record.notes[1]
    assert "left out" in record.notes[1]


async def test_a_failed_discovery_keeps_the_tools_that_are_known() -> None:
    """A server that is down today is still found, and its tools can be called when it is back."""
    known = await after(Snapshot(), found("s", raw("s", "a")))

    change = failure(known, spec("s"), "it is down")

    left = known.after(change, 1)
    assert [tool.name for tool in left.tools] == ["s__a"]
    assert left.servers["s"].error == "it is down"
    assert left.servers["s"].facts == known.servers["s"].facts
    assert not change.visible


async def test_a_success_after_a_failure_clears_the_error() -> None:
    """The reason of yesterday is not shown today."""
    known = await after(Snapshot(), found("s", raw("s", "a")))
    failed = known.after(failure(known, spec("s"), "it is down"), 1)

    again = await after(failed, found("s", raw("s", "a")))

    assert again.servers["s"].error == ""


async def test_a_server_that_never_answered_is_recorded_with_its_reason() -> None:
    """`list` and `doctor` can say why nothing is known of it."""
    left = Snapshot().after(failure(Snapshot(), spec("s"), "no such program"), 1)

    assert left.servers["s"].error == "no such program"
    assert left.servers["s"].facts == ServerFacts()
    assert left.tools == ()


async def test_a_failure_under_a_new_command_line_forgets_what_the_old_server_said_of_itself() -> None:
    """Facts of another program are not shown as this one's; it counts as not known until it answers."""
    known = await after(Snapshot(), found("s", raw("s", "a")))

    change = failure(known, spec("s", command="another"), "no such program")

    assert change.servers[0].facts.era == ""
    assert change.visible


async def test_a_server_that_is_not_configured_any_more_goes_with_its_tools() -> None:
    """Others stay as they are, and get back a name that they had to share."""
    known = await after(
        Snapshot(), found("a", raw("a", "b__c")), found("a__b", raw("a__b", "c")), found("s", raw("s", "t"))
    )

    change = removal(known, {"a": spec("a"), "s": spec("s")})

    left = known.after(change, 9)
    assert sorted(left.by_name) == ["a__b__c", "s__t"]
    assert set(left.servers) == {"a", "s"}
    assert left.by_name["s__t"] is known.by_name["s__t"]


async def test_nothing_is_written_when_every_known_server_is_configured() -> None:
    """A reload of the same configuration costs no write."""
    known = await after(Snapshot(), found("s", raw("s", "a")))

    assert not removal(known, {"s": spec("s"), "new": spec("new")})


# --- offers -----------------------------------------------------------------------------------------------


def note(server: str, uri: str, **definition: Any) -> Offer:
    return Offer(
        key=OfferKey(server=server, kind="resource", key=uri), name="", definition={"uri": uri, **definition}
    )


async def test_offers_that_did_not_change_are_not_written() -> None:
    """Nor those of other servers; in whatever order they come."""
    offers = [note("s", "x:1"), note("s", "x:2")]
    known = await after(Snapshot(), found("s", offers=offers), found("t", offers=[note("t", "x:1")]))

    same = await plan(known, found("s", offers=offers[::-1]), Counter())
    changed = await plan(known, found("s", offers=[note("s", "x:1", title="New")]), Counter())

    assert (same.offers, same.visible) == (None, False)
    assert changed.visible
    assert {(o.server, o.key.key): o.definition.get("title") for o in changed.offers or ()} == {
        ("s", "x:1"): "New",
        ("t", "x:1"): None,
    }


async def test_a_server_that_is_configured_no_more_takes_its_offers_with_it() -> None:
    """Also one that had no tools; a failed discovery takes nothing."""
    known = await after(
        Snapshot(), found("s", offers=[note("s", "x:1")]), found("t", offers=[note("t", "x:1")])
    )
    failed = known.after(failure(known, spec("s"), "down"), 9)

    left = failed.after(removal(failed, {"t": spec("t")}), 10)

    assert [o.server for o in failed.offers] == ["s", "t"]
    assert [o.name for o in left.offers] == ["maitred://resource/t/x:1"]
