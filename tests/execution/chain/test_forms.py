"""The short forms of a chain: read as calls, never run; and everything else is left to be a program."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maitred.calls.outline import compact
from maitred.chains.base import ChainFault, ChainFunction, ChainModule
from maitred.chains.forms import DirectCall, DirectCalls, read_form

SEARCH = ChainFunction(
    name="search", tool="git-hub__search", parameters=[("query", "query"), ("from_", "from")]
)
MODULES = [ChainModule(name="git_hub", server="git-hub", functions=[SEARCH])]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def only(code: str) -> tuple[str, Any]:
    """The one call that a text stands for."""
    found = read_form(code, MODULES)
    assert isinstance(found, DirectCalls), found
    assert not found.many
    [call] = found.calls
    return call.tool, call.arguments


def fault(code: str) -> ChainFault:
    """The fault of what is nearly a short form."""
    found = read_form(code, MODULES)
    assert isinstance(found, ChainFault), found
    return found


# --- JSON -------------------------------------------------------------------------------------------------


def test_an_object_is_one_call() -> None:
    """The shape of a call as clients send it; arguments may be left out."""
    assert only('{"tool": "a__b", "arguments": {"x": [1, null]}}') == ("a__b", {"x": [1, None]})
    assert only(' {"tool": "a__b"}\n') == ("a__b", {})


def test_a_list_is_calls_in_their_order() -> None:
    """Its result is a list too, also if it has one item."""
    found = read_form('[{"tool": "a__b", "arguments": {"n": 1}}, {"tool": "c__d"}]')

    assert found == DirectCalls(
        calls=[DirectCall(tool="a__b", arguments={"n": 1}), DirectCall(tool="c__d", arguments={})], many=True
    )
    one = read_form('[{"tool": "a__b"}]')
    assert isinstance(one, DirectCalls)
    assert one.many


def test_an_object_in_the_words_of_python_is_understood() -> None:
    """Models mix the two notations up."""
    assert only("{'tool': 'a__b', 'arguments': {'x': True, 'y': null, 'z': (1, 2)}}") == (
        "a__b",
        {"x": True, "y": None, "z": [1, 2]},
    )


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("[]", "no call"),
        ("[1, 2]", "call 1 of 2"),
        ('{"tool": 5, "arguments": {}}', "`tool` must name a tool"),
        ('{"tool": "a__b", "arguments": [1]}', "`arguments` must be an object"),
        ('[{"tool": "a__b"}, {"tool": "a__b", "args": {}}]', "In call 2 of 2, 'args' means nothing"),
        ('{"tool": "a__b", "arguments": {"x": NaN}}', "not finite"),
        *(
            (f'{{"tool": "a__b", "arguments": {{"x": {"[" * deep}{"]" * deep}}}}}', "nested")
            for deep in (65, 900, 20_000)
        ),
    ],
)
def test_json_that_is_no_call_is_a_fault_that_shows_the_shape(code: str, told: str) -> None:
    """As a program it would do nothing, and say that all is well."""
    assert told in fault(code).message
    assert fault("\n\n" + code).line == 3


# --- a call as it is written ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('a__b({"x": 1})', ("a__b", {"x": 1})),
        ("a__b()", ("a__b", {})),
        ("my-server__do-it(x=-1, y='z')", ("my-server__do-it", {"x": -1, "y": "z"})),
        ('await call_tool("a__b", {"x": true, "y": null})', ("a__b", {"x": True, "y": None})),
        ('call_tool(name="a__b", arguments={})', ("a__b", {})),
        ('call_tool("a__b")', ("a__b", {})),
        ('git_hub.search("q", from_="x")', ("git-hub__search", {"query": "q", "from": "x"})),
        ("await git_hub.search(\n  query='q',\n)", ("git-hub__search", {"query": "q"})),
        ("other.find(a=1)", ("other__find", {"a": 1})),
    ],
)
def test_a_single_call_with_literals_needs_no_program(code: str, expected: tuple[str, Any]) -> None:
    """By its published name, by `call_tool`, or by its module, whose names are those of Python."""
    assert only(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "",
        "print('x')",
        "len([1])",
        "x = await a__b()",
        "await a__b(x=y)",
        "await a__b(x=f'{y}')",
        "await a__b(**x)",
        "a__b(1)(2)",
        "a__b(1) + a__b(2)",
        "a__b(x=[y for y in range(3)])",
        "a__b(x={[]: 1})",
        "a__b(x=1, x=2)",
        "a__b(" + "(" * 5_000 + ")" * 5_000 + ")",
        "a__b(" + "1+" * 30_000 + "1)",
        "a__b(x='" + "x" * 70_000 + "')",
        "import git_hub\nawait git_hub.search(query='q')",
        "{x: 1 for x in range(3)}",
        "{1, 2}",
        "a__b(\0)",
        "math.sqrt(16)",
        "json.dumps([1])",
        "datetime.datetime(2026, 1, 1)",
    ],
    ids=lambda code: code[:24].replace("\0", "NUL"),
)
def test_whatever_holds_more_than_literals_is_a_program(code: str) -> None:
    """The engine runs it, or says what is wrong with it."""
    assert read_form(code, MODULES) is None


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("a__b(1)", "Name the arguments of a__b"),
        ("git_hub.search('a', query='b')", "'query' twice"),
        ("call_tool(5)", "`tool` must name a tool"),
        ("a__b(x={1, 2})", "set"),
        ("a__b(x=b'1')", "bytes"),
        ("a__b(x=1e999)", "not finite"),
        ("a__b({'x': {1: 2}})", "keys of an object must be strings"),
        ("call_tool('a__b', {}, timeout=3)", "'timeout' means nothing"),
    ],
)
def test_a_call_that_cannot_be_meant_is_told_what_is_wrong(code: str, told: str) -> None:
    """Rather than being run as a program that fails in other words."""
    assert told in fault(code).message


# --- whatever is written ----------------------------------------------------------------------------------

PIECES = ["a__b", "call_tool", "git_hub.search", "(", ")", "{", "}", "[", "]", "'x'", '"tool"', ":", ",", "=",
          "1", "await ", "-", "*", "lambda:", "\n", "\\", "0x" + "f" * 9_000, "1e999",
          "\ud800", "\0"]  # fmt: skip


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
@settings(max_examples=400, deadline=None)
@example("{0x" + "f" * 9_000 + ": 1}")
@example("{'tool': 'a', 0x" + "f" * 9_000 + ": 1}")
def test_no_text_makes_the_reader_fail(code: str) -> None:
    """Every text is a call, a fault or a program."""
    found = read_form(code, MODULES)

    assert found is None or isinstance(found, DirectCalls | ChainFault)


@given(st.text(alphabet="ab_-", min_size=1), st.dictionaries(st.text(), json_values, max_size=4))
@settings(deadline=None)
def test_what_is_written_as_json_or_as_a_literal_arrives_unchanged(
    name: str, arguments: dict[str, Any]
) -> None:
    """Whatever the arguments hold."""
    written = compact(arguments)

    assert only(f'{{"tool": "{name}", "arguments": {written}}}') == (name, arguments)
    assert only(f"a__b({arguments!r})") == ("a__b", arguments)


def test_nothing_that_is_written_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Not in any form, and not in any place of a form."""
    for code in (
        "a__b(x=print('ran'))",
        "{'tool': print('ran')}",
        "call_tool(print('ran'))",
        "[print('ran')]",
    ):
        assert read_form(code) is None

    assert capsys.readouterr().out == ""
