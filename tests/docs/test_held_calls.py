"""The page on held calls is true: its configuration loads, and its expressions hold what it says."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.held_calls.bank import ANN

from maitred.config.expressions import MAX_SOURCE
from maitred.config.hold_rules import MOST_BYTES, NAMES
from maitred.config.load import parse
from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.errors import ConfigError
from maitred.held_calls.binding import binding_of
from maitred.held_calls.policy import HoldPolicy, values_of
from maitred.held_calls.question import MOST_CHARACTERS
from maitred.held_calls.store import GRACE, MOST_WAITING, SESSION
from maitred.held_calls.webhook import TIMEOUT_S, message_of
from maitred.model.held_calls import DECISIONS, HeldCall
from maitred.model.tools import Tool, ToolKey
from maitred.surfaces.cli.held_call_view import call_summary

PAGE = (Path(__file__).parents[2] / "docs" / "held-calls.md").read_text(encoding="utf-8")
_BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RULES, FAULT, LISTED, MESSAGE = (text for _, text in _BLOCKS)
TOOL = Tool(
    key=ToolKey(server="payments", name="refund"), name="payments__refund", title="", description="",
    input_hash="", output_hash="", annotations={}, extra={}, cost_tokens=1,
)  # fmt: skip


def test_the_first_rule_is_a_valid_configuration() -> None:
    settings = parse(Path("maitred.yaml"), RULES)
    assert [(rule.by, rule.session) for rule in settings.held_calls.rules] == [
        ("caller", "same"),
        ("operator", "never"),
    ]


def test_the_fault_that_is_shown_is_that_of_a_slip_in_the_first_rule() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(Path("maitred.yaml"), RULES.replace("destructive", "destructiv", 1))
    assert list(caught.value.faults) == FAULT.splitlines()


def test_every_name_that_a_rule_may_read_is_in_the_table() -> None:
    table = PAGE.partition("| name | type | value |")[2].partition("\n\n")[0]
    cells = [row.split(" | ")[0] for row in table.splitlines()]
    assert re.findall(r"`(\w+)`", "".join(cells)) == list(NAMES)


EXAMPLES = re.findall(
    r"^\| `(.*?)` \| .* \|$", PAGE.partition("| expression | holds |")[2].partition("\n\n")[0], re.MULTILINE
)
HELD: list[tuple[dict[str, Any], str]] = [
    ({"amount": 1}, "refund"),
    ({}, "refund"),
    ({"amount": 101}, "refund"),
    ({}, "delete_all"),
    ({"sql": "select 1; DROP TABLE t"}, "refund"),
    ({"to": ["bob@example.com", "eve@example.org"]}, "refund"),
    ({}, "refund"),
]
PASSED: list[tuple[dict[str, Any], str] | None] = [
    None,
    ({"amount": 100}, "refund"),
    ({}, "refund"),
    ({}, "undelete"),
    ({"sql": "select dropped"}, "refund"),
    ({"to": ["bob@example.com"]}, "refund"),
    None,
]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_hold_what_they_say(number: int) -> None:
    """One call that each holds, and one that it lets pass."""
    policy = HoldPolicy(HeldCallSettings(rules=(HoldRule(when=EXAMPLES[number].replace("\\|", "|")),)))
    for case, is_held in ((HELD[number], True), (PASSED[number], False)):
        if case is not None:
            tool = replace(TOOL, key=ToolKey(server="payments", name=case[1]))
            viewer = replace(ANN, surface="http")
            values = values_of(tool, case[0], viewer, in_chain=False, seen_before=False)
            verdict = policy.judge(values)
            assert (verdict is not None) == is_held
            assert verdict is None or "cannot be worked out" not in verdict.why or case[0] == {}


def test_the_limits_are_the_real_ones() -> None:
    for text in (
        f"more than {MOST_BYTES:,} bytes",
        f"at most {MAX_SOURCE} characters",
        f"more than {MOST_CHARACTERS:,} characters",
        f"At most {MOST_WAITING} calls",
        f"at most {SESSION.total_seconds() / 3600:g} hours",
    ):
        assert text in PAGE
    assert f"for {GRACE.total_seconds():g} seconds" in PAGE
    assert f"at most {dict(enumerate(['ten'], 10))[int(TIMEOUT_S)]} seconds" in PAGE


def test_every_decision_is_explained() -> None:
    table = PAGE.partition("| decision | allows |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(DECISIONS)


def test_the_message_has_the_fields_that_are_shown() -> None:
    shown = json.loads(MESSAGE)
    binding = binding_of("ann", TOOL, {}, fingerprint="", policy="")
    held = HeldCall(
        id=shown["id"],
        binding=binding,
        name=shown["tool"],
        arguments="{}",
        why=shown["why"],
        by="operator",
        choices=("once", "refuse"),
        client="editor",
        held_at=shown["held_at"],
        expires_at=shown["expires_at"],
    )
    assert message_of(held) == shown


def test_a_held_call_is_listed_as_shown() -> None:
    command, *lines = LISTED.splitlines()
    held = HeldCall(
        id="5b1f0c7ad2e9",
        binding=binding_of("ann", TOOL, {}, fingerprint="", policy=""),
        name="payments__refund",
        arguments='{"amount":150,"order":"A-17"}',
        why='`server == "payments" && args.amount > 100`',
        by="operator",
        choices=("once", "refuse"),
        client="editor",
        expires_at="2026-03-01T09:46:00.120+00:00",
    )
    assert command == "$ maitred calls list"
    assert [line.plain for line in call_summary(held)] == lines[:-1]
