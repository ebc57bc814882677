"""Programs that dial in as pages do, with everything wrong that can be: none is listed that may not be.

Source: issue 19, point 3; notes, 5.4 and security.
"""

import json
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.browser.dialing import (
    ANY,
    ORIGIN,
    closed_with,
    dialed_house,
    file_of,
    is_private,
    played_page,
    shake_hands,
    tool,
)
from tests.support.chromium import SOON_S
from tests.support.pages import House, settings_of
from websockets.exceptions import InvalidStatus

from maitred.background import Background
from maitred.browser.pages.address import read_address
from maitred.browser.pages.dial_in import MOST_OF_ORIGIN, DialIn
from maitred.browser.pages.open_pages import OpenPages
from maitred.model.access import LOCAL_USER
from maitred.model.pages import OriginRules, PageOptions
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio
GOOD = {"Host": "127.0.0.1:PORT", "Origin": ORIGIN, "Sec-WebSocket-Protocol": "maitred.v1, token.TOKEN"}
WRONG: Mapping[str, Mapping[str, str | None]] = {
    "the host of an attacker, by DNS rebinding": {"Host": "evil.example:PORT"},
    "another port in the host": {"Host": "127.0.0.1:1"},
    "no port in the host": {"Host": "127.0.0.1"},
    "no host": {"Host": None},
    "two hosts": {"Host": "127.0.0.1:PORT\r\nHost: evil.example"},
    "no origin": {"Origin": None},
    "an opaque origin": {"Origin": "null"},
    "another origin": {"Origin": "https://evil.example"},
    "a port that is not listed": {"Origin": "http://127.0.0.1:3001"},
    "another name of this machine": {"Origin": "http://localhost:3000"},
    "an origin with more behind it": {"Origin": f"{ORIGIN}.evil.example"},
    "a list of origins": {"Origin": f"{ORIGIN} https://evil.example"},
    "two origins": {"Origin": f"{ORIGIN}\r\nOrigin: https://evil.example"},
    "no token": {"Sec-WebSocket-Protocol": "maitred.v1"},
    "no protocol": {"Sec-WebSocket-Protocol": None},
    "an empty token": {"Sec-WebSocket-Protocol": "maitred.v1, token."},
    "another token": {"Sec-WebSocket-Protocol": f"maitred.v1, token.{'x' * 43}"},
    "a part of the token": {"Sec-WebSocket-Protocol": "maitred.v1, token.PART"},
    "a token of other characters": {"Sec-WebSocket-Protocol": "maitred.v1, token.é"},
    "two tokens": {"Sec-WebSocket-Protocol": "maitred.v1, token.TOKEN, token.x"},
    "the token alone": {"Sec-WebSocket-Protocol": "token.TOKEN"},
}


@asynccontextmanager
async def listening(folder: Path, allow: str = ORIGIN) -> AsyncIterator[House]:
    """A gateway that lets pages of one origin dial in."""
    rules = f'{{allow: ["{allow}"], dial_in: 0, call_s: 3}}'
    async with dialed_house(folder, pages=rules) as one:
        yield one


async def notes_of(one: House) -> Sequence[str]:
    """The notes of the server, as an operator sees them."""
    await one.gateway.sync(["web"], viewer=LOCAL_USER)
    return one.gateway.snapshot.servers["web"].notes


def headers(file: Path, changes: Mapping[str, str | None]) -> tuple[int, list[str]]:
    """The port, and the lines of a handshake that is right but for the changes."""
    url, token = read_address(file)
    port = url.rpartition(":")[2]
    sent = [f"{name}: {value}" for name, value in {**GOOD, **changes}.items() if value is not None]
    values = {"PORT": port, "TOKEN": token, "PART": token[:-1]}
    for name, value in values.items():
        sent = [line.replace(name, value) for line in sent]
    return int(port), sent


async def test_no_wrong_handshake_opens_a_connection(tmp_path: Path) -> None:
    """Each is refused with 403, the right one is not, and a refusal shows no token."""
    async with listening(tmp_path) as one:
        file = file_of(tmp_path)
        for name, changes in WRONG.items():
            port, lines = headers(file, changes)
            status, answer = await shake_hands(port, *lines)
            assert status == 403, name
            assert read_address(file)[1].encode() not in answer, name
        port, lines = headers(file, {})
        for path in (
            "/",
            "/?tab=",
            "/?tab=a/b",
            f"/?tab={'x' * 65}",
            "/x?tab=a",
            "//?tab=a",
            "/?tab=a&tab=b",
        ):
            assert (await shake_hands(port, *lines, path=path))[0] == 403, path
        assert not one.known
        status, answer = await shake_hands(port, *lines)
        assert status == 101
        assert b"Sec-WebSocket-Protocol: maitred.v1\r\n" in answer
        assert read_address(file)[1].encode() not in answer


async def test_the_notes_of_the_server_say_how_often_dialing_in_was_refused_and_why(tmp_path: Path) -> None:
    """So an operator whose app gets no connection need not read the log. No character of it deceives."""
    async with listening(tmp_path) as one:
        for changes in ({"Sec-WebSocket-Protocol": "maitred.v1"}, {"Origin": "https://\u202eb.example"}):
            port, lines = headers(file_of(tmp_path), changes)
            assert (await shake_hands(port, *lines))[0] == 403
        told = "dialing in was refused 2 times, the last time since the origin 'https://"
        [note] = await notes_of(one)
        assert note.startswith(told)
        assert note.isascii()
        port, lines = headers(file_of(tmp_path), {"Sec-WebSocket-Protocol": "maitred.v1"})
        await shake_hands(port, *lines)
        told = f"dialing in was refused 3 times, the last time since a page of {ORIGIN} has no valid token of"
        assert [note.startswith(told) for note in await notes_of(one)] == [True]


async def test_only_this_machine_can_reach_it_and_only_its_owner_the_token(tmp_path: Path) -> None:
    """It listens on 127.0.0.1; the file is private, and gone with the gateway."""
    async with listening(tmp_path):
        file = file_of(tmp_path)
        url, token = read_address(file)
        assert url.startswith("ws://127.0.0.1:")
        assert len(token) >= 43
        assert is_private(file)
        port = int(url.rpartition(":")[2])
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp("127.0.0.2", port)  # which a listener on all addresses would have
    assert not file.exists()


async def test_the_token_of_an_earlier_run_opens_nothing(tmp_path: Path) -> None:
    async with listening(tmp_path):
        old = read_address(file_of(tmp_path))[1]
    async with listening(tmp_path):
        port, lines = headers(file_of(tmp_path), {"Sec-WebSocket-Protocol": f"maitred.v1, token.{old}"})
        assert (await shake_hands(port, *lines))[0] == 403


async def test_a_command_that_serves_no_client_does_not_listen(tmp_path: Path) -> None:
    """So it takes neither the port nor the file of the gateway that serves."""
    async with open_gateway(settings_of(tmp_path, ANY)) as gateway:
        assert await gateway.settled(SOON_S)
        assert not file_of(tmp_path).exists()


async def test_an_origin_in_the_payload_means_nothing(tmp_path: Path) -> None:
    """Nor does any other field that a page adds."""
    async with listening(tmp_path) as one, played_page(file_of(tmp_path)) as page:
        forged = tool("forged", origin="https://bank.example", key="https://bank.example#pay")
        await page.offer(forged, origin="https://bank.example", tab="other")
        await one.until(lambda: bool(one.known))
        assert set(one.known) == {f"{ORIGIN}#forged"}


async def test_a_message_of_400_kilobytes_ends_the_connection(tmp_path: Path) -> None:
    """With the code for that, and the tools of the page go; another page stays."""
    async with (
        listening(tmp_path) as one,
        played_page(file_of(tmp_path), "a", offers=["large"]) as page,
        played_page(file_of(tmp_path), "b", offers=["small"]),
    ):
        await one.until(lambda: len(one.known) == 2)
        await page.socket.send("x" * 400_000)
        assert await closed_with(page) == 1009
        await one.until(lambda: set(one.known) == {f"{ORIGIN}#small"})


async def test_a_second_socket_of_a_tab_takes_the_place_of_the_first(tmp_path: Path) -> None:
    """The first one hears why, and a call that it has ends at once."""
    async with listening(tmp_path) as one, played_page(file_of(tmp_path), offers=["mine"]) as first:
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"mine"})
        answers: list[str] = []

        async def call() -> None:
            answers.append(await one.call("mine"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            assert (await first.hear())["name"] == "mine"
            async with played_page(file_of(tmp_path), offers=["mine", "more"]) as second:
                assert await closed_with(first) == 4001
                await one.until(lambda: len(one.known) == 2)
                tasks.start_soon(call)
                assert (await second.answer("of the second"))["name"] == "mine"
                await one.until(lambda: len(one.known) == 2)
        gone, answered = answers
        assert answered.endswith("of the second")
        assert "gone during the call: its tab has dialed in again" in gone


async def test_a_page_may_have_64_tools_and_an_origin_16_pages(tmp_path: Path) -> None:
    """What is more is left out, or refused before it is a connection."""
    async with listening(tmp_path) as one, anyio.create_task_group() as tasks:
        async with played_page(file_of(tmp_path), offers=[f"t{number}" for number in range(200)]):
            await one.until(lambda: len(one.known) == 64)
            port, lines = headers(file_of(tmp_path), {})
            opened = anyio.Event()
            left = MOST_OF_ORIGIN - 1

            async def hold(tab: str) -> None:
                nonlocal left
                async with played_page(file_of(tmp_path), tab):
                    left -= 1
                    if not left:
                        opened.set()
                    await anyio.sleep_forever()

            for number in range(left):
                tasks.start_soon(hold, f"b{number}")
            await opened.wait()
            assert (await shake_hands(port, *lines, path="/?tab=c"))[0] == 503
            assert (await shake_hands(port, *lines, path="/?tab=b0"))[0] == 101
            statuses = [(await shake_hands(port, *lines))[0] for _ in range(30)]
            assert statuses[-1] == 429
        tasks.cancel_scope.cancel()


async def test_a_page_that_reports_all_the_time_has_no_tools_and_one_that_answers_has(
    tmp_path: Path,
) -> None:
    """Answers to calls do not count; reports and answers that no call asked for do."""
    async with (
        listening(tmp_path) as one,
        played_page(file_of(tmp_path), "a", offers=["calm"]) as calm,
        played_page(file_of(tmp_path), "b", offers=["storm"]) as storm,
    ):
        await one.until(lambda: len(one.known) == 2)
        await one.approve()
        await one.until(lambda: one.names() == {"calm", "storm"})
        for number in range(150):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.call, "calm")
                assert await calm.answer(number)
        assert one.names() == {"calm", "storm"}
        for _ in range(150):
            await storm.socket.send(json.dumps({"kind": "answer", "id": "x", "answer": {"value": 1}}))
        await one.until(lambda: one.names() == {"calm"})
        notes = await notes_of(one)
        assert f"{ORIGIN}: its tools were left out, since they change too often; load the page again" in notes


@pytest.mark.parametrize(
    "message",
    ["", "[]", "no JSON", "[" * 100_000, '{"kind": "tools", "tools": {"a": 1}}', '{"kind": []}', b"\x00\xff",
     '{"kind": "answer", "id": {}, "answer": 1}', '{"kind": "answer"}', '"' + "\\ud800" * 9 + '"'],
)  # fmt: skip
async def test_a_message_that_makes_no_sense_changes_nothing(tmp_path: Path, message: str | bytes) -> None:
    async with listening(tmp_path) as one, played_page(file_of(tmp_path), offers=["first"]) as page:
        await one.until(lambda: len(one.known) == 1)
        await page.socket.send(message)
        await page.offer(tool("second"))
        await one.until(lambda: set(one.known) == {f"{ORIGIN}#second"})


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (7, "the page does not run its tools any more; load it again"),
        ({}, "the page does not run its tools any more; load it again"),
        ({"fault": "missing"}, "the page does not offer it any more"),
        ({"fault": "threw", "why": "x"}, "the tool failed in the page: x"),
        ({"cut": "abc", "size": 9_000}, "abc… (9,000 characters in all)"),
        ({"value": None}, "done, without a result"),
        ({"value": {"a": [-1e400, 1]}}, '{"a": [null, 1]}'),
    ],
)
async def test_what_a_page_answers_is_an_answer_or_says_what_is_wrong(
    tmp_path: Path, answer: object, text: str
) -> None:
    async with listening(tmp_path) as one, played_page(file_of(tmp_path), offers=["mine"]) as page:
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"mine"})
        answers: list[str] = []

        async def call() -> None:
            answers.append(await one.call("mine", a=1))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            asked = await page.hear()
            assert json.loads(asked["input"]) == {"a": 1}
            written = json.dumps({"kind": "answer", "id": asked["id"], "answer": answer})
            await page.socket.send(written.replace("-Infinity", "-1e999"))
        assert answers[0].endswith(text)


async def test_a_call_that_gets_no_answer_ends_and_is_cancelled_in_the_page(tmp_path: Path) -> None:
    async with listening(tmp_path) as one, played_page(file_of(tmp_path), offers=["slow"]) as page:
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"slow"})
        assert "did not answer within 3 s" in await one.call("slow")
        asked, cancelled = await page.hear(), await page.hear()
        assert cancelled == {"kind": "cancel", "id": asked["id"]}


# --- the listener alone -------------------------------------------------------------------------------------


@asynccontextmanager
async def open_pages() -> AsyncIterator[tuple[OpenPages, Callable[[Callable[[], bool]], Awaitable[None]]]]:
    """Pages of one origin, and a function that waits until something is true of them."""
    news = anyio.Event()

    def ring() -> None:
        nonlocal news
        news.set()
        news = anyio.Event()

    async def until(is_true: Callable[[], bool]) -> None:
        with anyio.fail_after(SOON_S):
            while not is_true():
                await news.wait()

    pages = OpenPages(OriginRules(PageOptions(allow=(ORIGIN,))), ring)
    async with Background() as background:
        background.start(pages.announce)
        yield pages, until


async def test_a_port_in_use_is_named_and_used_when_it_is_free(tmp_path: Path) -> None:
    file = tmp_path / "new" / "address.json"
    async with open_pages() as (pages, until):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            opening = DialIn(pages, port, file)
            async with opening, Background() as background:
                assert f"no page can dial in at port {port}" in pages.notes[0]
                assert not file.exists()
                background.start(opening.keep_trying)
                other.close()
                await until(lambda: not pages.notes)
                async with played_page(file, offers=["late"]):
                    await until(lambda: bool(pages.tools))
        assert not file.exists()


async def test_a_connection_that_answers_no_heartbeat_is_closed(tmp_path: Path) -> None:
    """As that of a browser whose machine slept; an ordinary one answers by itself."""
    file = tmp_path / "address.json"
    async with (
        open_pages() as (pages, until),
        DialIn(pages, 0, file, heartbeat_s=0.2),
        played_page(file, offers=["alive"]),
    ):
        await until(lambda: bool(pages.tools))
        port, lines = headers(file, {})
        status, _ = await shake_hands(port, *lines, path="/?tab=dead", until_closed=True)
        assert status == 101
        assert pages.tools


async def test_a_newer_gateway_keeps_its_file_when_an_older_one_ends(tmp_path: Path) -> None:
    file = tmp_path / "address.json"
    async with open_pages() as (pages, _), DialIn(pages, 0, file):
        async with DialIn(pages, 0, file):
            newer = read_address(file)
        assert not file.exists()
        file.write_text(json.dumps({"url": newer[0], "token": "of another gateway"}))
        file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert read_address(file)[1] == "of another gateway"


async def test_pages_hear_at_once_that_the_gateway_ends(tmp_path: Path) -> None:
    """With the code by which the module dials again."""
    file = tmp_path / "address.json"
    async with open_pages() as (pages, until):
        async with DialIn(pages, 0, file):
            opening = played_page(file, offers=["mine"])
            page = await opening.__aenter__()
            await until(lambda: bool(pages.tools))
        assert await closed_with(page) == 1001
        await opening.__aexit__(None, None, None)
        assert not pages.tools


async def test_wrong_origins_are_refused_to_libraries_too(tmp_path: Path) -> None:
    async with listening(tmp_path):
        with pytest.raises(InvalidStatus, match="403"):
            async with played_page(file_of(tmp_path), origin="https://evil.example"):
                pass
