"""Fetch a file of overrides by URL, once: its checksum pins the version.

A checksum's content never changes, so a local copy with that checksum needs no network.
"""

import hashlib
import re
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import anyio
import httpx2
import structlog

from maitred.config.document import JSON_SUFFIXES
from maitred.config.paths import make_folder
from maitred.errors import ConfigError
from maitred.mediation.override_files import MAX_BYTES, check_sum, parse_overrides
from maitred.mediation.overrides import Overrides

log = structlog.get_logger(__name__)

_TIMEOUT_S = 20.0
_CHECKSUM = re.compile(r"[0-9a-fA-F]{64}")


class UnreachableError(ConfigError):
    """The file cannot be fetched now, and there is no copy of this version; a later attempt may succeed."""


async def fetch_overrides(url: str, sha256: str, *, cache: Path, client: httpx2.AsyncClient) -> Overrides:
    """Read a file of overrides by its URL, or its copy in a folder.

    Args:
        url: The address; its suffix says JSON or YAML.
        sha256: The SHA-256 of the wanted version, in hexadecimal.
        cache: The folder of the last good version; created if it is missing.
        client: Sends the request, which may take 20 seconds and return 1 MB.

    Raises:
        UnreachableError: There is no copy, and the file cannot be fetched.
        ConfigError: The file is another version, or has faults.
    """
    if not _CHECKSUM.fullmatch(sha256):
        raise ConfigError(url, ["the checksum must be a SHA-256: 64 hexadecimal digits"])
    suffix = PurePosixPath(urlsplit(url).path).suffix
    stem = hashlib.sha256(url.encode()).hexdigest()[:32]
    copy = cache / f"{stem}{suffix if suffix in JSON_SUFFIXES else '.yaml'}"
    content = await _read_copy(anyio.Path(copy), sha256)
    data = await _fetch(url, client) if content is None else content
    check_sum(url, data, sha256)
    overrides = parse_overrides(copy, data, source=url)
    if content is None:
        await _write_copy(anyio.Path(copy), data)
    else:
        log.info("the stored copy of overrides is used", url=url)
    return overrides


async def _read_copy(copy: anyio.Path, sha256: str) -> bytes | None:
    """The copy, if it exists and is the wanted version."""
    try:
        data = await copy.read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == sha256.lower() else None


async def _write_copy(copy: anyio.Path, data: bytes) -> None:
    try:
        await anyio.to_thread.run_sync(make_folder, Path(copy.parent))
        fresh = copy.with_suffix(".new")
        await fresh.touch(mode=0o600)
        await fresh.write_bytes(data)
        await fresh.replace(copy)
    except OSError as error:
        log.warning("the copy of overrides cannot be kept", path=str(copy), reason=error.strerror)


async def _fetch(url: str, client: httpx2.AsyncClient) -> bytes:
    data = bytearray()
    try:
        with anyio.fail_after(_TIMEOUT_S):
            async with client.stream("GET", url, follow_redirects=True) as response:
                if response.status_code != httpx2.codes.OK:
                    raise UnreachableError(url, [f"cannot be fetched: HTTP {response.status_code}"])
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > MAX_BYTES:
                        raise ConfigError(url, [f"is larger than {MAX_BYTES:,} bytes"])
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
        fault = f"cannot be fetched, and there is no copy of this version: {type(error).__name__}"
        raise UnreachableError(url, [fault]) from None
    return bytes(data)
