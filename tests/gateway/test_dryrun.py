"""A dry run finds the faults that a run would have, as far as they can be seen, and says where they are."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel import Server
from tests.execution.chain.attacks import ALL, filled
from tests.gateway.desk import at_desk, keeping
from tests.gateway.rig import Upstream, opened, settings_of
from tests.gateway.test_saved import CODE, FILES, PARAMETERS, saved_in, text_of
from tests.support.viewers import agent

from maitred.catalog.snapshot import Change, Snapshot
from maitred.chains.answer import ChainAnswer
from maitred.config.settings import Disclosure
from maitred.gateway import Gateway
from maitred.gateway.dry_run import _written
from maitred.model.access import LOCAL_USER
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio


async def dry(gateway: Gateway, code: str) -> ChainAnswer:
    return await gateway.run_chain(code, viewer=agent("ann"), dry_run=True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('await call_tool("desk__raed", {"path": "/"})', "Did you mean desk__read"),
        ('await call_tool("desk__read", {"path": 7})', "7 is not of type"),
        ('await call_tool("desk__read")', '"path" is a required property'),
        ('await call_tool("desk__read", {"paht": where})', "'path' is a required property"),
        ('await call_tool(name="desk__read", arguments={})', "is a required property"),
        ("await desk.raed(path='/')", "Did you mean `read`"),
        ("await desk.read(paht='/')", "It takes: async def read(path: str)"),
        ('await call_tool("desk__read", {"path": {1, 2}})', "[1,2] is not of type"),
        (
            'await call_tool("desk__read", {"path": b"a"})',
            "cannot be sent: it holds a value of the type bytes",
        ),
        ("return undefined", "undefined"),
        ("import dsek", "Did you mean `desk`"),
    ],
)
async def test_a_fault_is_found_with_its_line_and_what_was_meant(
    tmp_path: Path, line: str, said: str
) -> None:
    """Whether a tool is called by its name or through a module."""
    code = f"import desk\nwhere = '/'\n{line}\n"
    async with at_desk(keeping(tmp_path)) as (gateway, desk):
        answer = await dry(gateway, code)

        assert desk.made == {}
    assert answer.fault is not None
    assert said in answer.text
    assert answer.fault.line == 3


@pytest.mark.parametrize(
    "code",
    [
        'name = "desk__read"\nawait call_tool(name, {"path": "/"})',
        'for path in ["/"]:\n    await call_tool("desk__read", {"path": path})',
        'rest = {"path": "/"}\nawait call_tool("desk__read", {**rest})',
        'async def call_tool(name):\n    return name\n\nawait call_tool("nothing")',
        'await call_tool("desk.read", {"path": "/"})',
        'given = {"arguments": {"path": "/"}}\nawait call_tool("desk__read", **given)',
        'import re\nre.search("a", "b").group(1)',
    ],
    ids=["name", "value", "rest", "own", "dot", "stars", "none"],
)
async def test_what_cannot_be_known_before_is_no_fault(tmp_path: Path, code: str) -> None:
    """A check that refuses a right program is worse than none."""
    async with at_desk(keeping(tmp_path)) as (gateway, _):
        assert (await dry(gateway, code)).ok


async def test_every_fault_of_a_program_is_listed_in_the_order_of_its_lines(tmp_path: Path) -> None:
    """Those that the engine finds among those that the catalog tells."""
    code = 'await call_tool("desk__raed")\nundefined\nawait call_tool("desk__read", {})\n'
    async with at_desk(keeping(tmp_path)) as (gateway, _):
        answer = await dry(gateway, code)

    places = [answer.text.index(f"in line {line}") for line in (1, 2, 3)]
    assert places == sorted(places)


async def test_a_list_of_calls_says_which_are_wrong_and_stops_after_ten(tmp_path: Path) -> None:
    """A list of a thousand wrong names is not worth a thousand searches."""
    wrong = [{"tool": "desk__read", "arguments": {"path": "/"}}]
    wrong += [{"tool": f"desk__no_{n}", "arguments": {}} for n in range(60)]
    async with at_desk(keeping(tmp_path)) as (gateway, _):
        answer = await dry(gateway, json.dumps(wrong))
        many = await dry(gateway, json.dumps(wrong * 2))

    assert "Call 2 of 61: " in answer.text
    assert "Call 11 of 61: " in answer.text
    assert "Call 12 of 61: " not in answer.text
    assert "A chain may make 100 calls; here are 122." in many.text


async def test_a_saved_chain_that_changed_is_a_fault(tmp_path: Path) -> None:
    """A run would be refused."""
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        (tmp_path / "fetch.yaml").write_text(text_of("1", PARAMETERS))
        answer = await dry(gateway, '{"tool": "chains__fetch", "arguments": {"where": "/"}}')

    assert "changed since it was reviewed" in answer.text


@asynccontextmanager
async def catalog_as_it_is(gateway: Gateway) -> AsyncIterator[None]:
    """The catalog, which no discovery changes until the context is left."""
    held, done = anyio.Event(), anyio.Event()

    async def plan(_: Snapshot) -> Change:
        held.set()
        await done.wait()
        return Change()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway._context.catalog.change, plan)
        await held.wait()
        yield
        done.set()


async def test_a_chain_that_is_saved_no_more_is_a_fault(tmp_path: Path) -> None:
    """Also while the catalog still lists it: a run would be refused, in the same words."""
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS), other=text_of("1"))
    code = '{"tool": "chains__fetch", "arguments": {"where": "/"}}'
    async with opened(settings, Upstream("files", FILES)) as gateway:
        await gateway.configure(saved_in(tmp_path, other=text_of("1")), viewer=LOCAL_USER)
        async with catalog_as_it_is(gateway):
            checked = await dry(gateway, code)
            ran = await gateway.run_chain(code, viewer=agent("ann"))

    assert "no chain is saved under this name" in checked.text
    assert checked.fault is not None
    assert ran.fault is not None
    assert checked.fault.message == ran.fault.message


async def test_a_check_has_the_time_of_a_run(tmp_path: Path) -> None:
    """A server that takes long to start does not hold it up for longer."""
    settings = settings_of(
        tmp_path, "files", "slow", disclosure=Disclosure(mode="menu", first_list_wait_s=60)
    )
    gate = anyio.Event()

    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        await gate.wait()
        return types.ListToolsResult(tools=[])

    servers = {"files": Upstream("files", FILES).sdk(), "slow": Server("slow", on_list_tools=list_tools)}
    async with open_gateway(settings, in_process=servers) as gateway:
        with anyio.fail_after(120):
            calls = json.dumps([{"tool": "slow__a"}, {"tool": "slow__b"}])
            answer = await gateway.run_chain(calls, viewer=agent("ann"), timeout_ms=200, dry_run=True)
        gate.set()

    assert answer.fault is not None
    assert answer.fault.kind == "timeout"


async def test_a_program_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """In every form."""
    async with at_desk(keeping(tmp_path)) as (gateway, _):
        for code in ("#" * 64_001, "é" * 32_001, '["' + "a" * 64_000 + '"]'):
            for dry_run in (False, True):
                with anyio.fail_after(120):
                    answer = await gateway.run_chain(code, viewer=agent("ann"), dry_run=dry_run)
                assert answer.fault is not None
                assert answer.fault.kind == "size"


def test_no_attack_stops_the_reading_of_calls() -> None:
    """It happens in the gateway itself; what cannot be read has no calls."""
    for attacks in ALL.values():
        for code in attacks.values():
            for call in _written(filled(code, file="f", port=1, secret="s")):  # no secret
                assert isinstance(call.tool, str)
    assert [call.tool for call in _written('await call_tool("a__b")')] == ["a__b"]
