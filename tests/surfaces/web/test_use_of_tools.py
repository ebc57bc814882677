"""How tools are used: the page of a tool, its API and the command say the same, as soon as it was called.

Lists and searches are narrowed by it, and by tags and sub-categories, as on the command line.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.surfaces.cli.rig import runner, write
from tests.surfaces.web.rig import SOON_S, House, opened, tool
from tests.surfaces.web.test_tools import page, rows_of, words_of

from maitred.model.access import LOCAL_USER, Grant, Scope
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

DATABASE = [
    tool("run_sql", "Run a SQL query against the postgres database.", sql={"type": "string"}),
    tool("list_tables", "List the tables of a database schema with their columns."),
    tool("merge_pdf", "Merge the pages of PDF documents into one PDF."),
]
MAIL = [tool("send_mail", "Send an email message to a person.")]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A gateway in which `run_sql` was called three times, once without success; no tiers are computed."""
    folder: Path = tmp_path_factory.mktemp("use")
    async with opened(folder, {"pg": DATABASE, "post": MAIL}) as made:
        for sql in ("SELECT 1", "SELECT 2", "SELECT 3"):
            await made.gateway.call(ToolCall(name="pg__run_sql", arguments={"sql": sql}), viewer=LOCAL_USER)
        assert made.gateway.snapshot.standings == {}
        yield made


async def test_a_call_is_on_the_page_in_the_api_and_in_the_command_at_once(house: House) -> None:
    """The page said "none yet" until the tiers were computed, once a day."""
    me, program = await house.person(), house.stranger()
    before = words_of(await page(me, "/ui/tools/post/send_mail"))
    assert "Calls none" in before
    assert (await program.get("/api/v1/tools/post/send_mail")).json()["usage"] is None

    await house.gateway.call(ToolCall(name="post__send_mail", arguments={}), viewer=LOCAL_USER)
    after = words_of(await page(me, "/ui/tools/post/send_mail"))
    usage = (await program.get("/api/v1/tools/post/send_mail")).json()["usage"]
    agent_reads = (await house.gateway.info(["post__send_mail"], "full", viewer=LOCAL_USER)).text

    last = usage["last_used"]
    assert (usage["calls"], usage["success_rate"], last[:2]) == (1, 1.0, "20")
    assert "Calls 1, 100 % of them succeeded; 1 in 7 days" in after
    assert f"Last call {last.replace('T', ' ')[:19]} UTC" in after
    assert "Level cold, score 0.00 not computed yet" in after
    assert "used: 1 call, 100.0% succeeded" in agent_reads
    assert f"last {last[:16]}Z" in agent_reads
    assert agent_reads.partition("used: ")[2] in after


async def test_the_command_says_the_same_beside_the_gateway(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = house.gateway.settings.servers["pg"]
    about = {"servers": {"pg": {"command": spec.command, "args": list(spec.args)}}}
    write(
        house.folder, {"maitred.yaml": json.dumps(about | {"catalog": {"path": str(house.folder / "c.db")}})}
    )
    maitred = runner(house.folder, monkeypatch, capsys)
    usage = (await house.stranger().get("/api/v1/tools/pg/run_sql")).json()["usage"]

    with anyio.fail_after(SOON_S):  # the gateway writes its figures within a second
        said = ""
        while f"used: {usage['calls']} calls, 100.0% succeeded" not in said:
            said = await anyio.to_thread.run_sync(
                lambda: maitred("info", "--detail", "full", "pg__run_sql").fine
            )


async def test_the_list_shows_the_use_of_each_tool(house: House) -> None:
    rows = {row.split()[0]: row for row in rows_of(await page(await house.person()))}
    assert " 3 " in rows["pg__run_sql"]
    assert rows["pg__run_sql"].endswith(" 100 %")
    assert rows["pg__merge_pdf"].endswith(" 0")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"max_latency_ms": "60000", "category": "data"}, ["pg__run_sql"]),
        ({"min_success": "0.5", "server": "pg"}, ["pg__run_sql"]),
        ({"used_within": "1h", "server": "pg"}, ["pg__run_sql"]),
        ({"max_latency_ms": "0"}, []),
        ({"tag": "technology:postgresql"}, ["pg__run_sql"]),
        ({"tag": "postgresql, function:no-such"}, None),
        ({"category": "databases"}, ["pg__run_sql", "pg__list_tables"]),
        ({"category": "pdf"}, ["pg__merge_pdf"]),
        ({"min_success": "2"}, None),
        ({"max_latency_ms": "nan"}, None),
        ({"used_within": "yesterday"}, None),
        ({"used_within": "40d"}, None),
    ],
    ids=str,
)
async def test_the_list_is_narrowed_by_use_tag_and_sub_category(
    house: House, query: dict[str, Any], expected: list[str] | None
) -> None:
    """As `maitred menu` and the API are; what means nothing is said beside the form, and shows nothing."""
    read = await page(await house.person(), **query)
    found = {row.split()[0] for row in rows_of(read)}
    assert found == set(expected or ())
    assert ('class="notice fault"' in read) is (expected is None)
    assert ("Nothing is shown, since a filter means nothing." in read) is (expected is None)
    for name, value in query.items():
        field = f'value="{value}"'
        assert field in read or name == "category", name


async def test_what_narrows_the_list_is_kept_by_the_command_and_the_field(house: House) -> None:
    read = await page(await house.person(), category="databases", tag="postgresql", min_success="0.9")
    assert "maitred menu category/databases --tag postgresql --min-success 0.9" in words_of(read)
    assert '<details class="narrowing" open>' in read


async def test_categories_show_what_is_in_them(house: House) -> None:
    read = words_of(await page(await house.person()))
    assert "Category Tools Sub-categories" in read
    assert "data 2 databases 2" in read


@pytest.mark.parametrize(
    ("query", "finds"),
    [
        ({"min_success": "0.5"}, True),
        ({"max_latency_ms": "0"}, False),
        ({"used_within": "1h"}, True),
        ({"tag": "technology:postgresql"}, True),
        ({"tag": "technology:docker"}, False),
        ({"category": "databases"}, True),
        ({"category": "pdf"}, False),
    ],
    ids=str,
)
async def test_a_search_is_narrowed_alike(house: House, query: dict[str, str], finds: bool) -> None:
    """The hits, what an agent reads, and what became of the expected tool go by the filters."""
    asked = {"q": "run a sql query", "expected": "pg__run_sql", **query}
    read = words_of(await page(await house.person(), "/ui/search", **asked))
    assert ("pg__run_sql is found, at place 1" in read) is finds
    assert ("does not fit the filters of this search" in read) is not finds
    assert ("Limited by use:" in read) is bool(
        query.keys() & {"min_success", "max_latency_ms", "used_within"}
    )


@pytest.mark.parametrize(
    "query", [{"tag": "no-such-tag"}, {"min_success": "x"}, {"used_within": "x"}], ids=str
)
async def test_a_search_with_a_filter_that_means_nothing_says_so(house: House, query: dict[str, str]) -> None:
    read = await page(await house.person(), "/ui/search", q="run a sql query", **query)
    assert 'class="notice fault"' in read
    assert "Nothing was searched, since a filter means nothing." in read


async def test_the_use_of_tools_outside_a_scope_is_not_shown(house: House) -> None:
    """Who may see the tools of one server finds none of the others by their use."""
    scope = Scope(servers=frozenset({"post"}))
    other = await house.person(Grant(principal="ann", role="viewer", scope=scope))
    read = await page(other, max_latency_ms="60000", used_within="1h")
    assert "pg__run_sql" not in read
    assert (await other.get("/ui/tools/pg/run_sql")).status_code == 404
