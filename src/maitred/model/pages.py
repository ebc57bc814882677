"""Which web pages may offer tools, as an operator decides it: patterns of origins; names and marks of tools.

An origin is the scheme, host and port of a page. Only origins whose pages cannot be changed on the way may
offer tools: those of HTTPS, and those of this machine.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_ORIGIN: Final = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^/:@?#\[\]\s]+)(?::(\d{1,5}))?")
_PATTERN: Final = re.compile(r"(https?)://(\*\.)?(\[[0-9a-f:.]+\]|[^/:@?#\[\]\s*]+)(?::(\d{1,5}|\*))?/?")
_PORTS: Final = {"http": "80", "https": "443"}
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
MARK_KEY: Final = "page-supplied, untrusted"
"""The key of structured content by which programs and models read whose text it is."""
_MARK: Final = re.compile(r"\[page-supplied, untrusted · [^\]\s]+\](?=\s|$)")
_MARKED: Final = re.compile(r"\[page-supplied, untrusted · [^\]\s]+\] ")


def mark(origin: str) -> str:
    """The mark that precedes each text of a page."""
    return f"[page-supplied, untrusted · {origin}]"


def split_mark(text: str) -> tuple[str, str]:
    """The mark with which a description of a page begins, with the blank after it, and the rest."""
    found = _MARKED.match(text)
    return (found[0], text[found.end() :]) if found else ("", text)


def leading_mark(text: str) -> str:
    """The mark with which an answer of a page begins; empty for any other text."""
    found = _MARK.match(text)
    return found[0] if found else ""


def key_name(origin: str, tool: str) -> str:
    """The name of a page's tool in the catalog, which has its origin in it."""
    return f"{origin}#{tool}"


def split_name(name: str) -> tuple[str, str]:
    """The origin of a page's tool, and its name in the page; no origin and the name for any other tool."""
    origin, _, own = name.partition("#")
    return (origin, own) if own and _ORIGIN.fullmatch(origin) else ("", name)


def name_in_page(name: str) -> str:
    """The name that a tool has in its page; names of other tools stay as they are."""
    return split_name(name)[1]


@dataclass(frozen=True, kw_only=True)
class OriginPattern:
    """Some origins. `port` may be `*`; with `below`, the host's subdomains are meant, and not the host."""

    scheme: str
    host: str
    port: str
    below: bool = False

    def fits(self, origin: str) -> bool:
        """Whether an origin, as a browser writes it, is one of these. An opaque one never is."""
        found = _ORIGIN.fullmatch(origin)
        if found is None:
            return False
        scheme, host, port = found[1], found[2], found[3] or _PORTS[found[1]]
        is_host = host.endswith(f".{self.host}") if self.below else host == self.host
        return scheme == self.scheme and is_host and self.port in ("*", port)

    def to_json(self) -> dict[str, Any]:
        """The same for the script that looks at a page from inside."""
        return {"scheme": self.scheme, "host": self.host, "port": self.port, "below": self.below}


def origin_pattern(text: str) -> OriginPattern:
    """Read a pattern such as `https://app.example`, `https://*.app.example` or `http://localhost:*`.

    Raises:
        ValueError: It is none, or could mean pages that others can change on their way.
    """
    found = _PATTERN.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(
            f"{text!r} is no origin: write a scheme, a host and a port where it has one, as in"
            " https://app.example, https://*.app.example or http://localhost:*"
        )
    scheme, below, host, port = found[1], bool(found[2]), found[3], found[4] or _PORTS[found[1]]
    if scheme == "http" and (below or not is_local_host(host)):
        raise ValueError(
            f"{text!r} is not encrypted, so anybody on the way could add tools to its pages; use https, or a"
            " page of this machine"
        )
    if below and "." not in host:
        raise ValueError(f"{text!r} means all of {host!r}; name a domain, as in https://*.app.example")
    return OriginPattern(scheme=scheme, host=host, port=port, below=below)


def is_local_host(host: str) -> bool:
    """Whether the pages of a host are those of this machine, as browsers see it."""
    return host in _LOCAL or host.endswith(".localhost")


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Which pages offer tools to a server of the transport `pages`. No other page is even looked at.

    Attributes:
        allow: The origins whose tools are listed, as patterns of `origin_pattern`.
        ask: Those of them for which the client's user is asked before each call. These need not be in
            `allow`, too.
        deny: Those of them that are not listed after all.
        native: Pages are reached by the browser's own WebMCP where it has that, else by a script of ours.
        call_s: How many seconds a call may take.
        dial_in: The port at which pages of these origins may connect by themselves, without a browser that
            the gateway uses; 0 is a free one. `None` is none.
    """

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    native: bool = True
    call_s: float = 30.0
    dial_in: int | None = None


class OriginRules:
    """Decides about origins by the lists of an operator."""

    def __init__(self, options: PageOptions) -> None:
        """The patterns were checked with the configuration.

        Raises:
            ValueError: A pattern cannot be read.
        """
        self._allow = [origin_pattern(one) for one in (*options.allow, *options.ask)]
        self._ask = [origin_pattern(one) for one in options.ask]
        self._deny = [origin_pattern(one) for one in options.deny]

    def allows(self, origin: str) -> bool:
        """Whether tools of an origin may be listed; never those of an opaque origin, a file or a text."""
        return _fits(self._allow, origin) and not _fits(self._deny, origin)

    def is_left_out(self, origin: str) -> bool:
        """Whether the lists say nothing of the origin of a page; an opaque one, or a file, is none."""
        return bool(_ORIGIN.fullmatch(origin)) and not _fits((*self._allow, *self._deny), origin)

    def asks(self, origin: str) -> bool:
        """Whether a person is asked before each call."""
        return _fits(self._ask, origin)

    def to_json(self) -> dict[str, Any]:
        """The same for the script that looks at a page from inside."""
        return {
            "allow": [one.to_json() for one in self._allow],
            "deny": [one.to_json() for one in self._deny],
        }


def _fits(patterns: Sequence[OriginPattern], origin: str) -> bool:
    return any(one.fits(origin) for one in patterns)
