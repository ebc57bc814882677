"""People sign in to the pages at a real provider, by HTTP and in a real browser, and sign out again."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from tests.support.oidc_provider import CLIENT, free_port, oidc_provider
from tests.surfaces.web.person import chromium, person
from tests.surfaces.web.rig import House, form_token, opened, tool

from maitred.config.settings import AccessSettings, GroupEntry, Http, SignIn
from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio

PEOPLE = {
    "ann": {"name": "Ann", "groups": ["shoppers"]},
    "bob": {"name": "Bob", "groups": ["bosses", "staff"]},
    "eve": {"name": "Eve", "groups": ["staff"]},
}
GROUPS = {"shoppers": GroupEntry(role="viewer", servers=("shop",)), "bosses": GroupEntry(role="admin")}


@dataclass(kw_only=True)
class Desk:
    """A gateway whose people sign in at a provider."""

    house: House
    issuer: str
    settings: SignIn

    async def ask(self, client: httpx2.AsyncClient, onward: str = "/ui/tools") -> str:
        """Go to the provider; the address there."""
        answer = await client.get("/ui/login", params={"next": onward})
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    async def log_in(self, client: httpx2.AsyncClient, name: str, address: str) -> httpx2.URL:
        """Say at the provider who one is; the address to which it sends the browser back."""
        page = await client.get(address, follow_redirects=True)
        action = re.search(r'action="([^"]+)"', page.text)
        assert action, page.text
        said = {"prompt": "login", "login": name, "password": "x"}
        answer = await client.post(action[1], data=said)
        while not (back := httpx2.URL(answer.headers["location"])).path.startswith("/ui/"):
            answer = await client.get(back)
        return back

    async def signed_in(
        self, name: str, onward: str = "/ui/tools"
    ) -> tuple[httpx2.AsyncClient, httpx2.Response]:
        """A browser of a person who has signed in, and the answer that let them in."""
        client = self.house.stranger()
        back = await self.log_in(client, name, await self.ask(client, onward))
        return client, await client.get(back)


@pytest.fixture(scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    port = free_port()
    pages = f"http://127.0.0.1:{port}"
    with oidc_provider(pages, PEOPLE) as issuer:
        settings = SignIn(
            issuer=issuer,
            url=pages,
            scopes=("openid", "profile", "groups"),
            name="Example",
            client_id=CLIENT["client_id"],
            client_secret=CLIENT["client_secret"],
        )
        access = AccessSettings(groups=GROUPS, sign_in=settings)
        servers = {"shop": [tool("look")], "bank": [tool("pay")]}
        http = Http(port=port, token="s3cret")
        async with opened(tmp_path_factory.mktemp("desk"), servers, http=http, access=access) as house:
            yield Desk(house=house, issuer=issuer, settings=settings)


async def test_a_person_signs_in_and_has_what_their_groups_give(desk: Desk) -> None:
    """The provider is asked for a code with PKCE; the page that was wanted comes next, for that person."""
    client = desk.house.stranger()
    address = await desk.ask(client)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    entered = await client.get(await desk.log_in(client, "ann", address))

    assert address.startswith(desk.issuer)
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{desk.settings.url}/ui/login/callback"
    assert {"code_challenge", "nonce", "state"} <= asked.keys()
    assert entered.status_code == 303
    assert entered.headers["location"] == "/ui/tools"
    page = (await client.get("/ui/tools")).text
    assert "oauth:ann" in page
    assert "shop" in page
    assert "bank" not in page
    assert (await client.get("/ui/access")).status_code == 403


async def test_the_cookie_of_a_session_is_new_and_out_of_reach(desk: Desk) -> None:
    """Scripts cannot read it, and a session from before the sign-in is over."""
    client = await desk.house.person()
    before = dict(client.cookies)
    back = await desk.log_in(client, "ann", await desk.ask(client))
    entered = await client.get(back)

    cookies = entered.headers.get_list("set-cookie")
    session = next(one for one in cookies if one.startswith("maitred_ui"))
    assert {"HttpOnly", "SameSite=lax", "Path=/ui"} <= set(session.split("; "))
    assert any(one.startswith("maitred_sign_in_") and "Max-Age=0" in one for one in cookies)
    old = desk.house.stranger()
    old.cookies.update(before)
    assert (await old.get("/ui/tools")).status_code == 303


async def test_a_person_in_no_group_reads_what_to_do(desk: Desk) -> None:
    """They are known to the provider, but have no role here; the trail has the attempt."""
    _, refused = await desk.signed_in("eve")

    assert refused.status_code == 403
    assert "You are not signed in" in refused.text
    assert "ask the operator of this gateway for a role" in refused.text
    assert not any(one.startswith("maitred_ui") for one in refused.headers.get_list("set-cookie"))
    await desk.house.recorded(1, outcome="sign_in_failed")


async def test_an_answer_counts_once_and_in_the_browser_that_asked(desk: Desk) -> None:
    """Neither another browser nor the same one again gets in by it."""
    client = desk.house.stranger()
    back = await desk.log_in(client, "ann", await desk.ask(client))
    other = await desk.house.stranger().get(back)
    forged = await client.get(back.copy_set_param("state", "x" * 43))
    elsewhere = await client.get(back.copy_set_param("iss", "https://evil.example"))
    assert [one.status_code for one in (other, forged, elsewhere)] == [403] * 3
    assert "did not begin in this browser" in other.text
    assert "comes from another provider" in elsewhere.text

    client, entered = await desk.signed_in("ann")
    again = await client.get(entered.request.url)
    assert again.status_code == 403


@pytest.mark.parametrize(
    "onward",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "/ui/../x", "/ui//evil", "javascript:x"],
)
async def test_a_sign_in_leads_nowhere_else(desk: Desk, onward: str) -> None:
    """Whatever the address asks for, the person stays at the pages."""
    client = desk.house.stranger()
    answer = await client.get("/ui/login", params={"next": onward})
    back = await desk.log_in(client, "ann", answer.headers["location"])

    assert (await client.get(back)).headers["location"] == "/ui/"


async def test_the_provider_may_refuse_and_its_words_are_shown(desk: Desk) -> None:
    """As text, whatever they contain."""
    client = desk.house.stranger()
    state = parse_qs(urlsplit(await desk.ask(client)).query)["state"][0]
    said = {"state": state, "iss": desk.issuer, "error": "access_denied", "error_description": "<b>no</b>"}
    refused = await client.get("/ui/login/callback", params=said)

    assert refused.status_code == 403
    assert "access_denied (&lt;b&gt;no&lt;/b&gt;)" in refused.text
    twice = await client.get(f"/ui/login/callback?state={state}&state={state}&code=x")
    assert twice.status_code == 403


async def test_another_name_of_the_gateway_leads_to_its_own(desk: Desk) -> None:
    """The provider sends people to the name of the settings, where the cookie has to be."""
    client = desk.house.stranger()
    host = {"host": f"localhost:{urlsplit(desk.settings.url).port}"}
    moved = await client.get("/ui/login?next=/ui/tools", headers=host)

    assert moved.headers["location"] == f"{desk.settings.url}/ui/login?next=%2Fui%2Ftools&moved=1"
    again = await client.get("/ui/login?moved=1", headers=host)
    assert again.status_code == 403
    assert "is not reached by the name" in again.text


async def test_who_leaves_signs_out_at_the_provider_too(desk: Desk) -> None:
    """The session here is over at once."""
    client, _ = await desk.signed_in("bob")
    left = await client.post(
        "/ui/leave", data={"form_token": await form_token(client)}, headers={"origin": desk.house.url}
    )
    page = await client.get("/ui/tools")
    there = await client.get(left.headers["refresh"].partition("url=")[2], follow_redirects=True)

    assert left.status_code == 200
    assert left.headers["refresh"].startswith(f"0; url={desk.issuer}/session/end?id_token_hint=")
    assert page.status_code == 303
    assert there.status_code == 200
    assert "sign-out" in there.text.lower()


async def test_a_session_ends_when_the_groups_give_something_else(desk: Desk) -> None:
    """A change of the configuration counts at the next page."""
    client, _ = await desk.signed_in("ann")
    assert (await client.get("/ui/tools")).status_code == 200
    gateway = desk.house.gateway
    before = gateway.settings
    weaker = replace(before.access, groups={"bosses": GROUPS["bosses"]})
    await gateway.configure(replace(before, access=weaker), viewer=LOCAL_USER)
    try:
        assert (await client.get("/ui/tools")).status_code == 303
    finally:
        await gateway.configure(before, viewer=LOCAL_USER)


async def test_a_session_may_end_with_its_id_token_or_earlier(desk: Desk) -> None:
    """By the settings; a token still opens the pages as before."""
    gateway = desk.house.gateway
    before = gateway.settings
    short = replace(before.access, sign_in=replace(desk.settings, session_s=0.001))
    await gateway.configure(replace(before, access=short), viewer=LOCAL_USER)
    try:
        client, entered = await desk.signed_in("ann")
    finally:
        await gateway.configure(before, viewer=LOCAL_USER)
    assert entered.status_code == 303
    assert (await client.get("/ui/tools")).status_code == 303
    origin = {"origin": desk.house.url}
    token = await client.post("/ui/enter", data={"token": "s3cret"}, headers=origin)
    assert token.headers["location"] == "/ui/"


async def test_a_person_signs_in_and_out_in_a_browser(desk: Desk) -> None:
    """By the button of the entrance; the pages break none of their own rules."""
    async with chromium() as connection:
        ann = await person(connection)
        await ann.open(f"{desk.house.url}/ui/tools")
        assert "Sign in with Example" in await ann.text("main")
        await ann.follow("a.button.main")
        await ann.sees("document.querySelector('input[name=login]')")
        await ann.run("void (document.querySelector('input[name=login]').value = 'bob')")
        await ann.run("void (document.querySelector('input[name=password]').value = 'x')")
        await ann.run("void document.querySelector('form').submit()")
        await ann.sees("location.pathname === '/ui/tools' && document.readyState === 'complete'")
        assert "oauth:bob" in await ann.text("header")
        ann.violations.clear()  # the provider's pages have some of their own
        await ann.open(f"{desk.house.url}/ui/servers")
        assert "bank" in await ann.text("main")
        assert ann.violations == []
        await ann.run("void document.querySelector('.person form').submit()")
        await ann.sees("location.pathname.startsWith('/session/end')")
        await ann.open(f"{desk.house.url}/ui/tools")
        await ann.sees("location.pathname === '/ui/enter'")


async def test_the_trail_says_who_signed_in(desk: Desk) -> None:
    """With the role and the groups."""
    await desk.signed_in("bob")
    lines = (await desk.house.gateway.audit_lines(LOCAL_USER, who="oauth:bob")).lines
    signed = [line for line in lines if line.get("action") == "sign_in"]
    assert signed
    assert signed[0]["detail"] == "admin; groups bosses"
