"""Lists and watches the `MCPServer` resources of one namespace by the API of a Kubernetes cluster.

A list has a version, from which a watch goes on; the cluster forgets old versions (410 Gone), and then the
list has to be read again. The token is read from its file for each request, since the cluster renews it.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import httpx2
from pydantic_core import from_json

from maitred.config.kubernetes_settings import McpServerWatch
from maitred.surfaces.kubernetes.server_resource import GROUP, value_at
from maitred.wording import count_of

WATCH_S: Final = 240
"""How long the cluster is asked to keep a watch open, in seconds."""
_CONNECT_S: Final = 10.0
_LIST_S: Final = 30.0
_SILENCE_S: Final = WATCH_S + 30.0
_PAGE: Final = 500
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_LINE: Final = 8 * 1024 * 1024  # a resource has at most 1.5 MiB in the cluster's store
_FORBIDDEN: Final = {401: "its token is not accepted", 403: "its token may not list or watch them there"}
_GONE: Final = 410
_MISSING: Final = 404

Resource = Mapping[str, Any]


class ClusterError(Exception):
    """The cluster cannot be asked, or says no. `str()` is the reason."""


class ExpiredVersionError(ClusterError):
    """The cluster has forgotten the version; list again."""


@dataclass(frozen=True, kw_only=True)
class ResourceList:
    """All resources, and the version from which a watch goes on."""

    items: Sequence[Resource]
    version: str


@dataclass(frozen=True, kw_only=True)
class ResourceEvent:
    """A change; a `bookmark` only has a new version. A resource that was deleted is as it was then."""

    kind: Literal["applied", "deleted", "bookmark"]
    resource: Resource
    version: str


class ClusterApi:
    """The resources as the cluster has them."""

    def __init__(self, watch: McpServerWatch) -> None:
        self._watch = watch
        self._url = (
            f"{watch.api.rstrip('/')}/apis/{GROUP}/{watch.version}/namespaces/{watch.namespace}/mcpservers"
        )

    async def read(self) -> ResourceList:
        """Read all resources.

        Raises:
            ClusterError: They cannot be read.
        """
        items, token, version = list[Resource](), "", ""
        async with self._client() as client:
            while True:
                page = await self._page(client, token)
                listed = page.get("items") or []
                if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
                    raise ClusterError("its list has something that is no resource")
                items += listed
                version = str(value_at(page, "metadata", "resourceVersion") or "")
                token = str(value_at(page, "metadata", "continue") or "")
                if not token:
                    return ResourceList(items=items, version=version)

    async def _page(self, client: httpx2.AsyncClient, token: str) -> Resource:
        query = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
        body = bytearray()
        try:
            with anyio.fail_after(_LIST_S):
                async with client.stream("GET", self._url, params=self._query(query)) as response:
                    await self._check(response)
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > _MOST_BYTES:
                            raise ClusterError(f"its list is longer than {_MOST_BYTES:,} bytes")
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise _unreachable(error) from error
        return _parse(bytes(body))

    async def events(self, version: str) -> AsyncGenerator[ResourceEvent]:
        """Yield changes after a version until the cluster ends the watch, which it does now and then.

        Raises:
            ExpiredVersionError: The version is too old.
            ClusterError: The watch cannot be opened, or broke off.
        """
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        query |= {"resourceVersion": version}
        try:
            async with (
                self._client() as client,
                client.stream("GET", self._url, params=self._query(query)) as response,
            ):
                await self._check(response)
                async for line in _lines(response):
                    yield _event(_parse(line))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _unreachable(error) from error

    def _query(self, query: Mapping[str, str]) -> Mapping[str, str]:
        selector = self._watch.selector
        return {**query, **({"labelSelector": selector} if selector else {})}

    def _client(self) -> httpx2.AsyncClient:
        try:
            token = _text(self._watch.token_file)
            verify = _context(self._watch) if self._watch.api.startswith("https:") else True
        except OSError as error:
            raise ClusterError(f"{error.filename or 'a file'} cannot be read ({error.strerror})") from error
        except UnicodeError as error:
            raise ClusterError(f"{self._watch.token_file} has no token") from error
        return httpx2.AsyncClient(
            headers={"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx2.Timeout(_CONNECT_S, read=_SILENCE_S),
            verify=verify,
            trust_env=False,  # a proxy for the outside does not lead to the cluster's own API
        )

    async def _check(self, response: httpx2.Response) -> None:
        """Refuse any answer but 200."""
        status = response.status_code
        if status == httpx2.codes.OK:
            return
        if status == _GONE:
            raise ExpiredVersionError("it has forgotten the version")
        if status == _MISSING:
            raise ClusterError(
                f"it has no MCPServer of {GROUP}/{self._watch.version}; is the operator there?"
            )
        raise ClusterError(_FORBIDDEN.get(status, f"it answered with status {status}"))


def _text(file: str) -> str:
    """The text of a file; `kubectl proxy` needs no token, so an empty name is none."""
    return Path(file).read_text(encoding="utf-8").strip() if file else ""


def _context(watch: McpServerWatch) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=watch.ca_file or None)
    except ssl.SSLError as error:
        raise ClusterError(f"{watch.ca_file} has no certificates") from error


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of an answer as they come."""
    rest = b""
    async for piece in response.aiter_bytes():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > _MOST_LINE:
            raise ClusterError(f"a change is longer than {_MOST_LINE:,} bytes")


def _parse(body: bytes) -> Resource:
    try:
        parsed = from_json(body)
    except ValueError as error:
        raise ClusterError("its answer is no JSON") from error
    if not isinstance(parsed, dict):
        raise ClusterError("its answer is no JSON object")
    return parsed


def _event(line: Resource) -> ResourceEvent:
    kind, resource = line.get("type"), line.get("object")
    if not isinstance(resource, dict):
        raise ClusterError("a change has no resource")
    if kind == "ERROR":
        if resource.get("code") == _GONE:
            raise ExpiredVersionError("it has forgotten the version")
        raise ClusterError(f"the watch ended: {resource.get('message') or resource.get('reason')}")
    version = str(value_at(resource, "metadata", "resourceVersion") or "")
    match kind:
        case "ADDED" | "MODIFIED":
            return ResourceEvent(kind="applied", resource=resource, version=version)
        case "DELETED":
            return ResourceEvent(kind="deleted", resource=resource, version=version)
        case "BOOKMARK":
            return ResourceEvent(kind="bookmark", resource=resource, version=version)
        case _:
            raise ClusterError(f"a change is of the unknown kind {kind!r}")


def _unreachable(error: Exception) -> ClusterError:
    return ClusterError(f"it cannot be reached ({str(error) or type(error).__name__})")


async def describe_cluster(watch: McpServerWatch) -> tuple[str, bool]:
    """What a person should know of the resources that are watched, and whether that is a fault."""
    place = f"of the namespace {watch.namespace}"
    try:
        listed = await ClusterApi(watch).read()
    except ClusterError as error:
        return f"MCPServer resources {place} cannot be read: {error}", True
    return f"{count_of(len(listed.items), 'MCPServer resource')} {place}", False
