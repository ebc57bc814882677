"""Two gateways on one store: kept answers, cached answers, facts and limits of one count at the other."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from structlog.testing import capture_logs
from tests.support.valkey import ValkeyService
from tests.support.viewers import agent

from maitred.config.settings import AccessSettings, Catalog, Results, Settings, SharedSettings
from maitred.errors import BusyError, ConfigError, ResultNotFoundError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway
from maitred.wiring.storage import _DATABASES

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

Context = ServerRequestContext[Any, Any]
ANN, BEN = agent("ann"), agent("ben")
SOON_S = 30.0
DECLARED: dict[str, Any] = {
    "facts": {"draft": False},
    "on_success": {"begin": {"draft": True}},
    "visible_when": {"publish": "draft"},
}


class Paper:
    """A server whose answers a test can tell apart: `number` counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = anyio.Event()

    def make(self) -> Server[Any]:
        return Server("s", on_list_tools=self._tools, on_call_tool=self._call)

    async def _tools(self, _: Context, __: object) -> types.ListToolsResult:
        reads = types.ToolAnnotations(read_only_hint=True)
        named = {"number": reads, "long": reads, "wait": reads, "begin": None, "publish": None}
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, input_schema={"type": "object"}, annotations=hints)
                for name, hints in named.items()
            ]
        )

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.calls += 1
        if params.name == "wait":
            await self.gate.wait()
        text = "A line of a long answer.\n" * 5_000 if params.name == "long" else f"call {self.calls}"
        return types.CallToolResult(content=[types.TextContent(text=text)])


@pytest.fixture
def paper() -> Paper:
    return Paper()


@pytest.fixture(params=["postgres", "valkey"])
async def two(
    request: pytest.FixtureRequest, tmp_path: Path, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sequence[Gateway]]:
    """Two gateways, whose calls are limited to four a minute in a burst of four, and two at once."""
    monkeypatch.setenv("MAITRED_KEY", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
    spec = ServerSpec(name="s", transport="memory", cache_s=300, visibility=DECLARED)
    shared = SharedSettings()
    if request.param == "valkey":
        shared = SharedSettings(url=request.getfixturevalue("valkey_server").new_url())
    settings = Settings(
        source=tmp_path / "maitred.yaml",
        servers={"s": spec},
        catalog=Catalog(url=request.getfixturevalue("postgres").new_database()),
        shared=shared,
        results=Results(max_tokens=500),
        access=AccessSettings(calls_per_minute=1, burst=6, calls_at_once=2),
    )
    with anyio.fail_after(SOON_S * 2):
        async with AsyncExitStack() as stack:
            gateways = []
            for number in range(2):
                _DATABASES.clear()  # as in a process of its own
                made = open_gateway(settings, in_process={"s": paper.make()}, serves=True)
                gateways.append(await stack.enter_async_context(made))
                assert await gateways[number].settled(SOON_S)
            yield gateways


def tool(name: str) -> ToolCall:
    return ToolCall(name=f"s__{name}", arguments={})


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["content"][0]["text"])


async def test_a_long_answer_is_read_at_the_other_gateway(two: Sequence[Gateway]) -> None:
    """By its principal alone; as a resource and, for agents without resources, by a call."""
    one, other = two
    shown = text_of(await one.call(tool("long"), viewer=ANN, shorten=True))
    uri = next(word for word in shown.split() if word.startswith("maitred://result/"))
    page = await other.call(ToolCall(name=uri, arguments={}), viewer=ANN)
    assert text_of(page).startswith("A line of a long answer.")
    with pytest.raises(ResultNotFoundError):
        await other.call(ToolCall(name=uri, arguments={}), viewer=BEN)


async def test_an_answer_is_cached_for_both_until_a_call_changes_the_server(
    two: Sequence[Gateway], paper: Paper
) -> None:
    """The second gateway need not ask; after a change at either, both ask again."""
    one, other = two
    first = text_of(await one.call(tool("number"), viewer=ANN))
    assert text_of(await other.call(tool("number"), viewer=ANN)) == first
    assert paper.calls == 1
    await other.call(tool("begin"), viewer=ANN)
    again = text_of(await one.call(tool("number"), viewer=ANN))
    assert again == "call 3"
    assert text_of(await other.call(tool("number"), viewer=ANN)) == again


async def test_a_fact_that_a_call_changed_counts_at_the_other_gateway(two: Sequence[Gateway]) -> None:
    """At once for a call, and by a message for lists; for its principal alone."""
    one, other = two
    changed = anyio.Event()
    other.listen(lists=lambda: None, resource=lambda *_: None, visibility=changed.set)
    with pytest.raises(ToolWithheldError):
        await other.call(tool("publish"), viewer=ANN)
    await one.call(tool("begin"), viewer=ANN)
    await changed.wait()
    await other.call(tool("publish"), viewer=ANN)
    with pytest.raises(ToolWithheldError):
        await other.call(tool("publish"), viewer=BEN)


async def test_calls_at_all_gateways_count_against_one_limit(two: Sequence[Gateway], paper: Paper) -> None:
    """Six of eight in a row, and two at once, wherever they are made; another principal has its own."""
    one, other = two
    async with anyio.create_task_group() as tasks:
        for number, gateway in enumerate(two):
            call = ToolCall(name="s__wait", arguments={"number": number})  # else it would be one call
            tasks.start_soon(lambda gateway=gateway, call=call: gateway.call(call, viewer=ANN))  # type: ignore[misc]
        while paper.calls < 2:  # noqa: ASYNC110 - both are at the server
            await anyio.sleep(0.005)
        with pytest.raises(BusyError, match="2 of 2 calls of 'ann' are running"):
            await one.call(tool("begin"), viewer=ANN)
        await one.call(tool("begin"), viewer=BEN)
        paper.gate.set()
    for gateway in (one, other, one, other):
        await gateway.call(tool("begin"), viewer=ANN)
    for gateway in (one, other):
        with pytest.raises(BusyError, match="'ann' may call 1 times a minute; try again in"):
            await gateway.call(tool("begin"), viewer=ANN)


@pytest.mark.parametrize("two", ["valkey"], indirect=True)
async def test_without_the_store_each_gateway_has_its_part_of_the_limits(
    two: Sequence[Gateway], valkey_server: ValkeyService, paper: Paper
) -> None:
    """Calls go on, uncached, which the log says once; afterwards all is counted together again."""
    one, other = two
    for gateway in two:
        gateway.join_replicas("http://127.0.0.1:9")
    await until(lambda: len(one._replicas.membership.live) == len(other._replicas.membership.live) == 2)
    await one.call(tool("number"), viewer=ANN)
    valkey_server.stop()
    try:
        with capture_logs() as logs:
            for _ in range(3):  # a half of six
                await one.call(tool("number"), viewer=BEN)
            with pytest.raises(BusyError, match=r"'ben' may call 0\.5 times a minute"):
                await one.call(tool("number"), viewer=BEN)
            await other.call(tool("number"), viewer=BEN)
        assert paper.calls == 5
        assert "counts rate limits itself" in one.notices[0]
        said = [one for one in logs if one["event"] == "rate limits are counted by each gateway itself"]
        assert [one["part"] for one in said] == ["1/2", "1/2"]  # each gateway says it once
    finally:
        valkey_server.start()
    with capture_logs() as logs, anyio.fail_after(SOON_S):
        while not any("together again" in one["event"] for one in logs):
            with suppress(BusyError):  # until the first call that reaches the store again
                await one.call(tool("number"), viewer=agent("cid"))
            await anyio.sleep(0.02)


async def until(is_true: Callable[[], bool]) -> None:
    with anyio.fail_after(SOON_S):
        while not is_true():  # noqa: ASYNC110 - a table has no event for us
            await anyio.sleep(0.02)


async def test_a_store_without_a_catalog_that_is_shared_is_refused(tmp_path: Path) -> None:
    """The message says which setting is missing."""
    settings = Settings(source=tmp_path / "maitred.yaml", shared=SharedSettings(url="valkey://127.0.0.1:1/0"))
    with pytest.raises(ConfigError, match=r"shared\.url: .*catalog\.url"):
        async with open_gateway(settings, serves=True):
            pass
