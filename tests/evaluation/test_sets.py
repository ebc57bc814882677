"""Labelled sets as files: what is read, which faults are named, and which queries are held back."""

import hashlib
from pathlib import Path

import pytest
from tests.evaluation.makers import QUERIES, TOOLS, Json, query, write_lines, write_set

from maitred.errors import ConfigError
from maitred.evaluation.labelled_queries import is_held_back, read_queries, read_tools, set_name, take


def faults_of(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return list(error.value.faults)


def test_a_set_is_read_with_null_for_nothing(tmp_path: Path) -> None:
    """A server, a description or a schema may be null; keys that are not ours are passed over."""
    more = {
        "id": "x",
        "server": None,
        "name": "x",
        "description": None,
        "inputSchema": None,
        "licence": "MIT",
    }
    path, _ = write_set(tmp_path, [*TOOLS, more])

    tools = read_tools(path)

    assert [tool.id for tool in tools] == [*(tool["id"] for tool in TOOLS), "x"]
    assert (tools[-1].server, tools[-1].description, tools[-1].input_schema) == ("", "", None)
    assert tools[0].input_schema == TOOLS[0]["inputSchema"]


def test_queries_are_read_with_what_serves_them(tmp_path: Path) -> None:
    """Nothing may serve a query: then nothing should be found."""
    _, path = write_set(tmp_path)

    queries = read_queries(path, [tool["id"] for tool in TOOLS])

    assert [one.text for one in queries] == [one["query"] for one in QUERIES]
    assert (queries[0].relevant, queries[-1].relevant) == (("mail.send",), ())


def test_all_faults_of_a_file_of_tools_are_named_with_their_lines(tmp_path: Path) -> None:
    """Not JSON, no object, missing and mistyped keys, an id given twice; empty lines are none."""
    path = write_lines(
        tmp_path / "tools.jsonl",
        [
            TOOLS[0],
            "{not json",
            "",
            "[1]",
            {**TOOLS[1], "name": ""},
            {**TOOLS[2], "inputSchema": [], "server": 5},
            {**TOOLS[3], "id": "mail.send"},
        ],
    )

    with pytest.raises(ConfigError) as error:
        read_tools(path)

    assert error.value.source == str(path)
    not_json, *others = faults_of(error)
    assert not_json.startswith("line 2: is not JSON: ")
    assert others == [
        "line 4: must be a JSON object",
        "line 5: name: must be text, and not empty",
        "line 6: inputSchema: must be an object or null",
        "line 6: server: must be text or null",
        "line 7: id: 'mail.send' is given twice, first in line 1",
    ]


def test_all_faults_of_a_file_of_queries_are_named_with_their_lines(tmp_path: Path) -> None:
    """Relevant ids that no tool has would make every figure too low in silence."""
    path = write_lines(
        tmp_path / "queries.jsonl",
        [
            QUERIES[0],
            {**QUERIES[1], "relevant": ["weather", "gone"]},
            {**QUERIES[2], "relevant": "git.history"},
            {"id": "5", "query": "a", "relevant": ["weather", "weather"]},
            {**QUERIES[0], "query": " "},
        ],
    )

    with pytest.raises(ConfigError) as error:
        read_queries(path, [tool["id"] for tool in TOOLS])

    assert faults_of(error) == [
        "line 2: relevant: there is no tool 'gone'",
        "line 3: relevant: must be a list of tool ids, or an object of tool ids and grades",
        "line 4: relevant: names a tool twice",
        "line 5: query: must be text, and not empty",
        "line 5: id: '1' is given twice, first in line 1",
    ]


def test_many_faults_are_counted_not_listed(tmp_path: Path) -> None:
    """A file of another kind does not fill the screen."""
    path = write_lines(tmp_path / "tools.jsonl", ["no"] * 50)

    with pytest.raises(ConfigError) as error:
        read_tools(path)

    assert len(faults_of(error)) == 21
    assert faults_of(error)[-1] == "and 30 more"


@pytest.mark.parametrize(
    ("content", "says"), [(None, "cannot be read"), (b"\n\n", "is empty"), (b"\xff\xfe", "is not UTF-8 text")]
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, content: bytes | None, says: str) -> None:
    """Missing, empty or not text: one fault that says so."""
    path = tmp_path / "tools.jsonl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=says):
        read_tools(path)


def test_a_query_is_held_back_by_its_set_and_id_alone() -> None:
    """SHA-256 of `set/id` modulo 5; so a part stays the same when queries are added."""
    digest = hashlib.sha256(b"metatool/s0").hexdigest()
    assert is_held_back("metatool", "s0") is (int(digest, 16) % 5 == 0)

    held = sum(is_held_back("any", str(number)) for number in range(1_000))
    assert 150 < held < 250


def test_the_parts_of_a_set_make_up_the_whole() -> None:
    """No query is in both parts or in none."""
    queries = [query(str(number), "text") for number in range(50)]

    train, held_back = take(queries, "train", "any"), take(queries, "held-back", "any")

    assert sorted([*train, *held_back], key=lambda one: int(one.id)) == queries
    assert train
    assert held_back
    assert take(queries, "all", "any") == queries


def test_a_set_is_named_by_the_folder_of_its_queries(tmp_path: Path) -> None:
    """Also when the path is given from within the folder."""
    assert set_name(tmp_path / "metatool" / "queries.jsonl") == "metatool"
    assert set_name(Path("queries.jsonl")) == Path.cwd().name


def test_a_query_may_have_phrases_grades_and_needs(tmp_path: Path) -> None:
    """All phrases are asked at once; relevant tools are the keys of the grades. Source: docs/cli.md."""
    line: Json = {
        "id": "1",
        "query": ["a", "b"],
        "relevant": {"weather": 3, "translate": 1},
        "needs": [["weather"]],
    }
    path = write_lines(tmp_path / "queries.jsonl", [line])

    [query] = read_queries(path, [tool["id"] for tool in TOOLS])

    assert (query.phrases, query.text) == (("a", "b"), "a; b")
    assert (query.relevant, query.grades["weather"]) == (("weather", "translate"), 3)
    assert query.wants == (("weather",),)


def test_faults_of_phrases_grades_and_needs_are_named(tmp_path: Path) -> None:
    """Each says what is expected."""
    lines: list[Json] = [
        {"id": "1", "query": [], "relevant": ["weather"]},
        {"id": "2", "query": "a", "relevant": {"weather": 0}},
        {"id": "3", "query": "a", "relevant": ["weather"], "needs": [["translate"]]},
        {"id": "4", "query": "a", "relevant": ["weather"], "needs": "weather"},
    ]
    path = write_lines(tmp_path / "queries.jsonl", lines)

    with pytest.raises(ConfigError) as error:
        read_queries(path, [tool["id"] for tool in TOOLS])

    assert faults_of(error) == [
        "line 1: query: a list must have 1 to 20 phrases, none of them empty",
        "line 2: relevant: grades must be whole numbers from 1 to 10",
        "line 3: needs: 'translate' is not in `relevant`",
        "line 4: needs: must be a list of lists of tool ids, none of them empty",
    ]
