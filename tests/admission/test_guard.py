"""The guarded transport against real servers on this machine, with name servers that lie."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream

from maitred.admission.address_guard import ForbiddenAddressError, resolve
from maitred.admission.addresses import Network, networks
from maitred.admission.guarded_transport import GuardedTransport
from maitred.backends.base import ConnectError, ConnectOptions
from maitred.backends.oauth.caller_token_memory import CallerTokens
from maitred.backends.orphans import catalog_of
from maitred.backends.process import Warden
from maitred.browser.browsers import Browsers
from maitred.config.settings import Settings
from maitred.model.servers import ServerSpec
from maitred.model.transports import TRANSPORTS
from maitred.wiring.isolation import Containers, Programs
from maitred.wiring.transports import BackendParts, make_backend

pytestmark = pytest.mark.anyio

HERE = networks(["127.0.0.1"])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
MOVED = "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Names:
    """A name server that gives one answer after the other, the last one for ever."""

    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        if host not in self.answers:
            return await resolve(host, 0)
        left = self.answers[host]
        return left.pop(0) if len(left) > 1 else left[0]


@dataclass
class Site:
    """An HTTP server on this machine that tells which hosts it was asked for."""

    port: int = 0
    redirect: str = ""
    hosts: list[str] = field(default_factory=list)

    async def answer(self, stream: SocketStream) -> None:
        async with stream:
            head = (await stream.receive()).decode()
            self.hosts += [line[6:] for line in head.split("\r\n") if line.lower().startswith("host: ")]
            if self.redirect and head.startswith("GET / "):
                place = self.redirect.format(port=self.port)
                await stream.send(MOVED.format(place).encode())
            else:
                await stream.send(OK)


@asynccontextmanager
async def serving(redirect: str = "") -> AsyncIterator[Site]:
    site = Site(redirect=redirect)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    site.port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, site.answer)
        yield site
        group.cancel_scope.cancel()


async def get(url: str, names: Names, exempted: Sequence[Network] = ()) -> httpx2.Response:
    transport = GuardedTransport(exempted=exempted, resolver=names.resolve)
    with anyio.fail_after(120):
        async with httpx2.AsyncClient(transport=transport, follow_redirects=True) as client:
            return await client.get(url)


async def test_what_is_allowed_is_fetched_under_its_own_name() -> None:
    """The connection goes to the address that was checked, the request still names the host."""
    names = Names({"tools.example": [["127.0.0.1"]]})
    async with serving() as site:
        answer = await get(f"http://tools.example:{site.port}/", names, HERE)

    assert answer.text == "hi"
    assert site.hosts == [f"tools.example:{site.port}"]
    assert names.asked == ["tools.example"]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "0177.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"],
)
async def test_this_machine_is_not_reached_in_any_spelling(host: str) -> None:
    """The server that listens here hears nothing."""
    async with serving() as site:
        with pytest.raises(httpx2.ConnectError, match=r"which is|cannot be resolved"):
            await get(f"http://{host}:{site.port}/", Names())

    assert site.hosts == []


async def test_a_name_that_leads_to_this_machine_is_refused_and_told_why() -> None:
    """The name is public, its address is not."""
    names = Names({"tools.example": [["127.0.0.1"]]})
    async with serving() as site:
        with pytest.raises(httpx2.ConnectError) as caught:
            await get(f"http://tools.example:{site.port}/", names)

    told = "tools.example leads to 127.0.0.1, which is a loopback address; it is not connected to"
    assert str(caught.value) == told
    assert isinstance(caught.value.__cause__, ForbiddenAddressError)
    assert site.hosts == []


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{port}/in", "http://inside.example:{port}/in", "http://2130706433:{port}/in"]
)
async def test_a_redirect_to_this_machine_is_not_followed(target: str) -> None:
    """The first host is allowed, the one it points to is not."""
    names = Names({"outside.example": [["127.0.0.2"]], "inside.example": [["127.0.0.1"]]})
    async with serving() as inner:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.2")
        outer = Site(port=inner.port, redirect=target)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, outer.answer)
            port = listener.extra(SocketAttribute.local_port)
            with pytest.raises(httpx2.ConnectError, match="a loopback address"):
                await get(f"http://outside.example:{port}/", names, networks(["127.0.0.2"]))
            group.cancel_scope.cancel()

    assert outer.hosts == [f"outside.example:{port}"]
    assert inner.hosts == []


async def test_a_redirect_to_another_allowed_host_is_followed() -> None:
    """The guard is in nobody's way."""
    names = Names({"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]})
    async with serving("http://b.example:{port}/there") as site:
        answer = await get(f"http://a.example:{site.port}/", names, HERE)

    assert answer.text == "hi"
    assert names.asked == ["a.example", "b.example"]


async def test_a_name_server_that_changes_its_mind_changes_nothing() -> None:
    """DNS rebinding: the address that was checked is connected to, without asking for another answer."""
    names = Names({"tools.example": [["127.0.0.1"], ["10.0.0.1"]]})
    async with serving() as site:
        answer = await get(f"http://tools.example:{site.port}/", names, HERE)

        assert answer.text == "hi"
        assert names.asked == ["tools.example"]
        with pytest.raises(httpx2.ConnectError, match=r"10\.0\.0\.1, which is a private address"):
            await get(f"http://tools.example:{site.port}/", names, HERE)


async def test_a_redirect_to_the_same_name_is_checked_again() -> None:
    """A name that was public for the first request and is this machine for the second."""
    names = Names({"tools.example": [["127.0.0.1"], ["127.0.0.53"]]})
    async with serving("http://tools.example:{port}/again") as site:
        with pytest.raises(httpx2.ConnectError, match=r"127\.0\.0\.53, which is a loopback address"):
            await get(f"http://tools.example:{site.port}/", names, HERE)

    assert site.hosts == [f"tools.example:{site.port}"]


async def test_one_forbidden_address_among_several_condemns_the_name() -> None:
    """Otherwise a failing first address would lead to the second."""
    names = Names({"tools.example": [["127.0.0.1", "169.254.169.254"]]})
    async with serving() as site:
        with pytest.raises(httpx2.ConnectError, match="metadata"):
            await get(f"http://tools.example:{site.port}/", names, HERE)

    assert site.hosts == []


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    """As any client does."""
    names = Names({"tools.example": [["127.0.0.3", "127.0.0.1"]]})
    async with serving() as site:
        answer = await get(f"http://tools.example:{site.port}/", names, networks(["127.0.0.0/8"]))

    assert answer.text == "hi"


async def test_a_clouds_credentials_are_out_of_reach_even_when_its_network_is_exempted() -> None:
    """An exemption for link-local addresses is no exemption for those."""
    with pytest.raises(httpx2.ConnectError, match="metadata"):
        await get("http://169.254.169.254/latest/meta-data", Names(), networks(["169.254.0.0/16"]))


async def test_a_name_without_an_address_is_told_as_such() -> None:
    """Not as a crash."""
    with pytest.raises(httpx2.ConnectError, match=r"no-such\.invalid"):
        await get("http://no-such.invalid/", Names())
    with pytest.raises(httpx2.ConnectError, match="has no address"):
        await get("http://empty.example/", Names({"empty.example": [[]]}))


async def test_a_name_server_that_does_not_answer_is_given_up() -> None:
    """The time limit for connecting counts the resolver in."""

    async def silent(host: str, port: int) -> Sequence[str]:
        await anyio.sleep_forever()
        return [host, str(port)]

    async with httpx2.AsyncClient(transport=GuardedTransport(resolver=silent), timeout=0.05) as client:
        with pytest.raises(httpx2.ConnectTimeout):
            await client.get("http://tools.example/")


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would resolve names where nobody looks."""
    async with serving() as site:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{site.port}")
        with pytest.raises(httpx2.ConnectError, match="which is"):
            await get("http://tools.example/", Names({"tools.example": [["10.0.0.1"]]}))

    assert site.hosts == []


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize(
    ("transport", "scheme"),
    [(kind.name, one) for kind in TRANSPORTS.values() if kind.reach == "network" for one in kind.url_schemes],
)
async def test_a_registered_server_of_any_transport_does_not_reach_this_machine(
    tmp_path: Path, transport: str, scheme: str, *, registered: bool
) -> None:
    """What listens here hears nothing of it, but hears the server that the operator wrote."""
    settings = Settings(source=tmp_path / "maitred.yaml")
    warden = Warden(catalog_of(tmp_path / "c.db"), path=tmp_path / "c.db")
    parts = BackendParts(
        settings=settings,
        in_process={},
        containers=Containers(settings, warden),
        programs=Programs(settings, warden),
        browsers=lambda: Browsers(lambda *_: False, warden),
        callers=CallerTokens(),
    )
    heard: list[str] = []

    async def hear(stream: SocketStream) -> None:
        heard.append(transport)
        await stream.aclose()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    url = f"{scheme}://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/mcp"
    backend = make_backend(ServerSpec(name="x", transport=transport, url=url, registered=registered), parts)
    with anyio.fail_after(120):
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, hear)
            with pytest.raises(ConnectError) as caught:
                async with backend.connect(ConnectOptions(era="handshake", on_notice=lambda _: None)):
                    pass
            group.cancel_scope.cancel()

    assert ("a loopback address" in str(caught.value)) is registered
    assert bool(heard) is not registered
