"""Calls that wait for a person, with real clients of both eras over both transports, and by command."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio import to_thread
from mcp import Client
from mcp.client.session import ClientRequestContext
from tests.interaction.harness import Front, call, cli, menu, text_of, write_settings
from tests.support import prefork

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("held_calls")]

LEDGER = Path(__file__).parents[1] / "pairings" / "ledger_server.py"
RULES = [
    {"when": 'args.id.startsWith("held")', "because": "It is written down for ever"},
    {"when": 'args.id.startsWith("op")', "by": "operator"},
]
ERAS = ["handshake", "stateless"]


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        def entry(era: str) -> dict[str, Any]:
            program, *rest = prefork.script(LEDGER, era, str(folder / f"{era}.txt"))
            return {"command": program, "args": rest, "era": era}

        servers = {era: entry(era) for era in ERAS}
        return write_settings(folder, servers, held_calls={"rules": RULES})

    return make


class Person:
    """Answers questions of both the gateway and the servers."""

    def __init__(self, action: str = "accept") -> None:
        self.action = action
        self.asked: list[str] = []

    async def elicit(
        self, _: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params.message)
        if params.message == "Who are you?":
            return types.ElicitResult(action="accept", content={"name": "Ann"})
        return types.ElicitResult(action=self.action, content={} if self.action == "accept" else None)  # type: ignore[arg-type]


def recorded(config: Path, era: str, name: str) -> int:
    """How often a server carried out a call."""
    path = config.parent / f"{era}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return sum(line.startswith(f"record {name} ") for line in lines)


def name_of(front: Front, kind: str) -> str:
    return f"{kind}-{front.transport}-{front.mode}"


@pytest.mark.parametrize("era", ERAS)
async def test_the_person_at_the_client_is_asked_and_the_call_is_made_once(front: Front, era: str) -> None:
    """Directly and by `call_tool`; a question of the server comes after ours, and needs no approval."""
    person, name = Person(), name_of(front, "held")
    async with front.connect(elicitation_callback=person.elicit) as client:
        direct = await client.call_tool(f"{era}__record", {"id": f"{name}-1"})
        by_menu = await call(client, f"{era}__record", {"id": f"{name}-2"})
        asking = await call(client, f"{era}__record", {"id": f"{name}-3", "ask": True})
        free = await call(client, f"{era}__record", {"id": f"free-{name}"})
    for result in (direct, by_menu, asking, free):
        assert not result.is_error, text_of(result)
    assert [message.splitlines()[1] for message in person.asked if "Who" not in message] == [
        f'Arguments: {{"id": "{name}-1"}}',
        f'Arguments: {{"id": "{name}-2"}}',
        f'Arguments: {{"ask": true, "id": "{name}-3"}}',
    ]
    assert person.asked.count("Who are you?") == 1
    assert "It is written down for ever" in person.asked[0]
    assert [recorded(front.config, era, f"{name}-{number}") for number in (1, 2, 3)] == [1, 1, 1]


async def test_a_call_that_the_person_declines_is_not_made(front: Front) -> None:
    person, name = Person("decline"), name_of(front, "held-not")
    async with front.connect(elicitation_callback=person.elicit) as client:
        result = await call(client, "handshake__record", {"id": name})
        chain = f'await call_tool("handshake__record", {{"id": "{name}"}})'
        chained = await client.call_tool("call_tool_chain", {"code": chain})
    for refused in (result, chained):
        assert refused.is_error
        assert "was not made: a person refused it" in text_of(refused)
    assert len(person.asked) == 2
    assert recorded(front.config, "handshake", name) == 0


@pytest.mark.parametrize("rule", ["held", "op"])
async def test_an_operator_decides_by_the_commands_for_a_client_that_cannot_ask(
    front: Front, rule: str
) -> None:
    name = name_of(front, f"{rule}-cli")
    async with front.connect() as client:
        assert "recorded" in text_of(await held(client, front, name, "approve", "--yes"))
        assert recorded(front.config, "handshake", name) == 1
        refused = await held(client, front, name, "refuse")
        assert refused.is_error
        assert "a person refused it" in text_of(refused)
    assert recorded(front.config, "handshake", name) == 1


async def held(client: Client, front: Front, name: str, *decision: str) -> Any:
    """The result of a call that is held until a command decides."""
    came, results = anyio.Event(), list[Any]()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        if message and "waits for a person until" in message:
            came.set()

    async def make() -> None:
        results.append(await call(client, "handshake__record", {"id": name}, progress_callback=heard))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        await came.wait()
        listed = await to_thread.run_sync(cli, front.config, "approvals", "--json")
        [found] = [one for one in json.loads(listed.stdout)["calls"] if one["arguments"] == {"id": name}]
        word, *options = decision
        shown = await to_thread.run_sync(cli, front.config, "approvals")
        assert f'arguments: {{"id": "{name}"}}' in shown.stdout
        decide = partial(cli, None, "calls", word, "--config", str(front.config), found["id"], *options)
        done = await to_thread.run_sync(decide)
        assert done.returncode == 0, done.stderr
        assert found["id"] in done.stdout
    return results[0]


async def test_a_dry_run_names_the_calls_that_would_wait(front: Front) -> None:
    chain = 'await call_tool("handshake__record", {"id": "held-dry"})'
    async with front.connect() as client:
        text = await menu(client, "call_tool_chain", code=chain, dry_run=True)
    assert "handshake__record would wait for a person" in text
