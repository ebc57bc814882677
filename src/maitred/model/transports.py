"""The transports: how a server can be reached, one entry a kind.

The parts that depend on the transport of a server read this table, or judge by `reach`. A name that is not in
the table is refused by the configuration, by manifests, by each admission check and by the pool.

To add a kind: an entry here, a backend in `maitred.backends`, a line in `maitred.wiring.transports.MAKERS`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, get_args

Key = Literal["command", "url", "image", "browser", "pages", ""]
Reach = Literal["program", "network", "image", "internal"]

_PROGRAM_KEYS: Final = frozenset(
    ["args", "env", "memory", "cpu", "cpu_shares", "pids", "output", "filesystem"]
)
_HTTP_KEYS: Final = frozenset(["url", "headers", "auth"])
_HTTP_FRAMING: Final = (
    "content-*", "transfer-encoding", "te", "trailer", "connection", "keep-alive", "upgrade",
    "http2-settings", "expect", "accept", "mcp-*", "last-event-id", "origin",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TransportKind:
    """One way to reach a server.

    Attributes:
        name: The value of `transport`.
        key: The key of a server that says where it is; empty for servers that only code makes.
        reach: What admission checks judge: a program on this machine, an address, an image, or nothing.
        aliases: Other values of `transport` and `type` in configuration files that mean the same.
        url_schemes: The schemes that `url` may have.
        encrypted_schemes: Those of them that encrypt; a plain one needs a person's approval.
        keys: The keys of a server, in a configuration file or a manifest, that fit this kind and not every
            kind. With `auth` among them, a person can log in to its servers.
        in_manifests: A manifest may ask for this kind.
        framing_headers: The headers that the gateway writes itself, in lower case; a `*` is any text. No
            manifest may set a header that is framing for any kind.
        opened_by: The HTTP method by which a stream of server-sent events opens; empty if the transport has
            no such stream. A WebSocket opens with GET, too, but has none.
        judged: Admission judges what the server publishes; saved chains are checked by their own hashes.
        composed: The gateway runs the tools itself, and a call of one consists of calls of other tools. Only
            those count for limits.
        loses_silently: The server can forget a session without a sign; the gateway has to ping it.
        of_client: Each client has an instance of its own, unless the configuration says otherwise.
        keeps: Its servers start with the gateway, since what they offer comes from outside at any time.
        reports_facts: The server reports the facts that visibility rules read; calls change none.

    Raises:
        ValueError: The entry contradicts itself.
    """

    name: str
    key: Key
    reach: Reach
    aliases: tuple[str, ...] = ()
    url_schemes: tuple[str, ...] = ()
    encrypted_schemes: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    in_manifests: bool = False
    framing_headers: tuple[str, ...] = ()
    opened_by: Literal["", "GET", "POST"] = ""
    judged: bool = True
    composed: bool = False
    loses_silently: bool = False
    of_client: bool = False
    reports_facts: bool = False
    keeps: bool = False

    def __post_init__(self) -> None:
        """Refuse an entry that the checks could not judge."""
        if self.reach not in get_args(Reach) or self.key not in get_args(Key):
            raise ValueError(f"transport {self.name!r}: no check can judge the reach {self.reach!r}")
        if (self.key == "url") != bool(self.url_schemes) or self.encrypted_schemes - {*self.url_schemes}:
            raise ValueError(
                f"transport {self.name!r}: `url_schemes` are for the key `url`, and it needs them"
            )
        if (self.keys or self.in_manifests) and self.key not in self.keys:
            raise ValueError(f"transport {self.name!r}: `keys` needs its key `{self.key}`")

    def takes(self, url: str) -> bool:
        """Whether a URL has one of the schemes; a URL that begins with a reference may have any."""
        return url.startswith("${") or url.lower().startswith(tuple(f"{one}://" for one in self.url_schemes))


class UnknownTransportError(ValueError):
    """No transport of this name is in the table."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"its transport {name!r} is unknown, and nothing is opened by it")


_KINDS: Final = (
    TransportKind(
        name="stdio",
        key="command",
        reach="program",
        aliases=("local",),
        keys=frozenset(["command", "cwd", *_PROGRAM_KEYS]),
        in_manifests=True,
    ),
    TransportKind(
        name="http",
        key="url",
        reach="network",
        aliases=("streamable-http", "streamable_http", "streamableHttp", "remote"),
        url_schemes=("http", "https"),
        encrypted_schemes=frozenset(["https"]),
        keys=_HTTP_KEYS,
        in_manifests=True,
        framing_headers=_HTTP_FRAMING,
        opened_by="POST",
        loses_silently=True,
    ),
    TransportKind(
        name="sse",
        key="url",
        reach="network",
        url_schemes=("http", "https"),
        encrypted_schemes=frozenset(["https"]),
        keys=_HTTP_KEYS,
        framing_headers=_HTTP_FRAMING,
        opened_by="GET",
    ),
    TransportKind(
        name="container",
        key="image",
        reach="image",
        keys=frozenset(["image", *_PROGRAM_KEYS]),
        in_manifests=True,
    ),
    TransportKind(
        name="browser",
        key="browser",
        reach="internal",
        keys=frozenset(["browser"]),
        of_client=True,
        reports_facts=True,
    ),
    TransportKind(name="pages", key="pages", reach="internal", keys=frozenset(["pages"]), keeps=True),
    TransportKind(name="memory", key="", reach="internal"),
    TransportKind(name="chain", key="", reach="internal", judged=False, composed=True),
)

TRANSPORTS: Final[dict[str, TransportKind]] = {kind.name: kind for kind in _KINDS}
"""The table. The first kind of a key is the default for servers that name no transport."""


def transport_kind(name: str) -> TransportKind:
    """The kind of a name.

    Raises:
        UnknownTransportError: There is none.
    """
    kind = TRANSPORTS.get(name)
    if kind is None:
        raise UnknownTransportError(name)
    return kind


def reach_of(name: str) -> Reach | None:
    """What a transport reaches; `None` if it is unknown."""
    kind = TRANSPORTS.get(name)
    return kind.reach if kind else None


def is_judged(name: str) -> bool:
    """Whether admission judges what a server of this transport publishes; so of an unknown one."""
    kind = TRANSPORTS.get(name)
    return kind is None or kind.judged


def is_composed(name: str) -> bool:
    """Whether a call of a tool of this transport consists of calls of other tools."""
    kind = TRANSPORTS.get(name)
    return kind is not None and kind.composed


def reports_facts(name: str) -> bool:
    """Whether a server of this transport reports its facts itself."""
    kind = TRANSPORTS.get(name)
    return kind is not None and kind.reports_facts


def is_framing(header: str) -> bool:
    """Whether the gateway writes a header itself, for servers of any transport of the table."""
    name = header.lower()
    return any(fnmatchcase(name, pattern) for kind in TRANSPORTS.values() for pattern in kind.framing_headers)


def named_kind(kinds: Iterable[TransportKind], name: str) -> TransportKind | None:
    """The kind of a name or alias, whatever the case of its letters."""
    wanted = name.casefold()
    return next((kind for kind in kinds if wanted in map(str.casefold, (kind.name, *kind.aliases))), None)


def manifest_kinds() -> Sequence[TransportKind]:
    """The kinds that a manifest may ask for."""
    return [kind for kind in TRANSPORTS.values() if kind.in_manifests]


def manifest_kind(name: str) -> TransportKind | None:
    """The kind of a name if a manifest may ask for it."""
    kind = TRANSPORTS.get(name)
    return kind if kind and kind.in_manifests else None


def manifest_reach(name: str) -> Reach | None:
    """What a transport of a manifest reaches; `None` if no manifest may ask for it."""
    kind = manifest_kind(name)
    return kind.reach if kind else None


def default_kind(kinds: Sequence[TransportKind], key: str, url: str = "") -> TransportKind | None:
    """The kind that is meant where only a key is given: the first that takes the URL, else the first."""
    fitting = [kind for kind in kinds if kind.key == key]
    return next((kind for kind in fitting if kind.takes(url)), fitting[0] if fitting else None)


def keys_that_do_not_fit(
    server: Any, name: str, kinds: Sequence[TransportKind]
) -> Iterator[tuple[str, Sequence[str]]]:
    """The keys of a server that do not fit its transport, each with the transports that it fits.

    `server` is a dataclass whose fields are the keys of a file; a field with its default or an empty value
    counts as not given. `kinds` are the transports that the file may ask for.
    """
    for one in fields(server):
        fitting = [kind.name for kind in kinds if one.name in kind.keys]
        if fitting and name not in fitting and getattr(server, one.name) not in (one.default, (), {}, ""):
            yield one.name, fitting
