"""What lies outside a scope is nowhere: on no page, in no count, in no suggestion; nor can it be called."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from anyio.abc import TaskStatus
from mcp.shared.exceptions import MCPError
from starlette.responses import PlainTextResponse
from tests.access.house import FILES, READING, SOON_S, TEXT, House, opened, settings_of
from tests.gateway import rig
from tests.gateway.rig import Upstream
from tests.gateway.test_auditing import lines
from tests.interaction.harness import LEGACY, Mode

from maitred.access.tokens import TokenRequest
from maitred.catalog.snapshot import Change
from maitred.config.settings import Disclosure
from maitred.errors import NotAllowedError, PathNotFoundError, ServerNotFoundError
from maitred.gateway.events import GUIDE, OVERVIEW, TOOLS
from maitred.meta_tools.menu import META_TOOLS
from maitred.model.access import LOCAL_USER, Grant, Scope, Viewer
from maitred.model.categories import Category, ToolChoice
from maitred.model.tools import ToolCall, ToolKey
from maitred.surfaces.http.app import application
from maitred.surfaces.mcp.resources import OwnResources

pytestmark = pytest.mark.anyio

API = "/api/v1"
Way = Callable[[Any], Awaitable[Any]]
MODES: tuple[Mode, ...] = ("legacy", "auto")
OWN = ("tool", "server", "category")


async def told(way: Awaitable[Any]) -> str:
    """What was answered, an error included, as text in small letters."""
    try:
        return str(await way).casefold()
    except MCPError as error:
        return error.message.casefold()


def meta(tool: str, /, **arguments: Any) -> Way:
    def way(client: Any) -> Any:
        return client.call_tool(tool, arguments)

    way.__name__ = tool
    return way


def read(uri: str) -> Way:
    return lambda client: client.read_resource(uri)


def complete(kind: str) -> Way:
    reference = types.ResourceTemplateReference(type="ref/resource", uri=f"maitred://{kind}/{{name}}")
    return lambda client: client.complete(reference, {"name": "name", "value": ""})


TASKS = types.PromptReference(type="ref/prompt", name="find_tool")


async def introduced(client: Any) -> Any:
    return client.instructions


WAYS: Mapping[str, Way] = {
    "instructions": introduced,
    "tools": lambda client: client.list_tools(),
    "resources": lambda client: client.list_resources(),
    "templates": lambda client: client.list_resource_templates(),
    "prompts": lambda client: client.list_prompts(),
    "search": meta("search_tools", phrases=["of the house"]),
    "nearest of search": meta("tool_info", names=["close_tickt"]),
    "nearest of a call": meta("call_tool", name="close_tickt"),
    "nearest of a chain": meta("call_tool_chain", code="return await call_tool('close_tickt', {})"),
    "modules of a chain": meta("call_tool_chain", code="import tikets", dry_run=True),
    "first page": meta("list_tools_meta"),
    "categories": meta("list_tools_meta", path="categories"),
    "servers": meta("list_tools_meta", path="servers"),
    "a category": meta("list_tools_meta", path="category/communication"),
    "all tools": meta("list_tools_meta", path="tools"),
    "overview": read("maitred://overview"),
    "all tools to read": read("maitred://tools"),
    "guide": read("maitred://chains/guide"),
    "discover": lambda client: client.get_prompt("discover"),
    "find": lambda client: client.get_prompt("find_tool", {"task": "of the house"}),
    "tasks": lambda client: client.complete(TASKS, {"name": "task", "value": "comm"}),
    **{f"names of {kind}": complete(kind) for kind in OWN},
}
SHOWN_NOWHERE: frozenset[str] = frozenset()


@pytest.mark.parametrize("mode", MODES)
async def test_what_lies_outside_is_on_no_page_over_mcp(house: House, mode: Mode) -> None:
    """For a scope of servers and one of categories; who has no scope is told of it nearly everywhere."""
    found = {}
    for name in ("agent", "files", "text"):
        async with house.mcp(name, mode) as client:
            found[name] = {what: await told(way(client)) for what, way in WAYS.items()}

    for what in WAYS:
        if what not in SHOWN_NOWHERE:
            assert "ticket" in found["agent"][what] or "communication" in found["agent"][what], what
        for name in ("files", "text"):
            answer = found[name][what].replace("close_tickt", "").replace("category/communication", "")
            assert "ticket" not in answer, (name, what, answer)
            assert "communication" not in answer, (name, what, answer)


def test_every_meta_tool_is_among_the_ways() -> None:
    """A new one might name what is outside of a scope; `call_read_only_tool` answers as `call_tool` does."""
    tried = {getattr(way, "__name__", "") for way in WAYS.values()}
    assert META_TOOLS.keys() - tried <= {"call_read_only_tool"}


@pytest.mark.parametrize("mode", MODES)
async def test_what_may_write_is_on_no_page_for_who_may_only_read(house: House, mode: Mode) -> None:
    async with house.mcp("reader", mode) as client:
        found = {what: await told(way(client)) for what, way in WAYS.items()}

    for what, answer in found.items():
        assert "write_note" not in answer, what
        assert "close_ticket" not in answer, what
    assert "files__read_note" in found["tools"]


async def test_a_search_counts_what_it_withholds_without_a_name(house: House) -> None:
    """Whose words were fitting knows that there is more, but not where."""
    async with house.mcp("files", "auto") as client, house.http("files") as http:
        text = await told(client.call_tool("search_tools", {"phrases": ["close ticket"]}))
        answer = (await http.get(f"{API}/tools/search", params={"q": "close ticket"})).json()

    (withheld,) = answer["withheld"]
    assert withheld["tools"] > 0
    assert (withheld["server"], withheld["reason"]) == ("other servers", "outside what 'files' may use")
    assert f"withheld: {withheld['tools']} on other servers (outside what 'files' may use)" in text
    assert {one["server"] for one in answer["results"]} <= {"files"}


async def test_what_lies_outside_is_on_no_page_over_http(house: House) -> None:
    """Pages are kept for each grant: whoever asks first does not decide what the next one reads."""
    paths = ["tools/hot", "tools/categories", "tools/category/communication", "tools/files/close_ticket"]
    kept: dict[str, list[httpx2.Response]] = {}
    for name in ("agent", "files", "agent", "text"):
        async with house.http(name) as http:
            kept[name] = [await http.get(f"{API}/{path}") for path in paths]

    assert all("ticket" in one.text for one in kept["agent"])
    for name in ("files", "text"):
        assert not any("list_tickets" in one.text or "tickets__" in one.text for one in kept[name])
    assert kept["files"][1].json()["tools"] == kept["text"][1].json()["tools"] == 2
    assert kept["files"][2].json()["total"] == 0
    async with house.http("files") as http:
        again = await http.get(
            f"{API}/tools/hot", headers={"If-None-Match": kept["agent"][0].headers["etag"]}
        )
        unseen = [await http.get(f"{API}/tools/{path}") for path in ("tickets/list_tickets", "nowhere/x")]
    assert again.status_code == 200
    assert [one.status_code for one in unseen] == [404, 404]


async def test_a_scope_covers_the_categories_below_its_own(house: House) -> None:
    """`archive` is below `files_text`."""
    async with house.mcp("text", "auto") as client:
        answer = await told(client.call_tool("files__read_note", {}))

    assert "files/read_note" in answer


async def test_figures_and_times_count_what_is_there_alone(tmp_path: Path) -> None:
    """What the raw list would cost, and when our resources last changed, tell nothing of other servers."""
    async with opened(settings_of(tmp_path)) as gateway:
        viewer = Viewer(grant=Grant(principal="ann", role="agent", scope=FILES))
        resources = OwnResources(gateway)

        async def seen() -> tuple[Any, ...]:
            read = [await resources.read(uri, viewer) for uri in (OVERVIEW, TOOLS, GUIDE)]
            listed = [one["annotations"] for one in resources.listed(viewer)]
            return gateway.count_answer("", viewer)["raw_list"], [one.modified for one in read if one], listed

        before, cost = await seen(), gateway.snapshot.by_server["files"]
        later = replace(gateway.snapshot.servers["tickets"], synced_at="2999-01-01T00:00:00+00:00")
        await gateway._context.catalog.change(lambda _: changes(Change(servers=[later])))
        after = await seen()

    assert before == after
    assert before[0] == sum(tool.cost_tokens for tool in cost)
    assert "2999" not in str(after)


async def changes(change: Change) -> Change:
    return change


async def test_a_category_of_other_servers_is_no_suggestion(tmp_path: Path) -> None:
    """The operator's own names of categories may say what the other servers are for."""
    settings = settings_of(tmp_path)
    merger = ToolChoice(category="merger_with_acme")
    settings = replace(
        settings,
        categories={**settings.categories, "merger_with_acme": Category(name="merger_with_acme")},
        tools={**settings.tools, ToolKey(server="tickets", name="list_tickets"): merger},
    )
    async with opened(settings) as gateway:
        told_ = {}
        for scope in (Scope(), FILES, TEXT):
            viewer = Viewer(grant=Grant(principal="ann", role="agent", scope=scope))
            for path in ("category/merger_with_acne", "category/merger_with_acme"):
                try:
                    told_[scope, path[-2:]] = gateway.page(path, viewer=viewer).page.text
                except PathNotFoundError as error:
                    told_[scope, path[-2:]] = str(error).replace(path.partition("/")[2], "")

    assert "merger_with_acme" in told_[Scope(), "ne"]
    assert "tickets__list_tickets" in told_[Scope(), "me"]
    for scope in (FILES, TEXT):
        assert "acme" not in told_[scope, "ne"]
        assert told_[scope, "ne"] == told_[scope, "me"]


# --- calls ------------------------------------------------------------------------------------------------

REFUSALS = [
    ("files", "tickets__list_tickets", "no access to the server 'tickets'"),
    ("text", "tickets__list_tickets", "no access to the category 'communication'"),
    ("reader", "files__write_note", "may only read"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "tool", "why"), REFUSALS)
async def test_a_tool_outside_cannot_be_called(
    house: House, mode: Mode, name: str, tool: str, why: str
) -> None:
    """By its name, through `call_tool`, or from within a chain in any form; its raw name tells nothing."""
    server, _, raw = tool.partition("__")
    chains = [
        f"{server}.{raw}()",
        f"return await call_tool({tool!r}, {{}})",
        f"return await call_tool('{server}.{raw}', {{}})",
        f"import {server}\nreturn await {server}.{raw}()",
    ]
    async with house.mcp(name, mode) as client:
        direct = [
            await told(client.call_tool(tool, {})),
            await told(client.call_tool("call_tool", {"name": tool})),
        ]
        guessed = [
            await told(client.call_tool("call_read_only_tool", {"name": one})) for one in (raw, f"no_{raw}")
        ]
        inside = [await told(client.call_tool("call_tool_chain", {"code": code})) for code in chains]
        dry = await told(client.call_tool("call_tool_chain", {"code": chains[1], "dry_run": True}))

    assert [answer for answer in direct if why not in answer] == []
    assert ["no tool named" in answer for answer in guessed] == [True, True]
    assert not any(why in answer or tool in answer for answer in guessed)
    assert [answer for answer in [*inside, dry] if f"{server}/{raw}" in answer] == []
    assert why in inside[1]
    assert why in dry


@pytest.mark.parametrize(("name", "tool", "why"), REFUSALS)
async def test_a_tool_outside_cannot_be_called_over_http(
    house: House, name: str, tool: str, why: str
) -> None:
    server, _, raw = tool.partition("__")
    async with house.http(name) as http:
        answer = await http.post(f"{API}/tools/{server}/{raw}/call", json={"arguments": {}})

    assert answer.status_code == 403
    assert why in answer.json()["message"]


# --- resources, prompts, completions, subscriptions -------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["files", "text"])
async def test_what_servers_outside_offer_does_not_exist(house: House, mode: Mode, name: str) -> None:
    """Neither under our names nor under those that their server gave."""
    prompt = types.PromptReference(type="ref/prompt", name="tickets__sum_up")
    template = types.ResourceTemplateReference(
        type="ref/resource", uri="maitred://resource/tickets/tickets://one/{id}"
    )
    ways: list[Way] = [
        read("maitred://resource/tickets/tickets://all"),
        read("tickets://all"),
        lambda client: client.get_prompt("tickets__sum_up"),
        lambda client: client.complete(prompt, {"name": "x", "value": ""}),
        lambda client: client.complete(template, {"name": "id", "value": ""}),
        read("maitred://tool/tickets__list_tickets"),
        read("maitred://server/tickets/tools"),
    ]
    async with house.mcp(name, mode) as client:
        answers = [await told(way(client)) for way in ways]
        own = await told(client.read_resource("files://all"))
        if mode == "legacy":
            answers.append(await told(client.session.subscribe_resource("tickets://all")))

    assert [answer for answer in answers if "there is no" not in answer] == []
    assert "all of files" in own


async def test_changes_are_told_of_what_is_there_alone(house: House) -> None:
    """A stream promises nothing of other servers, nor of how servers do to whom may not watch them."""
    own = ["files://all", "maitred://overview"]
    beyond = ["tickets://all", "maitred://resource/tickets/tickets://all", "maitred://server/tickets"]
    async with (
        house.mcp("files", "auto") as client,
        client.listen(resource_subscriptions=[*own, *beyond, "maitred://servers"]) as stream,
    ):
        promised = list(stream.honored.resource_subscriptions or ())

    assert [uri for uri in promised if uri not in own] == []
    assert "maitred://overview" in promised


async def test_a_change_of_servers_outside_is_no_notice(house: House) -> None:
    """Neither that lists changed, nor that our resources did; whoever sees the server hears of both."""
    heard: dict[str, list[str]] = {"agent": [], "files": []}
    came = {name: anyio.Semaphore(0) for name in heard}

    async def follow(name: str, *, task_status: TaskStatus[None]) -> None:
        async with (
            house.mcp(name, "auto") as client,
            client.listen(tools_list_changed=True, resource_subscriptions=["maitred://tools"]) as stream,
        ):
            task_status.started()
            async for event in stream:
                heard[name].append(type(event).__name__)
                came[name].release()

    async def change(server: str) -> None:
        tools = [replace(tool, description="Again.") for tool in house.gateway.snapshot.by_server[server]]
        await house.gateway._context.catalog.change(lambda _: changes(Change(tools=tools)))

    async def wait(name: str) -> None:
        for _ in range(2):
            await came[name].acquire()

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            for name in heard:
                await tasks.start(follow, name)
            await change("tickets")
            await wait("agent")
            await change("files")
            await wait("agent")
            await wait("files")
            tasks.cancel_scope.cancel()

    kinds = ["ResourceUpdated", "ToolsListChanged"]
    assert (sorted(heard["agent"]), sorted(heard["files"])) == (sorted(kinds * 2), kinds)


async def test_who_watches_a_part_sees_the_servers_of_it(house: House) -> None:
    """And not the figures of the whole."""
    async with house.http("overseer") as http, house.mcp("overseer", "auto") as client:
        listed = (await http.get(f"{API}/servers")).json()["servers"]
        status = [(await http.get(f"{API}/{path}")).status_code for path in ("servers/files", "stats")]
        other = await http.get(f"{API}/servers/tickets")
        resource = await told(client.read_resource("maitred://servers"))

    assert [one["name"] for one in listed] == ["files"]
    assert status == [200, 403]
    assert (other.status_code, "tickets" in other.json().get("nearest", ())) == (403, False)
    assert "files" in resource
    assert "tickets" not in resource


async def test_who_watches_a_part_learns_that_a_name_is_like_another_but_not_whose(tmp_path: Path) -> None:
    """The warning matters to whoever decides; the name of the other server is outside of the scope."""
    names = ("mail", "vault")
    servers = (Upstream(name, {"send": "Send a text."}) for name in names)
    scope = Scope(servers=frozenset({"mail", "vaults"}))
    ann = Viewer(grant=Grant(principal="ann", role="operator", scope=scope))
    async with rig.opened(rig.settings_of(tmp_path, *names), *servers) as gateway:
        whole = await gateway.case("mail", viewer=LOCAL_USER)
        part = await gateway.case("mail", viewer=ann)
        listed = await gateway.cases(ann)
        with pytest.raises(ServerNotFoundError) as known:
            await gateway.case("vaults", viewer=LOCAL_USER)
        with pytest.raises(ServerNotFoundError) as unknown:
            await gateway.case("vaults", viewer=ann)

    assert [finding.reason for finding in whole.findings] == [
        "'send' is called the same as 'send' of 'vault'"
    ]
    hidden = "it is like a name of a server outside of what 'ann' may watch"
    assert [finding.reason for finding in part.findings] == [hidden]
    assert [finding.severity for finding in part.findings] == [f.severity for f in whole.findings]
    assert "vault" not in str(listed)
    assert (list(known.value.nearest), list(unknown.value.nearest)) == (["vault"], [])


async def test_who_may_only_read_starts_no_server(tmp_path: Path) -> None:
    """Listing the tools of servers again starts them, and changes what all callers see."""
    reader = Viewer(grant=Grant(principal="ann", role="operator", scope=READING))
    async with opened(settings_of(tmp_path)) as gateway:
        for servers in (["files"], []):
            with pytest.raises(NotAllowedError, match="may only read"):
                await gateway.sync(servers, viewer=reader)
        trail = await lines(gateway)

    assert [(line["action"], line["outcome"]) for line in trail] == [("operate", "not_allowed")] * 2


# --- what belongs to a principal --------------------------------------------------------------------------


async def test_a_kept_result_is_read_by_whom_it_was_for_alone(house: House) -> None:
    """Whatever the role of who guesses its id."""
    async with house.mcp("agent", "auto") as client:
        arguments = {"name": "files__read_note", "arguments": {"path": "long"}}
        cut = str(await client.call_tool("call_tool", arguments))
        (uri,) = set(re.findall(r"maitred://result/[\w-]+", cut))
        own = await told(client.read_resource(uri))
    answers = []
    for name in ("other", "admin"):
        async with house.mcp(name, "auto") as client:
            answers.append(await told(client.read_resource(uri)))

    assert "a long note." in own
    assert all("there is no result" in answer for answer in answers)


async def test_what_one_principal_did_opens_nothing_for_another(tmp_path: Path) -> None:
    """The facts of a server, and the pages that tell of them, are kept for each by itself."""
    declared = {
        "facts": {"noted": False},
        "on_success": {"read_note": {"noted": True}},
        "visible_when": {"write_note": "noted"},
    }
    settings = settings_of(tmp_path)
    files = replace(settings.servers["files"], visibility=declared)
    async with opened(replace(settings, servers={**settings.servers, "files": files})) as gateway:
        app = application(gateway, settings.http, PlainTextResponse("MCP"))
        transport = httpx2.ASGITransport(app=app)
        told_: dict[str, list[Any]] = {}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            for name in ("ann", "bob"):
                wanted = TokenRequest(name=name, role="agent", scope=Scope())
                made = await gateway.make_token(wanted, LOCAL_USER)
                sent = {"Authorization": f"Bearer {made.token}"}
                if name == "ann":
                    await http.post(f"{API}/tools/files/read_note/call", json={}, headers=sent)
                answers = [
                    await http.get(f"{API}/tools/{path}", headers=sent)
                    for path in ("files/write_note", "hot")
                ]
                told_[name] = [answers[0].json()["withheld"], "files__write_note" in answers[1].text]

    assert told_["ann"] == ["", True]
    assert "noted" in told_["bob"][0]
    assert told_["bob"][1] is False


async def test_a_connection_answers_to_nobody_but_who_opened_it(house: House) -> None:
    """To another principal it is as if it were not there; its id is no secret that lets one in."""
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with house.http("agent") as http:
        opened_ = await http.post("/mcp", json=opening, headers=accept)
        session = accept | {"Mcp-Session-Id": opened_.headers["mcp-session-id"]}
        own = await http.post("/mcp", json=ping, headers=session)
    statuses = []
    for name in ("other", "admin", ""):
        async with house.http(name) as http:
            statuses.append((await http.post("/mcp", json=ping, headers=session)).status_code)
            statuses.append((await http.delete("/mcp", headers=session)).status_code)
    async with house.http("agent") as http:
        still = await http.post("/mcp", json=ping, headers=session)

    assert (own.status_code, still.status_code) == (200, 200)
    assert set(statuses) == {404}


async def test_category_tools_hold_what_is_there(tmp_path: Path) -> None:
    """A category of which nothing is within reach is no tool, and one that is lists its part."""
    settings = replace(settings_of(tmp_path), disclosure=Disclosure(mode="categories", break_even_tokens=0))
    async with opened(settings) as gateway:
        viewers = {
            scope: Viewer(grant=Grant(principal="ann", role="agent", scope=scope))
            for scope in (FILES, TEXT, READING)
        }
        listed = {
            scope: {tool.name for group in gateway._lists.categories(viewer) for tool in group.tools}
            | {tool.name for tool in gateway.listed(viewer)}
            for scope, viewer in viewers.items()
        }
        pages = [
            await gateway.call(ToolCall(name=group.name, arguments={}), viewer=viewer)
            for viewer in viewers.values()
            for group in gateway._lists.categories(viewer)
        ]

    files = {"files__read_note", "files__write_note"}
    assert listed == {FILES: files, TEXT: files, READING: {"files__read_note", "tickets__list_tickets"}}
    assert "close_ticket" not in str(pages)
