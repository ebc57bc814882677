"""Names that are taken for others: which are remarked, and which are plainly different."""

import json
import time

import pytest
from tests.support.corpus import recorded

from maitred.admission.lookalike import KnownTools, Likeness, compare_servers, likeness


@pytest.mark.parametrize(
    ("name", "other", "how"),
    [
        ("read_file", "read_file", "same"),
        ("read_file", "readFile", "spelling"),
        ("read_file", "READ-FILE", "spelling"),
        ("read_file", "r\u0435ad_file", "letters"),
        ("read_file", "read\u200b_file", "letters"),
        ("read_file", "\uff52ead_file", "letters"),
        ("github", "g1thub", "digits"),
        ("github", "gltHub", "digits"),
        ("transform", "transforrn", "digits"),
        ("list_issues", "list_i5sues", "digits"),
        ("send_email", "send_emial", "typo"),
        ("send_email", "sennd_email", "typo"),
        ("add_comment", "add_coment", "typo"),
        ("send_email", "send_emaid", "one-off"),
        ("send_email", "send_emai", "one-off"),
    ],
)
def test_a_name_that_is_taken_for_another_is_remarked(name: str, other: str, how: Likeness) -> None:
    """Case, separators, alphabets, digits and one letter more, less or other. Source: issue 7."""
    assert likeness(name, other) == how
    assert likeness(other, name) == how


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("get_user", "get_users"),
        ("step_number_1", "step_number_2"),
        ("list_v1_items", "list_v_items"),
        ("get", "set"),
        ("query", "quary"),
        ("send_email", "read_email"),
        ("create_issue", "delete_issue"),
        ("поиск_файла", "poisk_fajla"),
    ],
)
def test_names_that_are_plainly_different_are_not(name: str, other: str) -> None:
    """Plurals, numbers, short words and other words. Source: issue 7."""
    assert likeness(name, other) is None


def test_a_tool_named_as_one_of_another_server_is_told() -> None:
    """The worse the deception, the graver the finding; a server's own tools may be alike. Source: issue 7."""
    known = KnownTools({"files": ["read_file", "search"], "mail": ["send_email"]})

    found = known.compare("new", ["read_file", "search", "r\u0435ad_file", "send_emial", "sum"])

    assert [(one.tool, one.other_server, one.other_tool, one.severity) for one in found] == [
        ("read_file", "files", "read_file", "warn"),
        ("search", "files", "search", "warn"),
        ("r\u0435ad_file", "files", "read_file", "refuse"),
        ("send_emial", "mail", "send_email", "ask"),
    ]
    assert all(one.reason.isascii() for one in found)
    assert known.compare("files", ["read_file", "readFile"]) == []


def test_a_tool_that_bears_the_name_of_another_server_is_for_a_person() -> None:
    """`github__search` looks as a published tool of `github` does. Source: issue 7."""
    known = KnownTools({"github": ["search"], "new": ["github__search"]})

    assert [
        (one.rule, one.other_server) for one in known.compare("new", ["github__find", "github_find"])
    ] == [("tool-impersonation", "github")]
    assert known.compare("github-work", ["github__find"]) == []


def test_a_server_named_as_another_is_for_a_person() -> None:
    """Whoever approves goes by the name. Source: issue 7."""
    known = ["github", "time", "filesystem"]

    assert [(one.other_server, one.severity) for one in compare_servers("g1thub", known)] == [
        ("github", "ask")
    ]
    assert [one.severity for one in compare_servers("GitHub", known)] == ["ask"]
    assert [one.severity for one in compare_servers("gith\u0443b", known)] == []
    assert [one.severity for one in compare_servers("g\u0456thub", known)] == ["refuse"]
    assert [one.other_server for one in compare_servers("fileystem", known)] == ["filesystem"]
    assert compare_servers("tide", known) == []


@pytest.mark.alone
def test_recorded_servers_raise_no_question() -> None:
    """Honest servers share hundreds of names; none of them is held for that. Source: issue 7."""
    path = recorded()
    if path is None:
        pytest.skip("the recorded servers are not here (MAITRED_SHARED)")
    with path.open(encoding="utf-8") as file:
        servers = [json.loads(line) for line in file]
    names = {one["server"]: [tool["name"] for tool in one["tools"]] for one in servers}
    started = time.process_time()

    known = KnownTools(names)
    tools = [found for server in names for found in known.compare(server, names[server])]
    alike = [found for server in names for found in compare_servers(server, names.keys() - {server})]

    assert [found.reason for found in tools if found.severity != "warn"] == []
    assert [found.reason for found in alike] == []
    assert len(tools) > 100
    assert time.process_time() - started < 10
