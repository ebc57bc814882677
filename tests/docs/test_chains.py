"""The page and the guide on chains are true: their programs run and give what is written below them."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from tests.support.viewers import agent

from maitred.chains.answer import MAX_OUTPUT_SIZE
from maitred.chains.base import ChainLimits
from maitred.chains.saved_chain import parse_saved
from maitred.config.sections import saved_spec
from maitred.config.settings import SAVED, Catalog, Chain, SavedEntry, Settings
from maitred.disclosure.budget import estimate
from maitred.disclosure.chain_guide import GUIDE_TOKENS, chain_guide
from maitred.gateway import Gateway
from maitred.gateway.chains import DEFAULT_MS, LONGEST_MS
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp.resources import OwnResources
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "chains.md").read_text(encoding="utf-8")
SOON_S = 120.0
READER = agent("reader")
_BLOCK = re.compile(r"^```(python|json|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"(.*)^# -> (.*)\n", re.MULTILINE | re.DOTALL)
PROGRAMS = [text for kind, text in _BLOCK.findall(PAGE) if kind == "python"]
(SAVED_TEXT,) = [text for kind, text in _BLOCK.findall(PAGE) if kind == "yaml" and "code:" in text]
USERS = {name: {"name": name, "email": f"{name}@example.com"} for name in ("ada", "bob")}
ISSUES = [
    {"title": "Login fails", "days": 12, "owner": "ada"},
    {"title": "Slow search", "days": 9, "owner": "bob"},
    {"title": "Typing error", "days": 1, "owner": "nobody"},
]
TOOLS = {
    "tracker": {"list_issues": ["state"], "get_user": ["name"], "export": []},
    "time": {"now": ["zone"]},
}


def answered(tool: str, arguments: Mapping[str, Any]) -> Any:
    """What a tool answers: a mapping as structured content, a text as text, None as a failure."""
    match tool:
        case "list_issues":
            return {"issues": ISSUES}
        case "get_user":
            return USERS.get(arguments["name"])
        case "export":
            return json.dumps([{"id": 1, "state": "open"}])
        case _:
            return {"time": "12:00"}


def make_server(name: str) -> Server[Any]:
    listed = [
        types.Tool(
            name=tool,
            input_schema={
                "type": "object",
                "properties": {parameter: {"type": "string"} for parameter in parameters},
                "required": parameters,
            },
        )
        for tool, parameters in TOOLS[name].items()
    ]

    async def list_tools(_: ServerRequestContext[Any, Any], __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        _: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        found = answered(params.name, params.arguments or {})
        text = found if isinstance(found, str) else json.dumps(found)
        return types.CallToolResult(
            content=[types.TextContent(text=text)],
            structured_content=found if isinstance(found, dict) else None,
            is_error=found is None,
        )

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which one gateway serves all tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("chains")
    source = folder / "maitred.yaml"
    (folder / "late.yaml").write_text(SAVED_TEXT)
    saved = {"late_issues": SavedEntry(file="late.yaml", hash=parse_saved("late_issues", SAVED_TEXT).hash)}
    servers = {name: ServerSpec(name=name, transport="memory") for name in TOOLS}
    settings = Settings(
        source=source,
        servers={**servers, SAVED: saved_spec(source, saved)},
        chains=saved,
        catalog=Catalog(path=str(folder / "c.db")),
        chain=Chain(jail=False),
    )
    async with open_gateway(settings, in_process={name: make_server(name) for name in TOOLS}) as opened:
        assert await opened.settled(SOON_S)
        yield opened


# --- the page ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
async def test_every_program_on_the_page_gives_what_is_written_below_it(
    gateway: Gateway, program: str
) -> None:
    """A reader can believe the comment at the end."""
    example = _EXAMPLE.fullmatch(program)
    assert example, "its last line must tell what it gives"

    with anyio.fail_after(SOON_S):
        answer = await gateway.run_chain(example[1], viewer=agent("reader"))

    assert (answer.ok, answer.result) == (True, json.loads(example[2])), answer.text


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
async def test_every_program_on_the_page_passes_the_check(gateway: Gateway, program: str) -> None:
    """Whoever tries an example with dry_run is told that it is in order."""
    with anyio.fail_after(SOON_S):
        answer = await gateway.run_chain(program.partition("# -> ")[0], viewer=agent("reader"), dry_run=True)

    assert answer.ok, answer.text


async def test_the_list_of_calls_on_the_page_gives_a_list_of_results(gateway: Gateway) -> None:
    (calls,) = [text for kind, text in _BLOCK.findall(PAGE) if kind == "json"]

    answer = await gateway.run_chain(calls, viewer=agent("reader"))

    assert answer.result == list(USERS.values())


@pytest.mark.parametrize(
    ("given", "titles"), [({}, ["Login fails", "Slow search"]), ({"days": 10}, ["Login fails"])]
)
async def test_the_saved_chain_on_the_page_is_a_tool(
    gateway: Gateway, given: Mapping[str, Any], titles: Sequence[str]
) -> None:
    """With its default, and with an argument; for a client, and for a program."""
    call = ToolCall(name="chains__late_issues", arguments=given)
    outside = await gateway.call(call, viewer=agent("reader"))
    code = f"import chains\nawait chains.late_issues(**{given!r})"
    inside = await gateway.run_chain(code, viewer=agent("reader"))

    assert outside["structuredContent"]["result"] == titles
    assert inside.result == titles


def test_the_page_states_the_true_limits() -> None:
    limits, chain = ChainLimits(), Chain()
    table = PAGE.split("\n## Limits\n")[1].split("\n## ")[0]
    stated = [
        f"{DEFAULT_MS / 1_000:g} s, at most {LONGEST_MS / 1_000:g} s",
        f"{chain.cpu_s:g} s | `chain.cpu_s`",
        f"{chain.memory_bytes:,} bytes | `chain.memory_bytes`",
        f"{chain.max_calls} | `chain.max_calls`",
        f"{chain.max_in_flight} | `chain.max_in_flight`",
        f"{chain.processes} | `chain.processes`",
        f"source | {limits.source_bytes:,} bytes",
        f"{limits.call_bytes:,} bytes, {limits.nodes:,} values, {limits.depth} levels",
        f"{limits.total_bytes:,} bytes",
        f"{MAX_OUTPUT_SIZE:,} characters",
    ]
    assert [text for text in stated if text not in table] == []
    assert f"last {limits.log_bytes:,} bytes" in PAGE


async def test_the_page_names_every_field_of_an_answer(gateway: Gateway) -> None:
    answer = await gateway.run_chain("1", viewer=agent("reader"))

    assert {field for field in answer.to_json() if f"`{field}`" not in PAGE} == set()


@pytest.mark.parametrize(
    "program",
    [
        "class A(ValueError): pass",
        "async def f(): yield 1",
        "class A:\n    def f(self): yield 1",
        "import asyncio\nasync def f(): pass\nawait asyncio.wait_for(f(), 1)",
        "from json import *",
        "import enum",
        "import logging",
        "import pprint",
        "import requests",
        "import os\nos.listdir('/')",
    ],
)
async def test_what_the_page_says_is_not_there_is_refused(gateway: Gateway, program: str) -> None:
    """Nobody finds out by the page that something is missing which is there by now."""
    with anyio.fail_after(SOON_S):
        answer = await gateway.run_chain(program, viewer=agent("reader"))

    assert not answer.ok


# --- the guide --------------------------------------------------------------------------------------------


async def test_the_guide_is_listed_and_read_as_markdown_with_the_present_modules(gateway: Gateway) -> None:
    own = OwnResources(gateway)

    listed = [entry for entry in own.listed(READER) if entry["uri"] == "maitred://chains/guide"]
    content = await own.read("maitred://chains/guide", READER)

    assert content is not None
    assert [entry["mimeType"] for entry in listed] == [content.mime_type] == ["text/markdown"]
    assert listed[0]["annotations"] == content.annotations
    assert content.text.endswith("Modules at present: chains, time_ (time), tracker.\n")


async def test_the_program_of_the_guide_runs(gateway: Gateway) -> None:
    (program,) = [text for kind, text in _BLOCK.findall(gateway.chain_guide(LOCAL_USER)) if kind == "python"]

    with anyio.fail_after(SOON_S):
        answer = await gateway.run_chain(program, viewer=agent("reader"))

    assert answer.ok, answer.text
    assert answer.result[:2] == ["ada@example.com", "bob@example.com"]


@pytest.mark.parametrize("servers", [0, 1, 191, 5_000])
def test_the_guide_keeps_to_its_budget_however_many_servers_there_are(servers: int) -> None:
    modules = {f"server_number_{i}": f"server-number-{i}" for i in range(servers)}

    text = chain_guide(modules, calls=100, in_flight=8, cpu_s=10.0)

    assert estimate(text) <= GUIDE_TOKENS
    assert (" more: see `maitred://servers`" in text) == (servers > 100)
