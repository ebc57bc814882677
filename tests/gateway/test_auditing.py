"""What is written down of calls: who, what by its real name, what came of it, and when it is on the disk."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.catalog.databases import execute
from tests.gateway.rig import SCHEMA, Upstream, opened, settings_of
from tests.support.viewers import agent

from maitred.audit.log import AuditEntry
from maitred.audit.service import UNWRITTEN
from maitred.chains.saved_chain import parse_saved
from maitred.config.sections import saved_spec
from maitred.config.settings import SAVED, Audit, SavedEntry
from maitred.errors import (
    ArgumentsError,
    AuditError,
    MaitredError,
    NotAllowedError,
    ProtocolError,
    ToolNotFoundError,
    ToolWithheldError,
)
from maitred.gateway import Gateway
from maitred.meta_tools import menu
from maitred.meta_tools.base import MetaToolRequest
from maitred.model.access import LOCAL_USER, Grant, Viewer
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

ANN = agent("ann", client="editor", surface="mcp")
NO_LINES = "CREATE TRIGGER no_lines BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
NO_ENDS = (
    "CREATE TRIGGER no_ends BEFORE INSERT ON audit WHEN json_extract(NEW.body, '$.begun') > 0"
    " BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
)


class Desk(Upstream):
    """A server with tools that read, write, fail and wait; it counts what it was asked to do."""

    def __init__(self) -> None:
        super().__init__("desk", {}, resources={"desk://a": "A"}, prompts=["greet"])
        self.asked: list[str] = []
        self.waiting = anyio.Event()

    async def _list_tools(self, _: Any, __: object) -> types.ListToolsResult:
        reads = types.ToolAnnotations(read_only_hint=True)
        tools = [
            types.Tool(name=name, input_schema=SCHEMA, annotations=reads if name.startswith("read") else None)
            for name in ("read", "write", "fail", "refuse", "wait")
        ]
        return types.ListToolsResult(tools=tools)

    async def _call(self, _: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.asked.append(params.name)
        if params.name == "refuse":
            raise MCPError(-32000, "not today")
        if params.name == "wait":
            self.waiting.set()
            await anyio.sleep_forever()
        text = types.TextContent(text=f"did {params.name}")
        return types.CallToolResult(content=[text], is_error=params.name == "fail")


@asynccontextmanager
async def desk(folder: Path, **fields: Any) -> AsyncIterator[tuple[Gateway, Desk]]:
    server = Desk()
    async with opened(settings_of(folder, "desk", **fields), server) as gateway:
        yield gateway, server


async def call(gateway: Gateway, tool: str, viewer: Viewer = ANN, **more: Any) -> dict[str, Any]:
    return await gateway.call(
        ToolCall(name=f"desk__{tool}", arguments={"path": "/x"}, request_id="r1"), viewer=viewer, **more
    )


async def lines(gateway: Gateway) -> list[dict[str, Any]]:
    """All lines, oldest first, without what differs from run to run; what waits is written first."""
    await gateway._auditing.trail.record(AuditEntry(who="test", action="now"))
    read = [json.loads(line) async for line in gateway._auditing.lines(LOCAL_USER)]
    varying = ("prev", "digest", "at", "ms", "arguments_hash", "arguments_bytes")
    return [{k: v for k, v in line.items() if k not in varying} for line in read[:-1]]


def on_disk(folder: Path) -> list[Mapping[str, Any]]:
    """What is in the file now."""
    return [json.loads(body) for (body,) in execute(folder / "c.db", "SELECT body FROM audit ORDER BY seq")]


WHO = {"who": "ann", "client": "editor", "surface": "mcp"}
WHAT = {**WHO, "action": "call", "server": "desk", "request_id": "r1"}


async def test_what_may_change_something_has_a_line_before_and_one_after_it(tmp_path: Path) -> None:
    """Both are in the file when the answer leaves. Source: issue "Admission", audit."""
    async with desk(tmp_path) as (gateway, server):
        assert on_disk(tmp_path) == []
        await call(gateway, "write")
        assert [line["outcome"] for line in on_disk(tmp_path)] == ["begun", "ok"]
        await call(gateway, "fail")
        with pytest.raises(ProtocolError):
            await call(gateway, "refuse")
        assert len(on_disk(tmp_path)) == 6
        found = await lines(gateway)

    assert server.asked == ["write", "fail", "refuse"]
    told = {"published": "desk__write", "tool": "write"}
    assert found[:2] == [
        {**WHAT, **told, "seq": 1, "outcome": "begun"},
        {**WHAT, **told, "seq": 2, "outcome": "ok", "tokens": 2, "begun": 1},
    ]
    assert [(line["tool"], line["outcome"], line.get("begun", 0)) for line in found[2:]] == [
        ("fail", "begun", 0),
        ("fail", "tool_error", 3),
        ("refuse", "begun", 0),
        ("refuse", "protocol_error", 5),
    ]


async def test_what_only_reads_has_one_line_soon_after(tmp_path: Path) -> None:
    """A kept answer is told as such."""
    async with desk(tmp_path) as (gateway, server):
        await gateway.configure(
            replace(
                gateway.settings, servers={"desk": replace(gateway.settings.servers["desk"], cache_s=60)}
            ),
            viewer=LOCAL_USER,
        )
        await call(gateway, "read")
        await call(gateway, "read")
        found = await lines(gateway)

    assert server.asked == ["read"]
    assert [(line["outcome"], line.get("cached", False)) for line in found] == [("ok", False), ("ok", True)]


@pytest.mark.parametrize(
    ("name", "arguments", "how", "error"),
    [
        ("desk__nothing", {}, {}, ToolNotFoundError),
        ("desk__write", {"path": 1}, {}, ArgumentsError),
        ("desk__write", {"path": "/x"}, {"read_only": True}, ToolWithheldError),
        ("desk__write", {"path": "/x"}, {"viewer": Viewer(grant=Grant(principal="eve", role="viewer"))},
         NotAllowedError),
    ],
)  # fmt: skip
async def test_what_was_refused_is_written_down_with_the_code_of_the_reason(
    tmp_path: Path, name: str, arguments: dict[str, Any], how: dict[str, Any], error: type[MaitredError]
) -> None:
    """The server hears nothing of it; the error knows the id of the request."""
    async with desk(tmp_path) as (gateway, server):
        with pytest.raises(error) as caught:
            await gateway.call(ToolCall(name=name, arguments=arguments), **{"viewer": ANN, **how})
        [line] = await lines(gateway)

    assert server.asked == []
    assert (line["outcome"], line["published"]) == (error.code, name)
    assert line["request_id"] == caught.value.request_id != ""


async def test_a_call_that_is_given_up_is_written_down_as_cancelled(tmp_path: Path) -> None:
    """It had begun, so it may have taken effect."""
    async with desk(tmp_path) as (gateway, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, gateway, "wait")
            await server.waiting.wait()
            tasks.cancel_scope.cancel()
        found = await lines(gateway)

    assert [(line["outcome"], line.get("begun", 0)) for line in found] == [("begun", 0), ("cancelled", 1)]


# --- when it cannot be written ----------------------------------------------------------------------------


async def test_what_may_change_something_is_not_done_if_it_cannot_be_written_down(tmp_path: Path) -> None:
    """What only reads goes on, and is written once there is room; so is that the call was refused."""
    async with desk(tmp_path) as (gateway, server):
        execute(tmp_path / "c.db", NO_LINES)
        with pytest.raises(AuditError, match=r"was not made: .*disk is full"):
            await call(gateway, "write")
        await call(gateway, "read")
        execute(tmp_path / "c.db", "DROP TRIGGER no_lines")
        await call(gateway, "write")
        found = await lines(gateway)

    assert server.asked == ["read", "write"]
    assert [(line["tool"], line["outcome"]) for line in found] == [
        ("write", "audit_failed"),
        ("read", "ok"),
        ("write", "begun"),
        ("write", "ok"),
    ]


async def test_an_answer_says_that_its_outcome_could_not_be_written(tmp_path: Path) -> None:
    """It was done, and the line that it began is there; the outcome follows when there is room."""
    async with desk(tmp_path) as (gateway, _):
        execute(tmp_path / "c.db", NO_ENDS)
        answer = await call(gateway, "write")
        assert [line["outcome"] for line in on_disk(tmp_path)] == ["begun"]
        execute(tmp_path / "c.db", "DROP TRIGGER no_ends")
        found = await lines(gateway)

    assert [block["text"] for block in answer["content"]] == ["did write", UNWRITTEN]
    assert [line["outcome"] for line in found] == ["begun", "ok"]


async def test_nothing_is_written_down_where_that_is_turned_off(tmp_path: Path) -> None:
    """But that it was turned off, and on again."""
    async with desk(tmp_path) as (gateway, _):
        await gateway.configure(replace(gateway.settings, audit=Audit(enabled=False)), viewer=LOCAL_USER)
        await call(gateway, "write")
        await gateway._auditing.record(ANN, "approve", server="desk")
        await gateway.configure(replace(gateway.settings, audit=Audit()), viewer=LOCAL_USER)
        found = await lines(gateway)

    assert [(line["who"], line["action"], line["detail"]) for line in found] == [
        ("maitred", "audit", "turned off in the configuration"),
        ("maitred", "audit", "turned on in the configuration"),
    ]


async def test_arguments_are_kept_as_the_settings_say(tmp_path: Path) -> None:
    """As a hash, in full without secrets, or not at all; a change of the settings holds at once."""
    kept = []
    async with desk(tmp_path) as (gateway, _):
        for choice in ("hash", "full", "none"):
            await gateway.configure(
                replace(gateway.settings, audit=Audit(arguments=choice)), viewer=LOCAL_USER
            )
            arguments = {"path": "/x", "api_key": "hunter2"}
            await gateway.call(ToolCall(name="desk__write", arguments=arguments), viewer=ANN)
            line = on_disk(tmp_path)[-1]
            kept.append({key: line[key] for key in line if key.startswith("arguments")})
    digest = kept[0]["arguments_hash"]

    assert kept == [
        {"arguments_hash": digest, "arguments_bytes": 33},
        {"arguments_hash": digest, "arguments": {"path": "/x", "api_key": "***"}},
        {},
    ]


# --- chains, resources, prompts, persons ------------------------------------------------------------------


async def test_the_calls_of_a_chain_have_its_id_and_the_chain_a_line_of_its_own(tmp_path: Path) -> None:
    """All of them have the id of the request; the program is kept by its hash."""
    program = [{"tool": f"desk__{name}", "arguments": {"path": "/x"}} for name in ("read", "write", "gone")]
    async with desk(tmp_path) as (gateway, _):
        run = gateway.run_chain
        await run(json.dumps(program[:2]), viewer=ANN, request_id="r1")
        await run(json.dumps(program[2:]), viewer=ANN, request_id="r2")
        await run("x" * 2_000_000, viewer=ANN, request_id="r3")
        await run(json.dumps(program), viewer=ANN, dry_run=True)
        found = await lines(gateway)
    ids = {line["chain_id"] for line in found if line["request_id"] == "r1"}

    assert [(line["request_id"], line["action"], line.get("tool"), line["outcome"]) for line in found] == [
        ("r1", "call", "read", "ok"),
        ("r1", "call", "write", "begun"),
        ("r1", "call", "write", "ok"),
        ("r1", "chain", None, "ok"),
        ("r2", "call", None, "tool_not_found"),
        ("r2", "chain", None, "runtime"),
        ("r3", "chain", None, "size"),
    ]
    assert len(ids) == 1
    assert "" not in ids


async def test_a_saved_chain_is_a_call_whose_calls_have_the_same_request(tmp_path: Path) -> None:
    """It is called like a tool, and may change something."""
    text = 'description: Fetch.\ncode: |\n  await call_tool("desk__write", {"path": "/x"})\n'
    (tmp_path / "fetch.yaml").write_text(text, encoding="utf-8")
    entries = {"fetch": SavedEntry(file="fetch.yaml", hash=parse_saved("fetch", text).hash)}
    settings = settings_of(tmp_path, "desk", chains=entries)
    servers = {**settings.servers, SAVED: saved_spec(settings.source, entries)}
    async with opened(replace(settings, servers=servers), Desk()) as gateway:
        await gateway.call(ToolCall(name="chains__fetch", arguments={}, request_id="r9"), viewer=ANN)
        found = await lines(gateway)

    assert {line["request_id"] for line in found} == {"r9"}
    assert [(line["action"], line.get("server"), line["outcome"]) for line in found] == [
        ("call", "chains", "begun"),
        ("call", "desk", "begun"),
        ("call", "desk", "ok"),
        ("chain", None, "ok"),
        ("call", "chains", "ok"),
    ]


async def test_resources_and_prompts_are_written_down_by_the_names_of_their_server(tmp_path: Path) -> None:
    """Those that are not there as well."""
    async with desk(tmp_path) as (gateway, _):
        offers = gateway.offers(ANN)
        await offers.read(
            "maitred://resource/desk/desk://a", {"_meta": {"maitred/request": "r7"}}, viewer=ANN
        )
        await offers.get_prompt("desk__greet", {"name": "x"}, None, viewer=ANN)
        with pytest.raises(MaitredError):
            await offers.read("desk://b", None, viewer=ANN)
        found = await lines(gateway)

    assert [(line["action"], line.get("tool"), line["outcome"]) for line in found] == [
        ("read", "desk://a", "ok"),
        ("prompt", "greet", "ok"),
        ("read", None, "resource_not_found"),
    ]
    assert found[0]["request_id"] == "r7"


async def test_acts_of_persons_and_what_they_may_not_do_are_written_down(tmp_path: Path) -> None:
    """With the token by which they came."""
    bob = Viewer(grant=Grant(principal="bob", role="agent", id="t1"), surface="http")
    async with desk(tmp_path) as (gateway, _):
        await gateway._auditing.record(bob, "token.create", detail="for eve", arguments={"role": "admin"})
        assert on_disk(tmp_path)[-1]["action"] == "token.create"
        gateway._auditing.note(bob, "login")
        with pytest.raises(NotAllowedError):
            await gateway.decide("desk", "approve", viewer=bob)
        found = await lines(gateway)

    who = {"who": "bob", "token": "t1", "surface": "http"}
    assert found == [
        {**who, "seq": 1, "action": "token.create", "outcome": "ok", "detail": "for eve"},
        {**who, "seq": 2, "action": "login", "outcome": "ok"},
        {**who, "seq": 3, "action": "approve", "outcome": "not_allowed", "server": "desk"},
    ]


# --- what the caller is told ------------------------------------------------------------------------------


async def asked(gateway: Gateway, meta_tool: str, request_id: str, **arguments: Any) -> dict[str, Any]:
    """The `_meta` of the answer of a meta-tool."""
    call = ToolCall(name=meta_tool, arguments=arguments, meta={"maitred/request": request_id})
    request = MetaToolRequest(arguments=arguments, viewer=ANN, call=call)
    found: dict[str, Any] = (await menu.answer(gateway, meta_tool, request))["_meta"]
    return found


async def test_an_answer_tells_the_id_of_the_request_and_whose_data_it_is(tmp_path: Path) -> None:
    """The id that the request came with if it can be written down; also of a chain, and of a refusal."""
    chain = json.dumps([{"tool": "desk__read", "arguments": {"path": "/x"}}])
    async with desk(tmp_path) as (gateway, _):
        tool = {"name": "desk__read", "arguments": {"path": "/x"}}
        told = [
            await asked(gateway, "call_tool", "mine-1", **tool),
            await asked(gateway, "call_tool_chain", "mine-1", code=chain),
            await asked(gateway, "call_tool", "mine-1", name="desk__gone"),
            await asked(gateway, "call_tool", "no\nid", **tool),
        ]
        found = await lines(gateway)

    assert [meta["maitred/request"] for meta in told[:3]] == ["mine-1"] * 3
    assert told[0]["maitred/source"] == {"server": "desk", "trusted": False}
    assert told[1]["maitred/source"] == {"servers": ["desk"], "trusted": False}
    assert found[-1]["request_id"] == told[3]["maitred/request"]
    assert len(found[-1]["request_id"]) == 16


async def test_the_answer_of_a_tool_that_is_called_by_its_own_name_stays_as_it_came(tmp_path: Path) -> None:
    """Nothing of ours is put into what is only passed through."""
    async with desk(tmp_path) as (gateway, _):
        answer = await call(gateway, "write")

    assert list(answer.get("_meta", {})) == ["io.modelcontextprotocol/serverInfo"]
    assert answer["content"] == [{"type": "text", "text": "did write"}]


async def test_lines_that_are_too_old_are_dropped_as_the_settings_say(tmp_path: Path) -> None:
    """And the rest is still verified; 0 keeps all."""
    async with desk(tmp_path) as (gateway, _):
        await call(gateway, "write")
        execute(tmp_path / "c.db", "UPDATE audit SET at = '2000' WHERE seq = 1")
        await gateway.configure(replace(gateway.settings, audit=Audit(keep_days=0)), viewer=LOCAL_USER)
        assert await gateway._auditing.prune(LOCAL_USER) == 0
        await gateway.configure(replace(gateway.settings, audit=Audit(keep_days=1)), viewer=LOCAL_USER)
        ann = replace(ANN, grant=replace(ANN.grant, role="admin"))
        assert await gateway._auditing.prune(ann) == 1
        found = await lines(gateway)
        assert (await gateway.verify_audit(LOCAL_USER)).faults == ()

    assert [(line["who"], line["action"]) for line in found] == [("ann", "call"), ("ann", "prune")]
