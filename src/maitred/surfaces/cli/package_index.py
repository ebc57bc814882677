"""Read which versions of maitred an index has, by the simple repository API in its JSON form (PEP 691).

The address is that of the page of the project. There is no default: no public index has a project of this
name that is ours. Nothing is downloaded but the page.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

import anyio
import httpx2

from maitred.backends.http_bounds import BoundedClient
from maitred.errors import ConfigError
from maitred.tls import tls_context

_NAME: Final = "maitred"
_JSON: Final = "application/vnd.pypi.simple.v1+json"
_MOST_BYTES: Final = 4 * 1024 * 1024
_TIMEOUT_S: Final = 20.0
_WHEEL: Final = re.compile(rf"{_NAME}-(?P<version>[^-]+)-(?:\d[^-]*-)?py3-none-any\.whl")
_FINAL: Final = re.compile(r"(?P<release>\d+(?:\.\d+)*)(?:\.post(?P<post>\d+))?")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

Version = tuple[tuple[int, ...], int]
"""A version to be compared: numbers without zeros at the end, and the number of the post-release."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A wheel in an index; `url` ends in its digest if the index says it, so that installers check it."""

    version: str
    url: str


def version_key(text: str) -> Version | None:
    """A version to be compared; `None` for pre-releases and what is no version."""
    found = _FINAL.fullmatch(text)
    if found is None:
        return None
    numbers = [int(part) for part in found["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), int(found["post"] or -1)


async def newest_release(url: str) -> Release | None:
    """The newest wheel that an index offers, or `None`. Yanked files and pre-releases do not count.

    Raises:
        ConfigError: The index cannot be reached, or answers something else.
    """
    page = await _page(url)
    releases = {release: key for release in _releases(url, page) if (key := version_key(release.version))}
    return max(releases, key=lambda release: releases[release], default=None)


async def _page(url: str) -> Mapping[str, Any]:
    try:
        with anyio.fail_after(_TIMEOUT_S):
            async with BoundedClient(_MOST_BYTES, verify=tls_context(), follow_redirects=True) as client:
                answer = await client.get(url, headers={"Accept": _JSON})
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, TimeoutError, OSError) as error:
        raise ConfigError(url, [f"cannot be asked for versions: {type(error).__name__}"]) from None
    if answer.status_code != httpx2.codes.OK:
        raise ConfigError(url, [f"cannot be asked for versions: HTTP {answer.status_code}"])
    try:
        page = json.loads(answer.content)
    except ValueError:
        page = None
    if not isinstance(page, dict) or page.get("name") != _NAME or not isinstance(page.get("files"), list):
        fault = (
            "is no page of this project in the simple JSON API; it ends in /simple/maitred/ on most indexes"
        )
        raise ConfigError(url, [fault])
    return page


def _releases(url: str, page: Mapping[str, Any]) -> Iterator[Release]:
    for file in page["files"]:
        if not isinstance(file, dict) or file.get("yanked"):
            continue
        name, at = file.get("filename"), file.get("url")
        found = _WHEEL.fullmatch(name) if isinstance(name, str) else None
        if found is None or not isinstance(at, str):
            continue
        hashes = file.get("hashes")
        digest = hashes.get("sha256", "") if isinstance(hashes, dict) else ""
        fragment = f"#sha256={digest}" if isinstance(digest, str) and _SHA256.fullmatch(digest) else ""
        yield Release(version=found["version"], url=urljoin(url, at).partition("#")[0] + fragment)
