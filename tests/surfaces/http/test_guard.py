"""Who may ask: the names under which a gateway is reached, pages of other origins, and the token."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from maitred.config.settings import Http
from maitred.model.access import RefusedAccess
from maitred.surfaces.http.auth import Guard


async def nobody(_: str) -> RefusedAccess:
    return RefusedAccess(reason="no token is known")


def status(settings: Http, **headers: str) -> int:
    inner = Starlette(routes=[Route("/x", lambda _: PlainTextResponse("here"))])
    client = TestClient(Guard(inner, settings, nobody))
    return client.get("/x", headers=headers).status_code


@pytest.mark.parametrize(
    ("address", "host"),
    [("127.0.0.2", "127.0.0.2:8420"), ("fd00::1", "[fd00::1]:8420"), ("Box.local", "box.local:8420")],
)
def test_a_gateway_answers_under_the_address_that_it_listens_on(address: str, host: str) -> None:
    """Loopback's other addresses, IPv6 in brackets, names in whatever case."""
    settings = Http(host=address, token="t")
    assert status(settings, host=host, authorization="Bearer t") == 200
    assert status(settings, host="evil.example", authorization="Bearer t") == 421


def test_pages_of_other_origins_are_refused_also_where_any_host_is_served() -> None:
    """A page may ask where it came from; `allowed_origins` names further ones."""
    anywhere = Http(host="0.0.0.0", token="t", allowed_origins=("https://known.example",))
    asked = {"host": "box:8420", "authorization": "Bearer t"}
    assert status(anywhere, **asked) == 200
    assert status(anywhere, **asked, origin="http://box:8420") == 200
    assert status(anywhere, **asked, origin="https://known.example") == 200
    assert status(anywhere, **asked, origin="https://evil.example") == 403


def test_the_scheme_of_the_token_may_be_written_in_any_case() -> None:
    """As HTTP has it; the token itself may not."""
    settings = Http(token="Secret")
    assert status(settings, host="localhost", authorization="bearer Secret") == 200
    assert status(settings, host="localhost", authorization="Bearer secret") == 401
    assert status(settings, host="localhost") == 401


@pytest.mark.parametrize(
    "name", ["127.0.0.1:evil.com", "localhost:80.evil.com", "localhost:", "[::1]:x", "localhost:999999"]
)
def test_what_stands_behind_a_host_is_a_port_or_the_host_is_another(name: str) -> None:
    """As Host and as Origin. Source: issue "What broke", 9."""
    assert status(Http(), host=name) == 421
    assert status(Http(), host="localhost", origin=f"http://{name}") == 403
    assert status(Http(), host="localhost:8420", origin="http://localhost:3000") == 200


@pytest.mark.parametrize("name", ["host", "origin", "authorization", "content-type"])
def test_a_header_that_decides_comes_once(name: str) -> None:
    """Else another server on the way may have judged by the other one."""
    headers = {"host": "localhost", "authorization": "Bearer t"}
    value = headers.pop(name, "http://localhost")
    client = TestClient(Guard(Starlette(), Http(token="t"), nobody))

    answer = client.get("/x", headers=[*headers.items(), (name, value), (name, value)])

    assert (answer.status_code, answer.json()["error"]) == (400, "header_repeated")


@pytest.mark.parametrize("kind", ["text/plain", "text/plain; charset=utf-8", "multipart/form-data; x=1", ""])
def test_a_page_cannot_send_what_its_browser_does_not_ask_about(kind: str) -> None:
    """A form or a plain text reaches any address without a question; JSON does not."""
    inner = Starlette(routes=[Route("/x", lambda _: PlainTextResponse("here"), methods=["POST"])])
    client = TestClient(Guard(inner, Http(), nobody))
    headers = {"host": "localhost", "origin": "http://localhost:3000"}

    refused = client.post("/x", content=b"name: x", headers=headers | {"content-type": kind})
    taken = client.post("/x", content=b"{}", headers=headers | {"content-type": "application/json"})

    assert (refused.status_code, refused.json()["error"]) == (415, "media_type_refused")
    assert "Content-Type: application/json" in refused.json()["message"]
    assert taken.status_code == 200
