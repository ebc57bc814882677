"""The page on browsers is true: its tables, its examples, and the states that it counts."""

import re
from dataclasses import fields
from pathlib import Path

import typer.main

from maitred.browser.state import BrowserState
from maitred.browser.toolbox import visibility_table
from maitred.browser.tools.table import TOOLS
from maitred.config.load import parse
from maitred.model.browsers import BrowserOptions
from maitred.surfaces.cli.browser import group
from maitred.visibility.facts import Facts

PAGE = (Path(__file__).parents[2] / "docs" / "browser.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`(\w+)`")
BASIC, CHOSEN = (text for kind, text in _BLOCK.findall(PAGE) if kind == "yaml")
STATES = (
    BrowserState(),
    BrowserState(connections=1, active=True),
    BrowserState(connections=1, active=True, enabled=True),
    BrowserState(connections=1, active=True, enabled=True, paused=True),
)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def shown(state: BrowserState) -> frozenset[str]:
    return visibility_table().visible_set(TOOLS, Facts(values=state.facts))


def test_the_counts_are_those_of_the_states() -> None:
    counts = [int(number) for number in re.findall(r"(\d+) (?:without|with|while)", PAGE.split("\n## ")[0])]
    assert counts == [len(shown(state)) for state in STATES]
    assert f"{len(TOOLS)} tools" in PAGE


def test_the_table_of_states_is_the_table_of_rules() -> None:
    """Each row adds what it lists; the last two take away what they name before the colon."""
    seen: set[str] = set()
    expected = []
    for state, tools in rows("The tools"):
        seen = (seen - set(_SPAN.findall(state))) | set(_SPAN.findall(tools))
        if "more than one" in state:
            seen -= {"chrome_switch_connection"}
        else:
            expected.append(frozenset(seen))
    assert expected == [shown(state) for state in STATES]


def test_every_choice_is_described_with_its_default() -> None:
    described = {key.strip("`"): default.strip("`") for key, default, _ in rows("Choices")}
    options = BrowserOptions()

    def said(value: object) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return str(list(value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    assert described == {one.name: said(getattr(options, one.name)) for one in fields(options)}


def test_the_examples_are_what_they_say() -> None:
    assert parse(Path("maitred.yaml"), BASIC).servers["chrome"].browser == BrowserOptions()
    assert parse(Path("maitred.yaml"), CHOSEN).servers["chrome"].browser == BrowserOptions(
        executable="/usr/bin/chromium",
        profile="work",
        hosts=("build.example",),
        flags=("--proxy-server",),
        evaluate=False,
    )


def test_every_option_of_the_program_is_named() -> None:
    command = typer.main.get_group(group).commands["serve"]
    options = {name for one in command.params for name in one.opts} - {"--help"}
    assert {name for name in options if f"`{name}" not in PAGE} == set()
