"""The commands about the menu as an operator runs them: browsing, categories, usage, tiers, the budget."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.harness import Json, cli, faulty, know_as, write_settings
from tests.interaction.test_cli import fine, read_json, refused

from maitred.config.load import load
from maitred.config.taxonomy import TAGS
from maitred.model.tools import ToolKey

ADD = ToolKey(server="counter", name="add")
REMARK = "# counts the calls"


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    return lambda folder: write_settings(folder, {"counter": faulty("count")})


@pytest.fixture
def own(tmp_path: Path, config: Path) -> Path:
    """A configuration with a remark, which the test may change; its server is known."""
    path = tmp_path / "maitred.yaml"
    know_as(config, tmp_path)
    entry = json.dumps(faulty("count"))
    path.write_text(f"servers:\n  counter: {entry}  {REMARK}\ncatalog: {{path: catalog.db}}\n")
    return path


# --- menu -------------------------------------------------------------------------------------------------


def test_menu_prints_what_an_agent_reads(config: Path) -> None:
    """The first page, and those below it, as text. Source: docs/cli.md."""
    first = fine(cli(config, "menu"))
    server = fine(cli(config, "menu", "server/counter"))
    hot, categories = first.split("\n\n")

    assert hot.startswith("For example:\n")
    assert "counter__add(a: num, b: num)" in hot
    assert categories.startswith("Categories:\ncategory/")
    assert "3 tools on 1 server. Next: list_tools_meta with path" in categories
    assert "counter__add(a: num, b: num)" in server
    assert "server/counter: 3 tools" in fine(cli(config, "menu", "servers"))


def test_menu_begins_with_what_is_used_or_pinned(own: Path) -> None:
    """Examples only as long as nothing is; a use counts once the tiers are computed. Source: docs/cli.md."""
    before = fine(cli(own, "menu"))
    fine(cli(own, "call", "counter__echo", "text=a"))
    fine(cli(own, "tiers", "update"))
    used = fine(cli(own, "menu"))
    own.write_text(f"{own.read_text()}tools: {{counter: {{pid: {{pinned: true}}}}}}\n")
    pinned = fine(cli(own, "menu"))

    assert before.startswith("For example:\n")
    assert used.startswith("Often used:\ncounter__echo(")
    assert re.search(r"\[1 call, \d+ ms, 100% ok\]", used.splitlines()[1])
    assert pinned.startswith("Often used:\ncounter__pid(")


def test_search_and_menu_show_only_tools_with_the_use_that_is_asked_for(own: Path) -> None:
    """Of this moment, and alike; nothing is ignored. Source: docs/menu.md, "Tools by their use"."""
    fine(cli(own, "call", "counter__echo", "text=a"))
    recent = ("--used-within", "1h", "--min-success", "0.9")
    found = read_json(cli(own, "search", "add numbers", "echo a text", *recent, "--json"))
    text = fine(cli(own, "search", "echo a text", *recent))
    page = read_json(cli(own, "menu", "server/counter", *recent, "--json"))
    lines = fine(cli(own, "menu", "server/counter", *recent))
    quick = read_json(cli(own, "menu", "server/counter", "--max-latency-ms", "0.0001", "--json"))

    assert [tool["name"] for tool in found["results"]] == ["counter__echo"]
    assert found["results"][0]["usage"]["calls"] == 1
    assert "by use: 1 of 3 tools" in text
    assert [tool["name"] for tool in page["tools"]] == ["counter__echo"]
    assert page["total"] == 1
    assert "counter__add" not in lines
    assert quick["tools"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search", "x", "--used-within", "lately"], "must be a time such as 90m, 24h, 7d or 2w"),
        (["search", "x", "--min-success", "95"], "less than or equal to 1"),
        (["search", "x", "--max-latency", "9"], "No such option: --max-latency"),
        (["menu", "server/counter", "--tag", "pyton"], "language:python"),
        (["menu", "--max-latency-ms", "9"], "only tools of category/NAME or server/NAME can be narrowed"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(config: Path, words: list[str], said: str) -> None:
    """With what it may be. Source: docs/menu.md."""
    done = cli(config, *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_menu_goes_on_where_a_page_ends(config: Path) -> None:
    """The pages of a server, one after the other, hold each tool once. Source: docs/cli.md."""
    names: list[str] = []
    cursor = ""
    for _ in range(3):
        options = ("--page-size", "1", *(("--cursor", cursor) if cursor else ()), "--json")
        page = read_json(cli(config, "menu", "server/counter", *options))
        names += [tool["name"] for tool in page["tools"]]
        cursor = page["cursor"]

    assert sorted(names) == ["counter__add", "counter__echo", "counter__pid"]
    assert cursor == ""


def test_menu_tells_programs_the_first_two_tiers(config: Path) -> None:
    """Both tiers in one object, each with its own counts. Source: docs/cli.md."""
    found = read_json(cli(config, "menu", "--json"))

    assert {tool["name"] for tool in found["T0"]["tools"]} == {
        "counter__add",
        "counter__echo",
        "counter__pid",
    }
    assert found["T1"]["tools"] == sum(one["tools"] for one in found["T1"]["categories"]) == 3


@pytest.mark.parametrize(
    "options", [["category/none"], ["server/counter", "--cursor", "x"], ["none", "--json"]]
)
def test_a_page_that_there_is_not_is_an_error(config: Path, options: list[str]) -> None:
    """Standard output stays empty. Source: maitred."""
    refused(cli(config, "menu", *options))


# --- categories -------------------------------------------------------------------------------------------


def test_categories_are_listed_with_their_counts(config: Path) -> None:
    """A table for people, the same for programs, and tags on demand. Source: docs/cli.md."""
    table = fine(cli(config, "categories"))
    found = read_json(cli(config, "categories", "--tags", "--json"))

    assert "3 tools on 1 server" in table
    assert all(one["name"] in table and one["title"] in table for one in found["categories"])
    assert sum(one["tools"] for one in found["categories"]) == 3
    assert found["tags"]["language:python"] == 0
    assert [*dict.fromkeys(tag.partition(":")[0] for tag in found["tags"])] == [*TAGS]
    assert "vector_database" in fine(cli(config, "categories", "--tags"))


def test_a_tool_is_put_where_a_person_wants_it_and_back(own: Path) -> None:
    """The choice goes before the rules, at once, and the rest of the file stays. Source: docs/cli.md."""
    before = own.read_text()
    [ruled] = of(own, "counter__add")

    said = fine(cli(own, "categories", "--set", "counter__add=security", "--set", "pid=data"))

    assert f"Put counter__add into security, in {own}." in said
    assert own.read_text().startswith(before)
    assert {key.name: choice.category for key, choice in load(own).tools.items()} == {
        "add": "security", "pid": "data",
    }  # fmt: skip
    [chosen] = of(own, "counter__add")
    assert (chosen["category"], chosen["confidence"], chosen["placed_by"]) == ("security", 1.0, "person")
    assert "counter__add" in fine(cli(own, "menu", "category/security"))

    assert "Took the choice" in fine(cli(own, "categories", "--unset", "counter__add"))
    assert ADD not in load(own).tools
    assert of(own, "counter__add")[0]["category"] == ruled["category"]
    assert REMARK in own.read_text()
    assert "Nothing was chosen" in fine(cli(own, "categories", "--unset", "counter__add"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--set", "pid=data", "--set", "counter__add=securty"], "did you mean 'security'?"),
        (["--set", "counter__add"], "must be TOOL=CATEGORY"),
        (["--set", "pid=data", "--set", "counter__ad=data"], "Did you mean"),
        (["--unset", "none"], "none"),
        (["--of", "none"], "none"),
    ],
)
def test_a_choice_that_cannot_be_is_not_written(own: Path, options: list[str], says: str) -> None:
    """Of several, none is. Source: maitred."""
    before = own.read_text()

    assert says in refused(cli(own, "categories", *options))
    assert own.read_text() == before


def test_a_clients_file_is_not_written_to(tmp_path: Path) -> None:
    """It is not ours; the message says what can hold choices. Source: docs/cli.md."""
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"counter": faulty("count")}}))
    before = path.read_bytes()

    assert "cannot hold choices" in refused(cli(path, "categories", "--set", "counter__add=data"))
    assert "cannot hold choices" in refused(cli(path, "tools", "--off", "counter__add"))
    assert path.read_bytes() == before


# --- tools ------------------------------------------------------------------------------------------------


def test_a_tool_is_switched_off_and_pinned_and_back(own: Path) -> None:
    """At once, and the rest of the file stays; the list and the audit trail have it. Source: docs/cli.md."""
    before = own.read_text()
    assert "No tool is switched off, pinned or moved" in fine(cli(own, "tools"))

    said = fine(cli(own, "tools", "--off", "counter__add", "--pin", "pid", "--pin", "echo"))

    assert f"Switched off counter__add, in {own}." in said
    assert f"Pinned counter__pid, in {own}." in said
    assert own.read_text().startswith(before)
    assert "switched off by the operator" in refused(cli(own, "call", "counter__add", "a=1", "b=2"))
    assert "counter__add" not in fine(cli(own, "menu", "server/counter"))
    assert fine(cli(own, "menu")).startswith("Often used:\ncounter__echo")
    listed = read_json(cli(own, "tools", "--json"))
    assert [(one["raw_name"], one["enabled"], one["pinned"]) for one in listed] == [
        ("add", False, False), ("echo", True, True), ("pid", True, True),
    ]  # fmt: skip
    assert "off" in fine(cli(own, "tools"))

    fine(cli(own, "tools", "--on", "counter__add", "--unpin", "pid", "--unpin", "echo"))
    assert load(own).tools == {}
    assert REMARK in own.read_text()
    assert "3" in fine(cli(own, "call", "counter__add", "a=1", "b=2"))
    assert fine(cli(own, "audit", "--limit", "50")).count("tool.change") == 6


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--off", "pid", "--off", "counter__ad"], "Did you mean"),
        (["--off", "pid", "--on", "counter__pid"], "decided about more than once"),
        (["--pin", "pid", "--unpin", "pid"], "decided about more than once"),
    ],
)
def test_a_decision_that_cannot_be_is_not_written(own: Path, options: list[str], says: str) -> None:
    """Of several, none is. Source: maitred."""
    before = own.read_text()

    assert says in refused(cli(own, "tools", *options))
    assert own.read_text() == before


def test_search_is_kept_to_a_category_and_to_tags(own: Path) -> None:
    """Programs are told both of each result, and a mistyped tag is an error. Source: docs/cli.md."""
    fine(cli(own, "categories", "--set", "counter__add=security"))

    found = read_json(cli(own, "search", "counter tool", "--category", "security", "--json"))["results"]
    assert [(one["name"], one["category"]) for one in found] == [("counter__add", "security")]
    assert isinstance(found[0]["tags"], list)

    nothing = read_json(cli(own, "search", "counter tool", "--tag", "language:python", "--json"))
    assert nothing["results"] == []
    assert "language:python" in refused(cli(own, "search", "add", "--tag", "pyton"))
    assert "no category 'none'" in refused(cli(own, "search", "add", "--category", "none"))


# --- stats and tiers --------------------------------------------------------------------------------------


def test_calls_are_in_the_statistics(own: Path) -> None:
    """By tool and by server, for people and for programs. Source: docs/cli.md."""
    assert "0 calls in 30 days" in fine(cli(own, "stats"))
    for _ in range(2):
        fine(cli(own, "call", "counter__add", "a=1", "b=2"))

    table = fine(cli(own, "stats", "--days", "1"))
    found = read_json(cli(own, "stats", "--json"))

    assert "2 calls in 1 day; 3 tools on 1 server" in table
    assert "100.0%" in table
    assert (
        found["calls"]
        == found["used"]["counter__add"]["calls"]
        == found["by_server"]["counter"]["calls"]
        == 2
    )
    assert sum(found["levels"].values()) == 3


def test_tiers_are_computed_on_demand(own: Path) -> None:
    """A tool that is called has a score above one that is not. Source: docs/cli.md."""
    assert "never computed" in fine(cli(own, "tiers"))
    fine(cli(own, "call", "counter__echo", "text=a"))

    assert "moved to another tier" in fine(cli(own, "tiers", "update"))
    assert "counter__echo" in fine(cli(own, "tiers"))
    called = read_json(cli(own, "tiers", "--json"))
    every = read_json(cli(own, "tiers", "--all", "--json"))

    assert [(tool["name"], tool["calls"]) for tool in called["tools"]] == [("counter__echo", 1)]
    assert called["computed"]
    scores = {tool["name"]: tool["score"] for tool in every["tools"]}
    assert scores["counter__echo"] > scores["counter__add"] == scores["counter__pid"] == 0


# --- budget -----------------------------------------------------------------------------------------------


def test_the_budget_is_measured_and_kept(config: Path) -> None:
    """Every answer with its limit; all is well, so the exit code is 0. Source: docs/cli.md."""
    table = fine(cli(config, "budget"))
    found = read_json(cli(config, "budget", "--json"))

    assert "All within their limits." in table
    assert found["ok"] is True
    by_name = {one["name"]: one for one in found["measured"]}
    assert {"T0", "T0 and T1", "T0 to T2", "T0 to T3", "menu", "overview"} <= by_name.keys()
    assert by_name["T0"]["tokens"] < by_name["T0 and T1"]["tokens"] < by_name["T0 to T2"]["tokens"] <= 8_000
    assert all(one["tokens"] > 0 and one["ok"] for one in found["measured"])


# --- helpers ----------------------------------------------------------------------------------------------


def of(config: Path, *names: str) -> list[Json]:
    """Where tools stand, as programs are told."""
    options = [part for name in names for part in ("--of", name)]
    found: Any = read_json(cli(config, "categories", *options, "--json"))
    return list(found)
