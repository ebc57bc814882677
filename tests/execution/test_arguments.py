"""Arguments are checked before the server sees them, by whatever schema it sent."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import corpus
from tests.support.cpu import cpu_within
from typing_extensions import override

from maitred.calls.arguments import ArgumentChecker
from maitred.model.schema_work import SchemaWork
from maitred.model.tools import canonical, content_hash

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def faults(schema: Any, arguments: dict[str, Any]) -> list[str]:
    """What is wrong with the arguments of one call."""
    return ArgumentChecker().faults(content_hash(canonical(schema)), lambda _: schema, arguments)


def of(schema: Any) -> dict[str, Any]:
    """A schema of an object whose property `a` has a schema."""
    return {"type": "object", "properties": {"a": schema}}


def test_every_fault_is_told_with_its_place() -> None:
    """The next try can mend all of them at once. Source: DESIGN 5, rule 2."""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "deep": {"type": "array", "items": {"type": "string"}}},
        "required": ["must"],
    }

    found = faults(schema, {"n": "x", "deep": ["ok", 5]})

    assert len(found) == 3
    assert any("must" in fault and "required" in fault for fault in found)
    assert any(fault.startswith("n: ") and "integer" in fault for fault in found)
    assert any(fault.startswith("deep.1: ") and "string" in fault for fault in found)


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"must": "x", "a": None}, True),
        ({"must": "x", "a": "x"}, False),
        ({"must": None}, False),
        ({"must": None, "a": 1}, False),
        ({"must": "x", "a": None, "b": "x"}, False),
    ],
)
def test_null_counts_as_an_argument_that_is_not_given(arguments: dict[str, Any], fits: bool) -> None:
    """Many clients write it so; the server gets it and decides. Source: 2026-07-28, parameter headers."""
    properties = {"must": {"type": "string"}, "a": {"type": "integer"}, "b": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["must"]}

    assert (faults(schema, arguments) == []) is fits


def test_faults_beyond_count_and_length_are_cut() -> None:
    """A wrong list of a thousand long texts must not come back a thousand times."""
    found = faults(of({"items": {"type": "integer"}}), {"a": ["x" * 5_000] * 1_000})

    assert 0 < len(found) <= 5
    assert max(len(fault) for fault in found) <= 300
    assert all(fault.rstrip()[-1] not in "…x" for fault in found), found


@pytest.mark.parametrize(
    ("dialect", "fits"),
    [(DRAFT_7, True), (DRAFT_2020, False), (None, False)],
    ids=["draft-07", "2020-12", "none"],
)
def test_prefix_items_bind_only_where_the_dialect_has_them(dialect: str | None, fits: bool) -> None:
    """Draft-07 does not know `prefixItems`; a schema without `$schema` is 2020-12. Source: MCP 2025-11-25."""
    schema = of({"prefixItems": [{"type": "integer"}]}) | ({"$schema": dialect} if dialect else {})

    assert (faults(schema, {"a": ["x"]}) == []) is fits


def test_a_list_of_items_binds_in_the_dialect_that_has_it() -> None:
    """Draft-07 writes tuples as a list of `items`; generators of that time still do."""
    schema = {"$schema": DRAFT_7} | of(
        {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}
    )

    assert faults(schema, {"a": [1, "x"]}) == []
    assert faults(schema, {"a": ["x", 1]}) != []
    assert faults(schema, {"a": [1, "x", 2]}) != []


class _Counting(BaseHTTPRequestHandler):
    requests: list[str]

    def do_GET(self) -> None:
        """Remember what was asked for."""
        self.requests.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"type": "integer"}')

    @override
    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def site() -> Iterator[tuple[str, list[str]]]:
    """The address of an HTTP server, and the requests that came to it."""
    requests: list[str] = []
    handler = type("Handler", (_Counting,), {"requests": requests})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id"])
def test_a_reference_elsewhere_is_never_fetched_and_accepts_anything(
    site: tuple[str, list[str]], keyword: str
) -> None:
    """A schema must not make the gateway send requests. Source: issue "Foundation", MCP surface."""
    address, requests = site
    inner = {keyword: f"{address}/schema.json#part"} if "ef" in keyword else {"$ref": f"{address}/other.json"}
    schema = of(inner) | ({} if "ef" in keyword else {keyword: f"{address}/whole.json"})

    assert faults(schema, {"a": "anything"}) == []
    assert faults(of({"$ref": "file:///etc/hostname"}), {"a": "anything"}) == []
    assert requests == []


@pytest.mark.parametrize(
    "schema",
    [
        None, True, False, [], "object", 5, {"type": "nonsense"}, {"type": 5}, {"required": "a"},
        of({"pattern": "("}), of({"$ref": "#/nowhere"}), {"$schema": 5}, {"$id": "http://[bad"},
        of({"pattern": "[\ud800-\udbff]"}),
        {"properties": {"a": {"$ref": "#/properties/a"}}},
    ],
    ids=ascii,
)  # fmt: skip
def test_a_schema_that_is_none_checks_nothing(schema: Any) -> None:
    """Its server will say what it wants; a call is never refused for a fault of the server's schema."""
    assert faults(schema, {"a": "x"}) == []


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_arguments_nested_beyond_measure_are_refused_in_words() -> None:
    """Ten thousand levels would overflow someone's stack; honest arguments have a few."""
    assert faults(of({}), _nested(50)) == []
    assert "deep" in faults(of({}), _nested(10_000))[0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", [r"^(x+)+$", r"^(x|xx)+y$", r"(?<!a)^(x+)+\1$", r"^(?=(x+))\1+y"])
def test_a_pattern_that_explodes_ends_quickly(pattern: str) -> None:
    """No schema can stall the gateway. Source: DESIGN 5, rule 6."""
    assert faults(of({"pattern": pattern}), {"a": "x" * 5_000 + "!"}) != []


def test_a_schema_that_refers_to_itself_checks_trees() -> None:
    """Recursive schemas are common for filters and documents."""
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}},
    }

    assert faults(node, {"children": [{"children": [{"n": 1}]}]}) == []
    assert faults(node, {"children": [{"children": [{"n": "x"}]}]}) != []


def test_a_schema_is_asked_for_once() -> None:
    """Compiling costs more than checking; the compiled form is kept by the schema's hash."""
    checker, asked = ArgumentChecker(), []

    def schema_of(digest: str) -> Any:
        asked.append(digest)
        return of({"type": "integer"})

    for value in (1, "x", 2):
        checker.faults("digest", schema_of, {"a": value})

    assert asked == ["digest"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters(), max_size=6)
    | st.sampled_from(["\ud800", "\x00", 10**400, -(10**400)]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3) | st.just("\udfff"), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "\ud800"]), json_values, max_size=3))
def test_no_arguments_are_beyond_checking(arguments: dict[str, Any]) -> None:
    """Whatever JSON brings (half characters, endless numbers) is answered in words and never a crash."""
    schema = of({"type": "integer", "minimum": 3}) | {
        "required": ["b"],
        "additionalProperties": {"type": "string"},
    }

    assert all(isinstance(fault, str) for fault in faults(schema, arguments))


def exploding(inner: Any) -> dict[str, Any]:
    """Twelve definitions, each of which tries the next one ten times, in the way that is given."""
    definitions = {f"d{one}": inner({"$ref": f"#/$defs/d{one + 1}"}) for one in range(12)}
    return {**of({"$ref": "#/$defs/d0"}), "$defs": {**definitions, "d12": {"type": "null"}}}


@pytest.mark.alone
@pytest.mark.parametrize(
    "schema",
    [
        exploding(lambda then: {"anyOf": [then] * 10}),
        exploding(lambda then: {"oneOf": [{"not": then}] * 10}),
        exploding(lambda then: {"items": {"anyOf": [then] * 10}}),
        exploding(lambda then: {"prefixItems": [{"allOf": [then] * 10}]}),
        exploding(lambda then: {"allOf": [{"properties": {"a": then}}] * 10}),
        exploding(lambda then: {"patternProperties": {f"a{{1,{one + 1}}}": then for one in range(10)}}),
        exploding(lambda then: {"if": then, "then": {"if": then, "else": {"anyOf": [then] * 8}}}),
        exploding(lambda then: {"dependentSchemas": {str(one): then for one in range(10)}}),
        {**of({"$ref": "#loop"}), "$defs": {"x": {"$anchor": "loop", "anyOf": [{"$ref": "#loop"}] * 2}}},
        {**of({"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {**of({"$ref": "#/%24defs/a"}), "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}},
        exploding(lambda then: {"allOf": [then] * 3, "enum": [[one] for one in range(300)]}),
        exploding(
            lambda then: {"allOf": [then] * 3, "dependentRequired": {str(one): ["a"] for one in range(300)}}
        ),
        of({"anyOf": [{"enum": [[one] for one in range(500)]}] * 400}),
        {"properties": {"a": {"properties": {"a": {"pattern": "((a{0,50}){0,50}){0,50}$"}}}}},
        {"properties": {"a": {"anyOf": [{"pattern": "(a*+a*b)|(a++b)"}] * 4_000}}},
        {"$ref": "#"},
        {"$ref": ""},
    ],
)
def test_a_schema_that_tries_without_end_checks_nothing(
    schema: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its server checks for itself, and the log says so, once. Source: issue "What broke", 4."""
    value: Any = "no list"
    for one in range(8):
        value = [value] if one % 2 else {"a": value, "aa": [value]}
    checker = ArgumentChecker()

    with cpu_within(1):
        for _ in range(3):
            assert checker.faults("digest", lambda _: schema, {"a": value}, tool="x__tree") == []

    [line] = [one for one in capsys.readouterr().out.splitlines() if "unchecked" in one]
    assert "x__tree" in line


def test_choices_within_choices_are_checked_where_that_is_soon_done() -> None:
    """Trees of several kinds of nodes are what such schemas are for."""
    kinds = [of({"$ref": "#/$defs/n"}) | {"required": [one]} for one in "bc"]
    schema = {**of({"$ref": "#/$defs/n"}), "$defs": {"n": {"anyOf": kinds}}}

    assert faults(schema, {"a": {"b": 1, "a": {"c": 1, "a": {"b": 1}}}}) == []
    assert faults(schema, {"a": {"b": 1, "a": {"d": 1}}})


def test_what_real_servers_publish_is_checked() -> None:
    """Values of usual size and depth, by the recorded schemas."""
    path = corpus.recorded()
    if path is None:
        pytest.skip("the recorded definitions of real servers are not here")
    schemas = [tool["inputSchema"] for record in corpus.read(path) for tool in record["tools"]]

    assert [s for s in schemas if isinstance(s, dict) and SchemaWork(s).of(200, 6) > 2_000_000] == []


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have_are_refused_at_any_depth(number: float) -> None:
    """A server would get `null`, which is neither what a rule judged nor what a person approved."""
    [fault] = faults({}, {"a": [{"b": number}]})
    assert "not finite" in fault
    assert faults({}, {"a": "NaN", "b": "Infinity"}) == []
