"""What operators and manifests may write about visibility; every fault is told at once, with its line."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.config.document import read_document
from maitred.errors import ConfigError
from maitred.visibility.declarations import MAX_FACTS, parse, read, read_with_lines
from maitred.visibility.facts import Add, Fact, ReadFact, ResetFact, SetFact
from maitred.visibility.rules import RuleRegistry
from maitred.visibility.visibility import VisibilityTable

PATH = Path("server.yaml")
RULES = RuleRegistry({"office_hours": lambda *_: True})

GOOD = """\
visibility:
  facts:
    connections: 0
    debugger.paused: false
    mode: idle
    open: {type: list}
    level: {type: int, initial: 2}
  on_success:
    connect: {connections: {add: 1}, mode: busy, open: [a, 7]}
    pause: {debugger.paused: "$.state[0].paused", level: 4}
    leave_*: {connections: {reset: true}, mode: $arguments.mode}
  visible_when:
    leave_one: connections > 0
    step_*: {when: debugger.paused, because: needs a   paused debugger, do: call pause}
    deploy: {rule: office_hours}
    never: false
"""
WRONG = """\
visibility:
  facts:
    Connections: 0
    size: {type: int, initial: many}
    client: x
    time: 4
    in.use: true
    page: {type: number}
    page.title: x
    none:
    mode: {type: str, first: x}
  on_success:
    connect: {mode: {add: 1}, modes: a, client: b, size: 3}
    pause: 5
    leave: {mode: "$.a..b", page.title: {reset: false}}
  visible_when:
    one: mod == 'a' && mode > 4
    two: {when: true, rule: office_hours}
    three: {because: nothing}
    four: {rule: ofice_hours, becaus: x}
    five: [mode]
    six: {when: true, do: [a]}
  visible_wen: {}
"""


def faults_of(text: str) -> list[str]:
    """The faults of a file, without the section's own key before each."""
    with pytest.raises(ConfigError) as caught:
        parse(PATH, text, RULES)
    return [fault.replace(" visibility.", " ", 1) for fault in caught.value.faults]


def read_plain(raw: Any) -> tuple[VisibilityTable, list[str]]:
    faults: list[str] = []
    table = read(raw, RULES, lambda keys, said: faults.append(f"{'.'.join(map(str, keys))}: {said}"))
    return table, faults


def test_a_section_declares_facts_effects_and_rules() -> None:
    """All forms that there are. Source: issue, "Facts"."""
    table = parse(PATH, GOOD, RULES)

    declared = table.declared
    assert list(declared.facts.values()) == [
        Fact(name="connections", kind="int", initial=0),
        Fact(name="debugger.paused", kind="bool", initial=False),
        Fact(name="mode", kind="str", initial="idle"),
        Fact(name="open", kind="list", initial=()),
        Fact(name="level", kind="int", initial=2),
    ]
    assert declared.on_success == {
        "connect": {
            "connections": Add(by=1),
            "mode": SetFact(value="busy"),
            "open": SetFact(value=("a", "7")),
        },
        "pause": {"debugger.paused": ReadFact(path="$.state[0].paused"), "level": SetFact(value=4)},
        "leave_*": {"connections": ResetFact(), "mode": ReadFact(path="$arguments.mode")},
    }
    begun = declared.initial()
    assert table.visible_set(["leave_one", "step_on", "deploy", "never", "other"], begun) == {
        "deploy",
        "other",
    }
    hidden = table.why_hidden("step_on", begun)
    assert hidden is not None
    assert hidden.text == "needs a paused debugger; call pause"


def test_typed_values_mean_what_written_ones_do() -> None:
    """A program that embeds maitred hands over a mapping, not a text."""
    raw = {
        "facts": {
            "connections": 0, "debugger.paused": False, "mode": "idle", "open": {"type": "list"},
            "level": {"type": "int", "initial": 2},
        },
        "on_success": {
            "connect": {"connections": {"add": 1}, "mode": "busy", "open": ["a", 7]},
            "pause": {"debugger.paused": "$.state[0].paused", "level": 4},
            "leave_*": {"connections": {"reset": True}, "mode": "$arguments.mode"},
        },
        "visible_when": {"never": False},
    }  # fmt: skip

    table, faults = read_plain(raw)

    assert faults == []
    assert table.declared == parse(PATH, GOOD, RULES).declared
    assert not table.visible("never", table.declared.initial())


def test_all_faults_of_a_section_are_told_at_once_with_their_lines() -> None:
    """Nobody should have to start five times to mend five slips. Source: issue, "checked when loaded"."""
    assert faults_of(WRONG) == [
        "line 3: facts.Connections: is no name for a fact: use a-z, 0-9 and _ in parts with dots"
        " between, like `debugger.paused`",
        "line 4: facts.size: begins with what is not a whole number",
        "line 5: facts.client: is a fact that is always there; give this one another name",
        "line 6: facts.time: cannot be used together with `time.hour`: one name goes on where the other ends",
        "line 7: facts.in.use: cannot be named so: `in` means something in rules",
        "line 8: facts.page: needs a first value, or a `type` that is one of bool, int, str, list",
        "line 9: facts.page.title: cannot be used together with `page`:"
        " one name goes on where the other ends",
        "line 10: facts.none: needs a first value, or a `type` that is one of bool, int, str, list",
        "line 11: facts.mode.first: is not a known key; there are `type`, `initial`",
        "line 13: on_success.connect.client: is a fact that no call can change",
        "line 13: on_success.connect.mode: is a text, to which nothing can be added",
        "line 13: on_success.connect.modes: is no fact of this server; did you mean `mode`?",
        "line 14: on_success.pause: must be a mapping of facts to how a successful call changes them",
        "line 15: on_success.leave.mode: '$.a..b' is not a path; write it like `$.page.id`,"
        " `$.pages[0]` or `$arguments.name`",
        "line 17: visible_when.one: column 1: there is no fact `mod`; did you mean `mode`?",
        "line 17: visible_when.one: column 20: `>` cannot be applied to (string, int)",
        "line 18: visible_when.two: needs either `when` (an expression) or `rule` (the name of a rule"
        " in Python)",
        "line 19: visible_when.three: needs either `when` (an expression) or `rule` (the name of a"
        " rule in Python)",
        "line 20: visible_when.four.becaus: is not a known key; did you mean `because`?",
        "line 20: visible_when.four.rule: there is no rule 'ofice_hours'; did you mean `office_hours`?",
        "line 21: visible_when.five: must be text",
        "line 22: visible_when.six.do: must be text of at most 256 characters",
        "line 23: visible_wen: is not a known key; did you mean `visible_when`?",
    ]


@pytest.mark.parametrize("effect", ["{reset: false}", "{add: 1, reset: true}", "{}", "{set: 3}"])
def test_an_effect_that_says_nothing_or_two_things_is_a_fault(effect: str) -> None:
    """Rather than being guessed at."""
    text = f"visibility:\n  facts: {{n: 0}}\n  on_success:\n    t: {{n: {effect}}}\n"

    assert faults_of(text) == [
        "line 4: on_success.t.n: must be a value, a path such as `$.id`, `{add: 1}` or `{reset: true}`"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("visibility: 5", "line 1: visibility: must be a mapping with facts, on_success, visible_when"),
        ("visibility: {facts: [a]}", "line 1: facts: must be a mapping"),
        (
            "visibility: {facts: {n: 0}, on_success: {t: {n: x}}}",
            "line 1: on_success.t.n: is what is not a whole number; the fact is a whole number",
        ),
        (
            "visibility: {facts: {n: 0}, on_success: {t: {n: {add: x}}}}",
            "line 1: on_success.t.n: `add` needs a whole number",
        ),
        ("a: 1\na: 2", "line 2: a: is given twice, first in line 1"),
    ],
)
def test_other_faults_are_told_too(text: str, expected: str) -> None:
    """Those that hide what is below them, and those of the file itself."""
    assert faults_of(text) == [expected]


def test_a_server_cannot_declare_facts_without_end() -> None:
    """Each costs a little at every evaluation."""
    table, faults = read_plain({"facts": {f"f{n}": 0 for n in range(MAX_FACTS + 2)}})

    assert faults == [f"facts: are {MAX_FACTS + 2}; a server may have {MAX_FACTS}"]
    assert len(table.declared.facts) == MAX_FACTS


def test_a_file_without_the_section_hides_nothing() -> None:
    """Most servers declare nothing."""
    table = parse(PATH, "servers: {}", RULES)

    assert table.visible("anything", table.declared.initial())
    assert table.why_hidden("anything", table.declared.initial()) is None


def test_a_section_may_stand_anywhere_in_a_file() -> None:
    """An operator's configuration has one below each server."""
    text = "servers:\n  chrome:\n    visibility:\n      visible_when:\n        pause: paused\n"
    keys = ["servers", "chrome", "visibility"]
    document = read_document(PATH, text)
    raw = document.tree["servers"]["chrome"]["visibility"]

    _, faults = read_with_lines(document, keys, raw, RULES)

    assert [(line, fault.partition(";")[0]) for line, fault in faults] == [
        (5, "servers.chrome.visibility.visible_when.pause: column 1: there is no fact `paused`")
    ]
    with pytest.raises(ConfigError, match="line 5"):
        parse(PATH, text, RULES, keys)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("$.a"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["facts", "on_success", "visible_when", "a", "b", "when", "rule", "type", "initial", "add"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=30,
)


@settings(max_examples=300)
@given(st.fixed_dictionaries({}, optional={"facts": ANY, "on_success": ANY, "visible_when": ANY}) | ANY)
def test_whatever_is_written_is_read_or_told(raw: Any) -> None:
    """Manifests come from strangers; what is left after the faults works."""
    table, _ = read_plain(raw)

    begun = table.declared.initial()
    for tool in [*table.rulings, *table.declared.on_success]:
        assert table.visible(tool, begun) == (table.why_hidden(tool, begun) is None)
