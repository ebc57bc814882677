"""`maitred.config.load`: the sections `categories` and `tools`, and how their faults are told."""

from pathlib import Path

import pytest

from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.model.categories import Category, ToolChoice
from maitred.model.tools import ToolKey

YAML = Path("maitred.yaml")
UNKNOWN = "is not a known key; did you mean"


def faults_of(path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(path, text)
    return caught.value.faults


def test_categories_and_choices_are_read_with_every_key_they_may_have() -> None:
    text = """
servers:
  my server: {command: digger}
categories:
  gardening: {title: Gardening, description: Beds and tulips., parent: utilities, words: [mole, tulip bed]}
  data:
    words: [harvest]
  empty:
tools:
  my server:
    dig/mole: {category: gardening, tags: [delete, "language:sql"], use_cases: [I want to dig], pinned: true}
    plain:
"""
    settings = parse(YAML, text)

    assert settings.categories == {
        "gardening": Category(
            name="gardening",
            title="Gardening",
            description="Beds and tulips.",
            parent="utilities",
            words=("mole", "tulip bed"),
        ),
        "data": Category(name="data", words=("harvest",)),
        "empty": Category(name="empty"),
    }
    assert settings.tools == {
        ToolKey(server="my server", name="dig/mole"): ToolChoice(
            category="gardening",
            tags=("delete", "language:sql"),
            use_cases=("I want to dig",),
            pinned=True,
        ),
        ToolKey(server="my server", name="plain"): ToolChoice(),
    }


SERVER = "servers: {s: {command: x}}\n"


def test_a_tool_can_be_switched_off_and_all_of_a_server_only_with_the_server() -> None:
    """A choice for all tools does nothing for those with one of their own, so it would not be safe."""
    off = parse(YAML, f"{SERVER}tools: {{s: {{dig: {{enabled: false}}}}}}\n")
    assert off.tools == {ToolKey(server="s", name="dig"): ToolChoice(enabled=False)}

    [fault] = faults_of(YAML, SERVER + 'tools: {s: {"*": {enabled: false}}}\n')
    assert "cannot be for all tools" in fault
    assert "`servers.s.enabled: false`" in fault


NO_NAME = "a category's name begins with a letter and has at most 40 of a-z, 0-9 and _"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("categories: [a]\n", ["line 1: categories: must be a mapping of names to categories"]),
        ("categories:\n  A b: {}\n", [f"line 2: categories.A b: {NO_NAME}"]),
        (
            "categories:\n  mine: {parent: dta}\n",
            ["line 2: categories.mine: its parent 'dta' is no category; did you mean 'data'?"],
        ),
        (
            "categories:\n  a: {parent: b}\n  b:\n    parent: a\n",
            [
                "line 2: categories.a: is above itself (a > b > a)",
                "line 3: categories.b: is above itself (b > a > b)",
            ],
        ),
        ("categories:\n  a: {titel: x}\n", [f"line 2: categories.a.titel: {UNKNOWN} `title`?"]),
        (
            SERVER + "tools: {s: 3}\n",
            ["line 2: tools.s: must be a mapping of tools to what is chosen for them"],
        ),
        (
            SERVER + "tools:\n  s:\n    t:\n      pinned: true\n      category: dta\n",
            ["line 6: tools.s.t.category: 'dta' is no category; did you mean 'data'?"],
        ),
        (
            SERVER + "tools:\n  s:\n    t:\n      tags: [langage:python, sql]\n",
            [
                "line 5: tools.s.t.tags: tag 'langage:python' is not in the vocabulary; near it:"
                " language:python, framework:pytorch",
                "line 5: tools.s.t.tags: tag 'sql' is not the only one of its name; write language:sql or"
                " technology:sql",
            ],
        ),
        (
            SERVER + "tools:\n  s:\n    t: {catgory: data}\n",
            [f"line 4: tools.s.t.catgory: {UNKNOWN} `category`?"],
        ),
        (
            SERVER + "tools:\n  s:\n    t: {pinned: perhaps}\n",
            ["line 4: tools.s.t.pinned: must be true or false"],
        ),
        (
            "servers: {counter: {command: x}}\ntools:\n  countr:\n    t: {pinned: true}\n",
            ["line 3: tools.countr: there is no server of this name; did you mean 'counter'?"],
        ),
        (
            "tools:\n  s:\n    t: {category: dta}\n",
            [
                "line 2: tools.s: there is no server of this name",
                "line 3: tools.s.t.category: 'dta' is no category; did you mean 'data'?",
            ],
        ),
        (
            "servers: {s: {comand: x}}\ntools:\n  s:\n    t: {pinned: true}\n",
            [f"line 1: servers.s.comand: {UNKNOWN} `command`?"],
        ),
    ],
)  # fmt: skip
def test_a_fault_of_a_category_or_a_choice_is_told_with_its_line_and_what_is_near(
    text: str, faults: list[str]
) -> None:
    assert list(faults_of(YAML, text)) == faults


def test_a_choice_may_name_a_category_of_the_same_file() -> None:
    """In whatever order the sections stand."""
    text = SERVER + "tools:\n  s:\n    t: {category: mine}\ncategories:\n  mine: {}\n"

    assert next(iter(parse(YAML, text).tools.values())).category == "mine"
