"""Fetch the list of servers from a registry, page by page, under limits of pages, bytes and time.

It goes to the configured address and nowhere else: it follows no redirect. A list that is not whole is an
error, so that it cannot take the place of a good copy.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import anyio
import httpx2

from maitred.errors import ConfigError
from maitred.tls import tls_context

PAGE: Final = 100
_VERSIONS: Final = ("v0.1", "v0")


class RegistryUnreachableError(ConfigError):
    """The registry cannot be asked now, or answers with something else; the text says what."""


@dataclass(frozen=True, kw_only=True)
class FetchLimits:
    """The most that a registry may send, and the longest that it may take."""

    pages: int = 2_000
    items: int = 100_000
    page_bytes: int = 16 * 1024 * 1024
    bytes: int = 128 * 1024 * 1024
    request_s: float = 30.0
    whole_s: float = 900.0


_LIMITS: Final = FetchLimits()
Progress = Callable[[int], None]
"""Is called with the number of servers so far, after each page."""


async def fetch_servers(
    url: str, *, limits: FetchLimits = _LIMITS, progress: Progress = lambda _: None
) -> Sequence[Any]:
    """Fetch the latest version of every server, as the items of the API.

    Raises:
        RegistryUnreachableError: The list cannot be fetched as a whole.
    """
    async with _open_session(url, limits) as session:
        try:
            with anyio.fail_after(limits.whole_s):
                return await session.all_pages(progress)
        except TimeoutError:
            raise RegistryUnreachableError(
                url, [f"did not send its whole list within {limits.whole_s:g} seconds"]
            ) from None


async def fetch_version(url: str, name: str, version: str, *, limits: FetchLimits = _LIMITS) -> Any:
    """Fetch one version of a server, as an item of the API; `None` if the registry has none.

    Raises:
        RegistryUnreachableError: The registry cannot be asked.
    """
    async with _open_session(url, limits) as session:
        return await session.one(f"servers/{quote(name, safe='')}/versions/{quote(version, safe='')}")


class _Session:
    """Requests to one registry; it finds out once which version of the API there is."""

    def __init__(self, url: str, client: httpx2.AsyncClient, limits: FetchLimits) -> None:
        self._url = url
        self._client = client
        self._limits = limits
        last = urlsplit(url).path.rstrip("/").rpartition("/")[2]
        base = url.rstrip("/")
        self._bases = [base] if last in _VERSIONS else [f"{base}/{version}" for version in _VERSIONS]
        self._left = limits.bytes

    async def all_pages(self, progress: Progress) -> Sequence[Any]:
        items: list[Any] = []
        cursor, visited = "", set[str]()
        for _ in range(self._limits.pages):
            given = {"limit": str(PAGE), "version": "latest"} | ({"cursor": cursor} if cursor else {})
            page = await self.one("servers", given)
            servers = page.get("servers") if isinstance(page, dict) else None
            if not isinstance(servers, list):
                raise self._fault("has no list of servers at this address")
            items += servers
            progress(len(items))
            if len(items) > self._limits.items:
                raise self._fault(f"has more than {self._limits.items:,} servers")
            cursor = _cursor(page)
            if not cursor:
                return items
            if cursor in visited:
                raise self._fault("sends the same page again and again")
            visited.add(cursor)
        raise self._fault(f"has more than {self._limits.pages:,} pages")

    async def one(self, path: str, given: Mapping[str, str] | None = None) -> Any:
        """Return the JSON at a path; `None` if there is nothing in any version of the API."""
        for base in list(self._bases):
            status, body = await self._get(f"{base}/{path}", given or {})
            if status == httpx2.codes.NOT_FOUND:
                continue
            if status != httpx2.codes.OK:
                raise self._fault(f"answers with HTTP {status}")
            self._bases = [base]
            try:
                return json.loads(body)
            except (ValueError, RecursionError):
                raise self._fault("answers with what is no JSON") from None
        return None

    async def _get(self, address: str, given: Mapping[str, str]) -> tuple[int, bytes]:
        data = bytearray()
        try:
            with anyio.fail_after(self._limits.request_s):
                async with self._client.stream("GET", address, params=dict(given)) as response:
                    if response.is_redirect:
                        raise self._fault(
                            "answers with a redirect, which is not followed; write its new address"
                        )
                    async for chunk in response.aiter_bytes():
                        data += chunk
                        self._left -= len(chunk)
                        if len(data) > self._limits.page_bytes or self._left < 0:
                            raise self._fault("sends more than it may")
                    return response.status_code, bytes(data)
        except TimeoutError:
            raise self._fault(f"did not answer within {self._limits.request_s:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._fault(f"cannot be reached: {type(error).__name__}") from None

    def _fault(self, reason: str) -> RegistryUnreachableError:
        return RegistryUnreachableError(self._url, [f"the registry {reason}"])


def _cursor(page: Mapping[str, Any]) -> str:
    metadata = page.get("metadata")
    cursor = (metadata.get("nextCursor") or metadata.get("next_cursor")) if isinstance(metadata, dict) else ""
    return cursor if isinstance(cursor, str) else ""


@asynccontextmanager
async def _open_session(url: str, limits: FetchLimits) -> AsyncIterator[_Session]:
    headers = {"Accept": "application/json", "User-Agent": "maitred"}
    async with httpx2.AsyncClient(
        verify=tls_context(), timeout=limits.request_s, headers=headers, follow_redirects=False
    ) as client:
        yield _Session(url, client, limits)
