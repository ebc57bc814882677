"""The rules of the browser server, for all states that are possible on paper. Source: notes, section 3."""

from itertools import product
from pathlib import Path

import pytest
from tests.disclosure.test_visibility import expected_in
from tests.support.debugger_server import TOOLS as NAMES

from maitred.browser.state import BrowserState, with_declarations
from maitred.browser.toolbox import visibility_table
from maitred.browser.tools.table import TOOLS
from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.visibility.facts import Facts
from maitred.wiring.features import make_tables


@pytest.mark.parametrize(
    ("active", "enabled", "paused", "connections"),
    [*product([False, True], [False, True], [False, True], range(3))],
)
def test_each_state_shows_its_tools(connections: int, *, active: bool, enabled: bool, paused: bool) -> None:
    """All 2 x 2 x 2 x 3; nothing that waits for a page is shown while it is paused."""
    state = BrowserState(connections=connections, active=active, enabled=enabled, paused=paused)

    assert visibility_table().visible_set(TOOLS, Facts(values=state.facts)) == expected_in(
        connections, active=active, enabled=enabled, paused=paused
    )


def test_there_are_the_23_tools_of_the_document() -> None:
    """By name, with the parameters that the notes list."""
    assert set(TOOLS) == set(NAMES)
    assert len(TOOLS) == 23
    for name, (_, properties, required, _reads) in NAMES.items():
        assert set(properties) <= set(TOOLS[name].parameters)
        assert set(TOOLS[name].required) == set(required)


def test_the_description_of_a_hidden_tool_names_what_it_needs() -> None:
    """A client whose list never changes reads it there. Source: protocol, stateless era."""
    first = visibility_table().visible_set(TOOLS, Facts(values=BrowserState().facts))
    assert [name for name, tool in TOOLS.items() if name not in first and not tool.needs] == []
    assert TOOLS["debugger_step_over"].definition["description"].endswith("Needs a paused debugger.")


def test_each_hidden_tool_says_what_to_do() -> None:
    """From every state that a session can reach, the refusal has a next step."""
    for state in (
        BrowserState(),
        BrowserState(connections=1, active=True),
        BrowserState(connections=1, active=True, enabled=True),
        BrowserState(connections=1, active=True, enabled=True, paused=True),
    ):
        facts = Facts(values=state.facts)
        for name in TOOLS:
            why = visibility_table().why_hidden(name, facts)
            assert why is None or why.do or name == "debugger_enable", (state, name, why)


def test_an_operators_rule_wins_over_the_built_in_one() -> None:
    declared = with_declarations({"visible_when": {"navigate": "false"}})
    assert declared["visible_when"]["navigate"] == "false"
    assert declared["visible_when"]["debugger_*"]["because"] == "needs a paused debugger"
    assert declared["facts"]["connections"] == 0


@pytest.mark.parametrize("part", ["facts", "on_success", "visible_when"])
def test_a_faulty_declaration_of_an_operator_is_reported(tmp_path: Path, part: str) -> None:
    """A key without value counts as missing; a list is a fault with its line, and the only one."""
    server = "servers: {{chrome: {{transport: browser, visibility: {{{}: {}}}}}}}"
    empty = parse(tmp_path / "maitred.yaml", server.format(part, ""))
    assert set(make_tables(empty, rules={})) == {"chrome"}
    with pytest.raises(
        ConfigError, match=rf"servers\.chrome\.visibility\.{part}: must be a mapping"
    ) as caught:
        make_tables(parse(tmp_path / "maitred.yaml", server.format(part, "[x]")), rules={})
    assert len(caught.value.faults) == 1


def test_a_call_that_names_another_connection_is_left_to_the_tool() -> None:
    """The facts are about the active one. What is about all connections has no such exception."""
    table = visibility_table()
    left = [name for name in TOOLS if table.leaves_to_server(name, {"connection_id": "other"})]
    always = ("chrome_connect", "chrome_launch", "chrome_list_connections")
    assert set(TOOLS) - set(left) == {*always, "chrome_switch_connection", "chrome_disconnect"}
    assert [name for name in TOOLS if table.leaves_to_server(name, {})] == []
