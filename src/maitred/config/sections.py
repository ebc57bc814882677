"""Faults and values of single sections: `catalog`, `auth` or `browser` of a server, `http`, saved `chains`.

`auth` is `oauth`, or a mapping with the identity of maitred at the login. `http` may listen on loopback, or
anywhere with a token. `chains` has only names, files and hashes: the chain server reads the files. To the
gateway, saved chains are one more server, whose specification changes with every review.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol
from urllib.parse import urlsplit

from annotated_types import MinLen

from maitred.config.settings import (
    SAVED,
    Catalog,
    HeldCallSettings,
    Http,
    MediationSettings,
    RegistrySettings,
    SavedEntry,
    SecretSettings,
    SharedSettings,
    UpgradeSettings,
)
from maitred.errors import ConfigError
from maitred.model.browsers import PROFILE_NAME, BrowserOptions
from maitred.model.pages import PageOptions, origin_pattern
from maitred.model.servers import OAuth, ServerSpec, Timeouts, TokenExchange
from maitred.model.transports import TransportKind

_SHARED_SCHEMES: Final = ("valkey", "valkeys", "redis", "rediss", "unix")


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(settings: Http) -> None:
    """Refuse to listen where any machine could call every tool.

    Raises:
        ConfigError: The address is not loopback and there is neither a token nor an issuer of tokens.
    """
    if not is_loopback(settings.host) and not settings.token and not settings.jwt:
        fault = (
            f"http.host: {settings.host} can be reached from other machines, so a token is needed:"
            " set `http.token` or pass --token, or set `http.jwt`"
        )
        raise ConfigError("serve", [fault])
    if not settings.token.isascii():
        raise ConfigError("serve", ["http.token: HTTP headers carry ASCII only; choose another token"])


def http_faults(section: Http) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the faults of the section as a whole: pairs of the keys below it and a text."""
    if section.public_url and (
        not is_safe_url(section.public_url) or urlsplit(section.public_url).path.strip("/")
    ):
        yield ["public_url"], "must be https://HOST without a path (http:// only on this machine)"
    if section.unready_s and section.unready_s >= section.drain_s:
        yield ["unready_s"], f"must be less than `drain_s`, which is {section.drain_s:g} and has it in it"
    jwt = section.jwt
    if jwt is None:
        return
    if not is_safe_url(jwt.jwks_url):
        yield ["jwt", "jwks_url"], "must start with https:// (http:// only on this machine)"


def is_safe_url(url: str) -> bool:
    """Return whether an address is one of HTTPS, or of HTTP on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def is_any(host: str) -> bool:
    """Return whether an address means all addresses of the machine."""
    return host in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound


@dataclass(frozen=True, kw_only=True)
class ExchangeEntry:
    """The mapping in the file; see `maitred.model.servers.TokenExchange`."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    token_url: Annotated[str, MinLen(1)]
    client_id: Annotated[str, MinLen(1)]
    client_secret: str = ""
    audience: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AuthEntry:
    """The mapping in the file; see `maitred.model.servers.OAuth`."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()
    redirect_uri: str = OAuth.redirect_uri
    issuer: str = ""
    per: Literal["gateway", "user"] = "gateway"
    exchange: ExchangeEntry | None = None
    forward: bool = False

    def to_model(self) -> OAuth:
        """Return the same as a value of the model."""
        exchange = TokenExchange(**vars(self.exchange)) if self.exchange else None
        return OAuth(**{**vars(self), "exchange": exchange})


def with_forwarding(specs: Mapping[str, ServerSpec], http: Http) -> dict[str, ServerSpec]:
    """Return the specifications with the hosts to which the operator lets callers' tokens be sent."""
    hosts = http.jwt.forward_to if http.jwt else ()
    return {
        name: replace(spec, auth=replace(spec.auth, forward_to=hosts))
        if spec.auth is not None and spec.auth.forward
        else spec
        for name, spec in specs.items()
    }


def auth_of_client(raw: Any) -> Any:
    """Return the login in a client's file, if it means the same here: `oauth`, or a registered client."""
    if isinstance(raw, dict):
        fields = {str(key).lower(): value for key, value in raw.items() if value is not None}
        return {key: fields[key] for key in AuthEntry.__dataclass_fields__ if key in fields} or None
    return "oauth" if raw == "oauth" else None


class EntryWithLogin(Protocol):
    """What has to agree with a login in the entry of its server."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Sent with each request."""
        ...

    @property
    def share(self) -> str:
        """Which clients share an instance."""
        ...

    @property
    def result_tools(self) -> bool:
        """Whether results may bring tools."""
        ...


def auth_faults(
    auth: AuthEntry, *, kind: TransportKind | None, entry: EntryWithLogin
) -> Iterator[tuple[str, str]]:
    """Yield the faults of a login, each with its key below `auth`; the key is empty for `auth` itself.

    `kind` is the transport of the server; `None` if it is unknown, which is a fault of its own.
    """
    yield from _sharing_faults(auth, entry)
    yield from _client_faults(auth)
    yield from _caller_faults(auth)
    if kind is not None and "auth" not in kind.keys:
        if kind.key == "url":
            yield "", f"is not for servers of transport {kind.name}"
        else:
            yield "", "is for servers with `url`; a program gets its credentials by `env`"
    elif any(name.lower() == "authorization" for name in entry.headers):
        yield "", "sends the header Authorization itself; take it out of `headers`"


def _sharing_faults(auth: AuthEntry, entry: EntryWithLogin) -> Iterator[tuple[str, str]]:
    if not auth.to_model().is_personal:
        return
    if entry.share == "all":
        yield "", "gives each principal tokens of its own, so `share: all` cannot be; take it out"
    if entry.result_tools:
        yield "", "gives each principal tokens of its own, and `result_tools` would show one's to all"


def _caller_faults(auth: AuthEntry) -> Iterator[tuple[str, str]]:
    own = replace(auth, exchange=None, forward=False)
    if auth.forward and auth.exchange:
        yield "forward", "and `exchange` exclude each other"
    if (auth.forward or auth.exchange) and own != AuthEntry():
        key = "exchange" if auth.exchange else "forward"
        yield key, "goes with no other key of `auth`: callers bring their tokens, and no person logs in"
    if auth.exchange and not (is_safe_url(auth.exchange.token_url) or "${" in auth.exchange.token_url):
        yield "exchange", "has a `token_url` without https:// (http:// only on this machine)"


def _client_faults(auth: AuthEntry) -> Iterator[tuple[str, str]]:
    if auth.client_secret and not auth.client_id:
        yield "client_secret", "needs `client_id`"
    if auth.client_id and auth.client_metadata_url:
        yield "client_metadata_url", "is for those who have no `client_id`; keep one of the two"
    document = urlsplit(auth.client_metadata_url)
    if auth.client_metadata_url and (document.scheme != "https" or document.path in ("", "/")):
        yield "client_metadata_url", "must start with https:// and have a path"
    if not _comes_back(auth.redirect_uri):
        yield "redirect_uri", "must be an http:// address of this machine, as http://127.0.0.1:8421/callback"
    if auth.issuer and not auth.issuer.startswith(("http://", "https://")):
        yield "issuer", "must start with http:// or https://"
    if any(len(scope.split()) != 1 for scope in auth.scopes):
        yield "scopes", "must be a list of words without blanks"


def _comes_back(uri: str) -> bool:
    """Return whether an address is a callback on this machine for a browser."""
    try:
        parts = urlsplit(uri)
        has_port = parts.port != 0
    except ValueError:
        return False
    plain = parts.scheme == "http" and not (parts.query or parts.fragment or parts.username)
    return plain and has_port and is_loopback(parts.hostname or "")


def browser_faults(options: BrowserOptions) -> Iterator[tuple[str, str]]:
    """Yield the faults of a server's `browser` section: pairs of a key and a text."""
    if options.profile and not PROFILE_NAME.fullmatch(options.profile):
        yield "profile", "must be a name of letters, digits, - and _, such as `work`; maitred has the folder"
    for key in ("consent_s", "idle_stop_s"):
        if getattr(options, key) <= 0:
            yield key, "must be more than 0"
    if options.max_connections < 1:
        yield "max_connections", "must be at least 1"
    for key in ("args", "flags"):
        for one in getattr(options, key):
            if not one.startswith("--"):
                yield key, f"{one!r} is no flag of a browser; these begin with --"
            elif one.partition("=")[0] in _OUR_FLAGS:
                yield key, f"{one.partition('=')[0]} is set by maitred itself; leave it out"


def page_faults(options: PageOptions) -> Iterator[tuple[str, str]]:
    """Yield the faults of a server's `pages` section: pairs of a key and a text."""
    if not (options.allow or options.ask):
        yield "allow", "is missing; list the origins whose pages may offer tools, as in [https://app.example]"
    if options.call_s <= 0:
        yield "call_s", "must be more than 0"
    if options.dial_in not in (None, 0, *_PORTS):
        yield "dial_in", f"must be 0 for a free port, or a port from {_PORTS[0]} to {_PORTS[-1]}"
    for key in ("allow", "ask", "deny"):
        for one in getattr(options, key):
            try:
                origin_pattern(one)
            except ValueError as error:
                yield key, str(error)


_PORTS: Final = range(1024, 65_536)
_OUR_FLAGS: Final = frozenset(
    ["--remote-debugging-port", "--remote-debugging-address", "--remote-debugging-pipe", "--user-data-dir"]
)
_DATABASE_SCHEMES: Final = ("postgresql://", "postgres://")
_NO_DATABASE: Final = "must start with postgresql:// (an SQLite file belongs in `path`)"
_ODD: Final = re.compile(r"[\s#]|%(?![0-9A-Fa-f]{2})")


def catalog_faults(section: Catalog) -> Iterator[tuple[str, str]]:
    """Yield the faults of the section: pairs of a key and a text; references are checked at the start."""
    if section.url and section.path:
        yield "url", "is not allowed beside `path`; keep one of the two"
    elif section.url and "$" not in section.url and (fault := database_url_fault(section.url)):
        yield "url", fault
    elif section.url and section.url[0] != "$" and not section.url.startswith(_DATABASE_SCHEMES):
        yield "url", _NO_DATABASE


def database_url_fault(url: str) -> str:
    """Return why the address of a database cannot be used, without any part of it; empty if it can.

    The driver would read a password with `/` or `@` as parts of the address, and show them in its errors.
    """
    if not url.startswith(_DATABASE_SCHEMES):
        return _NO_DATABASE
    try:
        parts = urlsplit(url)
    except ValueError:
        return "is not an address such as postgresql://user@host:5432/database"
    if _ODD.search(url) or "@" in parts.path + parts.query or parts.netloc.count("@") > 1:
        return (
            "has a character that must be percent-encoded, such as `/` as %2F or `@` as %40 in a password;"
            " or leave the password to the variable PGPASSWORD"
        )
    ports = (host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.rpartition("@")[2].split(","))
    if not all(port == "" or (port.isascii() and port.isdecimal()) for port in ports):
        return "has a port that is not a number, as in postgresql://user@host:5432/database"
    return ""


def shared_faults(section: SharedSettings) -> Iterator[tuple[str, str]]:
    """Yield the faults of the section: pairs of a key and a text; references are checked at the start."""
    if section.url and "$" not in section.url and (fault := shared_url_fault(section.url)):
        yield "url", fault


def shared_url_fault(url: str) -> str:
    """Return why the address of a Valkey server cannot be used, without any part of it; empty if it can."""
    example = "is not an address such as valkey://user@host:6379/0 (or valkeys:, redis:, rediss:, unix:)"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return example
    return "" if parts.scheme in _SHARED_SCHEMES and (parts.netloc or parts.path) else example


def webhook_faults(section: HeldCallSettings) -> Iterator[tuple[str, str]]:
    """Yield the faults of the address for messages about held calls: pairs of a key and a text."""
    if section.webhook and not is_safe_url(section.webhook):
        yield "webhook", "must start with https:// (http:// only on this machine)"
    elif section.webhook and "@" in urlsplit(section.webhook).netloc:
        yield "webhook", "must hold no name or password, as logs and messages show it; use `webhook_key`"
    if section.webhook_key and not section.webhook:
        yield "webhook_key", "has no effect without `webhook`"


def registry_faults(section: RegistrySettings) -> Iterator[tuple[str, str]]:
    """Yield the faults of the address of the registry: pairs of a key and a text."""
    if not section.url:
        return
    if not is_safe_url(section.url):
        yield "url", "must start with https:// (http:// only on this machine)"
    elif "@" in urlsplit(section.url).netloc or urlsplit(section.url).query or urlsplit(section.url).fragment:
        yield "url", "must be the address alone, without a name, a password, or anything after `?` or `#`"


def secret_faults(section: SecretSettings) -> Iterator[tuple[str, str]]:
    """Yield the faults of the programs that may print secrets: pairs of a key and a text."""
    for program in section.commands:
        if not program.strip() or (program != "*" and ("*" in program or any(c.isspace() for c in program))):
            yield (
                "commands",
                f"{program!r} is no program; write its name or its whole path, without arguments",
            )
        elif "/" in program and not program.startswith("/"):
            yield "commands", f"{program!r} is a relative path; write the name alone, or the whole path"


def upgrade_faults(section: UpgradeSettings) -> Iterator[tuple[str, str]]:
    """Yield the faults of the address of newer versions: pairs of a key and a text."""
    if section.url and not is_safe_url(section.url):
        yield "url", "must start with https:// (http:// only on this machine)"
    elif section.url and "@" in urlsplit(section.url).netloc:
        yield "url", "must hold no name or password, as messages show it"


_CHECKSUM: Final = re.compile(r"[0-9a-fA-F]{64}")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def mediation_faults(section: MediationSettings) -> Iterator[tuple[str, str]]:
    """Yield the faults of the section as a whole: pairs of a key and a text."""
    yield from _of_the_model(section)
    yield from _of_the_address(section)


def _of_the_model(section: MediationSettings) -> Iterator[tuple[str, str]]:
    if section.llm_provider == "none":
        for key in ("model", "url", "api_key"):
            if getattr(section, key):
                yield key, "has no effect while `llm_provider` is none; choose anthropic, openai or local"
        return
    if not section.model:
        yield "llm_provider", f"{section.llm_provider} needs `model`, the name of the model to ask"
    if section.llm_provider == "local" and not section.url:
        yield "llm_provider", "local needs `url`, such as http://localhost:11434/v1"


def _of_the_address(section: MediationSettings) -> Iterator[tuple[str, str]]:
    url, checksum = section.overrides_url, section.overrides_checksum
    if url and not _is_safe_mediation(url):
        yield "overrides_url", "must start with https:// (http:// only on this machine)"
    elif url and "@" in urlsplit(url).netloc:
        yield "overrides_url", "must hold no name or password, as logs and messages show it"
    if url and not checksum:
        yield "overrides_url", "needs `overrides_checksum`, the SHA-256 of the version that you have read"
    if checksum and not url:
        yield "overrides_checksum", "has no effect without `overrides_url`"
    elif checksum and not _CHECKSUM.fullmatch(checksum):
        yield "overrides_checksum", "must be a SHA-256: 64 hexadecimal digits"


def _is_safe_mediation(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        )
    except ValueError:
        return False


_DEFAULT = Timeouts()


@dataclass(frozen=True, kw_only=True)
class SavedFile:
    """A saved chain: its name, its file, and the hash of the reviewed file."""

    name: str
    hash: str
    file: str


def saved_spec(source: Path, chains: Mapping[str, SavedEntry], timeouts: Timeouts = _DEFAULT) -> ServerSpec:
    """Make the specification of the server of these chains; files are relative to the configuration's."""
    words = [word for name, entry in chains.items() for word in (name, entry.hash, entry.file)]
    folder = str(source.absolute().parent)
    return ServerSpec(name=SAVED, transport="chain", args=tuple(words), cwd=folder, timeouts=timeouts)


def files_of(spec: ServerSpec) -> Sequence[SavedFile]:
    """Return the chains from which `saved_spec` made a specification."""
    words = spec.args
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [SavedFile(name=name, hash=digest, file=file) for name, digest, file in triples]
