"""Who may look at the pages: codes, sessions, forms of other sites, and the headers of every answer."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.surfaces.web.rig import House, form_token, opened, send, tool

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Http
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Grant, RefusedAccess, Scope
from maitred.surfaces.web.app import HEADERS
from maitred.surfaces.web.session import CODE_S, IDLE_S, SESSION_S, WebSessions

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("house")
    async with opened(folder, {"shop": [tool("look")]}, http=Http(port=0, token="s3cret")) as made:
        yield made


async def token_for(house: House, name: str, role: str = "operator", **limits: object) -> str:
    wanted = TokenRequest(name=name, role=role, scope=Scope(**limits))  # type: ignore[arg-type]
    return (await house.gateway.make_token(wanted, LOCAL_USER)).token


# --- codes ------------------------------------------------------------------------------------------------


async def test_a_code_opens_the_pages_once(house: House) -> None:
    """The browser gets a cookie that scripts cannot read and other sites cannot use; the code is not kept."""
    client, path = house.stranger(), house.web.entry_path(LOCAL_GRANT)
    entered = await client.get(path)
    assert entered.status_code == 303
    assert entered.headers["location"] == "/ui/"
    assert entered.headers["referrer-policy"] == "no-referrer"
    cookie = entered.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/ui"} <= set(cookie.split("; "))
    assert "s3cret" not in cookie
    assert path.rpartition("/")[2] not in cookie
    assert (await client.get("/ui/")).status_code == 200

    again = await house.stranger().get(path)
    assert again.status_code == 403
    assert "set-cookie" not in again.headers


async def test_a_code_that_no_gateway_made_opens_nothing(house: House) -> None:
    client = house.stranger()
    for code in ("x", "..%2F..", "a" * 5_000, "%00", "%F0%9F%98%80"):
        answer = await client.get(f"/ui/enter/{code}", follow_redirects=True)
        assert answer.status_code in (403, 404)
        assert "set-cookie" not in answer.headers


async def test_codes_and_sessions_end_by_the_clock() -> None:
    """A code after 30 seconds; a session after two hours without a person, and after twelve in any case."""
    now = 0.0

    async def none(_: str) -> RefusedAccess:
        return RefusedAccess(reason="unknown")

    sessions = WebSessions(none, clock=lambda: now)
    late = sessions.issue_code(LOCAL_GRANT)
    now += CODE_S + 0.1
    assert sessions.redeem(late) == ""
    entered = sessions.redeem(sessions.issue_code(LOCAL_GRANT))
    now += IDLE_S - 1
    assert await sessions.find(entered)
    now += IDLE_S - 1
    assert await sessions.find(entered, used=False)  # a page that looks for news is no person
    now += 2
    assert not await sessions.find(entered)

    busy = sessions.redeem(sessions.issue_code(LOCAL_GRANT))
    for _ in range(int(SESSION_S // (IDLE_S / 2)) - 1):
        now += IDLE_S / 2
        assert await sessions.find(busy)
    now += IDLE_S / 2 + 1
    assert not await sessions.find(busy)


async def test_a_thousand_sessions_are_the_most() -> None:
    """So no caller fills the memory; the oldest end."""

    async def none(_: str) -> RefusedAccess:
        return RefusedAccess(reason="unknown")

    sessions = WebSessions(none)
    first = sessions.begin(LOCAL_GRANT)
    for number in range(1_000):
        last = sessions.begin(Grant(principal=f"p{number}", role="viewer"))
    assert not await sessions.find(first)
    assert await sessions.find(last)


async def test_a_principal_has_twenty_sessions_and_takes_those_of_no_other() -> None:
    """Its oldest end."""

    async def none(_: str) -> RefusedAccess:
        return RefusedAccess(reason="unknown")

    sessions = WebSessions(none)
    mine = [sessions.begin(Grant(principal="me", role="viewer")) for _ in range(2)]
    admins = sessions.begin(Grant(principal="they", role="admin"))
    theirs = [sessions.begin(Grant(principal="they", role="viewer")) for _ in range(25)]
    assert [bool(await sessions.find(one)) for one in mine] == [True, True]
    assert await sessions.find(admins), "another role under the same name is another person"
    assert [bool(await sessions.find(one)) for one in theirs] == [False] * 5 + [True] * 20


# --- tokens -----------------------------------------------------------------------------------------------


async def test_without_a_session_every_page_asks_who_comes(house: House) -> None:
    """It says nothing of the gateway, and leads back to the page afterwards."""
    client = house.stranger()
    for path in ("/ui/", "/ui/servers", "/ui/servers/shop", "/ui/access", "/ui/activity?tool=x"):
        answer = await client.get(path, follow_redirects=True)
        assert answer.url.path == "/ui/enter"
        assert "shop" not in answer.text.replace("%2Fui%2Fservers%2Fshop", "").replace("/ui/servers/shop", "")


async def test_a_token_in_the_form_opens_the_pages_of_its_bearer(house: House) -> None:
    client, origin = house.stranger(), {"origin": house.url}
    token = await token_for(house, "ann", "viewer")
    asked = {"token": token, "next": "/ui/tools?q=look"}
    entered = await client.post("/ui/enter", data=asked, headers=origin)
    assert entered.headers["location"] == "/ui/tools?q=look"
    assert token not in str(entered.headers)
    page = (await client.get("/ui/tools")).text
    assert "ann" in page
    assert token not in page
    assert 'href="/ui/servers"' not in page  # a viewer watches no server
    assert (await client.get("/ui/servers")).status_code == 403


@pytest.mark.parametrize("wrong", [{"origin": "https://evil.example"}, {"host": "evil.example"}])
async def test_a_page_that_is_refused_at_the_door_is_a_page(house: House, wrong: dict[str, str]) -> None:
    """A browser shows its text, with the policy of all pages; programs get JSON as before."""
    client = house.stranger()
    entered = await client.post("/ui/enter", data={"as": "local"}, headers={"origin": house.url} | wrong)
    assert entered.status_code in (403, 421)
    assert entered.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in entered.headers["content-security-policy"]
    assert "http.allowed_" in entered.text
    assert "{" not in re.sub(r"(?s)<head>.*</head>", "", entered.text)
    program = await client.get("/api/v1/menu", headers=wrong)
    assert program.headers["content-type"] == "application/json"


@pytest.mark.parametrize("token", ["", "wrong", "s3cret ", "maitred_x_y", "\u202e"])
async def test_a_wrong_token_opens_nothing(house: House, token: str) -> None:
    client = house.stranger()
    answer = await client.post("/ui/enter", data={"token": token}, headers={"origin": house.url})
    if token.strip() == "s3cret":  # white space around a token is no part of it
        assert answer.status_code == 303
        return
    assert answer.status_code in (403, 422)
    assert "set-cookie" not in answer.headers


async def test_no_token_means_no_entrance_where_one_is_needed(house: House) -> None:
    """And where the API needs none on this machine, the pages need one press of a button."""
    answer = await house.stranger().post("/ui/enter", data={"as": "local"}, headers={"origin": house.url})
    assert answer.status_code == 422
    assert "without a token" not in (await house.stranger().get("/ui/enter")).text


async def test_where_the_api_needs_no_token_a_person_enters_with_the_same_role(tmp_path: Path) -> None:
    async with opened(tmp_path, {}) as open_house:
        client = open_house.stranger()
        assert "Enter as operator" in (await client.get("/ui/enter")).text
        entered = await client.post("/ui/enter", data={"as": "local"}, headers={"origin": open_house.url})
        assert entered.status_code == 303
        assert "operator" in (await client.get("/ui/")).text
        assert (await client.get("/ui/access")).status_code == 403


async def test_under_a_name_of_a_proxy_a_person_needs_a_token(tmp_path: Path) -> None:
    """As at the API: who comes by a name of `http.allowed_hosts` may be on any machine."""
    name, origin = "tools.example", "https://tools.example"
    http = Http(port=0, allowed_hosts=(name,), allowed_origins=(origin,))
    async with opened(tmp_path, {}, http=http) as made:
        client, outside = made.stranger(), {"host": name, "origin": origin}
        assert "without a token" not in (await client.get("/ui/enter", headers={"host": name})).text
        refused = await client.post("/ui/enter", data={"as": "local"}, headers=outside)
        assert refused.status_code == 422
        assert "set-cookie" not in refused.headers
        assert "without a token" not in refused.text
        assert (await client.get("/api/v1/status", headers={"host": name})).status_code == 401

        assert "without a token" in (await client.get("/ui/enter")).text
        here = await client.post("/ui/enter", data={"as": "local"}, headers={"origin": made.url})
        assert here.status_code == 303


async def test_a_query_of_too_many_fields_is_refused(house: House) -> None:
    """Also before a person has entered."""
    query = "&" * 5_001
    assert (await house.stranger().get(f"/ui/enter?{query}")).status_code == 400
    assert (await (await house.person()).get(f"/ui/tools?{query}")).status_code == 400


async def test_numbers_without_end_in_an_address_are_no_numbers(house: House) -> None:
    client = await house.person()
    for path in ("tools?from=", "search?q=look&limit=", "replay?of=", "activity?before="):
        assert (await client.get(f"/ui/{path}{'9' * 5_000}")).status_code == 200, path


async def test_a_revoked_token_ends_its_sessions_and_their_streams(house: House) -> None:
    client = house.stranger()
    token = await token_for(house, "bob")
    await client.post("/ui/enter", data={"token": token}, headers={"origin": house.url})
    assert (await client.get("/ui/servers")).status_code == 200
    async with client.stream("GET", "/ui/events") as stream:
        lines = stream.aiter_lines()
        assert (await anext(lines)).startswith(":")
        await house.gateway.revoke_tokens("bob", LOCAL_USER)
        house.web.changes.mark("servers")
        async for line in lines:
            assert not line.startswith("event:") or line == "event: changed"
    assert (await client.get("/ui/servers")).status_code == 303
    assert (await client.get("/ui/events")).status_code == 204


# --- sessions ---------------------------------------------------------------------------------------------


async def test_a_session_id_that_a_stranger_chose_is_never_taken(house: House) -> None:
    """Fixation: entering always makes a new id, and ends the session that the browser had."""
    client = house.stranger()
    port = house.url.rpartition(":")[2]
    chosen = {"cookie": f"maitred_ui_{port}=chosen-by-a-stranger"}
    await client.get(house.web.entry_path(LOCAL_GRANT), headers=chosen)
    first = client.cookies[f"maitred_ui_{port}"]
    assert first != "chosen-by-a-stranger"
    assert (await house.stranger().get("/ui/", headers=chosen)).status_code == 303
    await client.get(house.web.entry_path(LOCAL_GRANT))
    assert client.cookies[f"maitred_ui_{port}"] != first
    left_over = house.stranger()
    old = {"cookie": f"maitred_ui_{port}={first}"}
    assert (await left_over.get("/ui/", headers=old)).status_code == 303


async def test_leaving_ends_the_session_everywhere(house: House) -> None:
    client = await house.person()
    cookies = dict(client.cookies)
    left = await send(client, "/ui/leave")
    assert left.url.path == "/ui/enter"
    other = house.stranger()
    other.cookies.update(cookies)
    assert (await other.get("/ui/")).status_code == 303


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/", "//evil.example/ui/", "/ui/../../evil", "/ui//evil.example",
        "/ui/\\evil.example",
        "javascript:alert(1)", "/uix", "/", "/ui/\r\nSet-Cookie: a=b", "/ui/\u2028", "http:/ui/", "ui/",
    ],
)  # fmt: skip
async def test_entering_leads_to_our_own_pages_only(house: House, address: str) -> None:
    """Open redirects: whatever a link asks for."""
    client = house.stranger()
    asked = {"token": "s3cret", "next": address}
    entered = await client.post("/ui/enter", data=asked, headers={"origin": house.url})
    location = entered.headers["location"]
    followed = httpx2.URL(house.url).join(location)
    assert followed.host == "127.0.0.1"
    assert followed.path in ("/ui/", "/evil") or followed.path.startswith("/ui/")
    assert "set-cookie: a=b" not in str(entered.headers).lower()


# --- forms of other sites ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "OWN", "sec-fetch-site": "cross-site"},
        {"origin": "OWN", "sec-fetch-site": "same-site"},
    ],
)
async def test_a_form_of_another_site_does_nothing(house: House, headers: dict[str, str]) -> None:
    """Even with the right token of the form, and the cookie."""
    client = await house.person()
    fields = {"form_token": await form_token(client)}
    sent = {name: house.url if value == "OWN" else value for name, value in headers.items()}
    for path in ("/ui/leave", "/ui/servers/shop/suspend", "/ui/access/create", "/ui/enter"):
        answer = await client.post(path, data=fields, headers=sent)
        assert answer.status_code == 403, path
    assert (await client.get("/ui/")).status_code == 200


async def test_a_form_needs_the_token_of_its_own_session(house: House) -> None:
    client, other = await house.person(), await house.person()
    theirs = await form_token(other)
    for fields in ({"x": ""}, {"form_token": ""}, {"form_token": "x"}, {"form_token": theirs}):
        answer = await client.post("/ui/servers/shop/suspend", data=fields, headers={"origin": house.url})
        assert answer.status_code == 403
    assert not house.gateway.settings.servers["shop"].suspended


async def test_a_form_is_taken_in_one_encoding_and_not_without_end(house: House) -> None:
    client = await house.person()
    own = {"origin": house.url}
    assert (await client.post("/ui/leave", json={"form_token": "x"}, headers=own)).status_code == 415
    long = await client.post("/ui/leave", data={"form_token": "x" * 2_000_000}, headers=own)
    assert long.status_code == 413
    many = await client.post("/ui/leave", data={f"f{n}": "x" for n in range(6_000)}, headers=own)
    assert many.status_code == 422


async def test_an_action_is_never_done_by_a_link(house: House) -> None:
    client = await house.person()
    for path in ("/ui/leave", "/ui/servers/shop/suspend", "/ui/approvals/shop/approve", "/ui/access/create"):
        assert (await client.get(path)).status_code in (404, 405), path


# --- headers ----------------------------------------------------------------------------------------------


async def test_every_answer_has_the_headers_that_keep_others_out(house: House) -> None:
    """No script but ours, in no frame of another page, with no address sent elsewhere, kept by no cache."""
    client, stranger = await house.person(), house.stranger()
    answers = [
        await client.get("/ui/"),
        await client.get("/ui/nothing-here"),
        await client.get("/ui/servers/none"),
        await client.post("/ui/leave"),
        await stranger.get("/ui/enter"),
        await stranger.get("/ui/"),
        await stranger.get(house.web.entry_path(LOCAL_GRANT)),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            if name != "Referrer-Policy":
                assert answer.headers[name] == value, (answer.url, name)
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy


async def test_what_pages_load_is_kept_and_changes_its_address_with_its_content(house: House) -> None:
    client = await house.person()
    page = (await client.get("/ui/approvals")).text
    loaded = set(re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', page))
    assert len(loaded) >= 4
    size = 0
    for address in loaded:
        answer = await client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "?v=" in address
        size += len(answer.content)
    assert (await client.get("/ui/static/..%2Fapp.py")).status_code == 404
    assert (await client.get("/ui/static/nothing.js")).status_code == 404


async def test_the_pages_of_a_gateway_are_served_under_its_own_names_only(house: House) -> None:
    """DNS rebinding: a page that points its own name at this machine gets nothing."""
    client = await house.person()
    assert (await client.get("/ui/", headers={"host": "evil.example"})).status_code == 421
    assert (await house.stranger().get("/ui/enter", headers={"host": "evil.example"})).status_code == 421


async def test_a_bearer_of_a_part_sees_that_part(house: House) -> None:
    """The gateway decides what each method shows; a page has nothing of its own."""
    grant = Grant(principal="part", role="operator", scope=Scope(servers=frozenset({"other"})))
    client = await house.person(grant)
    for path in ("/ui/", "/ui/tools"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert "shop" not in answer.text
    assert (await client.get("/ui/tools/shop/look")).status_code == 404
    assert (await client.get("/ui/servers/shop")).status_code in (403, 404)
