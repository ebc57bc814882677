"""One more of a kind: its entries and its code are enough, and an entry without code is refused.

The kinds are a transport, a check of manifests, a meta-tool and a level of detail.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import pytest
from httpx2 import ASGITransport, AsyncClient
from mcp import Client
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from starlette.responses import PlainTextResponse
from tests.admission.layers import found, judge
from tests.gateway.rig import SOON_S, Upstream, opened, settings_of

from maitred.admission import review
from maitred.admission.checks.base import Policy
from maitred.admission.findings import Finding
from maitred.admission.manifest import Manifest, manifest_schema
from maitred.backends.base import Backend, Connection, ConnectOptions
from maitred.backends.memory import MemoryBackend
from maitred.config.load import parse, server_kinds
from maitred.config.settings import Admission, Disclosure
from maitred.disclosure.budget import estimate
from maitred.disclosure.pages import lines_page
from maitred.disclosure.views import DETAIL_VIEWS, DetailView
from maitred.errors import ConfigError
from maitred.gateway import Gateway
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import TEXT, MetaTool, MetaToolRequest, text_result
from maitred.meta_tools.menu import META_TOOLS, safe_tools
from maitred.model.access import LOCAL_USER
from maitred.model.categories import Category, ToolChoice
from maitred.model.details import DETAILS
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall, ToolKey
from maitred.model.transports import TRANSPORTS, TransportKind
from maitred.surfaces.http.app import application
from maitred.surfaces.http.schemas import Server as ServerAnswer
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway
from maitred.wiring.transports import MAKERS
from maitred.wording import one_of

PIGEON = TransportKind(
    name="pigeon",
    key="url",
    reach="network",
    aliases=("homing-pigeon",),
    url_schemes=("pigeon", "pigeons"),
    encrypted_schemes=frozenset(["pigeons"]),
    keys=frozenset(["url"]),
    in_manifests=True,
)
CONFIG = "servers: {coop: {url: 'pigeon://roof.example'}}\ncatalog: {path: c.db}\n"
MANIFEST = "name: coop\nurl: pigeons://roof.example/nest\n"


class PigeonBackend(Backend):
    """Brings messages to a server in this process; it writes only what differs from other backends."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        server: Server[object] = Upstream("coop", {"fly": "Bring a letter."}).sdk()
        async with MemoryBackend(self.spec, server).connect(options) as connection:
            yield connection


@pytest.fixture
def pigeon(monkeypatch: pytest.MonkeyPatch) -> TransportKind:
    """All that somebody writes who adds a transport."""
    monkeypatch.setitem(TRANSPORTS, PIGEON.name, PIGEON)
    monkeypatch.setitem(MAKERS, PIGEON.name, lambda spec, _: PigeonBackend(spec))
    return PIGEON


async def letter(gateway: Gateway) -> str:
    answer = await gateway.call(ToolCall(name="coop__fly", arguments={"path": "/"}), viewer=LOCAL_USER)
    text: str = answer["content"][0]["text"]
    return text


# --- a transport that is registered ---------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.usefixtures("pigeon")
@pytest.mark.parametrize("named", ["", ", transport: pigeon", ", type: homing-pigeon"])
async def test_a_server_of_the_configuration_is_called_by_a_new_transport(tmp_path: Path, named: str) -> None:
    """Its scheme is enough; its name and its alias are known as well."""
    settings = parse(tmp_path / "maitred.yaml", CONFIG.replace("'}}", f"'{named}}}}}"))
    async with open_gateway(settings) as gateway:
        assert await gateway.settled(SOON_S)

        assert await letter(gateway) == "coop/fly"
        [status] = gateway.servers(LOCAL_USER)
        assert (status.spec.transport, status.spec.target) == ("pigeon", "pigeon://roof.example")


@pytest.mark.anyio
@pytest.mark.usefixtures("pigeon")
async def test_a_registered_server_is_called_by_a_new_transport(tmp_path: Path) -> None:
    """Its manifest passes all checks, by a policy that trusts its host."""
    settings = settings_of(tmp_path, admission=Admission(trusted_hosts=("roof.example",)))
    async with open_gateway(settings) as gateway:
        done = await gateway.register_server(MANIFEST, source="coop.yml", viewer=LOCAL_USER)
        assert done.case is not None
        assert (done.happened, done.case.state) == ("registered", "approved")
        assert await gateway.settled(SOON_S)

        assert await letter(gateway) == "coop/fly"


@pytest.mark.usefixtures("pigeon")
def test_the_checks_judge_a_new_transport_by_what_it_reaches() -> None:
    """As any address: unlisted, unencrypted, or one of this machine."""
    plain = judge("name: coop\nurl: pigeon://roof.example")
    local = judge("name: coop\nurl: pigeons://127.0.0.1")

    assert found(plain) == {("allowlist", "ask", "url"), ("network", "ask", "url")}
    assert ("network", "refuse", "url") in found(local)


@pytest.mark.usefixtures("pigeon")
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("transport: pigeon\nurl: https://roof.example", "url"),
        ("transport: http\nurl: pigeon://roof.example", "url"),
        ("url: pigeon://roof.example\nheaders: {A: b}", "headers"),
        ("url: pigeon://roof.example\nmemory: 1g", "memory"),
    ],
)
def test_what_does_not_fit_a_new_transport_is_refused(text: str, key: str) -> None:
    """The scheme of another transport, and the keys of another one."""
    assert ("schema", "refuse", key) in found(judge(f"name: coop\n{text}"))


def test_a_header_that_a_new_transport_writes_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry names such headers; those of the other transports are refused to its servers, too."""
    keys = frozenset(["url", "headers"])
    kind = replace(PIGEON, keys=keys, framing_headers=("pigeon-*",))
    text = "name: coop\nurl: pigeons://roof.example\nheaders: {Pigeon-Ring: '1', Upgrade: x, X-Roof: y}"

    monkeypatch.setitem(TRANSPORTS, PIGEON.name, kind)
    assert found(judge(text)) == {
        ("allowlist", "ask", "url"),
        ("network", "refuse", "headers.Pigeon-Ring"),
        ("network", "refuse", "headers.Upgrade"),
    }


def test_only_a_transport_whose_keys_have_it_takes_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a server has a URL is not enough."""
    text = CONFIG.replace("'}}", "', auth: oauth}}")
    monkeypatch.setitem(TRANSPORTS, PIGEON.name, PIGEON)
    with pytest.raises(ConfigError, match=r"servers\.coop\.auth: is not for servers of transport pigeon"):
        parse(tmp_path / "maitred.yaml", text)

    monkeypatch.setitem(TRANSPORTS, PIGEON.name, replace(PIGEON, keys=frozenset(["url", "auth"])))
    assert parse(tmp_path / "maitred.yaml", text).servers["coop"].auth is not None


@pytest.mark.usefixtures("pigeon")
def test_descriptions_name_a_new_transport() -> None:
    """Of manifests for editors, and of the HTTP API."""
    described = ServerAnswer.model_json_schema()["properties"]["transport"]["enum"]

    assert "pigeon" in manifest_schema()["properties"]["transport"]["enum"]
    assert "pigeon" in described


# --- one that is not ------------------------------------------------------------------------------------


def test_a_configuration_refuses_an_unknown_transport_and_names_those_that_there_are(tmp_path: Path) -> None:
    """By its name, and by the scheme of its URL."""
    for text, said in (
        (CONFIG, "must start with http:// or https://"),
        (
            CONFIG.replace("'}}", "', transport: pigeon}}"),
            f"'pigeon' is not a transport; use {one_of([kind.name for kind in server_kinds()])}",
        ),
    ):
        with pytest.raises(ConfigError, match="coop") as caught:
            parse(tmp_path / "maitred.yaml", text)
        assert said in str(caught.value)


def test_a_manifest_with_an_unknown_transport_is_refused() -> None:
    """By its name, and by the scheme of its URL."""
    named = judge("name: coop\ntransport: pigeon\nurl: https://roof.example")

    assert ("schema", "refuse", "transport") in found(named)
    assert "must be 'stdio', 'http' or 'container'" in str(named.findings[0])
    assert ("schema", "refuse", "url") in found(judge(MANIFEST))


@pytest.mark.parametrize("internal", ["sse", "memory", "chain"])
def test_a_manifest_cannot_ask_for_a_transport_that_is_not_for_manifests(internal: str) -> None:
    """They are in the table, but have no keys of a manifest."""
    assert judge(f"name: coop\ntransport: {internal}\nurl: https://roof.example").outcome == "refused"


@pytest.mark.anyio
async def test_a_transport_without_a_backend_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody added the entry only."""
    monkeypatch.setitem(TRANSPORTS, PIGEON.name, PIGEON)
    async with open_gateway(parse(tmp_path / "maitred.yaml", CONFIG)) as gateway:
        assert await gateway.settled(SOON_S)

        [status] = gateway.servers(LOCAL_USER)
        assert "no backend for its transport 'pigeon'" in status.error


def test_an_entry_that_no_check_could_judge_is_refused() -> None:
    """What it reaches, and the keys by which, have to be among those that the checks know."""
    changes: Sequence[Mapping[str, object]] = (
        {"reach": "telepathy"},
        {"key": "mind"},
        {"url_schemes": ()},
        {"keys": frozenset(["args"])},
        {"keys": frozenset()},
    )
    for change in changes:
        with pytest.raises(ValueError, match="pigeon"):
            replace(PIGEON, **change)  # type: ignore[arg-type]  # which is what is tested


def test_every_transport_of_the_table_has_a_backend() -> None:
    """And no backend is for one that is not there."""
    assert set(MAKERS) == set(TRANSPORTS)


# --- a check ----------------------------------------------------------------------------------------------


class MoonCheck:
    """One more layer."""

    layer = "moon"

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        del policy
        reason = "is about the moon"
        found = Finding(layer=self.layer, severity="refuse", key="description", reason=reason)
        return [found] if "moon" in manifest.description else []


@pytest.mark.anyio
async def test_a_new_check_decides_and_is_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks after the others, and its findings have their lines."""
    monkeypatch.setattr(review, "CHECKS", [*review.CHECKS, MoonCheck()])
    text = "name: coop\nurl: https://roof.example\ndescription: for {}\n"
    settings = settings_of(tmp_path, admission=Admission(trusted_hosts=("roof.example",)))
    async with open_gateway(settings) as gateway:
        refused = await gateway.register_server(text.format("the moon"), source="coop.yml", viewer=LOCAL_USER)
        assert refused.happened == "refused"
        assert [str(one) for one in refused.decision.findings] == [
            "coop.yml:3: description: is about the moon"
        ]

        done = await gateway.register_server(text.format("the sun"), source="coop.yml", viewer=LOCAL_USER)
        assert done.case is not None
        assert (done.happened, done.case.state) == ("registered", "approved")
        assert [one.layer for one in done.decision.layers] == [one.layer for one in review.CHECKS]
        assert done.decision.layers[-1].layer == "moon"


# --- a meta-tool ------------------------------------------------------------------------------------------

COUNT_TOKENS = 300
"""What an answer of the made-up meta-tool costs at most."""


async def count(gateway: Gateway, request: MetaToolRequest) -> dict[str, Any]:
    """A text of its own within a budget, of what the caller may see."""
    names = [tool.name for tool in gateway.visible_tools(request.viewer)]
    cursor = read.text(request.arguments, "cursor")
    page = lines_page(names, lambda name: f"tool {name}", cursor, COUNT_TOKENS, again="count_tools")
    return text_result(f"{len(names)} for {request.viewer.principal}\n{page.text}")


COUNT = MetaTool(
    name="count_tools",
    description="Count the tools.",
    answer=count,
    properties={"cursor": TEXT},
    reads_only=True,
)
"""Its entry; with the handler above, it is all that is written for one more meta-tool."""


async def answer_of(client: Client, **arguments: str) -> str:
    [block] = (await client.call_tool(COUNT.name, arguments)).content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.anyio
@pytest.mark.usefixtures("pigeon")
async def test_a_new_meta_tool_is_listed_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the others; a client of a background gateway may repeat it if it only reads."""
    monkeypatch.setitem(META_TOOLS, COUNT.name, COUNT)
    settings = parse(tmp_path / "maitred.yaml", f"{CONFIG}disclosure: {{mode: menu}}\n")
    async with open_gateway(settings) as gateway:
        assert await gateway.settled(SOON_S)
        async with Client(McpSurface(gateway).server) as client:
            listed = (await client.list_tools()).tools
            result = await client.call_tool(COUNT.name, {})
            mistaken = await client.call_tool(COUNT.name, {"cursors": "1"})
            called = await client.call_tool("call_tool", {"name": COUNT.name})

    assert [tool.name for tool in listed][-1] == COUNT.name
    [content] = result.content
    assert isinstance(content, types.TextContent)
    assert content.text == "1 for local\ntool coop__fly"
    assert result.meta is not None
    assert "maitred/tokens" in result.meta
    assert "no argument `cursors`; did you mean `cursor`?" in str(mistaken.content)
    assert "`count_tools` is a tool beside `call_tool`" in str(called.content)
    assert COUNT.name in safe_tools()


@pytest.mark.anyio
async def test_the_text_of_a_new_meta_tool_keeps_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has as many lines as fit, and a reader who follows the cursors gets each line once."""
    monkeypatch.setitem(META_TOOLS, COUNT.name, COUNT)
    upstream = Upstream("coop", {f"fly_{n:03}": "Bring a letter." for n in range(100)})
    rows: list[str] = []
    async with (
        opened(settings_of(tmp_path, "coop"), upstream) as gateway,
        Client(McpSurface(gateway).server) as client,
    ):
        text = await answer_of(client)
        while more := re.search(r"^\(\d+ more: count_tools with cursor '(.+)'\)$", text, re.MULTILINE):
            assert estimate(text) <= COUNT_TOKENS
            rows += text.splitlines()[1:-1]
            text = await answer_of(client, cursor=more[1])
        rows += text.splitlines()[1:]

    assert rows == [f"tool coop__fly_{n:03}" for n in range(100)]


@pytest.mark.anyio
async def test_no_category_takes_the_name_of_a_new_meta_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A category `count` would be called `count_tools`; its own tool has another name, and works."""
    monkeypatch.setitem(META_TOOLS, COUNT.name, COUNT)
    settings = settings_of(
        tmp_path,
        "coop",
        categories={"count": Category(name="count")},
        tools={ToolKey(server="coop", name=name): ToolChoice(category="count") for name in ("one", "two")},
        disclosure=Disclosure(mode="categories", break_even_tokens=0),
    )
    async with opened(settings, Upstream("coop", {"one": "Count one.", "two": "Count two."})) as gateway:
        assert await gateway.settled(SOON_S)
        [category] = gateway.category_definitions(LOCAL_USER)
        answer = await gateway.call(ToolCall(name=category["name"], arguments={}), viewer=LOCAL_USER)

    assert category["name"].startswith("count_tools_")
    assert [tool["name"] for tool in answer["tools"]] == ["coop__one", "coop__two"]


@pytest.mark.anyio
@pytest.mark.usefixtures("pigeon")
async def test_a_meta_tool_that_is_in_no_table_is_refused(tmp_path: Path) -> None:
    """As any unknown tool; and there is no entry without a handler."""
    async with open_gateway(parse(tmp_path / "maitred.yaml", CONFIG)) as gateway:
        assert await gateway.settled(SOON_S)
        async with Client(McpSurface(gateway).server) as client:
            with pytest.raises(MCPError, match="count_tools"):
                await client.call_tool(COUNT.name, {})

    assert COUNT.name not in safe_tools()
    with pytest.raises(TypeError, match="answer"):
        MetaTool(name="count_tools", description="Count.", properties={})  # type: ignore[call-arg]  # as said


# --- a level of detail ------------------------------------------------------------------------------------

NAMES = DetailView(
    in_search=lambda _, tool: f"found {tool.name}",
    in_info=lambda _, tool, needs, budget_tokens, usage: (
        f"{tool.name} needs {list(needs)}, has {budget_tokens > 0}"
    ),
    most_results=1,
)


@asynccontextmanager
async def asked_everywhere(folder: Path) -> AsyncIterator[Callable[[str], Awaitable[Mapping[str, str]]]]:
    """What each surface answers when somebody asks for a level, over a gateway with the tools of a pigeon."""
    settings = parse(folder / "maitred.yaml", f"{CONFIG}disclosure: {{mode: menu}}\n")
    async with open_gateway(settings) as gateway, Client(McpSurface(gateway).server) as client:
        assert await gateway.settled(SOON_S)
        app = ASGITransport(app=application(gateway, settings.http, PlainTextResponse("MCP")))
        async with AsyncClient(transport=app, base_url="http://localhost") as http:

            async def ask(detail: str) -> Mapping[str, str]:
                search = {"phrases": ["bring a letter"], "detail": detail}
                answers = {
                    "search": await client.call_tool("search_tools", search),
                    "info": await client.call_tool("tool_info", {"names": ["coop__fly"], "detail": detail}),
                }
                texts = {name: cast("Any", answer.content[0]).text for name, answer in answers.items()}
                query = {"q": "bring a letter", "detail": detail}
                return texts | {"http": (await http.get("/api/v1/tools/search", params=query)).text}

            yield ask


@pytest.mark.anyio
@pytest.mark.usefixtures("pigeon")
async def test_a_new_level_of_detail_is_shown_by_every_surface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In search, in `tool_info` and over HTTP."""
    monkeypatch.setitem(DETAILS, "gist", "The name alone.")
    monkeypatch.setitem(DETAIL_VIEWS, "gist", NAMES)
    async with asked_everywhere(tmp_path) as ask:
        answers = await ask("gist")

    assert answers["search"].startswith("found coop__fly [")
    assert answers["info"] == "coop__fly needs [], has True"
    assert '"line":"found coop__fly"' in answers["http"]


@pytest.mark.anyio
@pytest.mark.usefixtures("pigeon")
async def test_an_unknown_level_of_detail_is_refused_by_every_surface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the levels that there are; also one that nothing shows, since somebody added the entry only."""
    async with asked_everywhere(tmp_path) as ask:
        answers = await ask("gist")
    assert answers["search"] == answers["info"] == "`detail` is brief or full, not 'gist'"
    assert "Input should be 'brief' or 'full'" in answers["http"]

    monkeypatch.setitem(DETAILS, "gist", "The name alone.")
    async with asked_everywhere(tmp_path) as ask:
        answers = await ask("gist")
    assert answers["search"] == answers["info"] == "`detail` is brief or full, not 'gist'"
    assert "`detail` is brief or full, not 'gist'" in answers["http"]


def test_every_level_of_the_table_has_a_view_and_stands_in_the_definitions() -> None:
    """And no view is for one that is not there."""
    assert list(DETAIL_VIEWS) == list(DETAILS)
    for name in ("search_tools", "tool_info"):
        assert META_TOOLS[name].properties["detail"] == {"enum": list(DETAILS)}
