"""Each change of what makes sense is in the log, with its cause, and is counted in the metrics."""

from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict
from tests.gateway.debugging import ANN, DECLARED, call, debugging, gateway_of, hidden
from tests.support.debugger_server import DebuggerServer
from tests.support.gateway_http import over_http
from tests.support.waiting import eventually

from maitred.model.access import LOCAL_USER
from maitred.model.servers import State, Timeouts

pytestmark = pytest.mark.anyio


def changes(logged: list[EventDict]) -> list[EventDict]:
    return [line for line in logged if line["event"] == "visible tools changed"]


async def test_each_call_that_changes_what_makes_sense_is_logged_with_what_it_changed(tmp_path: Path) -> None:
    """A failed call, or one that changes no tool, leaves no line. Source: document 002, phase 2."""
    server = DebuggerServer()
    async with gateway_of(debugging(tmp_path), server) as gateway:
        with capture_logs() as logged:
            await call(gateway, "chrome_list_connections", ANN)
            for tool in ("chrome_connect", "debugger_enable", "debugger_pause"):
                await call(gateway, tool, ANN)

    reasons = [(line["server"], line["cause"], line["reason"], line["principal"]) for line in changes(logged)]
    assert reasons == [
        ("debugger", "call", f"a call of debugger__{tool}", "ann")
        for tool in ("chrome_connect", "debugger_enable", "debugger_pause")
    ]
    connected, _, paused = changes(logged)
    assert "query_elements" in connected["shown"]
    assert connected["hidden"] == []
    assert "debugger_step_over" in paused["shown"]
    assert "debugger_pause" in paused["hidden"]


async def test_other_rules_and_a_server_that_starts_again_are_causes_too(tmp_path: Path) -> None:
    """What the operator changes shows other tools; a new process has lost the state of the one before."""
    server, settings = DebuggerServer(), debugging(tmp_path)
    visible_when = {**DECLARED["visible_when"], "chrome_launch": "connections > 0"}
    spec = replace(settings.servers["debugger"], visibility={**DECLARED, "visible_when": visible_when})
    stricter = replace(settings, servers={"debugger": spec})
    again = replace(
        settings,
        servers={"debugger": replace(spec, timeouts=replace(spec.timeouts, call_s=spec.timeouts.call_s + 1))},
    )
    async with gateway_of(settings, server) as gateway:
        with capture_logs() as logged:
            await gateway.configure(stricter, viewer=LOCAL_USER)
            await call(gateway, "chrome_connect")
            await gateway.configure(again, viewer=LOCAL_USER)

    rules, called, restarted = changes(logged)
    assert (rules["cause"], rules["hidden"]) == ("rules", ["chrome_launch"])
    assert (called["cause"], restarted["cause"]) == ("call", "restart")
    assert restarted["hidden"] == called["shown"]


async def test_a_rule_that_reads_the_state_of_the_server_is_followed(tmp_path: Path) -> None:
    """The line says which state; here the server starts for the first call after its discovery."""
    server = DebuggerServer()
    visible_when = {**DECLARED["visible_when"], "chrome_launch": "server.state != 'ready'"}
    settings = debugging(tmp_path)
    spec = replace(
        settings.servers["debugger"],
        visibility={**DECLARED, "visible_when": visible_when},
        timeouts=Timeouts(idle_stop_s=0.2),
    )
    async with gateway_of(replace(settings, servers={"debugger": spec}), server) as gateway:
        await eventually(lambda: gateway.servers(LOCAL_USER)[0].health.state is State.IDLE)
        hidden(gateway)
        with capture_logs() as logged:
            await call(gateway, "chrome_list_connections")

    first = changes(logged)[0]
    assert (first["cause"], first["reason"], first["hidden"]) == (
        "state",
        "its server is ready",
        ["chrome_launch"],
    )


async def test_metrics_count_the_changes_by_server_and_cause(tmp_path: Path) -> None:
    """No tool, fact or principal is a label."""
    async with gateway_of(debugging(tmp_path), DebuggerServer()) as gateway, over_http(gateway) as url:
        await call(gateway, "chrome_connect")
        await call(gateway, "debugger_enable")
        async with httpx2.AsyncClient() as client:
            text = (await client.get(f"{url.removesuffix('/mcp')}/metrics")).text

    counted = [line for line in text.splitlines() if line.startswith("maitred_visibility_changes_total")]
    assert counted == ['maitred_visibility_changes_total{cause="call",server="debugger"} 2.0']
