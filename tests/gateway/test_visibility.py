"""Visibility in the gateway: a debugging server of 23 tools, by state, over MCP, for clients of both eras.

What is to be seen is told by the server's real state (`tests.disclosure.test_visibility`), not by the rules.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import anyio
import pytest
from tests.disclosure.test_visibility import expected_in
from tests.gateway.debugging import ANN, call, debugging, gateway_of, hidden, sensible, settings_with
from tests.gateway.rig import SOON_S, Upstream, opened
from tests.support.debugger_server import TOOLS, DebuggerServer
from tests.support.viewers import agent

from maitred.config.settings import MediationSettings
from maitred.errors import ConfigError, ToolWithheldError
from maitred.gateway import Detail
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.visibility.facts import Value
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio


# --- calls and searches -----------------------------------------------------------------------------------


async def test_calls_bring_tools_into_view_and_the_answer_names_them(tmp_path: Path) -> None:
    """3, 12, 15, 17 tools; a failed call changes nothing. Source: issue, "The 23-tool table"."""
    server = DebuggerServer()
    async with gateway_of(debugging(tmp_path), server) as gateway:
        counts, news = [23 - len(hidden(gateway))], []
        for tool in ("chrome_connect", "debugger_enable", "debugger_pause", "debugger_resume"):
            answer = await call(gateway, tool)
            news.append(answer["content"][-1]["text"])
            assert answer["_meta"]["maitred/available"] == news[-1].removeprefix("Now available: ").split(
                ", "
            )
            counts.append(23 - len(hidden(gateway)))

    assert counts == [3, 12, 15, 17, 15]
    assert "debugger__debugger_enable" in news[0]
    assert "debugger__debugger_get_call_stack" in news[2]
    assert news[3].endswith("debugger__fill_element, debugger__navigate")


async def test_a_call_that_opens_nothing_is_answered_as_the_server_wrote_it(tmp_path: Path) -> None:
    server = DebuggerServer()
    async with gateway_of(debugging(tmp_path), server) as gateway:
        answer = await call(gateway, "chrome_list_connections")

    assert len(answer["content"]) == 1
    assert "maitred/available" not in answer.get("_meta", {})


async def test_a_call_of_a_hidden_tool_says_why_and_what_to_do_and_reaches_no_server(tmp_path: Path) -> None:
    """In published names, so that the next call can be made of it. Source: issue, "Visibility"."""
    server = DebuggerServer()
    async with gateway_of(debugging(tmp_path), server) as gateway:
        with pytest.raises(ToolWithheldError, match="needs a paused debugger; call debugger__chrome_connect"):
            await call(gateway, "debugger_step_over")
        await call(gateway, "chrome_connect")
        await call(gateway, "debugger_enable")
        with pytest.raises(ToolWithheldError, match="paused debugger; call debugger__debugger_pause"):
            await call(gateway, "debugger_step_over")
        answer = await gateway.run_chain("await call_tool('debugger__debugger_step_over')", viewer=LOCAL_USER)

    assert "debugger__debugger_pause" in answer.text
    assert "debugger_step_over" not in server.made


async def test_search_and_info_show_a_hidden_tool_and_say_so(
    tmp_path: Path,
) -> None:
    server = DebuggerServer()
    async with gateway_of(debugging(tmp_path), server) as gateway:
        before = await gateway.search(["step over to the next line"], viewer=LOCAL_USER)
        brief = await gateway.info(["debugger__debugger_step_over"], viewer=LOCAL_USER)
        page = gateway.browse("server/debugger", viewer=LOCAL_USER)
        hot = gateway.hot(LOCAL_USER)
        for tool in ("chrome_connect", "debugger_enable", "debugger_pause"):
            await call(gateway, tool)
        after = await gateway.search(["step over to the next line"], viewer=LOCAL_USER)

    line = next(line for line in before.text.splitlines() if line.startswith("debugger__debugger_step_over"))
    assert "[not available now: it needs a paused debugger; call debugger__chrome_connect" in line
    assert "not now: needs a paused debugger" in brief.text
    assert page.text.count("[not available now]") == 20
    assert {summary.tool.key.name for summary in hot.tools} == expected_in(
        0, active=False, enabled=False, paused=False
    )
    line = next(line for line in after.text.splitlines() if line.startswith("debugger__debugger_step_over"))
    assert "not available now" not in line


async def test_principals_have_states_of_their_own(tmp_path: Path) -> None:
    """Facts are kept per principal. Source: issue, "Facts"."""
    server = DebuggerServer()
    async with gateway_of(debugging(tmp_path), server) as gateway:
        await call(gateway, "chrome_connect", ANN)
        counts = [len(hidden(gateway, viewer)) for viewer in (ANN, LOCAL_USER)]

    assert counts == [23 - 12, 23 - 3]


async def test_a_server_that_begins_anew_has_forgotten_its_state(tmp_path: Path) -> None:
    """Its process is another one, without the connections that the last one had."""
    server = DebuggerServer()
    settings = debugging(tmp_path)
    async with gateway_of(settings, server) as gateway:
        await call(gateway, "chrome_connect")
        server.connections.clear()
        server.active = ""
        spec = settings.servers["debugger"]
        slow = replace(spec.timeouts, call_s=spec.timeouts.call_s + 1)
        restarting = replace(settings, servers={"debugger": replace(spec, timeouts=slow)})
        await gateway.configure(restarting, viewer=LOCAL_USER)
        await call(gateway, "chrome_list_connections")
        assert hidden(gateway) == set(TOOLS) - sensible(server)


async def test_rules_change_while_the_gateway_runs(tmp_path: Path) -> None:
    """And without them every tool is there."""
    settings = debugging(tmp_path)
    async with gateway_of(settings, DebuggerServer()) as gateway:
        assert len(hidden(gateway)) == 20
        plain = {"debugger": replace(settings.servers["debugger"], visibility={})}
        await gateway.configure(replace(settings, servers=plain), viewer=LOCAL_USER)
        assert hidden(gateway) == set()


# --- other facts and rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("'admin' in roles", [True, False, False]),
        ("era == 'handshake'", [False, False, True]),
        ("client == 'editor'", [False, True, False]),
        ("server.healthy && server.state == 'ready'", [True, True, True]),
        ("time.hour >= 0 && time.weekday <= 7", [True, True, True]),
        ("time.hour > 23", [False, False, False]),
    ],
)
async def test_rules_read_who_asks_how_the_server_does_and_the_time(
    tmp_path: Path, rule: str, expected: list[bool]
) -> None:
    viewers = [
        LOCAL_USER,
        agent("ann", client="editor"),
        agent("ann", connection="1", era="handshake"),
    ]
    settings = settings_with(tmp_path, {"visible_when": {"deploy": rule}}, "s")
    async with opened(settings, Upstream("s", {"deploy": "Deploy it."})) as gateway:
        assert [not gateway._visibility.hidden(viewer) for viewer in viewers] == expected


async def test_a_rule_in_python_is_named_in_the_configuration(tmp_path: Path) -> None:
    """A program that embeds maitred gives it; what it answers is the reason. Source: issue, "Visibility"."""

    def office_hours(_tool: str, facts: Mapping[str, Value]) -> bool | str:
        return True if "admin" in str(facts["roles"]) else "is for administrators"

    settings = settings_with(tmp_path, {"visible_when": {"deploy": {"rule": "office_hours"}}}, "s")
    server = Upstream("s", {"deploy": "Deploy it."})
    with anyio.fail_after(SOON_S):
        async with open_gateway(
            settings, in_process={"s": server.sdk()}, rules={"office_hours": office_hours}
        ) as gateway:
            assert await gateway.settled(SOON_S)
            request = ToolCall(name="s__deploy", arguments={"path": "/"})
            assert (await gateway.call(request, viewer=LOCAL_USER))["content"][0]["text"] == "s/deploy"
            with pytest.raises(ToolWithheldError, match="it is for administrators"):
                await gateway.call(request, viewer=ANN)


async def test_faults_of_all_declarations_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    """Before anything is started, and a running gateway goes on as before."""
    wrong = {"facts": {"paused": False}, "visible_when": {"a": "pausd", "b": {"rule": "nobody"}}}
    settings = settings_with(tmp_path, wrong)
    settings.source.write_text(
        "servers:\n  debugger:\n    visibility:\n      facts:\n        paused: false\n"
        "      visible_when:\n        a: pausd\n        b:\n          rule: nobody\n"
    )
    with pytest.raises(ConfigError) as caught:
        async with gateway_of(settings, DebuggerServer()):
            pass
    async with gateway_of(debugging(tmp_path), DebuggerServer()) as gateway:
        with pytest.raises(ConfigError):
            await gateway.configure(settings, viewer=LOCAL_USER)
        assert len(hidden(gateway)) == 20

    first, second = caught.value.faults
    assert first.startswith("line 7: servers.debugger.visibility.visible_when.a: ")
    assert "did you mean `paused`" in first
    assert second.startswith("line 9: servers.debugger.visibility.visible_when.b.rule: ")


async def test_a_full_hour_is_told_where_rules_read_the_time(tmp_path: Path) -> None:
    """The clock stands just before the hour."""
    told = anyio.Event()
    settings = settings_with(tmp_path, {"visible_when": {"deploy": "time.hour == 10"}}, "s")
    async with opened(settings, Upstream("s", {"deploy": "Deploy it."})) as gateway:
        clock = iter([datetime(2026, 1, 5, 9, 59, 59, 990_000).astimezone()])
        visibility = gateway._visibility
        visibility._now = lambda: next(clock, datetime(2026, 1, 5, 10).astimezone())
        gateway.listen(lists=lambda: None, resource=lambda *_: None, visibility=told.set)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(visibility.keep_time)
            with anyio.fail_after(SOON_S):
                await told.wait()
            tasks.cancel_scope.cancel()
        assert not visibility.hidden(LOCAL_USER)


@pytest.mark.parametrize("detail", ["brief", "full"])
async def test_details_of_a_hidden_tool_have_the_whole_way_to_it(tmp_path: Path, detail: Detail) -> None:
    """Three calls are as long as a way may well be."""
    async with gateway_of(debugging(tmp_path), DebuggerServer()) as gateway:
        told = (await gateway.info(["debugger__debugger_step_over"], detail, viewer=LOCAL_USER)).text
    assert "debugger__debugger_enable, then debugger__debugger_pause" in told


async def test_what_an_override_hides_is_not_named_as_available(tmp_path: Path) -> None:
    """Whoever reads of it would call it, and be refused."""
    (tmp_path / "o.yaml").write_text("overrides: {debugger: {navigate: {hide: true}}}\n")
    settings = debugging(tmp_path, mediation=MediationSettings(overrides="o.yaml"))
    async with gateway_of(settings, DebuggerServer()) as gateway:
        answer = await call(gateway, "chrome_connect")

    assert len(answer["_meta"]["maitred/available"]) == 8
    assert "navigate" not in str(answer)
