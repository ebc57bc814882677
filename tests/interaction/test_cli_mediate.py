"""`maitred mediate` as an operator runs it: what is made of tools, what it costs, and his word on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.mediator import plainly, replayed, saying
from tests.interaction.harness import cli, write_settings
from tests.interaction.requirements import requirement
from tests.interaction.test_cli import fine, read_json, refused
from tests.support.extras import need
from tests.support.openai_server import OpenAiServer, openai_server

from maitred.config.load import load
from maitred.model.tools import ToolKey

POOR = {"gt_usr": "gets user", "del_ord": "", "weather": "Tell the weather of a place."}
OVERRIDES = "overrides: {poor: {weather: {title: Weather, use_cases: [I want to know whether it rains]}}}\n"


def write(folder: Path, scan: str = "warn", **mediation: Any) -> Path:
    """A configuration with the poor server."""
    command, *args = replayed(folder, "poor", POOR)
    sections = {"mediation": mediation, "admission": {"scan": scan}}
    return write_settings(folder, {"poor": {"command": command, "args": args}}, **sections)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A configuration with rules and overrides."""
    (tmp_path / "o.yaml").write_text(OVERRIDES)
    return write(tmp_path, auto_enhance=True, overrides="o.yaml")


@requirement("mediate:diff")
def test_the_diff_shows_each_tool_before_and_after(own: Path) -> None:
    """By whom, how surely, and how search finds it, for people and programs. Source: docs/cli.md."""
    said = fine(cli(own, "mediate", "--diff"))
    counts = fine(cli(own, "mediate", "poor"))
    found = {tool["raw_name"]: tool for tool in read_json(cli(own, "mediate", "--json"))["tools"]}

    assert "poor__weather  used (by overrides, confidence 1.00)" in said
    assert '  title: nothing -> "Weather"' in said
    assert '  use_cases: nothing -> ["I want to know whether it rains"]' in said
    assert "poor__gt_usr  used (by rules" in said
    assert "  parameter usr_id: " in said
    assert "  found by " in said
    assert "3 tools with a proposal" in counts
    assert {name: tool["by"] for name, tool in found.items()} == {
        "gt_usr": "rules", "del_ord": "rules", "weather": "overrides",
    }  # fmt: skip
    assert found["gt_usr"]["before"]["description"] == "gets user"


@requirement("mediate:choice")
def test_a_choice_is_written_into_the_file_and_taken_out(own: Path) -> None:
    """It holds at once, and nothing else of the file changes. Source: docs/cli.md."""
    key = ToolKey(server="poor", name="gt_usr")
    before = load(own)

    said = fine(cli(own, "mediate", "--reject", "poor__gt_usr", "--accept", "del_ord"))

    assert f"Wrote reject for poor__gt_usr into {own}." in said
    assert load(own).tools[key].mending == "reject"
    assert load(own).servers == before.servers
    diff = fine(cli(own, "mediate", "--diff"))
    assert "poor__gt_usr  not used, as you rejected it" in diff
    assert "poor__del_ord  used, as you accepted it" in diff
    assert "gets user" in fine(cli(own, "info", "--full", "poor__gt_usr"))
    assert "Took the choice" in fine(cli(own, "mediate", "--unset", "poor__gt_usr"))
    assert key not in load(own).tools
    assert "Nothing was chosen" in fine(cli(own, "mediate", "--unset", "poor__gt_usr"))


@requirement("mediate:refused")
def test_what_cannot_be_done_is_refused(own: Path) -> None:
    """Unknown tools and servers, both choices for one tool, a model that is not there. Source: maitred."""
    before = own.read_text()
    assert "gt_usr" in refused(cli(own, "mediate", "--accept", "gt_user"))
    assert "more than once" in refused(cli(own, "mediate", "--accept", "gt_usr", "--reject", "gt_usr"))
    assert "there is no server 'poo'; did you mean 'poor'?" in refused(cli(own, "mediate", "poo"))
    assert "llm_provider" in refused(cli(own, "mediate", "--ask"))
    assert "take no server and no other option" in refused(cli(own, "mediate", "--ask", "--accept", "gt_usr"))
    assert own.read_text() == before


@pytest.fixture
def model() -> Iterator[OpenAiServer]:
    """A model that has something to say of each tool."""
    need("openai")
    with openai_server() as running:
        running.reply = saying(plainly)
        running.tokens = (2_000, 200)
        yield running


@requirement("mediate:ask")
def test_the_model_is_asked_only_when_it_is_told_to(model: OpenAiServer, tmp_path: Path) -> None:
    """What that takes is told before, what it took after; a second time there is nothing to ask."""
    own = write(
        tmp_path, auto_enhance=True, llm_provider="local", model="gpt-5-mini", url=model.url, proof=False
    )

    first = fine(cli(own, "mediate"))
    assert "Asking the language model (--ask) takes at most 1 question" in first
    assert model.requests == []
    done = cli(own, "mediate", "--ask", "--diff")
    assert "Asking the language model: at most 1 question" in done.stderr
    assert "The language model was asked: 1 question, 2,000 tokens in, 200 out, 0.0009 USD." in done.stdout
    assert "poor__weather  used (by llm, confidence 0.80)" in done.stdout
    again = json.loads(fine(cli(own, "mediate", "--json")))
    assert (again["estimate"]["calls"], again["spent"], len(model.requests)) == (0, None, 1)


@requirement("mediate:cost")
def test_a_model_that_fails_has_its_cost_told_all_the_same(model: OpenAiServer, tmp_path: Path) -> None:
    """What cannot be used is paid for as well."""
    model.reply = "I would rather not."
    own = write(tmp_path, auto_enhance=True, llm_provider="local", model="gpt-5-mini", url=model.url)

    said = refused(cli(own, "mediate", "--ask"))

    assert "without a list of tools" in said
    assert "was asked: 1 question, 2,000 tokens in, 200 out, 0.0009 USD." in said


@requirement("mediate:off")
def test_where_nothing_is_switched_on_it_says_what_to_set(tmp_path: Path) -> None:
    """Instead of a bare zero. Source: maitred."""
    assert "set mediation.auto_enhance or mediation.overrides" in fine(cli(write(tmp_path), "mediate"))


@requirement("mediate:plain")
def test_what_a_terminal_obeys_is_not_printed(tmp_path: Path) -> None:
    """Names of parameters and tools are as a server wrote them."""
    own = write(tmp_path, scan="off", auto_enhance=True)
    recorded = own.parent / "poor.jsonl"
    odd = recorded.read_text().replace(
        '"usr_id": {"type": "string"}', '"usr\\u001b]0;pwn\\u0007\\u009b_id": {}'
    )
    recorded.write_text(odd)

    said = fine(cli(own, "mediate", "--diff"))

    assert r"  parameter usr\x1b]0;pwn\x07\x9b_id: " in said
    assert not {"\x1b", "\x07"} & set(said)
