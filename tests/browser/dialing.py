"""A gateway that pages dial in to, and pages for it: real ones, and some that a test plays by itself."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from tests.support.pages import House, house
from tests.support.waiting import eventually
from tests.support.web_site import Site
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from maitred.browser.pages.address import dial_in_file, read_address
from maitred.browser.pages.handshake import PROTOCOL
from maitred.browser.pages.scripts import dial_in_module

ANY = '{allow: ["http://127.0.0.1:*"], dial_in: 0, call_s: 300}'
DIAL = "import {dialIn} from '/maitred.js'; globalThis.line = dialIn('/maitred.json');"
ORIGIN = "http://127.0.0.1:3000"


def file_of(folder: Path) -> Path:
    """The file in which the gateway of a test says where pages dial in."""
    return dial_in_file(folder / "c.db", "web")


@asynccontextmanager
async def dialed_house(
    folder: Path, web: Site | None = None, pages: str = ANY, more: str = ""
) -> AsyncIterator[House]:
    """A gateway without any browser; a site has its address and the module, as the server of an app has."""
    async with house(folder, None, pages, more) as one:
        await eventually(file_of(folder).exists)  # of servers that are known it listens a moment later
        if web is not None:
            web.pages["/maitred.js"] = dial_in_module()
            web.pages["/maitred.json"] = file_of(folder).read_text()
        yield one


async def shake_hands(
    port: int, *headers: str, path: str = "/?tab=a", until_closed: bool = False
) -> tuple[int, bytes]:
    """Send a handshake with headers of any kind; returns the status and the answer.

    With `until_closed`, the connection stays open, without a word, until the gateway closes it.
    """
    lines = [
        f"GET {path} HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *headers, "", "",
    ]  # fmt: skip
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write("\r\n".join(lines).encode())
        answer = await (reader.read() if until_closed else reader.readuntil(b"\r\n\r\n"))
        return int(answer.split()[1]), answer
    finally:
        writer.close()


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A definition as the script in a page reports it."""
    return {"name": name, "description": f"The tool {name} of a test.", **more}


class PlayedPage:
    """A page that a test plays over a socket of its own, as a hostile program could."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: list[Mapping[str, Any]] = []

    async def offer(self, *tools: Mapping[str, Any], **more: Any) -> None:
        """Report tools."""
        await self.socket.send(json.dumps({"kind": "tools", "tools": tools, **more}))

    async def hear(self) -> Mapping[str, Any]:
        """The next message of the gateway."""
        message: dict[str, Any] = json.loads(await self.socket.recv())
        self.heard.append(message)
        return message

    async def answer(self, value: Any) -> Mapping[str, Any]:
        """Answer the next call with a value; returns the call."""
        call = await self.hear()
        packed = {"kind": "answer", "id": call["id"], "answer": {"value": value}}
        await self.socket.send(json.dumps(packed))
        return call


@asynccontextmanager
async def played_page(
    file: Path, tab: str = "a", origin: str = ORIGIN, offers: Sequence[str] = ()
) -> AsyncIterator[PlayedPage]:
    """A page that has dialed in, with tools of these names."""
    url, token = read_address(file)
    protocols = [Subprotocol(PROTOCOL), Subprotocol(f"token.{token}")]
    opening = connect(
        f"{url}/?tab={tab}", origin=Origin(origin), subprotocols=protocols, proxy=None, compression=None
    )
    async with opening as socket:
        page = PlayedPage(socket)
        if offers:
            await page.offer(*map(tool, offers))
        yield page


async def closed_with(page: PlayedPage) -> int | None:
    """The code with which the gateway ends a connection."""
    with anyio.fail_after(60):
        await page.socket.wait_closed()
    return page.socket.close_code


def is_private(file: Path) -> bool:
    """Whether a file is for its owner alone."""
    return file.stat().st_mode & 0o077 == 0 and file.stat().st_uid == os.getuid()
