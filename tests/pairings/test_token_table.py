"""The design's table of tokens holds for clients of both eras, also of a client that ignores changed lists.

The figures are limits, since tokens do not depend on the machine. The table is that of `docs/menu.md`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.interaction.harness import SUPPORT, cli, sdk_server, serve_command, write_settings
from tests.support import corpus
from tests.support.sdk_clients import Era, Sdk, each_sdk, sdk_client
from tests.support.team_server import PAGES, USERS
from tests.support.token_table import (
    DOCUMENT,
    ERAS,
    SERVER,
    TokenRow,
    given_tokens,
    listed_as_is,
    measure,
    of_python,
    of_typescript,
    thin,
)

from maitred.catalog.names import prefix
from maitred.catalog.token_count import count_tokens

SMALL_SIZES = (1, 3, 10, 15)


@pytest.fixture(scope="module")
def table() -> dict[tuple[str, Era], TokenRow]:
    return {(row.scenario, row.era): row for row in anyio.run(measure)}


@pytest.mark.parametrize("era", ERAS)
def test_fifty_tools_cost_what_the_design_document_says(
    table: dict[tuple[str, Era], TokenRow], era: Era
) -> None:
    """97 % saved with no category used, 87 % with one of five tools. Source: design document 000."""
    saved = {scenario: round(table[scenario, era].saved, 2) for scenario in list(DOCUMENT)[:2]}

    assert all(saved[scenario] >= DOCUMENT[scenario] for scenario in saved), saved


@pytest.mark.parametrize(
    ("scenario", "era", "least"),
    [
        ("50 tools, 1 category of 15 opened", "handshake", 0.65),
        ("50 tools, 1 category of 15 opened", "stateless", 0.89),
        ("50 tools, all opened", "handshake", -0.08),
        ("50 tools, all opened", "stateless", 0.71),
        ("50 tools of a Python server, all opened", "handshake", 0.05),
        ("50 tools of a Python server, all opened", "stateless", 0.75),
    ],
)
def test_what_is_opened_is_paid_once(
    table: dict[tuple[str, Era], TokenRow], scenario: str, era: Era, least: float
) -> None:
    """In the list, or in the answers where a list cannot change; names and categories are on top."""
    assert table[scenario, era].saved >= least


@pytest.mark.parametrize("era", ERAS)
def test_an_answer_in_the_handshake_era_costs_a_tenth_of_the_tools_that_it_opens(
    table: dict[tuple[str, Era], TokenRow], era: Era
) -> None:
    """It has their names alone; in the stateless era a third: signatures. Source: docs/categories.md."""
    for scenario, opened in (("1 category of 5 opened", 5), ("all opened", 50)):
        row = table[f"50 tools, {scenario}", era]
        share = row.answers / (row.raw * opened / row.tools)
        assert 0 < share <= (0.10 if era == "handshake" else 0.35)


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("written", [of_python, of_typescript], ids=["Python", "TypeScript"])
async def test_a_small_catalog_of_an_sdk_is_never_dearer_than_its_servers(
    written: Callable[[dict[str, Any]], dict[str, Any]], era: Era
) -> None:
    """What its schemas need not say pays for the name of the server. Source: docs/menu.md."""
    for count in SMALL_SIZES:
        row = await listed_as_is("small", SERVER, [written(tool) for tool in thin("admin", count)], era)
        assert row.saved >= 0
        assert row.whole_saved >= 0


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_a_small_catalog_of_thin_tools_costs_the_names_of_its_server_more(era: Era) -> None:
    """And nothing else: no meta-tool, no text of the gateway. Source: docs/menu.md."""
    name_tokens = count_tokens([prefix(SERVER)])[0]
    for count in SMALL_SIZES:
        row = await listed_as_is("small", SERVER, thin("admin", count), era)
        assert row.total - row.raw <= count * name_tokens
        assert row.saved >= -0.03


@pytest.mark.anyio
async def test_recorded_servers_below_the_break_even_cost_less_in_sum() -> None:
    """Each alone behind a gateway, as it was recorded; only names are ever added."""
    path = corpus.recorded()
    if path is None:
        pytest.skip("the definitions of real servers are not here; see tests/support/corpus.py")
    raw = listed = 0
    for record in corpus.read(path)[::10]:
        tools = [tool for tool in record["tools"] if isinstance(tool.get("inputSchema"), dict)]
        if not tools or given_tokens(tools) > 3_000:
            continue
        name = str(record["server"])
        row = await listed_as_is(name, name, tools, "stateless")
        assert row.total - row.raw <= row.tools * count_tokens([prefix(name)])[0]
        raw, listed = raw + row.raw, listed + row.total
    assert 0 < listed <= raw


@pytest.mark.anyio
@each_sdk
async def test_a_client_pays_once_for_a_category_and_gets_signatures_if_its_list_stays(
    sdk: Sdk, tmp_path: Path
) -> None:
    """It is told of the change before the answer; if it does not read its list, it asks again and calls.

    Source: docs/categories.md, "Opening and collapsing".
    """
    config = write_settings(
        tmp_path,
        {"team": sdk_server(SUPPORT / "team_server.py")},
        disclosure={"mode": "categories", "break_even_tokens": 0, "first_list_wait_s": 60},
    )
    assert cli(config, "list", "--json").returncode == 0
    async with sdk_client(sdk, {"command": serve_command(config)}, "team__") as client:
        closed = await client.definitions()
        first = await client.call("admin_tools")
        told_before_the_answer = client.told
        again = await client.call("admin_tools")
        through = await client.result("call_tool", {"name": "team__find_user", "arguments": {"name": "ada"}})
        later = await client.call("content_tools")
        opened = await client.listed()

    names = frozenset(tool["name"].removeprefix("team__") for tool in closed)
    assert "team__find_user(name?: str) - Find a user." in again
    assert "call them with call_tool:" in again
    assert through["content"][0]["text"] == 'find_user {"name": "ada"}'
    assert "team__write_page(name?: str)" in later
    if sdk.era == "stateless":
        assert first == again
        assert opened == names
        return
    assert first == f"Now in your list: {', '.join(sorted(USERS))}.\nMissing? Call again."
    assert told_before_the_answer >= 1
    assert opened == (names | {*USERS, *PAGES}) - {"call_tool"}
