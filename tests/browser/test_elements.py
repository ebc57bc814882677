"""Elements, console, dialogs and addresses of a page, in a real browser."""

from collections.abc import Iterator

import pytest
from tests.support.chromium import Client
from tests.support.web_site import Site, serve_site

pytestmark = pytest.mark.anyio

SHADOW = """
  const root = card.attachShadow({mode: 'open'});
  root.innerHTML = '<p>Card</p><button onclick="this.id = \\'bought\\'">Buy</button><x-deep></x-deep>';
  root.querySelector('x-deep').attachShadow({mode: 'open'}).innerHTML = '<input name="deep">';
  hidden.attachShadow({mode: 'closed'}).innerHTML = '<button>Closed</button>';
"""
FRAME = (
    '<div style="height: 900px"></div><button onclick="this.id = \'paid\'">Pay</button>'
    '<form action="paid"><input name="card"></form><div id="shade"></div>'
)


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site() as made:
        made.page("frame", body=FRAME)
        made.page("paid", body="<h2>Thank you</h2>")
        yield made


async def test_elements_are_found_with_what_an_agent_needs(client: Client, shop: str) -> None:
    """Attributes, text, state; hidden ones only on request; the index is that of the selector."""
    await client.do("navigate", url=f"{shop}/index.html")
    answer = await client.do("query_elements", selector="button", text_contains="h", limit=2)
    assert answer.startswith("2 of 2 elements that fit; 1 more are hidden:")
    assert '1: <button id="hidden"> "Hidden" hidden' in await client.do(
        "query_elements", selector="#add, #hidden", include_hidden=True
    )
    assert '<input name="q" placeholder="Search">' in await client.do("query_elements", selector="[name=q]")
    assert "no CSS selector" in await client.refused("query_elements", selector="<<")


async def test_a_click_is_one_of_the_mouse(client: Client, shop: str) -> None:
    """What is covered, hidden or disabled is not clicked, and the refusal says which."""
    await client.do("navigate", url=f"{shop}/index.html")
    assert 'Clicked <button id="add">' in await client.do("click_element", selector="#add")
    for selector, why in (
        ("#under", 'is covered by <div id="over"> "Over"'),
        ("#hidden", "is hidden"),
        ("#off", "is disabled"),
        ("#none", "no element fits"),
    ):
        assert why in await client.refused("click_element", selector=selector)
    assert "there is no index 3" in await client.refused("click_element", selector="#add", index=3)


async def test_a_click_that_leads_elsewhere_is_followed(client: Client, shop: str) -> None:
    await client.do("navigate", url=f"{shop}/index.html")
    answer = await client.do("click_element", selector="#next")
    assert f"Page: 'Found' {shop}/found.html, from {shop}/index.html" in answer
    await client.do("navigate", url=f"{shop}/index.html")
    assert await client.do("click_element", selector="#next", include_context=False) == (
        'Clicked <a id="next" href="found.html"> "Next".'
    )


async def test_fields_and_lists_are_filled(client: Client, shop: str) -> None:
    """As a user would: pages hear of it; a submitted form leads on."""
    await client.do("navigate", url=f"{shop}/index.html")
    assert 'value="l"' in await client.do("fill_element", selector="select", text="Large")
    assert "it has" in await client.refused("fill_element", selector="select", text="Huge")
    assert "hat" not in await client.do("fill_element", selector="[name=secret]", text="hat")
    assert "use click_element" in await client.refused("fill_element", selector="[name=gift]", text="x")
    assert "is no field" in await client.refused("fill_element", selector="h1", text="x")
    answer = await client.do("fill_element", selector="[name=q]", text="hat", submit=True)
    assert "found.html?q=hat&secret=hat&size=l" in answer


async def test_a_field_is_found_and_named_by_its_label(client: Client, shop: str) -> None:
    """As a person names it; a list says which of its options is chosen. Source: maitred."""
    await client.do("navigate", url=f"{shop}/index.html")
    answer = await client.do("query_elements", selector="input, select", text_contains="pieces")
    assert answer.endswith('<input name="count" type="number" label="Pieces" value="1">')
    assert 'value="l" chosen="Large">' in await client.do("fill_element", selector="select", text="l")
    assert "1 of 1" in await client.do("query_elements", selector="input", text_contains="search")


async def test_the_console_is_read(client: Client, shop: str) -> None:
    """Newest last, by level, errors with their stack on request; a click reports its errors."""
    await client.do("navigate", url=f"{shop}/index.html")
    await client.do("click_element", selector="#add")
    assert "TypeError: out of stock (fail (" in await client.do("click_element", selector="#fail")
    assert "[info] sum 5 {unit: piece}" in await client.do("get_console_logs", filter_level="info")
    answer = await client.do("get_console_logs", filter_level="error", limit=1, expand_errors=True)
    assert "[error] TypeError: out of stock" in answer
    assert "    at fail (" in answer
    assert "no such message" in await client.do("get_console_logs", filter_level="warning")


async def test_a_dialog_does_not_stop_the_page(client: Client, shop: str) -> None:
    """It is answered at once, and the answer of the call says how."""
    await client.do("navigate", url=f"{shop}/index.html")
    answer = await client.do("click_element", selector="#ask")
    assert "dismissed the confirm dialog 'Really?'" in answer
    assert "Page: 'no'" in answer


async def test_only_addresses_of_the_web_are_opened(client: Client, shop: str) -> None:
    """A file or a page of the browser would be read with the user's rights. Source: notes, Security."""
    for url in (
        "file:///etc/passwd",
        "chrome://settings",
        "javascript:1",
        "data:text/html,x",
        "view-source:x",
    ):
        assert "no address of the web" in await client.refused("navigate", url=url)
    assert "ERR_" in await client.refused("navigate", url="http://127.0.0.1:2/")
    assert "Opened about:blank" in await client.do("navigate", url="about:blank")


async def test_a_call_with_a_wrong_argument_says_which(client: Client) -> None:
    assert "did you mean 'selector'" in await client.refused("click_element", selektor="#a")
    assert "`limit`" in await client.refused("query_elements", selector="a", limit="five")
    assert "selector" in await client.refused("query_elements")
    assert "did you mean 'click_element'" in await client.refused("click_elements")
    assert "there is no connection 'x'" in await client.refused("list_targets", connection_id="x")


async def test_elements_in_open_shadow_roots_are_found_and_used(client: Client, web: Site) -> None:
    """At any depth, after those of the document; closed roots are closed to agents, too."""
    url = web.page(
        "shadow", SHADOW, body="<button>Top</button><x-card id=card></x-card><x-none id=hidden></x-none>"
    )
    await client.do("navigate", url=url)
    answer = await client.do("query_elements", selector="button")
    assert answer.splitlines() == [
        "2 of 2 elements that fit:", '0: <button> "Top"', '1: <button> "Buy" in <x-card#card>',
    ]  # fmt: skip
    await client.do("click_element", selector="button", index=1)
    assert "bought" in await client.do("query_elements", selector="button", text_contains="buy")
    await client.do("fill_element", selector="[name=deep]", text="down here")
    assert '<input name="deep" value="down here"> in <x-deep>' in await client.do(
        "query_elements", selector="[name=deep]"
    )


async def test_elements_in_frames_of_the_same_origin_are_found_and_used(client: Client, web: Site) -> None:
    """Where they are after scrolling, border and scale of the frame; what covers the frame covers them."""
    frame = (
        '<div style="height: 1500px"></div><iframe id="shop" src="frame" style="border: 7px solid;'
        ' padding: 11px; transform: scale(0.5); width: 600px; height: 300px"></iframe>'
    )
    await client.do("navigate", url=web.page("framed", body=frame))
    assert '0: <button> "Pay" in <iframe#shop>' in await client.do("query_elements", selector="button")
    await client.do("click_element", selector="button")
    assert '<button id="paid"' in await client.do("query_elements", selector="button")
    await client.do("fill_element", selector="[name=card]", text="4711", submit=True)
    assert '"Thank you" in <iframe#shop>' in await client.do("query_elements", selector="h2")
    over = frame + '<div style="position: fixed; inset: 0" id="over"></div>'
    await client.do("navigate", url=web.page("under", body=over))
    assert 'is covered by <div id="over">' in await client.refused("click_element", selector="button")


async def test_a_frame_of_another_origin_is_named_as_not_searched(client: Client, web: Site) -> None:
    """Its elements are not those of the page, and a sandbox is an origin of its own."""
    other = web.origin.replace("127.0.0.1", "localhost")
    frames = f'<iframe src="{other}/frame"></iframe><iframe sandbox srcdoc="<button>Text</button>"></iframe>'
    await client.do("navigate", url=web.page("around", body=frames))
    answer = await client.do("query_elements", selector="button")
    assert answer == "0 of 0 elements that fit; not searched: 2 frames of other origins."
    assert "not searched: 2 frames" in await client.refused("click_element", selector="button")
