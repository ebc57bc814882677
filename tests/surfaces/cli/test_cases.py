"""Cases as lines for a person: all that decides is there, and nothing that a terminal would obey."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from rich.text import Text

from maitred.admission.approval import ApprovalState
from maitred.admission.definition import DefinitionChange, PartKey
from maitred.admission.findings import Decision, Finding, LayerReport
from maitred.admission.waiting import WaitingOrigin, WaitingTool
from maitred.gateway.cases import Case
from maitred.model.approvals import Binding, Event
from maitred.surfaces.case_json import case_json
from maitred.surfaces.cli.case_view import explanation, next_steps, standing, summary
from maitred.surfaces.cli.console import visible
from maitred.surfaces.cli.origin_view import origin_lines, origin_steps

SEND = PartKey(kind="tool", name="send")
READ = PartKey(kind="tool", name="read")
ASKED = Finding(
    layer="network",
    severity="ask",
    key="network",
    reason="asks for the exemption 'mail'",
    line=4,
    file="m.yml",
)
DECISION = Decision(
    server="mail",
    manifest_hash="ab",
    layers=(LayerReport(layer="schema"), LayerReport(layer="network", findings=(ASKED,))),
)
PENDING = Case(
    server="mail",
    source="/srv/m.yml",
    state="pending",
    awaits=True,
    withheld="waits for approval",
    parts={},
    changes=(),
    findings=(),
    record=DECISION.record(),
    manifest={"name": "mail", "transport": "stdio", "command": "mail-mcp", "args": ["-v"]},
    binding=Binding(manifest="ab"),
    log=(Event(kind="registered", who="local", at="2026-03-01T09:30:00+00:00"),),
)
CHANGED = replace(
    PENDING,
    state="approved",
    withheld="",
    parts={SEND: "has changed"},
    changes=(
        DefinitionChange(
            part=SEND, kind="parameter_required", weight="power", text="tool 'send': 'bcc' is now required"
        ),
        DefinitionChange(part=READ, kind="reworded", weight="wording", text="tool 'read': was reworded"),
    ),
    findings=(Finding(layer="poisoning", severity="ask", key="tool 'send'", reason="speaks to the model"),),
)


def lines(texts: Iterable[Text]) -> list[str]:
    return [text.plain for text in texts]


def test_a_waiting_server_shows_what_it_would_run_and_why_a_person_is_asked() -> None:
    """And the commands that decide, with the digest of what was shown."""
    found = lines([*summary(PENDING), *next_steps(PENDING)])

    assert found == [
        f"mail  waits for your approval  digest {PENDING.digest}",
        "  from /srv/m.yml",
        "  transport: stdio",
        "  command: mail-mcp",
        '  args: ["-v"]',
        "  to decide (network): network: asks for the exemption 'mail'",
        f"  maitred approve mail --seen {PENDING.digest}",
        f"  maitred reject mail --seen {PENDING.digest}",
    ]


def test_changes_stand_with_the_part_they_are_of_and_say_whether_it_is_in_use() -> None:
    """What gives more power is marked."""
    found = lines(summary(CHANGED))

    assert "waits for your decision" in found[0]
    assert found[6:] == [
        "  tool 'send' is withheld",
        "    more power: 'bcc' is now required",
        "  tool 'read' is in use",
        "    changed: was reworded",
        "  suspicious (poisoning): tool 'send': speaks to the model",
    ]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Event(kind="auto_approved", who="local"), "the policy approved it, without asking a person"),
        (Event(kind="approved", who="ada", why="read it"), "approved by ada: read it"),
    ],
)
def test_an_explanation_has_the_layers_in_order_and_who_decided(event: Event, said: str) -> None:
    """The last layer is a person, or the policy."""
    case = replace(PENDING, state="approved", awaits=False, withheld="", log=(*PENDING.log, event))
    found = lines(explanation(case))

    assert found[5:9] == [
        "layers",
        "  1 schema: nothing to say",
        "  2 network: to decide: network: asks for the exemption 'mail'",
        f"  3 approval: {said}",
    ]
    assert "  nothing of it is withheld, changed or suspicious" in found


def test_a_waiting_page_tool_shows_its_parameters_and_says_what_is_left_out() -> None:
    """All that a page writes is on one line each, and what is too long is named."""
    nested = {"type": "object", "properties": {"deep": {"description": "x" * 300}}}
    schema = {
        "type": "object",
        "properties": {**{f"p{number}": {} for number in range(30)}, "p1": nested, "last": {}},
        "required": ["p0"],
        "$defs": {},
    }
    waiting = WaitingTool(part=SEND, name="send", description="Send\nit.", schema=schema, why="is new")
    origin = WaitingOrigin(origin="https://app.example", digest="ab12", tools=[waiting])
    found = lines(origin_lines([origin], lambda _: []))

    assert found[:3] == [
        "  https://app.example: 1 tool withheld  digest ab12",
        "    send: it is new",
        r"      says of itself: Send\nit.",
    ]
    assert found[3] == "      parameter p0 (required)"
    assert found[4] == "      parameter p1 (object); and more, which `maitred approvals --json` has"
    assert found[-2:] == [
        "      and 1 more parameter; `maitred approvals --json` has all",
        "      its schema also has $defs; `maitred approvals --json` has all",
    ]
    assert lines(origin_steps("web", [origin])) == [
        "  maitred approve web --origin https://app.example --seen ab12"
    ]


def test_what_a_server_published_first_is_no_change() -> None:
    """Only what comes after it is one; a server that was withdrawn and registered again begins anew."""
    first, other = (Event(kind="definition_changed", who="mail", binding=Binding(definition=d)) for d in "12")
    log = (*PENDING.log, first, other, Event(kind="withdrawn"), *PENDING.log, first)
    found = lines(explanation(replace(PENDING, log=log)))

    said = [line.strip() for line in found if "definition " in line]
    assert said == ["definition first seen", "definition changed by mail", "definition first seen"]


def test_what_an_image_was_first_is_no_change() -> None:
    """A manifest that names another one changes it, and what that is comes first again."""

    def image(bound: str, why: str = "") -> Event:
        return Event(kind="image_changed", who="mail", binding=Binding(image=bound), why=why)

    one, other = image("a/b:1@sha256:1", "it is sha256:1 now"), image("a/b:1@sha256:2", "it is sha256:2 now")
    log = (*PENDING.log, one, other, image("a/c:1"), *PENDING.log, one)
    found = lines(explanation(replace(PENDING, log=log)))

    said = [line.strip() for line in found if "image " in line]
    assert said == [
        "image first seen: it is sha256:1 now",
        "image changed by mail: it is sha256:2 now",
        "image changed by mail",
        "image first seen: it is sha256:1 now",
    ]


def test_what_cannot_be_seen_is_shown_and_not_obeyed() -> None:
    """Wherever it stands: in a manifest, in a change, in a finding, in a reason."""
    evil = "\x1b[2J\u202e\u200b\n"
    change = replace(CHANGED.changes[0], text=evil)
    finding = replace(CHANGED.findings[0], reason=evil)
    event = Event(kind="rejected", who="ada", why=evil)
    case = replace(
        CHANGED,
        source=evil,
        parts={PartKey(kind="tool", name=evil): evil},
        changes=(change,),
        findings=(finding,),
        manifest={"name": "mail", "title": evil, "args": [evil]},
        log=(event,),
        state="rejected",
        withheld=evil,
    )
    printed = "\n".join(lines([*summary(case), *explanation(case)]))

    assert all(c.isprintable() or c == "\n" for c in printed)
    assert r"\x1b[2J\u202e\u200b\n" in printed


def test_ordinary_text_stays_as_it_is() -> None:
    """Letters of any language are no reason for an escape."""
    assert visible("Prüfe 検索 🔍") == "Prüfe 検索 🔍"


@pytest.mark.parametrize("state", ["pending", "approved", "rejected", "suspended", "withdrawn"])
def test_every_state_has_words(state: ApprovalState) -> None:
    """For the list of all servers and for a single one."""
    case = replace(PENDING, state=state, awaits=False, log=())

    assert standing(case)
    assert lines(explanation(case))


def test_a_case_as_json_is_plain_and_short_in_a_list() -> None:
    """Programs get parts, changes and findings as objects."""
    whole, brief = case_json(CHANGED), case_json(CHANGED, whole=False)

    assert whole["parts"] == [{"kind": "tool", "name": "send", "why": "has changed"}]
    assert [change["weight"] for change in whole["changes"]] == ["power", "wording"]
    assert whole["log"][0]["kind"] == "registered"
    assert whole.keys() - brief.keys() == {"manifest", "record", "log"}
