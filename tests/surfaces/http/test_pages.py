"""Pages that are encoded once: what a client need not fetch again, and what it has to."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from fastapi import Request
from starlette.types import Message, Receive, Scope, Send
from tests.surfaces.http.rig import House, opened

from maitred.model.access import LOCAL_USER
from maitred.surfaces.http.page_cache import CachedApp, Pages

pytestmark = pytest.mark.anyio

API = "/api/v1"
ASKED = {"type": "http", "method": "GET", "query_string": b""}
PAGES = [
    "tools/hot",
    "tools/categories",
    "tools/category/data",
    "tools/shelf/read",
    "servers",
    "servers/shelf",
]


async def revalidated(client: httpx2.AsyncClient, path: str, etag: str) -> httpx2.Response:
    return await client.get(f"{API}/{path}", headers={"If-None-Match": etag})


@pytest.mark.parametrize("path", PAGES)
async def test_an_unchanged_page_is_not_sent_again(tmp_path: Path, path: str) -> None:
    """304 without a body, whether the page was kept or is made anew; other tags get the page."""
    async with opened(tmp_path, {"shelf": House("shelf", "read")}) as (_, client):
        first = await client.get(f"{API}/{path}")
        again = await client.get(f"{API}/{path}")
        etag = first.headers["ETag"]

        assert first.content == again.content
        assert not etag.startswith("W/")
        assert first.headers["Cache-Control"] == "private, max-age=0, must-revalidate"
        for given in (etag, f'"other", {etag}', f"W/{etag}", "*"):
            unchanged = await revalidated(client, path, given)
            assert (unchanged.status_code, unchanged.content) == (304, b"")
            assert unchanged.headers["ETag"] == etag
        assert (await revalidated(client, path, '"other"')).content == first.content


async def test_metrics_say_how_often_a_page_came_from_the_cache(tmp_path: Path) -> None:
    """By route; a change of the catalog has each page made again. Source: document 003, hit rates."""
    shelf = House("shelf", "read")
    async with opened(tmp_path, {"shelf": shelf}) as (gateway, client):
        for path in ("tools/hot", "tools/hot", "tools/hot", "tools/category/data"):
            await client.get(f"{API}/{path}")
        shelf.tools.append("write")
        await gateway.sync(["shelf"], viewer=LOCAL_USER)
        await client.get(f"{API}/tools/hot")
        text = (await client.get("/metrics")).text
    counted = [line for line in text.splitlines() if line.startswith("maitred_pages_total")]
    assert counted == [
        f'maitred_pages_total{{cache="miss",route="{API}/tools/hot"}} 2.0',
        f'maitred_pages_total{{cache="hit",route="{API}/tools/hot"}} 2.0',
        f'maitred_pages_total{{cache="miss",route="{API}/tools/category/{{name}}"}} 1.0',
    ]


async def test_a_page_changes_when_the_tools_do(tmp_path: Path) -> None:
    """A client that revalidates never misses a change."""
    shelf = House("shelf", "read")
    async with opened(tmp_path, {"shelf": shelf}) as (gateway, client):
        before = await client.get(f"{API}/tools/hot")
        shelf.tools.append("write")
        await gateway.sync(["shelf"], viewer=LOCAL_USER)
        after = await revalidated(client, "tools/hot", before.headers["ETag"])

    assert after.status_code == 200
    assert {tool["name"] for tool in after.json()["tools"]} == {"shelf__read", "shelf__write"}


async def test_a_change_elsewhere_leaves_a_page_as_it_is(tmp_path: Path) -> None:
    """The tag is of the page: after a new generation, it is encoded anew and found to be the same."""
    shelf, desk = House("shelf", "read"), House("desk", "write")
    async with opened(tmp_path, {"shelf": shelf, "desk": desk}) as (gateway, client):
        before = await client.get(f"{API}/tools/shelf/read")
        generation = gateway.snapshot.generation
        desk.tools.append("draw")
        await gateway.sync(["desk"], viewer=LOCAL_USER)
        assert gateway.snapshot.generation > generation
        after = await revalidated(client, "tools/shelf/read", before.headers["ETag"])

    assert after.status_code == 304


async def test_pages_of_a_category_go_on_where_the_last_one_ended(tmp_path: Path) -> None:
    """Every tool stands on one page, and a page behind the last is empty."""
    names = [f"convert_unit_{number}" for number in range(7)]
    async with opened(tmp_path, {"shelf": House("shelf", *names)}) as (_, client):
        [category] = (await client.get(f"{API}/tools/categories")).json()["categories"]
        found = [await page(client, category["name"], number, 3) for number in (1, 2, 3, 4)]

    assert [len(one["tools"]) for one in found] == [3, 3, 1, 0]
    assert sorted(t["name"] for one in found for t in one["tools"]) == [f"shelf__{name}" for name in names]
    assert found[1]["pagination"] == {"page": 2, "page_size": 3, "total_count": 7, "total_pages": 3}


async def page(client: httpx2.AsyncClient, category: str, number: int, size: int) -> Any:
    params = {"page": number, "page_size": size}
    return (await client.get(f"{API}/tools/category/{category}", params=params)).json()


async def test_any_name_can_be_written_in_a_path(tmp_path: Path) -> None:
    """Percent-encoded, a tool called `a/b c/call` of a server called `my/tools` is itself and no other."""
    names = ["a/b c/call", "ä?#%", "hot"]
    async with opened(tmp_path, {"my/tools": House("x", *names), "category": House("y", "data")}) as (
        _,
        client,
    ):
        for encoded, name in (("a%2Fb%20c%2Fcall", names[0]), ("%C3%A4%3F%23%25", names[1]), ("hot", "hot")):
            found = await client.get(f"{API}/tools/my%2Ftools/{encoded}")
            assert found.json()["raw_name"] == name
            called = await client.post(f"{API}/tools/my%2Ftools/{encoded}/call", json={})
            assert called.json()["content"] == [{"type": "text", "text": "done"}]
        shadowed = await client.get(f"{API}/tools/%63ategory/data")

    assert shadowed.json()["server"] == "category"


async def test_what_is_asked_least_recently_gives_way(tmp_path: Path) -> None:
    """However many addresses a client makes up, what is kept stays within its bound."""
    passed_on: list[str] = []

    async def other(scope: Scope, _: Receive, __: Send) -> None:
        passed_on.append(scope["path"])

    async def send(_: Message) -> None:
        return

    async with opened(tmp_path, {"shelf": House("shelf", "read")}) as (gateway, _):
        pages = Pages(gateway, max_bytes=1_500)
        app = CachedApp(other, pages)
        scopes = {path: {**ASKED, "path": path, "headers": []} for path in ("/a", "/b", "/c")}

        async def receive() -> Message:
            raise NotImplementedError

        for path in ("/a", "/b"):
            pages.answer(Request(scopes[path]), lambda: "x" * 600)
        await app(scopes["/a"], receive, send)
        pages.answer(Request(scopes["/c"]), lambda: "x" * 600)
        for path in ("/a", "/b", "/c"):
            await app(scopes[path], receive, send)

    assert passed_on == ["/b"]


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """At the same size as at the MCP endpoint."""
    async with opened(tmp_path, {"shelf": House("shelf", "read")}) as (_, client):
        body = {"arguments": {"path": "x" * (4 * 1024 * 1024)}}
        answer = await client.post(f"{API}/tools/shelf/read/call", json=body)

    assert (answer.status_code, answer.json()["error"]) == (413, "body_too_large")


async def test_a_tool_that_fails_is_answered_with_status_200(tmp_path: Path) -> None:
    """Its failure is a result, and stands in `isError`."""
    shelf = House("shelf", "read")
    shelf.answer = types.CallToolResult(content=[types.TextContent(text="no such page")], is_error=True)
    async with opened(tmp_path, {"shelf": shelf}) as (_, client):
        answer = await client.post(f"{API}/tools/shelf/read/call", json={"arguments": {}})
        counted = (await client.get("/metrics")).text

    assert answer.status_code == 200
    assert answer.json()["isError"] is True
    assert 'maitred_call_errors_total{server="shelf"} 1.0' in counted


async def test_a_gateway_is_ready_when_it_has_met_its_servers(tmp_path: Path) -> None:
    """Until then 503, a tool of such a server is withheld, and a call waits for it."""
    gate = anyio.Event()
    answers: list[httpx2.Response] = []
    async with opened(tmp_path, {"shelf": House("shelf", "read", gate=gate)}, settled=False) as (_, client):
        early = await client.get("/readyz")
        unknown = await client.get(f"{API}/tools/shelf/read")

        async def call() -> None:
            answers.append(await client.post(f"{API}/tools/shelf/read/call", json={}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            gate.set()
        ready = await client.get("/readyz")

    assert (early.status_code, early.json()["error"]) == (503, "not_ready")
    assert (unknown.status_code, unknown.json()["error"]) == (409, "tool_withheld")
    assert [answer.status_code for answer in answers] == [200]
    assert ready.status_code == 200
