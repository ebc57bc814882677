"""Finds the debugging address of a browser that runs already, and connects to it.

A browser is named by its port, by an address (`ws://…`, `http://…`), or by the folder of its profile, in
which Chrome writes `DevToolsActivePort`. From version 144, the user of a running Chrome can allow debugging
at chrome://inspect/#remote-debugging. Then the port answers no HTTP, and Chrome asks its user for consent at
each connection. So the address is taken from the folder, and the answer may take a minute.
"""

import asyncio
import json
import re
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from websockets.exceptions import InvalidStatus, WebSocketException

from maitred.browser.cdp import connect
from maitred.browser.errors import AttachError
from maitred.browser.launch import RunningBrowser
from maitred.config.sections import is_loopback
from maitred.model.browsers import BrowserOptions

_HTTP_S: Final = 10.0
_MOST_BYTES: Final = 65_536
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH: Final = re.compile(rb"\r\nContent-Length: *(\d+)\r\n", re.IGNORECASE)
_NOT_FOUND: Final = 404
_REDIRECT: Final = 3
_SWITCHED_ON: Final = (
    'tick "Allow remote debugging" at chrome://inspect/#remote-debugging (Chrome 144 and later)'
)
_PORT: Final = "port "
_BROWSER_PATH: Final = "/devtools/browser/"
_PAGE_PATH: Final = "/devtools/page/"
_PROFILES: Final = (
    "~/.config/google-chrome", "~/.config/chromium", "~/.config/microsoft-edge",
    "~/Library/Application Support/Google/Chrome", "~/Library/Application Support/Chromium",
)  # fmt: skip


@asynccontextmanager
async def attach(address: str, options: BrowserOptions) -> AsyncIterator[RunningBrowser]:
    """Connect to a running browser at an address of `find_address`; leaving the context lets it run on.

    Raises:
        AttachError: It does not answer, or its user did not allow it.
    """
    async with AsyncExitStack() as stack:
        try:
            opening = connect(address, open_timeout_s=options.consent_s)
            connection = await stack.enter_async_context(opening)
        except TimeoutError:
            raise AttachError(
                "no_consent",
                f"the browser did not accept the connection within {options.consent_s:g} s: its user has to"
                " allow it in the browser's window",
            ) from None
        except InvalidStatus as error:
            raise AttachError("refused_connection", _refusal(error.response.status_code)) from error
        except (OSError, WebSocketException) as error:
            raise AttachError("no_listener", f"no browser answers at {address}: {error}") from error
        yield RunningBrowser(connection=connection, address=address)


def _refusal(status: int) -> str:
    if status == _NOT_FOUND:
        return "the browser at this address was started again, and has another address now; use its port"
    if status // 100 == _REDIRECT:
        return f"what answers there leads to another address (HTTP status {status}), which is not followed"
    return f"the browser refused the connection with HTTP status {status}: its user may have declined"


async def find_address(place: str, port: int, host: str, options: BrowserOptions) -> str:
    """The WebSocket address of a browser: of `place` (an address or a profile folder), else of a port.

    Raises:
        AttachError: No browser can be reached there; the error says which of the known reasons it is.
    """
    if place.startswith(("ws://", "wss://", "http://", "https://")):
        parts = split_address(place)
        check_host(parts[0], options)
        if place.startswith("ws"):
            _check_path(place)
            return place
        return await _from_port(*parts, is_secure=place.startswith("https"))
    if place:
        return await to_thread.run_sync(_from_folder, place)
    check_host(host, options)
    return await _from_port(host, port)


def split_address(address: str) -> tuple[str, int]:
    """The host and the port of an address.

    Raises:
        AttachError: It is none.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    except ValueError:
        host, port = "", 0
    if not host:
        raise AttachError(
            "address_unreadable", f"{address!r} is not an address such as http://127.0.0.1:9222"
        )
    return host, port


def names_of(address: str) -> frozenset[str]:
    """The names of the browser at an address: two addresses of one browser have a name in common.

    On this machine a port has one browser, whatever the rest of it is. The path that Chrome makes up
    at each start belongs to one browser too. On another host the whole address counts: it may have a token.
    """
    host, port = split_address(address)
    whole = address.partition("#")[0]
    path = urlsplit(whole).path
    by_path = {path} if path.startswith(_BROWSER_PATH) and len(path) > len(_BROWSER_PATH) else set()
    return frozenset({f"{_PORT}{port}" if is_loopback(host) else whole} | by_path)


def is_local(names: frozenset[str]) -> bool:
    """Whether a browser with these names runs on this machine."""
    return any(name.startswith(_PORT) for name in names)


def check_host(host: str, options: BrowserOptions) -> None:
    """Refuse hosts other than this machine and those of the operator.

    Raises:
        AttachError: The host is not allowed.
    """
    if not is_loopback(host) and host not in options.hosts:
        raise AttachError(
            "host_not_allowed",
            f"the host {host!r} is not this machine; the operator may allow it in `hosts`, since a debugging"
            " port gives full control of a browser",
        )


def _check_path(address: str) -> None:
    if urlsplit(address).path.startswith(_PAGE_PATH):
        raise AttachError(
            "address_unreadable",
            f"{address!r} is the address of one page; use the `port` of its browser",
        )


async def _from_port(host: str, port: int, *, is_secure: bool = False) -> str:
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with anyio.fail_after(_HTTP_S):
            status, body = await _get(host, port, where, is_secure=is_secure)
    except TimeoutError:
        raise AttachError("not_chrome", f"what listens at {where} does not answer HTTP") from None
    except ssl.SSLError as error:
        raise AttachError("not_chrome", f"what listens at {where} cannot be trusted: {error}") from None
    except OSError:
        raise AttachError(
            "no_listener",
            f"nothing listens at {where}: use `chrome_launch`, or start Chrome with"
            f" --remote-debugging-port={port} and a --user-data-dir of its own (without that, Chrome 136 and"
            f" later ignores the port), or {_SWITCHED_ON} and give its profile folder as `address`",
        ) from None
    if status == _NOT_FOUND:
        if is_loopback(host) and (found := await to_thread.run_sync(_known_folder, port)):
            return found
        raise AttachError(
            "needs_profile",
            f"the browser at {where} can be reached through its profile only: give the folder as `address`,"
            f" such as {_default_profile()}",
        )
    try:
        address = json.loads(body)["webSocketDebuggerUrl"]
    except (ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str) or not address.startswith(("ws://", "wss://")):
        raise AttachError("not_chrome", f"what listens at {where} is no browser with a debugging port")
    scheme = "wss" if is_secure else "ws"
    return f"{scheme}://{where}{urlsplit(address).path}"  # the host as it was checked


async def _get(host: str, port: int, where: str, *, is_secure: bool) -> tuple[int, bytes]:
    """The status and body of `/json/version`; no HTTP library is loaded for it."""
    reader, writer = await asyncio.open_connection(host, port, ssl=is_secure or None)
    try:
        writer.write(f"GET /json/version HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        status, length = _STATUS.match(head), _LENGTH.search(head)
        body = await reader.readexactly(min(int(length[1]), _MOST_BYTES)) if length else b""
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return 0, b""
    finally:
        writer.close()
    return int(status[1]) if status else 0, body


def _default_profile() -> str:
    return _PROFILES[3] if sys.platform == "darwin" else _PROFILES[0]


def _from_folder(place: str) -> str:
    """The address in the file that Chrome writes in its profile.

    Raises:
        AttachError: There is no such folder or file.
    """
    folder = Path(place).expanduser()
    if not folder.is_dir():
        raise AttachError("not_enabled", f"there is no profile folder {str(folder)!r}")
    found = _read_active_port(folder)
    if found is None:
        raise AttachError(
            "not_enabled",
            f"the browser with the profile {place!r} does not run, or allows no debugging: {_SWITCHED_ON}",
        )
    port, path = found
    return f"ws://127.0.0.1:{port}{path}"


def _read_active_port(folder: Path) -> tuple[int, str] | None:
    """The port and the path that Chrome wrote; `None` if it wrote none.

    Another program may have written the file, so that it cannot lead to another host.
    """
    try:
        port, path = (folder / "DevToolsActivePort").read_text(encoding="utf-8").split()[:2]
    except (OSError, ValueError):
        return None
    if not (port.isascii() and port.isdecimal() and path.startswith("/")):
        return None
    return int(port), path


def _known_folder(port: int) -> str:
    """The address of the user's own browser that listens at a port; empty if its folder is unknown."""
    for place in _PROFILES:
        found = _read_active_port(Path(place).expanduser())
        if found and found[0] == port:
            return f"ws://127.0.0.1:{port}{found[1]}"
    return ""
