"""An HTTP transport that connects only to addresses it has checked.

It asks `address_guard` for the addresses of a host once a connection, and connects to one of them. Each
redirect is a new connection and is checked too. It is for servers on HTTP and for URLs that an outsider
wrote. It uses no proxy from the environment, since a proxy would resolve names itself.
"""

import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import anyio
import httpcore2
import httpx2

from maitred.admission.address_guard import ForbiddenAddressError, Resolver, allowed_addresses, resolve
from maitred.admission.addresses import Network
from maitred.tls import tls_context


class ForbiddenConnectError(ForbiddenAddressError, httpcore2.ConnectError):
    """The same refusal, as an error that httpx knows."""


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport for `httpx2.AsyncClient` that refuses forbidden addresses at connect.

    It raises `httpx2.ConnectError`, whose text names the host and the kind of its address.

    Args:
        exempted: Networks that are allowed although they are private; never the metadata of a cloud.
        resolver: Resolves names.
        verify: Checks certificates; by default with the system's authorities.
        limits: How many connections stay open.
    """

    def __init__(
        self,
        *,
        exempted: Sequence[Network] = (),
        resolver: Resolver = resolve,
        verify: ssl.SSLContext | None = None,
        limits: httpx2.Limits | None = None,
    ) -> None:
        limits = limits or httpx2.Limits(max_connections=100, max_keepalive_connections=20)
        context = verify or tls_context()
        # the parent's own pool would connect nowhere, so it fails closed if ours is not used
        super().__init__(verify=context, uds="/dev/null/guarded")
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_GuardedBackend(exempted, resolver),
        )


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens sockets to checked addresses."""

    def __init__(self, exempted: Sequence[Network], resolver: Resolver) -> None:
        self._exempted = exempted
        self._resolver = resolver
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the base class
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in await self._checked_addresses(host, port, timeout):
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _checked_addresses(self, host: str, port: int, seconds: float | None) -> Sequence[str]:
        """The addresses of a host; raises if even one of them is forbidden."""
        try:
            with anyio.fail_after(seconds):
                return await allowed_addresses(host, port, exempted=self._exempted, resolver=self._resolver)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} was not resolved in time") from None
        except ForbiddenAddressError as error:
            raise ForbiddenConnectError(str(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved: {error.strerror or error}") from error

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the base class
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("a socket in the file system is not connected to")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
