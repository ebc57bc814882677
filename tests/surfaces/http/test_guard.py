"""Who may ask: the names under which a gateway is reached, pages of other origins, and the token."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from maitred.config.settings import Http
from maitred.model.access import Refused
from maitred.surfaces.http.guard import Guard


async def nobody(_: str) -> Refused:
    return Refused(reason="no token is known")


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
