"""Addresses to which the gateway may connect for a server: resolve a name once, and check every address.

A backend of any transport with the reach `network` connects to what `allowed_addresses` returns, and does not
resolve the name again. So a name server that answers differently the next time changes nothing.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence

import anyio

from maitred.admission.addresses import Network, why_forbidden

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host for a port, in the order to try them."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class ForbiddenAddressError(OSError):
    """A host leads to an address to which the gateway must not connect."""


async def allowed_addresses(
    host: str, port: int, *, exempted: Sequence[Network] = (), resolver: Resolver = resolve
) -> Sequence[str]:
    """The addresses of a host, in the order to try them.

    Args:
        host: A name or an address, as in a URL.
        port: The port of the connection.
        exempted: Networks that are allowed although they are private; never the metadata of a cloud.
        resolver: Resolves names.

    Raises:
        ForbiddenAddressError: Even one of them is forbidden; the text names the host and the kind of address.
        OSError: The name cannot be resolved.
    """
    addresses = await resolver(host, port)
    for address in addresses:
        if why := why_forbidden(address, exempted):
            raise ForbiddenAddressError(f"{host} leads to {address}, which is {why}; it is not connected to")
    return addresses
