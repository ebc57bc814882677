"""What a chain may write to call a tool: names that Python takes, types that a checker understands."""

import ast
import keyword
from typing import Any

import pytest
from tests.catalog.makers import raw, snapshot_of

from maitred.catalog.snapshot import Snapshot
from maitred.chains.base import ChainFunction, ChainModule
from maitred.chains.stubs import ModuleIndex, stub_text

STR = {"type": "string"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "value": STR}}
ISSUES = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer"},
        "filter": {
            "type": "object",
            "properties": {"state": {"enum": ["open", "closed"]}, "from": STR, "labels": {"type": "array"}},
        },
        "query": STR,
    },
    "required": ["query"],
}
FOUND = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        "total": {"type": "integer"},
    },
    "required": ["items"],
}


def index_of(*tools: tuple[str, str], **fields: Any) -> ModuleIndex:
    """An index of tools, given as pairs of server and name."""
    snapshot = snapshot_of([raw(server, name, **fields) for server, name in tools])
    return ModuleIndex(snapshot, snapshot.tools)


def whole(snapshot: Snapshot) -> list[ChainModule]:
    """All modules of all tools."""
    index = ModuleIndex(snapshot, snapshot.tools)
    return [index.module(name) for name in index.servers]


def paths(*tools: tuple[str, str]) -> dict[str, str]:
    """How a program names each tool: its name on its server -> `module.function`."""
    index = index_of(*tools)
    found = [(module, name) for module, functions in index.names.items() for name in functions]
    named = {f"{module}.{name}": index.tool(module, name) for module, name in found}
    return {tool.key.name: path for path, tool in named.items() if tool}


def function(**fields: Any) -> ChainFunction:
    """The function of a tool that is alone on its server."""
    found: ChainFunction = index_of(("s", "t"), **fields).module("s").functions[0]
    return found


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas, "additionalProperties": False}


def assert_whole(module: ChainModule) -> None:
    """A module's stub parses, and says the same as its values."""
    tree = ast.parse(stub_text(module))
    stubs = {node.name: node for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
    assert list(stubs) == [one.name for one in module.functions]
    assert len(stubs) == len(module.functions)
    for one in module.functions:
        arguments = stubs[one.name].args
        assert [argument.arg for argument in arguments.args] == [here for here, _ in one.parameters]
    names = [module.name, *stubs, *(here for one in module.functions for here, _ in one.parameters)]
    assert [name for name in names if not name.isidentifier() or keyword.iskeyword(name)] == []


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "module"),
    [
        ("github", "github"),
        ("git-hub", "git_hub"),
        ("3d", "server_3d"),
        ("class", "class_"),
        ("time", "time_"),
        ("json", "json_"),
        ("print", "print_"),
        ("_hidden", "hidden"),
        ("caf\u00e9", "cafe"),
        ("\u691c\u7d22", "server"),
    ],
)
def test_a_server_becomes_a_module_that_hides_nothing_the_program_needs(server: str, module: str) -> None:
    """A server called `time` must not stand in the way of `import time`."""
    assert list(index_of((server, "t")).servers.items()) == [(module, server)]


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("search_repos", "s.search_repos"),
        ("files.read", "s.files_read"),
        ("Send Mail", "s.Send_Mail"),
        ("2fa.check", "s.tool_2fa_check"),
        ("import", "s.import_"),
        ("list", "s.list"),
        ("__getattr__", "s.getattr__"),
        ("Any", "s.Any_"),
    ],
)
def test_a_tool_becomes_a_function(tool: str, path: str) -> None:
    """Names that a stub file gives a meaning to (`__getattr__`, `Any`) would undo its checks."""
    assert paths(("s", tool)) == {tool: path}


def test_tools_that_come_to_the_same_name_are_told_apart_and_the_one_that_had_it_keeps_it() -> None:
    """Whatever the order in which they were found."""
    named = paths(("s", "get-user"), ("s", "get_user"), ("s", "get.user"))

    assert named["get_user"] == "s.get_user"
    assert len(set(named.values())) == 3
    assert named == paths(("s", "get.user"), ("s", "get_user"), ("s", "get-user"))


def test_servers_that_come_to_the_same_name_are_told_apart() -> None:
    """Neither is lost, and the one that is written so keeps its name."""
    found = index_of(("git hub", "t"), ("git_hub", "t"), ("git-hub", "t")).servers

    assert found["git_hub"] == "git_hub"
    assert set(found.values()) == {"git hub", "git_hub", "git-hub"}


def test_the_name_of_a_tool_is_the_same_whoever_sees_it() -> None:
    """A program that one principal wrote runs for another who sees less."""
    snapshot = snapshot_of([raw("s", "a-b"), raw("s", "a_b"), raw("s", "c"), raw("other", "d")])
    whole = ModuleIndex(snapshot, snapshot.tools)
    seen = [tool for tool in snapshot.tools if tool.key.name == "a-b"]

    part = ModuleIndex(snapshot, seen)

    (name,) = part.names["s"]
    assert part.tool("s", name) == whole.tool("s", name) == seen[0]
    assert list(part.servers) == ["s"]
    assert [one.tool for one in part.module("s").functions] == [seen[0].name]


def test_a_server_of_which_nothing_is_seen_has_no_module() -> None:
    """Nor can one ask for it by name."""
    snapshot = snapshot_of([raw("s", "t"), raw("hidden", "t")])
    index = ModuleIndex(snapshot, [tool for tool in snapshot.tools if tool.server == "s"])

    assert [one.name for one in index.used("import hidden, s\nawait hidden.t()")] == ["s"]
    with pytest.raises(KeyError):
        index.module("hidden")


# --- signatures -------------------------------------------------------------------------------------------


def test_a_stub_says_what_to_give_and_what_comes_back() -> None:
    """Required parameters first, then the others; nested objects as types of their own."""
    snapshot = snapshot_of([raw("git-hub", "search.issues", input_schema=ISSUES, output_schema=FOUND)])

    (module,) = whole(snapshot)

    assert stub_text(module) == (
        "from typing import Any, NotRequired, TypedDict\n\n"
        "class _search_issues_Result_Items_Item(TypedDict):\n    id: NotRequired[int]\n\n"
        "class _search_issues_Result(TypedDict):\n"
        "    items: list[_search_issues_Result_Items_Item]\n    total: NotRequired[int]\n\n"
        "async def search_issues(query: str, filter: dict[str, Any] = ..., limit: int = ...)"
        " -> _search_issues_Result: ...\n"
    )
    assert module.functions[0].tool == "git-hub__search_issues"


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        (STR, "str"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"type": ["null", "integer"]}, "int | None"),
        ({"type": "array", "items": STR}, "list[str]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "properties": {"a-b": STR}}, "dict[str, Any]"),
        ({"type": "object", "properties": {"a": STR}, "additionalProperties": True}, "dict[str, Any]"),
        ({"type": "object", "properties": {"a": STR}}, "_t_X"),
        ({"properties": {"a": STR}, "required": ["a"]}, "_t_X"),
        ({"allOf": [{"properties": {"a": STR}}, {"properties": {"b": STR}}]}, "_t_X"),
        ({"allOf": [STR]}, "str"),
        ({"anyOf": [STR, {"type": "null"}, {"type": "array", "items": STR}]}, "str | list[str] | None"),
        ({"oneOf": [STR, {}]}, "Any"),
        ({"enum": ["a", 1, None, True]}, "Literal['a', 1, None, True]"),
        ({"enum": [0.5, 1]}, "float | int"),
        ({"enum": [f"value {n}" for n in range(500)]}, "str"),
        ({"enum": [10**50]}, "int"),
        ({"enum": [[1]]}, "Any"),
        ({"const": "it's"}, 'Literal["it\'s"]'),
        ({"$ref": "https://example.org/schema"}, "Any"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"type": "any"}, "Any"),
        ({"type": 5}, "Any"),
        (True, "Any"),
        (None, "Any"),
    ],
)
def test_a_schema_becomes_an_annotation(schema: Any, annotation: str) -> None:
    """What Python has no word for is `Any`: no right call may be refused."""
    assert function(input_schema=properties(x=schema)).stub == (
        f"async def t(x: {annotation} = ...) -> Any: ..."
    )


def test_parameters_are_given_to_the_tool_by_the_names_it_has() -> None:
    """`from` is no Python name; two that become one are told apart."""
    schema = properties(**{"from": STR, "max-size": STR, "max_size": STR, "2d": STR, "\u0444": STR})

    names = {there: here for here, there in function(input_schema=schema).parameters}

    assert names["from"] == "from_"
    assert names["max_size"] == "max_size"
    assert names["2d"] == "argument_2d"
    assert names["\u0444"] == "argument"
    assert len(set(names.values())) == 5


@pytest.mark.parametrize(
    "schema", [None, {}, {"type": "object"}, properties() | {"additionalProperties": STR}]
)
def test_a_tool_whose_parameters_are_not_known_takes_any(schema: Any) -> None:
    """Its server will say what is wrong."""
    assert function(input_schema=schema).stub == "async def t(**_more: Any) -> Any: ..."


def test_a_tool_without_parameters_takes_none() -> None:
    """The schema says so."""
    assert function(input_schema=properties()).stub == "async def t() -> Any: ..."


@pytest.mark.parametrize("schema", [None, {"type": "array", "items": STR}, {"type": "string"}, True])
def test_an_answer_that_is_no_object_may_be_anything(schema: Any) -> None:
    """Such an answer may come as text."""
    assert function(output_schema=schema).stub.endswith("-> Any: ...")


def test_a_schema_that_contains_itself_ends_somewhere() -> None:
    """Lists of lists of lists, and choices of themselves."""
    root = {"type": "object", "$defs": {"node": NODE}, "properties": {"start": {"$ref": "#/$defs/node"}}}
    endless = properties(x={"anyOf": [{"$ref": "#/properties/x"}, {"items": {"$ref": "#"}, "type": "array"}]})

    for schema in (root, endless, {"$ref": "#"}):
        index = index_of(("s", "t"), input_schema=schema, output_schema=schema)
        assert len(stub_text(index.module("s"))) < 20_000


def test_a_schema_without_measure_gives_a_stub_of_a_bounded_size() -> None:
    """Thousands of parameters, and types that double with every level."""
    wide = properties(**{f"p{n}": {"enum": [f"{n} {m}" * 9 for m in range(40)]} for n in range(3_000)})
    levels = {
        f"l{n}": properties(**{key: {"$ref": f"#/$defs/l{n + 1}"} for key in "abcdefgh"}) for n in range(40)
    }
    deep = properties(x={"$ref": "#/$defs/l0"}) | {"$defs": levels}

    for schema in (wide, deep):
        text = stub_text(index_of(("s", "t"), input_schema=schema).module("s"))
        ast.parse(text)
        assert len(text) < 60_000
    assert "**_more: Any" in function(input_schema=wide).stub


# --- what a program names ---------------------------------------------------------------------------------


def some() -> Snapshot:
    """Two servers with a few tools."""
    issue = raw("github", "search", input_schema=properties(filter=properties(by=NODE)), output_schema=FOUND)
    rest = [raw("github", "close"), raw("mail", "send", output_schema=FOUND), raw("mail", "read")]
    return snapshot_of([issue, *rest])


def named(code: str) -> dict[str, list[str]]:
    """The functions by module that a program names."""
    snapshot = some()
    found = ModuleIndex(snapshot, snapshot.tools).used(code)
    for module in found:
        assert_whole(module)
        assert set(_referenced(module)) <= set(_defined(module))
    return {module.name: [one.name for one in module.functions] for module in found}


def _defined(module: ChainModule) -> list[str]:
    return [node.name for node in ast.parse(stub_text(module)).body if isinstance(node, ast.ClassDef)]


def _referenced(module: ChainModule) -> list[str]:
    loaded = [node.id for node in ast.walk(ast.parse(stub_text(module))) if isinstance(node, ast.Name)]
    return [name for name in loaded if name.startswith("_")]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import github\nawait github.search()", {"github": ["search"]}),
        (
            "import github as g, mail\nawait g.close()\nawait mail . read()",
            {"github": ["close"], "mail": ["read"]},
        ),
        ("from mail import send as post\nawait post()", {"mail": ["send"]}),
        ("import mail", {"mail": []}),
        ("import github\nawait github.serch(", {"github": []}),
        ("await call_tool('github__search', {})", {}),
        ("from mail import *", {"mail": ["read", "send"]}),
        ("import mail\nawait getattr(mail, 're' + 'ad')()", {"mail": ["read", "send"]}),
        ("import \uff4dail\nawait mail.\uff52ead()", {"mail": ["read"]}),
        ("", {}),
    ],
)
def test_only_what_a_program_names_is_looked_at(code: str, found: dict[str, list[str]]) -> None:
    """Broken programs too; and all of a module where a program could make a name up."""
    assert named(code) == found


def test_what_a_program_does_not_name_is_not_even_read() -> None:
    """A catalog of ten thousand tools costs a program no more than the tools that it names."""
    reads: list[str] = []

    class Watched(dict[str, bytes]):
        def get(self, key: str, default: Any = None) -> Any:
            reads.append(key)
            return super().get(key, default)

    whole = snapshot_of(
        raw(f"server_{n % 100}", f"tool_{n}", input_schema=properties(**{f"p{n}": STR}))
        for n in range(10_000)
    )
    snapshot = Snapshot(
        generation=1, servers=whole.servers, tools=whole.tools, schemas=Watched(whole.schemas)
    )
    index = ModuleIndex(snapshot, snapshot.tools)

    (module,) = index.used("import server_7\nawait server_7.tool_107(p107='x')")
    index.used("import server_7\nawait server_7.tool_107()")

    assert [one.stub for one in module.functions] == ["async def tool_107(p107: str = ...) -> Any: ..."]
    assert len([key for key in reads if key]) == 1
