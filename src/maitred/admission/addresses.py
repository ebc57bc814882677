"""Decide to which addresses the gateway may connect, and parse the hosts of URLs.

Nothing here resolves a name: `address_guard` does that and asks here about every address. A host is
parsed as a resolver does it: `0x7f.1`, `017700000001` and `2130706433` are all 127.0.0.1.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from maitred.wording import one_of

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# IANA's registries of special-purpose addresses, and the addresses at which clouds serve credentials.
_METADATA: Sequence[Network] = tuple(
    map(ip_network, ("169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32"))
) + tuple(map(ip_network, ("168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128")))
_SPECIAL: Sequence[tuple[Network, str]] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "an address of a provider's own network"),
        ("127.0.0.0/8", "a loopback address"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "an address for benchmarks"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("::/128", "an unspecified address"),
        ("::1/128", "a loopback address"),
        ("::/96", "an IPv4-compatible address"),
        ("::ffff:0:0/96", "an IPv4-mapped address"),
        ("::ffff:0:0:0/96", "an IPv4-translated address"),
        ("64:ff9b::/96", "a NAT64 address"),
        ("64:ff9b:1::/48", "a NAT64 address"),
        ("2001::/32", "a Teredo address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("2002::/16", "a 6to4 address"),
        ("3fff::/20", "an address for documentation"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a private address"),
        ("ff00::/8", "a multicast address"),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_LOCAL_NAMES = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home.arpa",
    "home",
    "corp",
)
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")
_HTTP = ("http", "https")
_HTTP_PORT = 80
_HTTPS_PORT = 443
_PORT = re.compile(r"[0-9]{1,5}")
_HIGHEST_PORT = 65_535
_MOST_PARTS = 4
_LONGEST_NUMBER = 16
_BYTE = 256
_LONGEST_NAME = 253


def why_forbidden(address: str | Address, exempted: Sequence[Network] = ()) -> str:
    """The kind of a forbidden address, such as `a loopback address`; empty if it is allowed.

    `exempted` networks are allowed, except where a cloud serves credentials. A text that is no address is
    forbidden.
    """
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return "no address"
    if any(address in network for network in _METADATA):
        return "the address of a cloud's metadata"
    if any(address in network for network in exempted):
        return ""
    for network, kind in _SPECIAL:
        if address in network:
            return kind
    return "" if isinstance(address, IPv4Address) or address in _GLOBAL_V6 else "a reserved address"


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse networks such as `10.1.0.0/16`; a single address is a network of one.

    Raises:
        ValueError: A text is no network, or has bits set beyond its prefix.
    """
    return tuple(map(ip_network, texts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """The host of a URL: an address, or a name in lower case and in its ASCII form.

    `fault` says why it cannot be used. `is_plain` is false if its written form hides what it is, such as an
    octal number, or letters that only look like ASCII.
    """

    name: str = ""
    address: Address | None = None
    is_plain: bool = True
    fault: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the name means this machine or its local network."""
        if self.address is not None:
            return False
        last = [self.name == local or self.name.endswith(f".{local}") for local in _LOCAL_NAMES]
        return "." not in self.name or any(last)


def parse_host(text: str) -> Host:
    """Parse a host as URLs contain it, with or without the brackets of an IPv6 address."""
    if text.startswith("[") or text.count(":") > 1:
        return _ipv6_host(text)
    plain = unicodedata.normalize("NFKC", text.translate(_DOTS)).lower()
    bare = plain.removesuffix(".")
    if not bare or re.search(r"[\x00-\x20\x7f%\\@:/?#\[\]<>^|]", bare):
        return Host(fault="is no host name")
    parts = bare.split(".")
    if _NUMBER.fullmatch(parts[-1]):
        address = _number_forms(parts)
        if address is None:
            return Host(fault="ends in a number, but is no address")
        return Host(name=str(address), address=address, is_plain=text == str(address))
    return _named_host(bare, is_plain=text.lower().removesuffix(".") == bare)


def _ipv6_host(text: str) -> Host:
    try:
        address = IPv6Address(text[1:-1] if text[0] == "[" and text[-1] == "]" else text)
    except ValueError:
        return Host(fault="is no IPv6 address")
    if address.scope_id is not None:
        return Host(fault="names a network interface, which means something on one machine only")
    return Host(name=str(address), address=address)


def _named_host(name: str, *, is_plain: bool) -> Host:
    try:
        plain = name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        return Host(fault="is no host name")
    if len(plain) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, plain.split("."))):
        return Host(fault="is no host name")
    return Host(name=plain, is_plain=is_plain and name.isascii() and "xn--" not in plain)


def _number_forms(parts: Sequence[str]) -> IPv4Address | None:
    """An address in any form that `inet_aton` accepts: one to four numbers, decimal, octal or hexadecimal."""
    if (
        len(parts) > _MOST_PARTS
        or not all(map(_NUMBER.fullmatch, parts))
        or max(map(len, parts)) > _LONGEST_NUMBER
    ):
        return None
    try:
        *head, tail = map(_number, parts)
    except ValueError:
        return None
    if any(number >= _BYTE for number in head) or tail >= _BYTE ** (_MOST_PARTS - len(head)):
        return None
    high = sum(number << (24 - 8 * at) for at, number in enumerate(head))
    return IPv4Address(high + tail)


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") else int(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class UrlTarget:
    """The target of a URL. `userinfo` is the part before an `@`; `fault` says why the URL cannot be used."""

    scheme: str = ""
    host: Host = Host()
    port: int = 0
    userinfo: str = ""
    fault: str = ""


def parse_url(url: str, schemes: Sequence[str] = _HTTP) -> UrlTarget:
    """Take apart as much of a URL as decides where a connection goes; it must have one of the schemes."""
    if re.search(r"[\x00-\x20\x7f\\]", url):
        return UrlTarget(fault="holds a blank, a backslash or a control character")
    match = _URL.match(url)
    scheme = match[1].lower() if match else ""
    if match is None or scheme not in schemes:
        return UrlTarget(fault=f"must start with {one_of([f'{one}://' for one in schemes])}")
    userinfo, _, rest = match[2].rpartition("@")
    text, port = rest, ""
    if ":" in (after := rest.rpartition("]")[2]):
        port = after.rpartition(":")[2]
        text = rest[: len(rest) - len(port) - 1]
        if not _PORT.fullmatch(port) or not 0 < int(port) <= _HIGHEST_PORT:
            return UrlTarget(
                scheme=scheme, userinfo=userinfo, fault="has a port that is no number up to 65535"
            )
    host = parse_host(text)
    default = _HTTPS_PORT if scheme in ("https", "wss") else _HTTP_PORT
    return UrlTarget(
        scheme=scheme,
        host=host,
        port=int(port or default),
        userinfo=userinfo,
        fault=f"its host {host.fault}" if host.fault else "",
    )
