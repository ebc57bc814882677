"""What rules make of cryptic tools, what they leave alone, and that no call ever means something else."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.evaluation.labelled_queries import LabelledQuery
from maitred.evaluation.runner import ask, quality
from maitred.mediation import EnhancedTool, Mediator, RuleTransformer, SourceTool, ToolContext
from maitred.model import tools as catalog

DATA = Path(__file__).parents[1] / "data" / "mediation"
CONTEXT = ToolContext(source="backoffice", source_type="api")
STR = {"type": "string"}


def mend(*tools: SourceTool, rename: bool = False) -> list[EnhancedTool | None]:
    async def transform() -> list[EnhancedTool | None]:
        return list(await RuleTransformer(rename=rename).transform(tools, CONTEXT) or [])

    return anyio.run(transform)


def mended(name: str = "get_user", description: str = "", **properties: Any) -> EnhancedTool:
    """A tool after the rules, as it was if they had nothing to do."""
    schema = {"type": "object", "properties": properties}
    raw = SourceTool(name=name, description=description, input_schema=schema)
    return mend(raw)[0] or EnhancedTool(**vars(raw))


def described(name: str, description: str = "", *parameters: str) -> str:
    return mended(name, description, **{one: {} for one in parameters}).description


def parameter(name: str, schema: Any) -> Any:
    """The schema of one parameter after the rules."""
    found = mended("frobnicate", "Does what it says, and it says so well.", **{name: schema}).input_schema
    assert found is not None
    return found["properties"][name]


# --- titles and names -------------------------------------------------------------------------------------


def test_a_name_that_was_written_out_is_the_title_and_the_name_itself_stays() -> None:
    """A rename is a person's business."""
    found = mended("gt_usr")

    assert (found.name, found.original_name, found.title) == ("gt_usr", "gt_usr", "Get user")


def test_a_title_of_the_author_stays_unless_it_is_the_name_again() -> None:
    [own, again] = mend(
        SourceTool(name="gt_usr", title="A person"), SourceTool(name="gt_usr", title="gt_usr")
    )

    assert own is not None
    assert again is not None
    assert (own.title, again.title) == ("A person", "Get user")


@pytest.mark.parametrize(
    ("name", "new"),
    [("updPrf", "update_profile"), ("get_user", "get_user"), ("lst_" + "ords_" * 20, "lst_" + "ords_" * 20)],
)
def test_names_are_respelled_on_demand_if_they_can_be_published(name: str, new: str) -> None:
    """A name that would be too long stays."""
    [found] = mend(SourceTool(name=name), rename=True)

    assert found is not None
    assert (found.name, found.original_name) == (new, name)


# --- descriptions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "description", "parameters", "expected"),
    [
        ("gt_usr", "gets user", [], "Get a user."),
        ("gt_usr", "", ["usr_id"], "Get a user by ID."),
        ("get_user", "", ["id"], "Get a user by ID."),
        ("lst_ords", "list", ["cust_id", "lmt"], "List orders by customer ID. Takes limit."),
        ("del", "delete", ["fl_id"], "Delete a file by ID."),
        ("usr_del", "", [], "Delete a user."),
        ("acme_list_orders", "", [], "List orders."),
        ("crt_evt", "new", ["ttl"], "Create an event. Takes title. New."),
        ("upd_url", "", [], "Update a URL."),
        ("get_latest_news", "", [], "Get the latest news."),
        ("send_mail_to_user", "", [], "Send mail to user."),
        ("order_status", "", [], "Order status."),
        ("weather", "", [], ""),
        ("", "", [], ""),
    ],
)
def test_a_description_is_inferred_where_it_is_missing_or_says_too_little(
    name: str, description: str, parameters: list[str], expected: str
) -> None:
    """From name and parameters; nothing that the author said is lost. Source: issue, rules."""
    assert described(name, description, *parameters) == expected


@pytest.mark.parametrize(
    "description",
    [
        "Deletes a user of the shop.",
        "Delete a user.",
        "Switches all users.",
        "查询用户",
        "Finds users. See https://example.com/a",
        "Takes one of OPEN, CLOSED, MERGED and says `SELECT IT NOW`.",
        "  Spaces stand around.  ",
        "Uses HTTP GET and JSON.",
        "One.\n\nTwo lines\n- a list",
        "iPhone models of the user.",
        "user_id is needed.",
        "This tool is deprecated.",
        "This tool can only be used by admins.",
        "OPEN: the ticket.\nCLOSED\nMERGED",
    ],
)
def test_a_description_with_nothing_to_mend_stays_as_it_is(description: str) -> None:
    """An author's words are better than a rule's."""
    assert described("delete_user", description, "id") == description


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("gets the weather of a city", "Gets the weather of a city."),
        ("This tool gets the weather of a city.", "Gets the weather of a city."),
        ("This tool allows you to read the weather.", "Read the weather."),
        ("Use this tool to search for the weather", "Search for the weather."),
        ("This function can be used to list all cities.", "List all cities."),
        ("A tool that searches for cities of the world.", "Searches for cities of the world."),
        ("Tool to fetch the weather of a city.", "Fetch the weather of a city."),
        ("IMPORTANT!!! Read the weather of a city.", "Read the weather of a city."),
        ("GET THE WEATHER OF A CITY AS JSON", "Get the weather of a city as JSON."),
        (
            "Reads the weather. DO NOT CALL THIS TWICE. Fast.",
            "Reads the weather. Do not call this twice. Fast.",
        ),
        ("Reads the weather!!! Fast.", "Reads the weather. Fast."),
    ],
)
def test_a_first_sentence_is_repaired_and_shouting_removed(description: str, expected: str) -> None:
    """A capital, a full stop, no "This tool", no capitals but acronyms. Source: issue, rules."""
    assert described("weather", description) == expected


# --- parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("usr_id", "The user ID."),
        ("lmt", "How many results at most."),
        ("strt_dt", "The start date, for example 2026-05-31T14:00:00Z."),
        ("frm", "Who or what it comes from."),
        ("is_actv_acct", "Whether it is actv account."),
    ],
)
def test_a_parameter_is_described_by_its_name_written_out(name: str, told: str) -> None:
    assert parameter(name, {"type": ["string", "integer", "boolean"]})["description"] == told


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("user_id", STR),
        ("user_id", {}),
        ("usr_id", {**STR, "description": "Whose."}),
        ("usr_id", False),
        ("usr_id", 5),
        ("var_equal", {"type": "boolean"}),
        ("limit", {"default": "all"}),
        ("limit", {"$ref": "#/$defs/l"}),
        ("limit", {"enum": [1, 2]}),
    ],
)
def test_a_parameter_that_needs_no_words_stays_as_it_is(name: str, schema: Any) -> None:
    assert parameter(name, schema) == schema


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("limit", {"type": "integer"}),
        ("rowCnt", {"type": "integer"}),
        ("page", {"type": "integer"}),
        ("eml", {"type": "string", "format": "email"}),
        ("due_dt", {"type": "string", "format": "date-time"}),
        ("start_time", {"type": "string", "format": "date-time"}),
        ("is_open", {"type": "boolean"}),
        ("has_children", {"type": "boolean"}),
    ],
)
@pytest.mark.parametrize("schema", [{}, True, {"title": "T"}])
def test_a_type_is_inferred_where_none_was_declared_and_anything_is_still_taken(
    name: str, hint: Any, schema: Any
) -> None:
    """A hint to the caller, since only the server knows what it takes. Source: issue, rules."""
    found = parameter(name, schema)

    assert found["anyOf"] == [hint, {}]
    assert found["description"]


def test_an_id_gets_no_type() -> None:
    """It may be a text or a number."""
    assert parameter("usr_id", {}) == {"description": "The user ID."}


# --- the whole --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool",
    [
        SourceTool(name="get_user", description="Returns a user with all groups."),
        SourceTool(name="weather"),
        SourceTool(name="foo", input_schema={"properties": 5, "type": "object"}),
        SourceTool(name="天気", description="指定した都市の天気予報を取得します。"),
    ],
)
def test_there_is_no_answer_for_a_tool_with_nothing_to_mend(tool: SourceTool) -> None:
    """The next transformer may know more."""
    assert mend(tool) == [None]


@pytest.mark.parametrize(
    ("tool", "confidence"),
    [
        (SourceTool(name="gt_usr", description="Returns a user with all groups."), 0.6),
        (SourceTool(name="gt_usr"), 0.5),
        (
            SourceTool(
                name="get_user", description="A user of ours.", input_schema={"properties": {"usr": {}}}
            ),
            0.5,
        ),
        (SourceTool(name="getusr", description="Returns a user with all groups."), 0.4),
        (SourceTool(name="del", input_schema={"properties": {"doc_id": {}}}), 0.4),
    ],
)
def test_the_more_was_guessed_the_lower_is_the_confidence(tool: SourceTool, confidence: float) -> None:
    [found] = mend(tool)

    assert found is not None
    assert (found.confidence, found.enhanced_by) == (confidence, "rules")


KEYS = ["limit", "usr_id", "eml", "due_dt", "is_open", "q", "qty", "a", "frm", "page"]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "7", "x@y.z", "2026-01-01"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2),
    max_leaves=4,
)
leaves = st.sampled_from([
    {}, True, False, {"title": "T"}, {"default": 3}, {"type": "string"}, {"type": "integer", "minimum": 0},
    {"type": ["string", "null"]}, {"enum": ["a", 7, None]}, {"const": "a"}, {"$ref": "#/$defs/d"},
    {"anyOf": [{"type": "string"}, {"type": "array"}]}, {"description": "D", "format": "email"},
    {"type": "array", "items": {"type": "integer"}}, {"not": {"type": "null"}},
])  # fmt: skip
schemas = st.fixed_dictionaries(
    {"$defs": st.just({"d": {"type": "boolean"}})},
    optional={
        "$schema": st.sampled_from([
            "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema",
        ]),
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from(KEYS), leaves, max_size=5),
        "required": st.lists(st.sampled_from(KEYS), unique=True, max_size=2),
        "additionalProperties": st.sampled_from([False, {"type": "integer"}]),
        "minProperties": st.integers(0, 2),
    },
)  # fmt: skip


@given(st.sampled_from(["gt_usr", "del", "listOrds", "weather"]), schemas, st.data())
def test_whatever_arguments_were_valid_are_valid_after_and_no_others(
    name: str, schema: dict[str, Any], data: st.DataObject
) -> None:
    """Rules never change what a call means. Source: issue, rules."""
    [found] = mend(SourceTool(name=name, input_schema=schema))
    assume(found is not None)
    assert found is not None
    after = found.input_schema
    assert isinstance(after, dict)
    arguments = data.draw(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))

    assert {key: value for key, value in after.items() if key != "properties"} == {
        key: value for key, value in schema.items() if key != "properties"
    }
    assert list(after.get("properties", {})) == list(schema.get("properties", {}))
    valid = [
        jsonschema_rs.validator_for(one, validate_formats=True).is_valid(arguments) for one in (schema, after)
    ]
    assert valid[0] == valid[1]


texts = st.text(max_size=40) | st.sampled_from(
    ["IMPORTANT!!! GET IT", "gets user", "this tool gets a", "A!!"]
)
raw_tools = st.builds(
    SourceTool,
    name=st.text(max_size=12) | st.sampled_from(["gt_usr", "delmsg", "lstOrds"]),
    title=texts,
    description=texts,
    input_schema=st.none() | schemas,
)


@given(st.lists(raw_tools, max_size=4))
def test_rules_answer_each_tool_in_its_place_and_always_the_same(tools: list[SourceTool]) -> None:
    """Whatever a server sends. Source: issue, elements are never dropped or reordered."""
    copies = [replace(tool) for tool in tools]
    found = mend(*tools)

    assert len(found) == len(tools)
    assert all(one is None or one.original_name == tool.name for one, tool in zip(found, tools, strict=True))
    assert mend(*tools) == found
    assert tools == copies


# --- the poor server --------------------------------------------------------------------------------------


@cache
def poor_server() -> tuple[SourceTool, ...]:
    """Twenty cryptic tools."""
    document = YAML(typ="safe").load(DATA / "poor_server.yaml")
    return tuple(
        SourceTool(
            name=tool["name"], description=tool.get("description", ""), input_schema=tool["inputSchema"]
        )
        for tool in document["tools"]
    )


def queries() -> list[LabelledQuery]:
    lines = (DATA / "queries.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines]
    return [LabelledQuery(id=text, phrases=(text,), relevant=(tool,)) for text, tool in pairs]


async def recall_at_5(tools: Sequence[SourceTool]) -> float:
    """The share of the queries whose tool is among the first five that the gateway finds."""
    stock = [
        catalog.RawTool(
            key=catalog.ToolKey(server="backoffice", name=getattr(tool, "original_name", "") or tool.name),
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
        )
        for tool in tools
    ]
    ids: Mapping[catalog.ToolKey, str] = {tool.key: tool.key.name for tool in stock}
    async with gateway_with_tools(stock, Search()) as gateway:
        found = quality(await ask(gateway, ids, queries(), limit=5), [5])
    assert found is not None
    return found.recall[5]


def test_the_written_queries_ask_for_every_tool_five_times() -> None:
    asked = [query.relevant[0] for query in queries()]

    assert {name: asked.count(name) for name in asked} == {tool.name: 5 for tool in poor_server()}
    assert len({query.text for query in queries()}) == 100


@pytest.mark.anyio
async def test_rules_make_the_tools_of_a_poor_server_findable() -> None:
    """At least 25 points of recall at 5 over the written queries. Source: issue, done when 1."""
    mediator = Mediator()
    mediator.use(RuleTransformer())

    before = await recall_at_5(poor_server())
    after = await recall_at_5(await mediator.enhance(poor_server(), CONTEXT))

    assert after - before >= 0.25
