"""Rules about held calls: their faults in a file, and what they say of a call."""

from pathlib import Path
from typing import Any

import pytest
from tests.held_calls.bank import ANN

from maitred.config.load import parse
from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.errors import ConfigError
from maitred.held_calls.policy import HoldPolicy, values_of
from maitred.model.tools import Tool, ToolKey

TOOL = Tool(
    key=ToolKey(server="bank", name="refund"), name="bank__refund", title="", description="", input_hash="",
    output_hash="", annotations={"destructiveHint": False}, extra={}, cost_tokens=1,
)  # fmt: skip


def faults(*rules: str, more: str = "") -> list[str]:
    text = "".join(f"    - {rule}\n" for rule in rules)
    with pytest.raises(ConfigError) as caught:
        parse(Path("m.yaml"), f"servers: {{}}\nheld_calls:\n  rules:\n{text}{more}")
    return [fault.replace("held_calls.", "") for fault in caught.value.faults]


def why(*rules: HoldRule, args: dict[str, Any] | None = None, seen: bool = False) -> str:
    policy = HoldPolicy(HeldCallSettings(rules=rules))
    verdict = policy.judge(values_of(TOOL, args or {}, ANN, in_chain=False, seen_before=seen))
    return verdict.why if verdict else ""


def test_every_fault_of_a_rule_is_reported_with_its_line() -> None:
    found = faults("when: destructiv", "when: args.amount + 1", "when: server > 3")
    assert found == [
        "line 4: rules[0].when: column 1: there is no name `destructiv`; did you mean `destructive`?",
        "line 5: rules[1].when: is int, not true or false; compare it with something",
        "line 6: rules[2].when: column 8: `>` cannot be applied to (string, int)",
    ]
    assert faults("{when: 'true', for: ever}") == [
        "line 4: rules[0].for: is not a known key; `maitred docs configuration` lists them all"
    ]


def test_an_expression_that_could_take_too_long_is_refused() -> None:
    nested = "when: args.a.all(x, args.a.all(y, x == y))"
    patterns = 'when: args.a.all(x, x.matches("a+"))'
    long = f"when: args.a == '{'x' * 500}'"
    assert [fault.partition(": ")[2].partition("(")[0] for fault in faults(nested, patterns, long)] == [
        "rules[0].when: could take too long ",
        "rules[1].when: could take too long ",
        "rules[2].when: has 512 characters; a rule may have 500",
    ]


@pytest.mark.parametrize(
    "each",
    [
        "x in args.b",
        "'x' in args.b",
        "x == args.b",
        "args.b != args.c",
        "args.b == [x]",
        "args.text.contains('x')",
        "x.contains(args.text)",
        "size(args.text + args.text) > 1",
        "size(args.text + 'x') > 1",
        "x.matches('a+')",
    ],
)
def test_inside_a_macro_nothing_looks_at_all_of_another_argument(each: str) -> None:
    """It would be looked at for every item."""
    [fault] = faults(f'when: "args.a.exists(x, {each})"')
    assert "could take too long" in fault
    assert "`in` is cheaper" not in fault


@pytest.mark.parametrize(
    "each",
    [
        "x == 'a'",
        "'a' != x.name",
        "x in ['a', 'b']",
        "x == -1",
        "x.n + 1 > 5",
        "x.owner == principal",
        "x.name.contains('a')",
        "!x.endsWith('@example.com') && x != null && x == true",
        "x > args.limit",
    ],
)
def test_inside_a_macro_an_item_is_compared_with_what_is_short(each: str) -> None:
    parse(Path("m.yaml"), f'servers: {{}}\nheld_calls: {{rules: [{{when: "args.a.exists(x, {each})"}}]}}')


def test_the_address_for_messages_is_checked() -> None:
    hooks = {
        "http://example.org/x": "must start with https:// (http:// only on this machine)",
        "https://ann:secret@example.org/x": "must hold no name or password, as logs and messages show it; use"
        " `webhook_key`",
    }
    for address, fault in hooks.items():
        assert faults("when: 'true'", more=f"  webhook: {address}\n") == [f"line 5: webhook: {fault}"]
    assert faults("when: 'true'", more="  webhook_key: abc\n") == [
        "line 5: webhook_key: has no effect without `webhook`"
    ]
    parse(Path("m.yaml"), "servers: {}\nheld_calls: {webhook: 'http://127.0.0.1:9/x', wait_s: 86400}")


@pytest.mark.parametrize(
    ("expression", "args"),
    [
        ("args.amount > 100", {"amount": 100.5}),
        ("args.amount > 100", {"amount": "101"}),
        ("args.amount > 100", {"amount": True}),
        ("args.amount > 100", {"amount": 2**63}),
        ("args.amount", {"amount": 1}),
        ("args.a.b == 1", {"a": 1}),
        ("args.n.all(x, x < 5)", {"n": [1] * 20_000}),
        ("args.text.contains('x') || args.text.contains('y')", {"text": "z" * 70_000}),
        ("size(args.text) > 9", {"text": "\ud800"}),
        ("!seen_before", {}),
        ("principal == 'ann' && client == 'editor' && surface == 'mcp' && role == 'agent'", {}),
        ("!destructive && open_world && !idempotent && !read_only && !in_chain && category == ''", {}),
    ],
)
def test_a_call_is_held_if_the_rule_is_true_or_has_no_value(expression: str, args: dict[str, Any]) -> None:
    assert why(HoldRule(when=expression), args=args)


@pytest.mark.parametrize(
    ("expression", "args"),
    [
        ("args.amount > 100", {"amount": 100}),
        ("has(args.amount) && args.amount > 100", {}),
        ("destructive && args.missing == 1", {}),
        ("destructive", {}),
        ("args.n.exists(x, x > 5)", {"n": [1] * 9_000}),
        ("args.exists(k, k == 'x')", {"y": 1}),
    ],
)
def test_a_call_passes_if_the_rule_is_false(expression: str, args: dict[str, Any]) -> None:
    assert why(HoldRule(when=expression), args=args) == ""


def test_of_several_rules_the_strictest_decide_together() -> None:
    rules = (
        HoldRule(when="args.amount > 100", session="any", because="Large"),
        HoldRule(when="tool == 'refund'", by="operator"),
        HoldRule(when="tool == 'other'", session="never"),
    )
    policy = HoldPolicy(HeldCallSettings(rules=rules))
    verdict = policy.judge(values_of(TOOL, {"amount": 150}, ANN, in_chain=False, seen_before=False))
    assert verdict is not None
    assert (verdict.by, verdict.choices) == ("operator", ("once", "session", "refuse"))
    assert verdict.why == "Large (`args.amount > 100`); `tool == 'refund'`"


def test_the_version_of_the_policy_is_that_of_what_the_rules_decide() -> None:
    rule = HoldRule(when="true")
    version = HoldPolicy(HeldCallSettings(rules=(rule,))).version
    assert version == HoldPolicy(HeldCallSettings(rules=(rule,), wait_s=5)).version
    others = (
        HoldRule(when="true "),
        HoldRule(when="true", by="operator"),
        HoldRule(when="true", session="any"),
    )
    assert len({version, *(HoldPolicy(HeldCallSettings(rules=(one,))).version for one in others)}) == 4
