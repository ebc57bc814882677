"""Rules for answers in a configuration: their faults, which of them count for a tool, and the presets."""

import re
from pathlib import Path

import pytest

from maitred.config.load import parse
from maitred.config.result_rules import (
    ToolResultRule,
    recognised_preset,
    result_presets,
    rule_for,
)
from maitred.config.settings import ResultDrop, ResultRule, Results
from maitred.errors import ConfigError

FILE = Path("maitred.yaml")
PAGE = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
SERVER = "servers: {shop: {command: shop-server}}\n"


def faults(results: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(FILE, SERVER + results)
    return list(caught.value.faults)


def test_rules_are_read_with_all_their_choices() -> None:
    settings = parse(
        FILE,
        f"""{SERVER}
results:
  preset: none
  rules:
    - tools: [shop/get_*, "*/list"]
      budget: 800
      changes_only: true
      drop: {{sections: ["### Page state"], fields: [items.*.html], text: [" class=.*"]}}
      fold: [navigation]
      ids: uid=\\w+
""",
    )
    assert settings.results.rules == (
        ResultRule(
            tools=("shop/get_*", "*/list"),
            budget=800,
            changes_only=True,
            drop=ResultDrop(sections=("### Page state",), fields=("items.*.html",), text=(" class=.*",)),
            fold=("navigation",),
            ids="uid=\\w+",
        ),
    )


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (
            "{tools: [shop/a], budgett: 5}",
            "results.rules[0].budgett: is not a known key; did you mean `budget`?",
        ),
        (
            "{tools: [shop/a], drop: {section: [a]}}",
            "results.rules[0].drop.section: is not a known key; did you mean `sections`?",
        ),
        ("{tools: [shop/a], budget: 5}", "results.rules[0].budget: must be at least 100"),
        ("{tools: [shop/a], budget: few}", "results.rules[0].budget: must be a whole number"),
        ("{budget: 500}", "results.rules[0].tools: Field required"),
        (
            "{tools: [shop/a]}",
            "results.rules[0]: says nothing about the answers; set at least one of `budget`, `drop`,"
            " `changes_only`, `fold` or `ids`",
        ),
        (
            "{tools: [get_page], budget: 500}",
            "results.rules[0].tools[0]: 'get_page' must be SERVER/TOOL, such as `browser/*` for all tools of"
            " the server `browser`",
        ),
        (
            "{tools: [shpo/a], budget: 500}",
            "results.rules[0].tools[0]: there is no server 'shpo'; did you mean `shop`?",
        ),
        (
            "{tools: [shop/a], ids: 'a('}",
            "results.rules[0].ids: is no regular expression: missing ), unterminated subpattern"
            " at position 1",
        ),
        ("{tools: [shop/a], fold: ['a*']}", "results.rules[0].fold[0]: must not match an empty text"),
        (
            "{tools: [shop/a], drop: {fields: ['a b']}}",
            "results.rules[0].drop.fields[0]: 'a b' is no path of fields, such as `items.*.html`",
        ),
    ],
)
def test_a_fault_says_where_it_is_and_what_to_write(rule: str, fault: str) -> None:
    (found,) = faults(f"results: {{rules: [{rule}]}}\n")
    assert found == f"line 2: {fault}"


def test_an_unknown_preset_is_refused_with_those_that_there_are() -> None:
    (found,) = faults("results: {preset: playwrite}\n")
    known = "auto, none, playwright, chrome-devtools or maitred-browser"
    assert found.endswith(f"'playwrite' is no preset; use {known}")


def test_of_each_choice_the_first_rule_counts_that_makes_it() -> None:
    """The operator's rules in their order, then those of the preset. Source: docs/answers.md."""
    results = Results(
        rules=(
            ResultRule(tools=("web/browser_click",), budget=900),
            ResultRule(tools=("web/*",), budget=700, drop=ResultDrop()),
        )
    )
    preset = rule_for(Results(), "web", "browser_click", "Playwright")
    found = rule_for(results, "web", "browser_click", "Playwright")

    assert preset is not None
    assert found == ToolResultRule(
        budget=900, drop=ResultDrop(), changes_only=True, fold=preset.fold, ids=preset.ids
    )
    assert rule_for(results, "web", "other", "Playwright") == ToolResultRule(budget=700)
    assert rule_for(results, "shop", "other", "Shop") is None


def test_the_example_on_the_page_is_a_valid_configuration() -> None:
    """And the page names every preset with its server. Source: docs/answers.md."""
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    first, second = parse(FILE, example).results.rules
    assert (first.budget, first.ids) == (500, r"\[ref=\w+\]")
    assert second.drop == ResultDrop(fields=("items.*.html",))
    named = re.findall(r"^\| `([\w-]+)` \| `(\S+)` \|$", PAGE, re.MULTILINE)
    assert named == [(name, preset.package) for name, preset in result_presets().items()]


@pytest.mark.parametrize("name", result_presets())
def test_a_preset_is_recognised_by_each_name_of_its_server(name: str) -> None:
    preset = result_presets()[name]

    assert preset.names
    assert {recognised_preset(one) for one in preset.names} == {name}
    assert all("/" not in pattern for rule in preset.rules for pattern in rule.tools)


def test_a_new_preset_is_one_entry_of_one_file(tmp_path: Path) -> None:
    """Nothing else has to know of it. Source: ARCHITECTURE.md, to add one of a kind."""
    path = tmp_path / "presets.yaml"
    entry = "made-up: {package: made-up, names: [Made up], rules: [{tools: [look], budget: 300}]}\n"
    path.write_text(entry, encoding="utf-8")

    assert result_presets(path)["made-up"].rules == (ResultRule(tools=("look",), budget=300),)
    path.write_text(entry.replace("budget: 300", "ids: '('"), encoding="utf-8")
    result_presets.cache_clear()
    with pytest.raises(ConfigError, match="made-up: is no regular expression"):
        result_presets(path)
