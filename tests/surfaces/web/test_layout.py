"""Pictures have the whole width; on a phone no action and no outcome is out of sight; one is no plural."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from markupsafe import Markup
from tests.surfaces.web.person import Person, chromium, person
from tests.surfaces.web.rig import House, opened, tool

from maitred.access.tokens import TokenRequest
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Scope
from maitred.model.tools import ToolCall
from maitred.surfaces.web.templates import add_labels

pytestmark = pytest.mark.anyio

_WEB = Path(__file__).parents[3] / "src" / "maitred" / "surfaces" / "web"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """One of everything: a server with a tool that was called, a token, a pattern, a search."""
    folder: Path = tmp_path_factory.mktemp("layout")
    async with opened(folder, {"shop": [tool("look", "Looks at a thing in the shop.")]}) as made:
        gateway = made.gateway
        await gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)
        request = TokenRequest(name="nightly", role="agent", scope=Scope(servers=frozenset({"shop"})))
        await gateway.make_token(request, LOCAL_USER)
        await gateway.add_allow_pattern("images", "ghcr.io/acme/*", why="our own", viewer=LOCAL_USER)
        gateway.count_menu([{"name": "search_tools", "description": "Find tools."}], LOCAL_USER)
        gateway.count_answer("an answer", LOCAL_USER)
        await made.recorded(1, tool="look")
        yield made


@pytest.fixture(scope="module")
async def reader(house: House) -> AsyncIterator[Person]:
    async with chromium() as connection:
        made = await person(connection)
        await made.open(house.url + house.web.entry_path(LOCAL_GRANT))
        yield made


_WIDTHS = """[...document.querySelectorAll(%r)].map((one) => {
  const around = one.parentElement, style = getComputedStyle(around);
  const room = around.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return one.getBoundingClientRect().width / room;
})"""


@pytest.mark.parametrize("width", [390, 900, 1_600])
@pytest.mark.parametrize("path", ["", "ledger", "servers"])
async def test_a_picture_has_the_whole_width(house: House, reader: Person, path: str, width: int) -> None:
    """Pictures ended at two thirds of a wide window."""
    await reader.resize(width)
    await reader.open(f"{house.url}/ui/{path}")
    shares = await reader.run(_WIDTHS % ".chart > svg, .map > svg")
    assert shares
    assert min(shares) > 0.98


_OUT_OF_SIGHT = """[...document.querySelectorAll('main :is(button, a, td, th, .state)')].filter((one) => {
  const box = one.getBoundingClientRect();
  const outside = box.right > innerWidth + 1 || box.left < 0;
  return outside && box.width > 1 && !one.closest('.map, .unseen, thead');
}).map((one) => one.textContent.trim().slice(0, 40))"""


@pytest.mark.parametrize(
    "path", ["servers", "servers/shop", "tools", "tools/shop/look", "access/allow", "ledger", "clients"]
)
async def test_nothing_of_a_table_is_out_of_sight_on_a_phone(house: House, reader: Person, path: str) -> None:
    """Each row is a list of its cells with the heads as labels; before, most columns had to be found."""
    await reader.resize(390)
    await reader.open(f"{house.url}/ui/{path}")
    await reader.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert await reader.run(_OUT_OF_SIGHT) == []


async def test_the_actions_of_a_token_are_in_sight_on_a_phone(house: House, reader: Person) -> None:
    await reader.resize(390)
    await reader.open(f"{house.url}/ui/access")
    label = "document.querySelector('.folds td:last-child')"
    assert "Revoke" in await reader.text(".folds tbody")
    assert await reader.run(f"getComputedStyle({label}, '::before').content") == '"Act"'
    right = await reader.run(f"{label}.querySelector('button').getBoundingClientRect().right")
    assert right <= 390


async def test_a_table_that_scrolls_shows_that_there_is_more(house: House, reader: Person) -> None:
    """A shade at its end, which is there only as long as something is behind it."""
    await reader.resize(390)
    await reader.open(f"{house.url}/ui/access")
    [over] = await reader.run(
        "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth)"
        ".map((one) => getComputedStyle(one).backgroundAttachment)"
    )
    assert over == "local, local, scroll, scroll, scroll"


@pytest.mark.parametrize("path", ["servers", "tools", "access", "access/allow", "ledger"])
async def test_no_table_is_wider_than_a_wide_window(house: House, reader: Person, path: str) -> None:
    """That of the servers was wider than its room at 1,600 pixels, so its last columns had to be found."""
    await reader.resize(1_600)
    await reader.open(f"{house.url}/ui/{path}")
    over = "[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth)"
    assert max(await reader.run(over)) <= 0


# --- labels -----------------------------------------------------------------------------------------------


def test_each_cell_has_the_head_of_its_column_and_an_empty_one_has_none() -> None:
    rows = Markup(
        '<tr class="a"><th scope="row">x</th><td class="number">1</td><td> </td></tr>\n'
        "<tr><th>y</th><td>&lt;td&gt;</td><td>2</td><td>3</td></tr>"
    )
    assert add_labels(rows, ["Name", 'Its "size"', "Why"]) == Markup(
        '<tr class="a"><th scope="row">x</th><td data-label="Its &#34;size&#34;" class="number">1</td>'
        '<td> </td></tr>\n<tr><th>y</th><td data-label="Its &#34;size&#34;">&lt;td&gt;</td>'
        '<td data-label="Why">2</td><td data-label="">3</td></tr>'
    )


# --- numbers ----------------------------------------------------------------------------------------------

_NOUNS = (
    "tools|calls|tokens|servers|clients|lines|days|hours|minutes|times|characters|queries|acts|parts|hits"
    "|phrases|changes|categories|results|texts|fields|findings|answers|sessions|patterns|principals|starts"
)
_PATHS = (
    *("", "servers", "servers/shop", "tools", "tools/shop/look", "search?q=look&expected=shop__look"),
    *(
        "call",
        "call/shop/look",
        "activity",
        "access",
        "access/allow",
        "approvals",
        "clients",
        "ledger?days=7",
    ),
)


@pytest.mark.parametrize("path", _PATHS)
async def test_one_is_no_plural(house: House, path: str) -> None:
    """Of a gateway with one of everything: "1 tools" and "1 calls" were on several pages."""
    read = (await (await house.person()).get(f"/ui/{path}")).text
    texts = re.sub(r"<[^>]*>", "\n", read)  # a number and the label of the next one are no phrase
    assert re.findall(rf"\b1 (?:{_NOUNS})\b", texts) == []


@pytest.mark.parametrize("file", sorted(_WEB.rglob("*.html")), ids=lambda file: file.stem)
def test_templates_count_by_one_helper(file: Path) -> None:
    """A number with its noun is written by `count`, which knows both forms; so no page has its own."""
    found = re.findall(rf"\}}\}} (?:more )?(?:{_NOUNS})\b(?!\")", file.read_text(encoding="utf-8"))
    assert found == (["}} days"] if file.stem == "ledger" else [])  # a choice of 7, 30 and 90
