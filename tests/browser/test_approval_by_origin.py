"""A person approves the tools of one origin of pages in one step, after reading what they say of themselves.

Source: issue 19, point 3.
"""

import json
from pathlib import Path

import pytest
from httpx2 import ASGITransport, AsyncClient
from starlette.responses import PlainTextResponse
from tests.browser.dialing import dialed_house, file_of, played_page, tool
from tests.support.pages import House

from maitred.admission import gatekeeper
from maitred.config.settings import Http
from maitred.errors import AdmissionError
from maitred.gateway.cases import Case
from maitred.model.access import LOCAL_USER
from maitred.surfaces.cli.case_view import explanation, next_steps, summary
from maitred.surfaces.http.app import application

pytestmark = pytest.mark.anyio
PAGES = '{allow: ["http://127.0.0.1:*", "https://*.example.org"], dial_in: 0}'
SHOP, BANK = "http://127.0.0.1:3000", "https://bank.example.org"
ADD = tool(
    "add",
    inputSchema={
        "type": "object",
        "properties": {"article": {"type": "string", "description": "Its number."}, "count": {"minimum": 1}},
        "required": ["article"],
    },
)


async def case_of(one: House) -> Case:
    return await one.gateway.case("web", viewer=LOCAL_USER)


async def waits(one: House, count: int) -> Case:
    """The case as soon as so many tools of pages wait."""
    await one.until(lambda: sum(map(bool, one.known.values())) == count)
    return await case_of(one)


def text_of(case: Case) -> str:
    return "\n".join(line.plain for line in [*summary(case), *next_steps(case)])


async def test_one_origin_is_approved_and_what_it_changes_or_adds_waits_again(tmp_path: Path) -> None:
    """Tools of other origins go on waiting."""
    async with dialed_house(tmp_path, pages=PAGES) as one, played_page(file_of(tmp_path)) as shop:
        await shop.offer(ADD, tool("show"))
        async with played_page(file_of(tmp_path), origin=BANK, offers=["pay"]):
            case = await waits(one, 3)
            assert [(origin.origin, len(origin.tools)) for origin in case.origins] == [(SHOP, 2), (BANK, 1)]
            after = await one.gateway.decide(
                "web",
                "approve",
                viewer=LOCAL_USER,
                origin=f"{SHOP}/",
                seen=case.origins[0].digest,
                why="mine",
            )
            await one.until(lambda: one.names() == {"add", "show"})
            assert [origin.origin for origin in after.origins] == [BANK]
            assert after.awaits
            assert "approved in part by local: http://127.0.0.1:3000: mine" in "\n".join(
                line.plain for line in explanation(after)
            )
            await shop.offer(ADD | {"description": "Buys it at once."}, tool("show"), tool("gift"))
            case = await waits(one, 3)
            assert one.names() == {"show"}
            assert {t.name for t in case.waiting_origin(SHOP).tools} == {"add", "gift"}
            await one.gateway.decide("web", "approve", viewer=LOCAL_USER, origin=SHOP)
            await one.until(lambda: one.names() == {"add", "show", "gift"})
            await one.gateway.decide("web", "approve", viewer=LOCAL_USER, origin=BANK)
            await one.until(lambda: one.names() == {"add", "show", "gift", "pay"})
            assert not (await case_of(one)).awaits


async def test_approvals_show_what_each_tool_says_of_itself_by_origin(tmp_path: Path) -> None:
    """Nobody has to approve a name alone. What cannot be seen is shown as an escape."""
    async with dialed_house(tmp_path, pages=PAGES) as one, played_page(file_of(tmp_path)) as shop:
        await shop.offer(ADD, tool("show") | {"description": "Shows it.\u202e\x1b[2J"})
        text = text_of(await waits(one, 2))
        digest = (await case_of(one)).origins[0].digest
        assert f"  {SHOP}: 2 tools withheld  digest {digest}\n    add\n" in text
        assert "      says of itself: The tool add of a test.\n" in text
        assert "      parameter article (string, required): Its number.\n" in text
        assert '      parameter count; {"minimum": 1}\n' in text
        assert r"says of itself: Shows it.\u202e\x1b[2J" in text
        assert f"  maitred approve web --origin {SHOP} --seen {digest}" in text


async def test_what_cannot_be_meant_is_refused_with_what_waits(tmp_path: Path) -> None:
    """Another origin, a digest of before, another verdict: nothing is approved."""
    async with dialed_house(tmp_path, pages=PAGES) as one, played_page(file_of(tmp_path)) as shop:

        async def refusal(verdict: str = "approve", **more: str) -> str:
            with pytest.raises(AdmissionError) as caught:
                await one.gateway.decide("web", verdict, viewer=LOCAL_USER, **more)  # type: ignore[arg-type]
            return str(caught.value)

        await shop.offer(ADD)
        seen = (await waits(one, 1)).origins[0].digest
        assert f"'https://x.example'; tools wait of {SHOP}" in await refusal(origin="https://x.example")
        assert "leave the origin out" in await refusal("reject", origin=SHOP)
        await shop.offer(ADD, tool("show"))
        await waits(one, 2)
        assert "look at it again" in await refusal(origin=SHOP, seen=seen)
        assert one.names() == set()


async def test_a_refusal_of_all_stays_for_the_other_origins(tmp_path: Path) -> None:
    async with (
        dialed_house(tmp_path, pages=PAGES) as one,
        played_page(file_of(tmp_path), offers=["add"]),
        played_page(file_of(tmp_path), origin=BANK, offers=["pay"]),
    ):
        await waits(one, 2)
        await one.gateway.decide("web", "reject", viewer=LOCAL_USER)
        with pytest.raises(AdmissionError, match=r"local refused it on .*--again"):
            await one.gateway.decide("web", "approve", viewer=LOCAL_USER, origin=SHOP)
        await one.gateway.decide("web", "approve", viewer=LOCAL_USER, origin=SHOP, again=True)
        await one.until(lambda: one.names() == {"add"})
        assert "was refused by a person" in one.known[f"{BANK}#pay"]
        assert not (await case_of(one)).awaits


async def test_over_http_an_approval_of_an_origin_needs_the_digest_of_the_origin(tmp_path: Path) -> None:
    async with dialed_house(tmp_path, pages=PAGES) as one, played_page(file_of(tmp_path), offers=["add"]):
        await waits(one, 1)
        app = application(one.gateway, Http(token="k3y"), PlainTextResponse("MCP"))
        own, base = {"Authorization": "Bearer k3y"}, "http://localhost/api/v1"
        async with AsyncClient(transport=ASGITransport(app=app), headers=own) as http:
            [case] = (await http.get(f"{base}/approvals")).json()["cases"]
            [origin] = case["origins"]
            assert origin["origin"] == SHOP
            assert origin["tools"][0]["description"] == "The tool add of a test."
            body = {"verdict": "approve", "origin": SHOP, "seen": case["digest"]}
            stale = await http.post(f"{base}/servers/web/approval", json=body)
            assert stale.status_code == 409, stale.text
            done = await http.post(f"{base}/servers/web/approval", json=body | {"seen": origin["digest"]})
            assert done.status_code == 200, done.text
            assert json.loads(done.text)["origins"] == []
            await one.until(lambda: one.names() == {"add"})


async def test_what_pages_offered_once_and_no_person_approved_is_forgotten_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that names its tools otherwise each time does not fill the list of what waits."""
    monkeypatch.setattr(gatekeeper, "_MOST_OTHERS", 3)
    async with dialed_house(tmp_path, pages=PAGES) as one, played_page(file_of(tmp_path)) as shop:
        await shop.offer(tool("kept"))
        await waits(one, 1)
        await one.gateway.decide("web", "approve", viewer=LOCAL_USER, origin=SHOP)
        for number in range(8):
            await shop.offer(tool(f"t{number}"))
            await one.until(lambda: set(one.known) == {f"{SHOP}#t{number}"})  # noqa: B023  # called at once
        assert len((await case_of(one)).waiting_origin(SHOP).tools) <= 4
        await shop.offer(tool("kept"), tool("t0"))
        await one.until(lambda: set(one.known) == {f"{SHOP}#kept", f"{SHOP}#t0"})
        assert one.names() == {"kept"}
