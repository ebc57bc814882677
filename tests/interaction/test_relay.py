"""What passes through a call: results of any kind, metadata, progress, cancellation, errors, arguments."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.interaction.harness import (
    WAIT_S,
    Front,
    Json,
    call,
    direct,
    faulty,
    menu,
    raw,
    sdk_server,
    serve_command,
    text_of,
    write_settings,
)
from tests.interaction.relay_server import RESULTS
from tests.interaction.requirements import requirement
from tests.support import prefork
from tests.support.real_servers import SERVERS, require
from watchfiles import awatch

from maitred.gateway import LEDGER_KEY

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("relay")]

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
LEDGER = {"answer", "spent_today", "raw_list", "raw_today", "break_even"}
UNCUT: Json = {"max_tokens": 1_000_000}
RELAY = Path(__file__).with_name("relay_server.py")
KINDS = sorted(RESULTS.keys() - {"list"})
EVERYTHING: dict[str, Json] = {
    "get-tiny-image": {},
    "get-resource-links": {"count": 3},
    "get-resource-reference": {"resourceType": "Blob", "resourceId": 2},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-structured-content": {"location": "Chicago"},
}


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    [everything] = require("everything")

    def make(folder: Path) -> Path:
        servers = {
            "everything": everything.entry(folder),
            "relay": sdk_server(RELAY),
            "slow": faulty("slow-call", str(folder / "cancelled.txt")),
        }
        return write_settings(folder, servers, disclosure={"mode": "menu"}, results=UNCUT)

    return make


@pytest.fixture(scope="module")
async def relay(front: Front) -> AsyncIterator[Client]:
    """A client of the same era straight at the server `relay`."""
    program, *arguments = prefork.script(RELAY)
    async with direct(
        program, arguments, front.mode, log=front.folder / "direct.log", limit_s=None
    ) as client:
        yield client


@pytest.fixture(scope="module")
async def everything(front: Front) -> AsyncIterator[Client]:
    """A client of the same era straight at the server `everything`."""
    program = str(SERVERS["everything"].program)
    async with direct(program, [], front.mode, log=front.folder / "direct.log", limit_s=None) as client:
        yield client


# --- results ----------------------------------------------------------------------------------------------


@requirement("result:whole")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_of_any_kind_arrives_as_from_the_server_itself(
    client: Client, relay: Client, kind: str
) -> None:
    """Text, pictures, sound, links, resources, structure, errors: nothing is lost. Source: issue 2.

    `call_tool` adds its entry of the ledger; by its published name a tool answers with nothing of ours.
    """
    own = plain(await relay.call_tool(kind, {}))

    assert without_ledger(plain(await call(client, f"relay__{kind}"))) == own
    assert plain(await client.call_tool(f"relay__{kind}", {})) == own


@requirement("result:real")
@pytest.mark.real
@pytest.mark.parametrize("tool", EVERYTHING)
async def test_the_contents_of_a_real_server_arrive_as_from_itself(
    client: Client, everything: Client, tool: str
) -> None:
    """The reference server's image, links, resource, annotations and structure. Source: issue 2."""
    for _ in range(5):  # some of it tells the second in which it was made
        through = await call(client, f"everything__{tool}", EVERYTHING[tool])
        by_name = await client.call_tool(f"everything__{tool}", EVERYTHING[tool])
        own = plain(await everything.call_tool(tool, EVERYTHING[tool]))
        if without_ledger(plain(through)) == plain(by_name) == own:
            break

    assert without_ledger(plain(through)) == own
    assert plain(by_name) == own
    assert not through.is_error


@requirement("result:wire")
@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_on_the_wire_a_result_is_what_the_server_wrote(config: Path, *, modern: bool) -> None:
    """Keys that no model knows pass too; ours are the connection's and the ledger's. Source: issue 2."""
    async with gateway(config, modern=modern) as client:
        for kind in KINDS:
            through = await client.call("call_tool", {"name": f"relay__{kind}"})
            by_name = await client.call(f"relay__{kind}", {})

            for result in (without_ledger(through), by_name):
                meta = result.pop("_meta", {})
                wanted = {"isError": False, **RESULTS[kind]}
                wanted_meta = {k: v for k, v in wanted.pop("_meta", {}).items() if k != SERVER_INFO}

                assert result.pop("resultType", "complete") == "complete"
                assert result == wanted
                assert (meta.pop(SERVER_INFO)["name"] == "maitred") if modern else (SERVER_INFO not in meta)
                assert meta == wanted_meta


@requirement("result:list")
@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_structure_that_an_older_client_cannot_take_comes_as_text(
    config: Path, *, modern: bool
) -> None:
    """A list as structured content is of 2026-07-28; before it, only objects are. Source: specification."""
    async with gateway(config, modern=modern) as client:
        result = await client.call("call_tool", {"name": "relay__list"})

    if modern:
        assert result["structuredContent"] == [1, {"two": 2}]
    else:
        assert "structuredContent" not in result
        assert json.loads(result["content"][0]["text"]) == [1, {"two": 2}]


@requirement("meta:hygiene")
async def test_metadata_reaches_the_server_without_what_belongs_to_the_client(client: Client) -> None:
    """The server sees the caller's own keys, and the gateway as its client. Source: issue 2."""
    meta: Any = {"example.org/trace": {"id": 7}, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-01"}

    result = await call(client, "relay__saw", {"x": 1}, meta={**meta, "progressToken": "the client's"})

    saw = json.loads(text_of(result))
    assert saw["arguments"] == {"x": 1}
    assert {key: saw["meta"].get(key) for key in meta} == meta
    assert saw["meta"]["progressToken"] != "the client's"
    assert saw["meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "maitred"


# --- progress and cancellation ----------------------------------------------------------------------------


@requirement("progress:relayed")
@pytest.mark.real
@pytest.mark.parametrize("direct_name", [False, True], ids=["call_tool", "published-name"])
async def test_progress_of_a_long_call_reaches_the_client(client: Client, *, direct_name: bool) -> None:
    """Each notice of the server comes before the result, in order. Source: issue 2."""
    seen: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    name, arguments = "everything__trigger-long-running-operation", {"duration": 0.4, "steps": 4}
    if direct_name:
        result = await client.call_tool(name, arguments, progress_callback=on_progress)
    else:
        result = await call(client, name, arguments, progress_callback=on_progress)

    assert not result.is_error, text_of(result)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@requirement("progress:all")
async def test_no_notice_of_progress_is_lost_to_an_answer_right_behind_it(client: Client) -> None:
    """Twenty notices and the answer in one breath: all twenty arrive, in order. Source: issue 2."""
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    for _ in range(3):
        await call(client, "relay__hurrying", progress_callback=on_progress)

    assert seen == [*range(1, 21)] * 3


@requirement("progress:token")
@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_progress_carries_the_token_that_the_client_chose(config: Path, *, modern: bool) -> None:
    """The token on the wire is the client's own, not the gateway's. Source: specification, progress."""
    arguments = {"name": "slow__wait", "arguments": {"seconds": 0.1}}
    async with gateway(config, modern=modern) as client:
        result = await client.call("call_tool", arguments, meta={"progressToken": "mine-7"})
        quiet = await client.call("call_tool", arguments)

    notices = [n["params"] for n in client.notices if n["method"] == "notifications/progress"]
    assert result["content"][0]["text"] == quiet["content"][0]["text"] == "waited 0.1 s"
    assert [n["progress"] for n in notices] == [1, 2, 3, 4, 5]
    assert {n["progressToken"] for n in notices} == {"mine-7"}


@requirement("cancel:upstream")
async def test_a_call_that_the_client_cancels_is_cancelled_at_its_server(front: Front) -> None:
    """The server learns that nobody waits any more, and the connection lives on. Source: issue 2."""
    told = anyio.Path(front.folder / "cancelled.txt")
    await told.unlink(missing_ok=True)

    async with front.connect() as client:
        with anyio.CancelScope() as scope:

            async def on_progress(*_: object) -> None:
                scope.cancel()

            await call(client, "slow__wait", {"seconds": 20}, progress_callback=on_progress)
        assert scope.cancelled_caught
        await appears(told)
        result = await call(client, "slow__echo", {"text": "still here"})

    assert await told.read_text() == "cancelled"
    assert text_of(result) == "still here"


# --- errors and arguments ---------------------------------------------------------------------------------


@requirement("arguments:healing")
async def test_an_argument_error_answers_with_the_schema_that_lets_the_next_try_succeed(
    client: Client,
) -> None:
    """An agent that reads the schema in the error and fills it in is answered. Source: DESIGN 5, rule 2."""
    failed = await call(client, "everything__get-sum", {"a": "two", "c": 3})
    said = text_of(failed)

    assert failed.is_error
    assert "was not called" in said
    assert "a:" in said
    assert "'b'" in said or '"b"' in said
    schema = json.loads(said.partition("Its parameters: ")[2])
    assert all(schema["properties"][name]["type"] == "number" for name in schema["required"])
    filled = dict.fromkeys(schema["required"], 21)
    assert text_of(await call(client, "everything__get-sum", filled)) == "The sum of 21 and 21 is 42."


@requirement("arguments:text")
async def test_arguments_may_come_as_json_text(client: Client) -> None:
    """Some models send the inner arguments as a string; what does not parse is explained. Source: maitred."""
    result = await call(client, "everything__get-sum", '{"a": 2, "b": 40}')
    broken = await call(client, "everything__get-sum", '{"a": 2, "b"')

    assert text_of(result) == "The sum of 2 and 40 is 42."
    assert broken.is_error
    assert "`arguments`" in text_of(broken)


@requirement("name:raw")
async def test_a_name_that_only_one_server_has_needs_no_prefix(client: Client) -> None:
    """A unique raw name is enough; one on two servers is answered with both full names. Source: DESIGN 5."""
    unique = await call(client, "get-sum", {"a": 2, "b": 40})
    shared = await call(client, "echo", {"text": "which?"})

    assert text_of(unique) == "The sum of 2 and 40 is 42."
    assert shared.is_error
    assert "everything__echo" in text_of(shared)
    assert "slow__echo" in text_of(shared)


@requirement("name:direct")
async def test_a_published_name_can_be_called_without_call_tool(client: Client) -> None:
    """Undisclosed is not uncallable: `tools/call` takes every published name. Source: protocol notes, 11."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    result = await client.call_tool("everything__get-sum", {"a": 2, "b": 40})
    wrong = await client.call_tool("everything__get-sum", {"a": 2})

    assert "everything__get-sum" not in names
    assert text_of(result) == "The sum of 2 and 40 is 42."
    assert wrong.is_error
    assert "Its parameters: " in text_of(wrong)


@requirement("name:unknown")
async def test_an_unknown_name_in_tools_call_is_a_protocol_error(client: Client) -> None:
    """It is -32602, with the nearest names in its message. Source: specification, tools."""
    with pytest.raises(MCPError) as caught:
        await client.call_tool("everything__get-summ", {"a": 2, "b": 40})

    assert caught.value.code == -32602
    assert "everything__get-sum" in caught.value.message


@requirement("error:protocol")
async def test_a_protocol_error_of_a_server_keeps_its_code_and_data(client: Client) -> None:
    """Called by its name it stays a protocol error; in `call_tool` it is a result. Source: maitred."""
    with pytest.raises(MCPError) as caught:
        await client.call_tool("relay__refusing", {})
    through_menu = await call(client, "relay__refusing")

    assert (caught.value.code, caught.value.message) == (-32050, "the kettle is a teapot")
    assert caught.value.data == {"kind": "teapot"}
    assert through_menu.is_error
    assert "the kettle is a teapot" in text_of(through_menu)
    assert "relay" in text_of(through_menu)


@requirement("menu:arguments")
async def test_wrong_arguments_of_the_menu_itself_are_explained(client: Client) -> None:
    """An agent that misuses a meta-tool is told what it takes. Source: DESIGN 5, rule 2."""
    for name, arguments, expected in (
        ("search_tools", {}, "phrases"),
        ("tool_info", {"names": []}, "names"),
        ("call_tool", {"arguments": {}}, "name"),
        ("call_tool", {"name": "get-sum", "arguments": [1]}, "arguments"),
        ("tool_info", {"names": ["get-sum"], "detail": "long"}, "detail"),
    ):
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert f"`{expected}`" in text_of(result)
    assert "everything__echo" in await menu(client, "search_tools", phrases="echo a message back")


# --- helpers ----------------------------------------------------------------------------------------------


def plain(result: Any) -> Json:
    """A result as JSON, without the stamp of who answered."""
    dumped: Json = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    meta = {key: value for key, value in dumped.pop("_meta", {}).items() if key != SERVER_INFO}
    return dumped | ({"_meta": meta} if meta else {})


def without_ledger(result: Json) -> Json:
    """A result as JSON without what the gateway says of it, which it must have.

    That is the ledger's entry, whole and of plain figures, the id of the request, and whose data it is. A
    block that its server did not annotate says who should read it, and how much it matters.
    """
    content = result["content"]
    characters = sum(
        len(block.get("text") or block.get("resource", {}).get("text") or "") for block in content
    )
    ours = [
        {"audience": audience, "priority": 0.3 if characters > 2_000 else 0.7}
        for audience in (["assistant"], ["user", "assistant"])
    ]
    assert all("annotations" in block for block in content)
    result["content"] = [
        {key: value for key, value in block.items() if key != "annotations" or value not in ours}
        for block in content
    ]
    meta = dict(result["_meta"])
    entry = meta.pop(LEDGER_KEY)
    assert meta.pop("maitred/request")
    assert meta.pop("maitred/source")["trusted"] is False

    assert entry.keys() == LEDGER
    assert {key: type(value) for key, value in entry.items()} == dict.fromkeys(LEDGER, int) | {
        "break_even": bool
    }
    assert entry["answer"] == sum(len(block.get("text", "")) for block in result["content"]) // 4
    assert entry["raw_list"] > 0

    bare = {key: value for key, value in result.items() if key != "_meta"}
    return bare | ({"_meta": meta} if meta else {})


def gateway(config: Path, *, modern: bool) -> Any:
    """The gateway over standard streams, message by message."""
    return raw(serve_command(config), modern=modern, cwd=config.parent)


async def appears(path: anyio.Path) -> None:
    """Wait until a file is there; the watch looks again at short intervals, since it may miss the start."""
    with anyio.fail_after(WAIT_S):
        async for _ in awatch(str(path.parent), rust_timeout=100, yield_on_timeout=True):
            if await path.exists():
                return
