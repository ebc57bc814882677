"""Resources, prompts and notices of the surface in process: pages, limits, and what servers do wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.gateway import Gateway, Offer
from maitred.model.access import LOCAL_USER
from maitred.model.resources import OfferKey
from maitred.model.servers import ServerSpec
from maitred.surfaces.mcp.completions import limit_values, matching_values
from maitred.surfaces.mcp.list_pages import PROMPTS, RESOURCES
from maitred.surfaces.mcp.list_tracker import ListTracker
from maitred.surfaces.mcp.offers import acceptable, page_at
from maitred.surfaces.mcp.result_shape import for_revision
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
COUNT = 230
HANDSHAKE = "2025-11-25"
Context = ServerRequestContext[Any, Any]
both_eras = pytest.mark.parametrize("era", ["legacy", LATEST_MODERN_VERSION])


class Upstream:
    """A server with many of everything, which knows who is subscribed."""

    def __init__(self) -> None:
        self.subscribed: list[str] = []
        self.changed = anyio.Event()

    async def tools(self, _: Context, __: object) -> types.ListToolsResult:
        about = "Does what its number says, as often as it is asked to, and then a little more than that."
        tools = [
            types.Tool(name=f"tool{n:03}", description=about, input_schema={"type": "object"})
            for n in range(COUNT)
        ]
        return types.ListToolsResult(tools=tools)

    async def call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=params.name)])

    async def resources(self, _: Context, __: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[types.Resource(uri=f"r://{n:03}/é", name=f"r {n}") for n in range(COUNT)]
        )

    async def templates(self, _: Context, __: object) -> types.ListResourceTemplatesResult:
        made = [types.ResourceTemplate(uri_template=f"t://{n:03}/{{x}}", name=f"t {n}") for n in range(COUNT)]
        return types.ListResourceTemplatesResult(resource_templates=made)

    async def prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=f"p{n:03}") for n in range(COUNT)])

    async def read(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        raise MCPError(-32050, f"no {params.uri} today", {"later": True})

    async def get(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        raise MCPError(-32050, f"no {params.name} today", {"later": True})

    async def subscribe(self, _: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._note([*self.subscribed, str(params.uri)])
        return types.EmptyResult()

    async def unsubscribe(self, _: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._note([uri for uri in self.subscribed if uri != str(params.uri)])
        return types.EmptyResult()

    def _note(self, subscribed: list[str]) -> None:
        self.subscribed = subscribed
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, *uris: str) -> None:
        """Wait until these resources and no others are subscribed."""
        with anyio.fail_after(SOON_S):
            while self.subscribed != list(uris):
                await self.changed.wait()

    def server(self) -> Server[Any]:
        return Server(
            "s",
            on_list_tools=self.tools,
            on_call_tool=self.call,
            on_list_resources=self.resources,
            on_list_resource_templates=self.templates,
            on_list_prompts=self.prompts,
            on_read_resource=self.read,
            on_get_prompt=self.get,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
        )


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> AsyncIterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("offering")
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"s": ServerSpec(name="s", transport="memory", era="handshake")},
        disclosure=Disclosure(mode="menu"),
        catalog=Catalog(path=str(folder / "c.db")),
    )
    async with open_gateway(settings, in_process={"s": upstream.server()}) as gateway:
        assert await gateway.settled(SOON_S)
        yield gateway


@pytest.fixture(scope="module")
def surface(gateway: Gateway) -> McpSurface:
    return McpSurface(gateway)


@asynccontextmanager
async def client_of(surface: McpSurface, era: str) -> AsyncIterator[Client]:
    with anyio.fail_after(SOON_S):
        async with Client(surface.server, mode=era) as client:
            yield client


# --- pages ------------------------------------------------------------------------------------------------


@both_eras
@pytest.mark.parametrize("kind", ["resources", "resource_templates", "prompts"])
async def test_lists_come_in_pages_of_a_hundred_our_own_entries_first(
    surface: McpSurface, era: str, kind: str
) -> None:
    """Every entry once, those of servers by published name; a foreign cursor is refused."""
    pages: list[list[Any]] = []
    cursor = None
    async with client_of(surface, era) as client:
        while not pages or cursor:
            page: Any = await getattr(client, f"list_{kind}")(cursor=cursor)
            pages.append(getattr(page, kind))
            cursor = page.next_cursor
        with pytest.raises(MCPError, match="list from the start") as caught:
            await getattr(client, f"list_{kind}")(cursor="%%%")

    key = {"resources": "uri", "resource_templates": "uri_template", "prompts": "name"}[kind]
    names = [getattr(entry, key) for page in pages for entry in page]
    own = [name for name in names if not name.startswith(("maitred://resource/", "s__"))]
    assert [len(page) for page in pages] == [100, 100, COUNT + len(own) - 200]
    assert names[: len(own)] == own
    assert names[len(own) :] == sorted(set(names[len(own) :]))
    assert caught.value.code == -32602


@both_eras
async def test_all_tools_are_read_in_pages_that_name_the_next(surface: McpSurface, era: str) -> None:
    """Each within the 4,000 tokens of a page, each tool once, by name, below the beginning of its name."""
    uri, names, pages = "maitred://tools", [], 0
    async with client_of(surface, era) as client:
        while uri:
            [content] = (await client.read_resource(uri)).contents
            assert isinstance(content, types.TextResourceContents)
            assert count_tokens([content.text])[0] <= 4_000
            *lines, last = content.text.splitlines()
            uri = last.partition("read ")[2].rstrip(")") if last.startswith("(") else ""
            head, *rest = lines if uri else [*lines, last]
            assert head == "s__"
            names += [head + line.partition(":")[0] for line in rest]
            pages += 1

    assert names == [f"s__tool{n:03}" for n in range(COUNT)]


@both_eras
async def test_the_pages_of_a_server_lead_on_by_their_last_line(surface: McpSurface, era: str) -> None:
    """The URI in it is the next page as it stands."""
    async with client_of(surface, era) as client:
        [first] = (await client.read_resource("maitred://server/s/tools")).contents
        uri = getattr(first, "text", "").splitlines()[-1].partition("read ")[2].rstrip(")")
        [second] = (await client.read_resource(uri)).contents

    assert uri.startswith("maitred://server/s/tools?cursor=")
    assert not set(getattr(second, "text", "").splitlines()) & set(getattr(first, "text", "").splitlines())


@pytest.mark.parametrize(
    "uri",
    ["maitred://overview?cursor=a", "maitred://tools?page=2", "maitred://tools?cursor=", "maitred://tool/"],
)
@both_eras
async def test_a_uri_that_asks_for_what_is_not_there_is_refused(
    surface: McpSurface, era: str, uri: str
) -> None:
    """Neither a page that nobody gave nor a name that is empty is guessed at."""
    async with client_of(surface, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)

    assert caught.value.error.data == {"uri": uri}


# --- errors and definitions -------------------------------------------------------------------------------


@both_eras
async def test_an_error_of_a_server_keeps_its_code_and_data(surface: McpSurface, era: str) -> None:
    """Only that there is no such resource is said in the client's own code."""
    async with client_of(surface, era) as client:
        with pytest.raises(MCPError, match="r://001 today") as read:
            await client.read_resource("maitred://resource/s/r://001")
        with pytest.raises(MCPError, match="p001 today") as got:
            await client.get_prompt("s__p001")

    for caught in (read, got):
        assert (caught.value.code, caught.value.error.data) == (-32050, {"later": True})


def test_a_definition_loses_what_its_revision_forbids_and_keeps_the_rest() -> None:
    """One malformed definition must not spoil the whole list."""
    given = {"uri": "a:b", "name": "n", "title": "T", "icons": "none", "annotations": {"priority": "high"}}
    prompt = {"name": "p", "arguments": [{"no": "name"}], "description": "d"}

    assert acceptable(RESOURCES, given, HANDSHAKE) == {"uri": "a:b", "name": "n", "title": "T"}
    assert acceptable(PROMPTS, prompt, HANDSHAKE) == {"name": "p"}


def test_a_question_of_a_server_reaches_only_a_client_that_can_answer_it() -> None:
    """One that shook hands is told why it gets nothing."""
    question = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}

    assert for_revision("prompts/get", LATEST_MODERN_VERSION, question, {"ttlMs": 0}) == question
    with pytest.raises(MCPError, match="asks for input"):
        for_revision("prompts/get", HANDSHAKE, question, {})


@pytest.mark.parametrize("version", [HANDSHAKE, LATEST_MODERN_VERSION])
def test_an_answer_that_the_protocol_does_not_allow_is_an_error_that_says_so(version: str) -> None:
    """A client could not read it; what belongs to the server's own connection is left out of one it can."""
    good = {"messages": [], "_meta": {"mine": 1, "io.modelcontextprotocol/serverInfo": {"name": "inner"}}}

    assert for_revision("prompts/get", version, good, {})["_meta"] == {"mine": 1}
    with pytest.raises(MCPError, match="prompts/get with what the protocol does not allow"):
        for_revision("prompts/get", version, {"messages": "none"}, {})


def test_a_cursor_holds_any_uri() -> None:
    """URIs of servers are not bound to ASCII."""
    key = [OfferKey(server="s", kind="resource", key=f"é:{n:03}") for n in range(150)]
    offers = [Offer(key=one, name=one.key, definition={"uri": "x", "name": "n"}) for one in key]

    first = page_at(RESOURCES, [], offers, None, HANDSHAKE)
    second = page_at(RESOURCES, [], offers, first["nextCursor"], HANDSHAKE)

    assert [entry["uri"] for entry in first["resources"] + second["resources"]] == [o.name for o in offers]
    assert "nextCursor" not in second


# --- completions ------------------------------------------------------------------------------------------


def test_what_begins_as_typed_comes_before_what_contains_it() -> None:
    """At most a hundred values, with how many there are."""
    some = matching_values(["data__get", "get_data", "Data__put", "other"], "DATA")["completion"]
    many = matching_values([f"tool{n}" for n in range(150)], "tool")["completion"]

    assert some == {"values": ["data__get", "Data__put", "get_data"], "total": 3, "hasMore": False}
    assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 150, True)


@pytest.mark.parametrize("answer", [{}, {"completion": 5}, {"completion": {"values": "abc"}}])
def test_a_completion_that_is_none_has_no_values(answer: dict[str, Any]) -> None:
    """A client would refuse the whole answer of such a server."""
    assert limit_values(answer)["completion"]["values"] == []


def test_a_servers_completion_is_bounded_and_says_that_there_is_more() -> None:
    """The protocol allows a hundred values."""
    given = {"completion": {"values": ["v"] * 120 + [5], "total": 500}}

    assert limit_values(given)["completion"] == {"values": ["v"] * 100, "hasMore": True, "total": 500}


# --- notices ----------------------------------------------------------------------------------------------


@both_eras
async def test_who_leaves_is_unsubscribed_at_the_server(
    surface: McpSurface, upstream: Upstream, era: str
) -> None:
    """Whether it ended its stream or just went away; the other's subscription stays until it goes too."""
    first, second = "r://001/é", "r://002/é"
    async with client_of(surface, "legacy") as other:
        await other.subscribe_resource(f"maitred://resource/s/{first}")
        await upstream.until(first)
        async with client_of(surface, era) as client:
            uris = [f"maitred://resource/s/{uri}" for uri in (first, second)]
            if era == "legacy":
                for uri in uris:
                    await client.subscribe_resource(uri)
                await upstream.until(first, second)
            else:
                async with client.listen(resource_subscriptions=uris) as stream:
                    assert list(stream.honored.resource_subscriptions or ()) == uris
                    await upstream.until(first, second)
        await upstream.until(first)
    await upstream.until()


async def test_a_list_is_announced_only_if_it_differs_from_what_was_seen(gateway: Gateway) -> None:
    """Also one that changed and changed back, if somebody listed it in between."""
    lists = ListTracker(gateway)
    lists.begin(LOCAL_USER)
    settings = gateway.settings
    away = Settings(
        source=settings.source,
        servers={"s": ServerSpec(name="s", transport="memory", era="handshake", enabled=False)},
        disclosure=settings.disclosure,
        catalog=settings.catalog,
    )
    assert lists.changed(LOCAL_USER) == []
    try:
        await gateway.configure(away, viewer=LOCAL_USER)
        assert lists.changed(LOCAL_USER) == ["tools", "resources", "prompts"]
        await gateway.configure(settings, viewer=LOCAL_USER)
        lists.shown("prompts", LOCAL_USER)
        await gateway.configure(away, viewer=LOCAL_USER)
        assert lists.changed(LOCAL_USER) == ["prompts"]
    finally:
        await gateway.configure(settings, viewer=LOCAL_USER)
