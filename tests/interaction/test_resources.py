"""Resources of maitred and of the servers behind it: listed, read, completed, subscribed, in both eras."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.interaction.harness import (
    ROOT,
    Front,
    HttpGateway,
    Mode,
    call,
    faulty,
    raw,
    sdk_server,
    serve_command,
    serving,
    text_of,
    write_settings,
)
from tests.interaction.listening import Listener, listening
from tests.interaction.requirements import requirement
from tests.support.real_servers import SERVERS, require

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("resources")]

HONEST = ROOT / "tests" / "backends" / "honest_server.py"
SPACED = "old notes"
OWN = ["maitred://overview", "maitred://servers", "maitred://tools"]
TEMPLATES = [
    "maitred://tool/{name}",
    "maitred://server/{name}",
    "maitred://server/{name}/tools",
    "maitred://category/{name}",
    "maitred://result/{id}",
]

NOT_FOUND = {"legacy": -32002, "auto": -32602}
DEMO = "maitred://resource/everything/demo://resource"


def published(server: str, uri: str) -> str:
    return f"maitred://resource/{quote(server)}/{uri}"


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        everything = SERVERS["everything"]
        real = {"everything": everything.entry(folder)} if everything.is_installed else {}
        servers = {
            "notes": sdk_server(HONEST, "stdio") | {"era": "stateless"},
            SPACED: sdk_server(HONEST, "stdio") | {"era": "handshake"},
            "counter": faulty("count"),
            **real,
        }
        return write_settings(folder, servers, disclosure={"mode": "menu"}, results={"max_tokens": 1000})

    return make


# --- our own ----------------------------------------------------------------------------------------------


@requirement("resource:own")
async def test_the_resources_of_maitred_say_what_stands_behind_it(client: Client) -> None:
    """The overview, all servers and all tools are listed first and can be read. Source: maitred."""
    listed = await client.list_resources(cache_mode="refresh")
    overview = await text(client, OWN[0])
    servers = {entry["name"]: entry for entry in json.loads(await text(client, OWN[1]))}
    tools = (await text(client, OWN[2])).splitlines()

    first = listed.resources[: len(OWN)]
    assert [resource.uri for resource in first] == OWN
    assert all(resource.annotations and resource.annotations.last_modified for resource in first)
    assert "search_tools" in overview
    assert servers["counter"]["tools"] == 3
    assert servers["notes"]["description"] == "Honest in every way."
    assert "env" not in servers["notes"]
    own = tools[tools.index("counter__") + 1 :]
    assert own[0].startswith("add: ")
    heads = [line for line in tools if line.endswith("__")]
    assert heads == sorted(heads)


@requirement("resource:templates")
async def test_every_template_of_maitred_can_be_filled_in_and_read(client: Client) -> None:
    """A tool whole, a server, its tools, a category; a name is percent-encoded. Source: maitred."""
    listed = await client.list_resource_templates(cache_mode="refresh")
    tool = json.loads(await text(client, "maitred://tool/counter__add"))
    server = json.loads(await text(client, f"maitred://server/{quote(SPACED)}"))
    page = await text(client, f"maitred://server/{quote(SPACED)}/tools")
    category = await text(client, f"maitred://category/{tool['category']}")

    assert [template.uri_template for template in listed.resource_templates][: len(TEMPLATES)] == TEMPLATES
    assert tool["definition"]["inputSchema"]["required"] == ["a", "b"]
    assert (server["name"], server["title"]) == (SPACED, "Honest")
    assert "old_notes__echo" in server["tool_names"]
    assert "old_notes__echo(text: str)" in page
    assert "counter__add(a: num, b: num)" in category


@requirement("resource:result")
async def test_an_answer_that_was_too_long_is_read_page_by_page(client: Client) -> None:
    """A call names the resource; its pages, joined, are the whole answer, and it can be searched.

    Source: maitred.
    """
    said = "\n".join(f"word{number}" for number in range(9_000))
    shortened = text_of(await call(client, "counter__echo", {"text": said}))
    uri = next(word.strip("(),.") for word in shortened.split() if word.startswith("maitred://result/"))

    found = await text(client, f"{uri}?find=WORD8%3500")
    parts: list[str] = []
    while uri:
        contents = (await client.read_resource(uri)).contents
        assert isinstance(contents[0], types.TextResourceContents)
        parts.append(contents[0].text)
        uri = str(contents[1].uri) if len(contents) > 1 else ""

    assert len(shortened) < len(said) / 2
    assert len(parts) > 1
    assert said in "".join(parts)
    assert found == "\n".join(f"word{number}" for number in range(8_499, 8_506))


# --- of servers -------------------------------------------------------------------------------------------


@requirement("resource:servers")
async def test_resources_of_servers_are_listed_under_uris_that_name_the_server(client: Client) -> None:
    """So two servers may have the same URI; the contents carry the URI to ask for again. Source: maitred."""
    listed = await client.list_resources(cache_mode="refresh")
    templates = await client.list_resource_templates(cache_mode="refresh")
    uris = [resource.uri for resource in listed.resources]
    contents = {}
    for server in ("notes", SPACED):
        [content] = (await client.read_resource(published(server, "note:///3"))).contents
        contents[server] = content

    assert uris[len(OWN) :] == sorted(uris[len(OWN) :])
    for server in ("notes", SPACED):
        assert {published(server, f"note:///{n}") for n in range(1, 6)} <= set(uris)
        assert str(contents[server].uri) == published(server, "note:///3")
        assert getattr(contents[server], "text", "") == "the note 3"
        assert published(server, "note:///{number}") in [t.uri_template for t in templates.resource_templates]
    named = {resource.uri: resource.name for resource in listed.resources}
    assert named[published("notes", "note:///3")] == "note 3"


@requirement("resource:unknown")
@pytest.mark.parametrize(
    "uri",
    [
        "maitred://nothing",
        "maitred://tool/counter__ad",
        "maitred://server/nobody",
        "maitred://category/nothing/tools",
        "maitred://result/none",
        "nobody://knows",
        published("notes", "note:///9"),
        published(SPACED, "note:///9"),
    ],
)
async def test_an_unknown_resource_has_the_error_code_of_the_clients_era(
    front: Front, client: Client, uri: str
) -> None:
    """-32002 after a handshake, -32602 without, whatever the server said. Source: specification."""
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)

    assert caught.value.code == NOT_FOUND[front.mode]
    assert caught.value.error.data == {"uri": uri}
    assert len(caught.value.error.message) > len(uri) + 20  # it says what to do


@requirement("resource:hints")
@pytest.mark.parametrize("front", [("stdio", "legacy"), ("stdio", "auto")], ids="-".join, indirect=True)
async def test_stateless_reads_and_lists_say_how_long_they_may_be_kept(front: Front) -> None:
    """Our own texts for a while, what a server says not at all. Source: SEP-2549."""
    modern = front.mode == "auto"
    async with raw(serve_command(front.config), modern=modern, cwd=front.folder) as wire:
        lists = ("resources/list", "resources/templates/list", "prompts/list")
        results = [(await wire.request(method))["result"] for method in lists]
        own = (await wire.request("resources/read", {"uri": OWN[0]}))["result"]
        theirs = (await wire.request("resources/read", {"uri": published("notes", "note:///1")}))["result"]

    if not modern:
        assert all("ttlMs" not in result for result in (*results, own, theirs))
        return
    assert all((result["ttlMs"], result["cacheScope"]) == (60_000, "private") for result in (*results, own))
    assert (theirs["ttlMs"], theirs["cacheScope"], theirs["resultType"]) == (0, "private", "complete")


# --- completions ------------------------------------------------------------------------------------------


@requirement("complete:templates")
@pytest.mark.parametrize(
    ("template", "argument", "typed", "expected"),
    [
        ("maitred://tool/{name}", "name", "COUNTER__", ["counter__add", "counter__echo", "counter__pid"]),
        ("maitred://tool/{name}", "name", "r__ad", ["counter__add"]),
        ("maitred://server/{name}", "name", "ote", ["notes", SPACED]),
        ("maitred://server/{name}/tools", "name", "cou", ["counter"]),
        ("maitred://category/{name}", "name", "utilit", ["utilities"]),
        ("maitred://result/{id}", "id", "", []),
        (published("notes", "note:///{number}"), "number", "A", ["Ada", "Alan"]),
        (published(SPACED, "note:///{number}"), "number", "Ad", ["Ada"]),
    ],
)
async def test_the_variables_of_templates_are_completed(
    client: Client, template: str, argument: str, typed: str, expected: list[str]
) -> None:
    """Ours by what begins or holds what was typed, those of servers by the server. Source: specification."""
    ref = types.ResourceTemplateReference(uri=template)

    answer = await client.complete(ref, {"name": argument, "value": typed})

    assert answer.completion.values == expected


# --- changes ----------------------------------------------------------------------------------------------


@requirement("change:offers")
async def test_a_server_that_comes_changes_the_lists_of_resources_and_prompts(tmp_path: Path) -> None:
    """Clients of both eras are told, list again and see; the overview says so too. Source: specification."""
    one = {"counter": faulty("count")}
    with serving(write_settings(tmp_path, one)) as gateway:
        async with (
            listening(connecting(gateway, "legacy"), "legacy", uris=OWN) as legacy,
            listening(connecting(gateway, "auto"), "auto", uris=OWN) as modern,
        ):
            write_settings(tmp_path, {**one, "notes": sdk_server(HONEST, "stdio")})
            for listener in (legacy, modern):
                for what in ("resources", "prompts", "tools", *OWN):
                    await listener.hears(what)
                await until_listed(listener, published("notes", "note:///1"))
                prompts = await listener.client.list_prompts(cache_mode="refresh")
                assert "notes__greet" in [prompt.name for prompt in prompts.prompts]
                assert "notes" in await text(listener.client, OWN[1])


@requirement("subscribe:servers")
@pytest.mark.parametrize("server", ["notes", SPACED])
async def test_a_change_of_a_servers_resource_reaches_who_subscribed(front: Front, server: str) -> None:
    """Under the URI they subscribed with, whatever the era of the server. Source: specification."""
    wanted, other = published(server, "note:///2"), published(server, "note:///3")
    async with listening(front.connect, front.mode, uris=[wanted, OWN[1]]) as listener:
        assert listener.honored == [wanted, OWN[1]]
        await touch(listener, server, "note:///3")
        await touch(listener, server, "note:///2")
        await listener.hears(wanted)

        assert other not in listener.told


@requirement("subscribe:refused")
async def test_a_subscription_that_a_server_refuses_is_not_promised(front: Front) -> None:
    """After a handshake an error says so; a stateless stream is open for the rest. Source: specification."""
    unknown, wanted = published("notes", "note:///9"), published("notes", "note:///1")
    silent = "maitred://resource/counter/x://y"
    if front.mode == "legacy":
        async with listening(front.connect, front.mode, uris=[wanted]) as listener:
            for uri in (unknown.replace("notes", quote(SPACED)), silent, "maitred://nothing"):
                with pytest.raises(MCPError) as caught:
                    await listener.client.subscribe_resource(uri)
                assert caught.value.error.message
    else:
        async with listening(front.connect, front.mode, uris=[silent, wanted]) as listener:
            assert listener.honored == [wanted]
            await touch(listener, "notes", "note:///1")
            await listener.hears(wanted)


@requirement("subscribe:ends")
@pytest.mark.parametrize("front", [("stdio", "legacy"), ("http", "legacy")], ids="-".join, indirect=True)
async def test_who_unsubscribed_hears_no_more_of_it(front: Front) -> None:
    """A stateless client ends its stream instead. Source: specification, resources."""
    uri = published(SPACED, "note:///4")
    async with listening(front.connect, front.mode, uris=[uri, OWN[1]]) as listener:
        await touch(listener, SPACED, "note:///4")
        await listener.hears(uri)
        await listener.client.unsubscribe_resource(uri)
        start = len(listener.told)
        await listener.client.subscribe_resource(published(SPACED, "note:///5"))
        await touch(listener, SPACED, "note:///4")
        await touch(listener, SPACED, "note:///5")
        await listener.hears(published(SPACED, "note:///5"), start)

        assert uri not in listener.told[start:]


@requirement("resource:real")
@pytest.mark.real
async def test_the_reference_server_passes_through(front: Front, client: Client) -> None:
    """Its documents, templates and updates, under URIs that name it or its own. Source: maitred."""
    require("everything")
    document = f"{DEMO}/static/document/features.md"
    listed = [resource.uri for resource in (await client.list_resources(cache_mode="refresh")).resources]
    templates = [t.uri_template for t in (await client.list_resource_templates()).resource_templates]
    [blob] = (await client.read_resource(f"{DEMO}/dynamic/blob/7")).contents
    ref = types.ResourceTemplateReference(uri=f"{DEMO}/dynamic/text/{{resourceId}}")
    completed = await client.complete(ref, {"name": "resourceId", "value": "3"})

    assert document in listed
    assert f"{DEMO}/dynamic/text/{{resourceId}}" in templates
    assert "Everything Server" in await text(client, document)
    assert isinstance(blob, types.BlobResourceContents)
    assert str(blob.uri) == f"{DEMO}/dynamic/blob/7"
    assert completed.completion.values == ["3"]
    known_by = [document, document.removeprefix("maitred://resource/everything/")]
    async with listening(front.connect, front.mode, uris=known_by) as listener:
        await call(listener.client, "everything__toggle-subscriber-updates")
        for uri in known_by:
            await listener.hears(uri)
        if front.transport == "http":  # the shared server goes on otherwise
            await call(listener.client, "everything__toggle-subscriber-updates")


# --- helpers ----------------------------------------------------------------------------------------------


async def text(client: Client, uri: str) -> str:
    """The text of a resource of one part."""
    [content] = (await client.read_resource(uri, cache_mode="refresh")).contents
    assert isinstance(content, types.TextResourceContents)
    assert str(content.uri) == uri
    return content.text


async def touch(listener: Listener, server: str, uri: str) -> None:
    name = server.replace(" ", "_")
    result = await call(listener.client, f"{name}__touch", {"uri": uri})
    assert text_of(result) == "touched"


async def until_listed(listener: Listener, uri: str) -> None:
    """Wait until a resource is listed, looking again whenever the client is told of something."""
    with anyio.fail_after(120):
        while True:
            news = listener.news
            listed = await listener.client.list_resources(cache_mode="refresh")
            if uri in [resource.uri for resource in listed.resources]:
                return
            await news.wait()


def connecting(gateway: HttpGateway, mode: Mode) -> Callable[..., Any]:
    return lambda **options: gateway.connect(mode, **options)
