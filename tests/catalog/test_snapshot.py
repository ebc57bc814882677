"""A snapshot is what the store holds, and its definitions are ones that a client can read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.databases import new_catalog
from tests.catalog.makers import Counter, found, one, open_store, raw, snapshot_of, spec

from maitred.backends.listing import read_tools
from maitred.catalog.naming import named_together
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.store import CatalogStore
from maitred.catalog.sync import failure, plan, removal

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(["type", "properties"]), inner, max_size=3)
    ),
    max_leaves=6,
)
object_schemas = st.fixed_dictionaries({"type": st.just("object"), "properties": json_values})
schemas = st.none() | json_values | object_schemas
servers = st.sampled_from(["a", "a__b", "c"])
names = st.sampled_from(["t", "b__t", "B t", "b/t", "x" * 70, "é", "\U0001f600 t"]) | st.text(
    min_size=1, max_size=3
)
definitions = st.fixed_dictionaries(
    {"name": names},
    optional={
        "title": st.text(max_size=4),
        "description": st.text(max_size=4),
        "inputSchema": schemas,
        "outputSchema": schemas,
        "annotations": st.dictionaries(st.text(max_size=3), json_values, max_size=2),
        "_meta": json_values,
    },
)
lists = st.tuples(servers, st.lists(definitions, max_size=4))
steps = st.lists(lists | servers | st.sets(servers), max_size=6)


async def planned(snapshot: Snapshot, step: Any) -> Change:
    """A list of tools is a discovery, a name a failed one, a set the servers that are left configured."""
    if isinstance(step, tuple):
        server, entries = step
        return await plan(snapshot, found(server, *read_tools(server, entries)[0]), Counter())
    if isinstance(step, str):
        return failure(snapshot, spec(step), "down")
    return removal(snapshot, {name: spec(name) for name in step})


@settings(deadline=None, max_examples=60)
@given(steps)
def test_a_snapshot_after_changes_is_what_the_store_would_load(story: list[Any]) -> None:
    """So a process need not read the store again after its own writes. Source: DESIGN, catalog."""

    async def live() -> None:
        with TemporaryDirectory() as folder:
            async with open_store(new_catalog(Path(folder))) as store:
                await live_in(store)

    async def live_in(store: CatalogStore) -> None:
        snapshot = await store.load()
        for step in story:
            change = snapshot.completed(await planned(snapshot, step))
            generation = await store.write(change, planned_on=snapshot.generation)
            assert generation is not None
            snapshot = snapshot.after(change, generation)
            assert await store.load() == snapshot
            assert tables_of(snapshot) == tables_of(replace(snapshot))
            assert named_together(snapshot.by_key) == snapshot.by_key

    anyio.run(live)


def tables_of(snapshot: Snapshot) -> dict[str, object]:
    """What is derived from the tools; a copy of a snapshot derives it anew."""
    names = ("by_name", "by_key", "by_server", "by_category", "formerly", "withheld_parts")
    return {name: getattr(snapshot, name) for name in names}


@settings(deadline=None, max_examples=200)
@given(definitions)
def test_every_definition_can_be_read_by_a_client(definition: dict[str, Any]) -> None:
    """Whatever the schemas are, the name is legal and the input schema one of type object."""
    snapshot = snapshot_of(read_tools("s", [definition])[0])

    shown = snapshot.definition(snapshot.tools[0])

    assert shown["inputSchema"]["type"] == "object"
    assert isinstance(shown.get("outputSchema", {}), dict)
    assert shown["name"].isascii()
    assert len(shown["name"]) <= 64


@pytest.mark.parametrize(
    "schema",
    [None, True, 5, "object", [], {}, {"type": "string"}, {"type": ["object", "null"]}, {"$ref": "#/x"}],
    ids=str,
)
def test_a_tool_with_an_invalid_schema_has_a_valid_definition(schema: Any) -> None:
    """It stays callable, with parameters that its server checks; one bad schema must not hide a list."""
    snapshot, tool = one(input_schema=schema, output_schema=5)

    shown = snapshot.definition(tool)

    assert shown == {"name": "s__t", "inputSchema": {"type": "object"}}
    types.Tool.model_validate(shown)


def test_a_definition_is_as_registered_under_the_published_name() -> None:
    """Title, description, both schemas, annotations and extra fields pass as they came."""
    fields = {
        "title": "T", "description": "D", "inputSchema": {"type": "object", "z": 1, "a": 2},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}, "_meta": {"k": 1},
    }  # fmt: skip
    snapshot = snapshot_of(read_tools("s", [{"name": "t", **fields}])[0])

    assert snapshot.definition(snapshot.tools[0]) == {"name": "s__t", **fields}


def test_half_a_character_in_a_schema_does_not_hide_the_tool() -> None:
    """JavaScript's patterns contain such; it is replaced where it cannot be read."""
    snapshot, tool = one(input_schema={"type": "object", "pattern": "\ud83d"})

    shown = snapshot.definition(tool)["inputSchema"]

    assert shown["type"] == "object"
    shown["pattern"].encode()


@pytest.mark.parametrize(
    "view",
    [
        lambda s: sorted(s.by_name),
        lambda s: sorted(t.name for t in s.by_key.values()),
        lambda s: sorted(t.name for tools in s.by_server.values() for t in tools),
    ],
    ids=["by_name", "by_key", "by_server"],
)
def test_every_view_of_a_snapshot_holds_every_tool(view: Callable[[Snapshot], list[str]]) -> None:
    """By name, by key and by server."""
    snapshot = snapshot_of([raw("b", "x"), raw("a", "y"), raw("a", "x")])

    assert view(snapshot) == ["a__x", "a__y", "b__x"]


def test_a_server_without_tools_is_there_too() -> None:
    """It can be browsed, and is empty."""
    snapshot = snapshot_of([raw("a", "x")])
    empty = replace(snapshot.servers["a"], name="empty")

    assert snapshot.after(Change(servers=[empty]), 2).by_server["empty"] == ()


def test_a_schema_that_leaves_out_its_type_keeps_its_parameters() -> None:
    """Many servers write only `properties`; the protocol asks for a type, so it is put in."""
    schema = {"properties": {"q": {"type": "string"}}, "required": ["q"]}
    snapshot, tool = one(input_schema=schema)

    assert snapshot.definition(tool)["inputSchema"] == {"type": "object", **schema}
