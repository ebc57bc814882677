"""What a server writes is text on every page, whatever it writes: stored attacks, one tool for each."""

import json
import re
import unicodedata
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.surfaces.web.person import chromium, person
from tests.surfaces.web.rig import House, Json, opened, tool

from maitred.errors import MaitredError
from maitred.model.access import LOCAL_GRANT, LOCAL_USER
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

_FILE = Path(__file__).parents[2] / "data" / "web" / "attacks.json"
ATTACKS: dict[str, str] = {
    one["name"]: one["text"] * one.get("repeat", 1) for one in json.loads(_FILE.read_text(encoding="utf-8"))
}
_NAMES = """html head meta title link script body a header svg path nav ul ol li div span form input button
main p h1 h2 h3 section dl dt dd kbd code pre bdi details summary small label select option
optgroup datalist table caption thead tbody tr th td ins del u mark desc text rect g figure
figcaption fieldset legend textarea meter"""
OWN_ELEMENTS = frozenset(_NAMES.split())
MOST_BYTES = 2_000_000


class Elements(HTMLParser):
    """The elements of a page, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        if tag not in OWN_ELEMENTS:
            self.faults.append(f"<{tag}>")
        if tag == "script" and not (about.get("src") or "").startswith("/ui/static/"):
            self.faults.append(f"a script: {about}")
        if tag == "meta" and "http-equiv" in about:
            self.faults.append(f"a meta element: {about}")
        for name, value in about.items():
            if name.startswith("on") or name in ("style", "srcdoc", "autofocus"):
                self.faults.append(f"<{tag} {name}>")
            if name in ("href", "src", "action", "formaction") and not re.match(r"/ui|#", value or ""):
                self.faults.append(f"<{tag} {name}={value}>")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hidden(page: str) -> set[str]:
    """The characters of a page that do not show."""
    kinds = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
    return {c for c in set(page) - {"\n", "\t"} if unicodedata.category(c) in kinds}


def evil(name: str, text: str) -> Json:
    """A tool with an attack in every text of it."""
    short = text[:2_000]
    made = tool(name, text, a={"type": "string", "description": short, "default": short, "enum": [short]})
    return made | {"title": short, "annotations": {"title": short}, "_meta": {"x": short}}


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A gateway with a server that was honest when it was approved, and one that is evil from the start."""
    folder = tmp_path_factory.mktemp("evil")
    tools = [evil(name, text) for name, text in ATTACKS.items()]
    texts = [text[:2_000] for text in ATTACKS.values()]
    names = [evil(f"n{at}{text[:60]}", "x") for at, text in enumerate(texts)]
    async with opened(folder, {"evil": [tool(name) for name in ATTACKS], "names": [tool("a")]}) as made:
        await made.change("evil", *tools, instructions="\n".join(texts), stderr=texts)
        await made.change("names", *names)
        for at, text in enumerate(texts):
            call = ToolCall(name=f"evil__{text}", arguments={"a": text}, request_id=f"r{at}")
            with suppress(MaitredError):  # any refusal; its text goes into the audit trail
                await made.gateway.call(call, viewer=LOCAL_USER)
        yield made


PAGES = ("", "approvals", "approvals/evil", "approvals/names", "servers", "servers/evil", "tools", "activity")


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_with_all_attacks_has_our_own_elements_only(house: House, path: str) -> None:
    """No element, no handler and no address of a server; no character that does not show; not without end."""
    answer = await (await house.person()).get(f"/ui/{path}")
    assert answer.status_code == 200
    assert Elements(answer.text).faults == []
    assert hidden(answer.text) == set()
    assert len(answer.content) < MOST_BYTES


async def test_each_attack_is_there_to_read_on_the_page_of_its_tool(house: House) -> None:
    """Approved by a person who did not look: it is text all the same."""
    case = await house.gateway.case("evil", viewer=LOCAL_USER)
    await house.gateway.decide("evil", "approve", viewer=LOCAL_USER, seen=case.digest)
    await house.gateway.sync(["evil"], viewer=LOCAL_USER)
    client = await house.person()
    for name, text in ATTACKS.items():
        answer = await client.get(f"/ui/tools/evil/{quote(name, safe='')}")
        assert answer.status_code == 200, name
        found = Elements(answer.text)
        assert found.faults == [], name
        assert hidden(answer.text) == set(), name
        assert len(answer.content) < MOST_BYTES, name
        if text.isascii() and text.isprintable() and len(text) < 200:
            assert text[:20] in "".join(found.text), name
    for query in ATTACKS.values():
        answer = await client.get("/ui/tools", params={"q": query[:500], "category": query[:500]})
        assert Elements(answer.text).faults == []
        answer = await client.get("/ui/activity", params={"tool": query[:500], "who": query[:500]})
        assert Elements(answer.text).faults == []


async def test_a_real_browser_runs_none_of_it(house: House) -> None:
    """Neither a script of theirs, nor a request to elsewhere; and the page is still ours."""
    async with chromium() as connection:
        somebody = await person(connection)
        await somebody.open(house.url + house.web.entry_path(LOCAL_GRANT))
        for path in PAGES:
            await somebody.open(f"{house.url}/ui/{path}")
            assert await somebody.run("globalThis.hit === undefined")
            assert await somebody.run(
                "performance.getEntriesByType('resource').every(r => r.name.startsWith(origin))"
            )
            assert (
                await somebody.run("document.querySelectorAll('img, iframe, object, style, base').length")
                == 0
            )
            assert await somebody.run("document.querySelectorAll('header nav a').length") >= 6
        assert somebody.violations == []
