"""What strangers may do with connections before anybody knows who they are. Source: issue "What broke", 5."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial

import anyio
import pytest
from anyio import to_thread
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from maitred.config.settings import Http
from maitred.surfaces.disconnects import ON_DISCONNECT, Disconnection, OnDisconnect
from maitred.surfaces.http import connections
from maitred.surfaces.http.connections import most_connections
from maitred.surfaces.http.serve import serve_http

pytestmark = pytest.mark.anyio

LIMIT_S = 120.0
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body, and answers `served` in as many pieces as the path says; `/kept` stays connected."""
    while (await receive()).get("more_body"):
        pass
    kept = scope["path"] == "/kept"
    headers = [] if kept else [(b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for _ in range(1 if kept else int(scope["path"][1:] or 1)):
        await send({"type": "http.response.body", "body": b"served", "more_body": True})
        await anyio.sleep(0.05)  # longer than the time for a head, in all
    await send({"type": "http.response.body"})


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """The port of a service that runs."""
    stop, ports = anyio.Event(), list[int]()
    ready = anyio.Event()

    def note(address: str) -> None:
        ports.append(int(address.rpartition(":")[2]))
        ready.set()

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_http, application, Http(port=0), stop=stop, ready=note))
            await ready.wait()
            yield ports[0]
            stop.set()


def said(port: int, data: bytes, *, again: bytes = b"", most: int = 0) -> str:
    """What the service answers to these bytes, and to others after them as often as it takes them."""
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as client:
        client.sendall(data)
        sent = 0
        try:
            while again and sent < most:
                client.sendall(again)
                sent += len(again)
        except OSError:  # it does not listen any more
            pass
        return _read(client)


def _read(client: socket.socket) -> str:
    parts: list[bytes] = []
    try:
        while part := client.recv(65_536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts).decode()


async def ask(port: int, data: bytes, **options: object) -> str:
    return await to_thread.run_sync(partial(said, port, data, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        ASK + b"a: b\r\n" * 100 + b"\r\n",
        ASK + b"a: " + b"b" * 70_000 + b"\r\n\r\n",
        ASK + b"a: " + b"b" * 300_000,
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 200,
    ],
    ids=["headers", "a long one", "one without end", "an address", "behind a body"],
)
async def test_a_head_that_is_too_large_is_refused(data: bytes) -> None:
    """With 431, or by an end where an answer has begun; others are served on."""
    async with served() as port:
        told = await ask(port, data)
        assert told.startswith("HTTP/1.1 431 ") or (b"chunked" in data and "served" not in told), told[:200]
        assert "served" in await ask(port, ASK + b"a: b\r\n" * 90 + b"\r\n")


async def test_a_request_that_is_not_done_at_the_end_is_told_so() -> None:
    """As that of a call that waits for a person: it is no fault of maitred, and what became of it is said."""
    stop, ready, asked = anyio.Event(), anyio.Event(), anyio.Event()
    ports: list[int] = []
    answers: list[str] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked.set()
            await anyio.sleep_forever()

    def note(address: str) -> None:
        ports.append(int(address.rpartition(":")[2]))
        ready.set()

    async def client() -> None:
        answers.append(await ask(ports[0], ASK + b"\r\n"))

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_http, slow, Http(port=0), stop=stop, ready=note))
            await ready.wait()
            tasks.start_soon(client)
            await asked.wait()
            stop.set()

    assert answers[0].startswith("HTTP/1.1 503 ")
    assert '"error":"ending"' in answers[0]
    assert "one that waited for a person was not" in answers[0]


async def test_headers_without_end_are_not_kept() -> None:
    """Who goes on sending is cut off long before 20 MB."""
    async with served() as port:
        told = await ask(port, ASK, again=b"a: b\r\n" * 10_000, most=20_000_000)

    assert told == "" or told.startswith("HTTP/1.1 431 ")


@pytest.mark.parametrize("begun", [b"", b"GET / HT", ASK + b"a: b\r\n"])
async def test_a_head_has_to_come_in_time(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds a connection and sends nothing loses it."""
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    async with served() as port:
        assert (await ask(port, begun)).startswith("HTTP/1.1 408 ")


@pytest.mark.parametrize("left", [b"\r\n", b"\r"])
async def test_what_is_no_request_does_not_hold_a_connection(
    left: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an answer, on a connection that is kept."""
    monkeypatch.setattr(connections, "HEAD_S", 0.5)

    def told(port: int) -> str:
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as client:
            client.sendall(b"GET /kept HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                answer += client.recv(65_536)
            client.sendall(left)
            return _read(client)

    async with served() as port:
        assert (await to_thread.run_sync(told, port)).startswith("HTTP/1.1 408 ")


async def test_what_stands_behind_a_body_is_bounded() -> None:
    """One line of it without end, of which a parser says nothing."""
    head = b"POST /kept HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served() as port:
        told = await ask(port, head + b"2\r\nab\r\n0\r\nX: ", again=b"a" * 10_000, most=20_000_000)

    assert told == "" or told.startswith("HTTP/1.1 431 ")


async def test_a_body_has_to_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was announced, and stays away."""
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    async with served() as port:
        told = await ask(port, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab")

    assert "served" not in told


async def test_an_answer_may_take_longer_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of events are open for days."""
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    async with served() as port:
        told = await ask(port, b"GET /10 HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert told.count("served") == 10


async def test_more_connections_than_there_may_be_do_not_end_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next is told so, and when one has gone another is served."""
    monkeypatch.setattr(connections, "most_connections", lambda: 5)
    async with served() as port:
        held = [socket.create_connection(("127.0.0.1", port), LIMIT_S) for _ in range(5)]
        assert (await ask(port, b"")).startswith("HTTP/1.1 503 ")
        with closing(held.pop()) as last:
            last.sendall(ASK + b"\r\n")
            assert "served" in await to_thread.run_sync(_read, last)
        while not (told := await ask(port, ASK + b"\r\n")).endswith("served\r\n0\r\n\r\n"):
            assert told.startswith("HTTP/1.1 503 "), told
        for one in held:
            one.close()


def test_half_of_the_descriptors_are_left_for_servers_and_files() -> None:
    """So that those who call nothing take nothing from those who do."""
    import resource  # noqa: PLC0415  # for this test alone

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_connections() == soft // 2


def test_the_method_of_uvicorn_by_which_head_and_body_leave_together_is_there() -> None:
    """It is private, and other versions do not have it: then each answer would take two system calls."""
    assert callable(HttpToolsProtocol._start_asgi_task)


def test_a_client_that_has_left_already_is_noticed_too() -> None:
    """It left while its token was checked: the answer must not wait for its end for ever."""
    disconnection, called = Disconnection(), []
    scope = {ON_DISCONNECT: disconnection}
    with OnDisconnect(scope, lambda: called.append("before")):
        disconnection.complete()
    with OnDisconnect(scope, lambda: called.append("after")):
        pass
    assert called == ["before", "after"]
