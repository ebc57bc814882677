"""Servers as values: how to reach one, what it said of itself, and its health.

Also as values: what isolates registered servers on a machine.
"""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Literal

from maitred.model.browsers import BrowserOptions
from maitred.model.pages import PageOptions
from maitred.model.tools import canonical, content_hash

EraChoice = Literal["auto", "handshake", "stateless"]
StartChoice = Literal["on_demand", "always"]
Share = Literal["all", "project", "client", "principal"]
ShareChoice = Literal["auto", "all", "project", "client", "principal"]
CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""Variables that name the certificates to trust; every server that is a program gets them."""

_NOT_RUN: Final = frozenset(
    [
        "cache_s", "visibility", "result_tools", "overrides", "allowed_origins",
        "start", "share", "share_max", "approved_at",
    ]
)  # fmt: skip
"""Keys that do not decide how a server runs: if they change, its connection stays."""

_NOT_REACH: Final = _NOT_RUN | frozenset(
    ["enabled", "timeouts", "era", "withheld", "suspended", "resumed", "registered", "exempted", "cage"]
)
"""Keys that do not decide which server it is: if they change, knowledge of it and its approval stay."""

_WHOSE: Final = frozenset(["per", "exchange", "forward", "forward_to"])
"""Keys of `auth` that say whose tokens a request carries; they do not decide which server it is."""

_BROWSER: Final = "Chrome on this machine"
_PAGES: Final = "web pages in the browsers of this gateway"
_NEWER: Final = ("image", "auth", "browser", "pages")
"""Keys that count only if they are set, so that fingerprints of older versions stay the same."""


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds that a server may take before maitred gives up on it.

    A call may take `call_s` without progress, and `longest_call_s` in all.
    """

    start_s: float = 60.0
    list_s: float = 30.0
    call_s: float = 120.0
    longest_call_s: float = 3_600.0
    idle_stop_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class TokenExchange:
    """Where a caller's own token is exchanged for one of a server (RFC 8693), and as which client."""

    token_url: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    audience: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """The identity of maitred when a server asks for a login; maitred discovers what is empty.

    `client_secret` may be a reference. `redirect_uri` is where the browser returns, a loopback address;
    without a port, maitred takes a free one. `issuer` is the expected authorization server. `per` says whose
    a login is: the gateway's, for all callers, or that of each user, so of each principal. With `exchange` or
    `forward` there is no login: each request carries a token got for the caller's own, or that one itself, if
    the host of the server is in `forward_to`.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()
    redirect_uri: str = "http://127.0.0.1/callback"
    issuer: str = ""
    per: Literal["gateway", "user"] = "gateway"
    exchange: TokenExchange | None = None
    forward: bool = False
    forward_to: tuple[str, ...] = ()

    @property
    def is_personal(self) -> bool:
        """Whether each principal has tokens of its own."""
        return self.per == "user" or not self.has_logins

    @property
    def has_logins(self) -> bool:
        """Whether a person logs in; otherwise callers bring their tokens."""
        return self.exchange is None and not self.forward


def default_share_max(auth: OAuth | None) -> int:
    """How many instances of a server may run by default; connections of many principals cost little."""
    return 200 if auth is not None and auth.is_personal else 10


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A folder or file of this machine that an isolated server sees at `at`; both are absolute paths."""

    path: str
    at: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class Cage:
    """The resources of this machine that the processes of a registered server may use, by its manifest.

    `memory` and `disk` in bytes, `nano_cpus` in billionths of a core, `output` in bytes a second. Without
    `network` the processes reach only themselves. `cpu_shares` of 0 keeps the default weight.
    """

    memory: int = 512 * 2**20
    nano_cpus: int = 1_000_000_000
    cpu_shares: int = 0
    pids: int = 128
    output: int = 8 * 2**20
    disk: int = 64 * 2**20
    network: bool = False
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """How to reach one server, as the operator wrote it; references such as `${TOKEN}` are not resolved.

    `transport` is the name of an entry of `maitred.model.transports`.
    `browser` and `pages` are what the operator decides about a server of the transport of that name.
    `visibility` declares its facts and rules for `maitred.visibility.declarations`; `result_tools` says
    whether its results may bring tools. With `auth` a person logs in to it by OAuth. `overrides`, from a
    manifest, has the form of one server in a file of overrides. With `allowed_origins`, links in its results
    may lead nowhere else.

    The operator does not write the last seven; admission sets them. `withheld` says why it may not be used
    now, in words that follow its name; empty if it may. `suspended` says whether the reason is a suspension,
    which `maitred resume` ends, and `resumed` counts these. `registered` marks a server from a manifest, not
    from the configuration. `exempted` are otherwise forbidden networks that a registered http server may
    reach. `cage` limits the processes of a registered server. `approved_at` is the UTC time of its first
    approval.

    A server with `start: always` starts with the gateway and again whenever it ends.
    `share` says which clients use one process of it, or one session (see `maitred.model.sharing`); at most
    `share_max` of these run, beside the one from which lists are read.
    """

    name: str
    transport: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: OAuth | None = None
    image: str = ""
    browser: BrowserOptions | None = None
    pages: PageOptions | None = None
    era: EraChoice = "auto"
    enabled: bool = True
    start: StartChoice = "on_demand"
    share: ShareChoice = "auto"
    share_max: int = 10
    cache_s: float = 0.0
    result_tools: bool = False
    visibility: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    allowed_origins: tuple[str, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    withheld: str = ""
    suspended: bool = False
    resumed: int = 0
    registered: bool = False
    exempted: tuple[str, ...] = ()
    cage: Cage | None = None
    approved_at: str = ""

    @property
    def is_distrusted(self) -> bool:
        """Whether admission withholds all of it that no person approved: a registered server, and pages."""
        return self.registered or self.pages is not None

    @property
    def usable(self) -> bool:
        """Whether it may start: it is neither disabled nor withheld."""
        return self.enabled and not self.withheld

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the specification may reach another server."""
        reach = {k: v for k, v in asdict(self).items() if k not in _NOT_REACH and (v or k not in _NEWER)}
        if self.auth is not None:
            reach["auth"] = {k: v for k, v in reach["auth"].items() if k not in _WHOSE}
        return content_hash(canonical(reach))

    @property
    def is_personal(self) -> bool:
        """Whether each principal has tokens of its own, and so a connection of its own."""
        return self.auth is not None and self.auth.is_personal

    @property
    def takes_callers_tokens(self) -> bool:
        """Whether callers bring the tokens, so that no person logs in."""
        return self.auth is not None and not self.auth.has_logins

    @cached_property
    def run(self) -> Mapping[str, Any]:
        """The fields that decide how the server runs; a change of any other field needs no new connection."""
        return {
            spec_field.name: getattr(self, spec_field.name)
            for spec_field in fields(self)
            if spec_field.name not in _NOT_RUN
        }

    @property
    def target(self) -> str:
        """The text by which a person recognises it: its command line, in shell form, or its address."""
        return (
            shlex.join([self.command, *self.args])
            if self.command
            else self.url
            or self.image
            or (_BROWSER if self.browser else _PAGES if self.pages else "in this process")
        )


class State(StrEnum):
    """The state of a backend."""

    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"
    SUSPENDED = "suspended"


FaultCode = Literal[
    "", "program_missing", "jail_missing", "path_not_granted", "mount_unusable", "network_not_granted",
    "variable_unset", "not_ready", "image_not_fetched", "login_needed", "unauthorized", "open_files",
]  # fmt: skip
"""What an operator can mend, where the gateway knows it; empty for all other faults."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """The health of a backend now. `retry_in_s` is set while its circuit breaker is open.

    `error` is the present fault, and `fault` its code if an operator can mend it. `ended` is the kind of its
    last end by a fault (see `backends.base.Ending`), `last_error` the reason. `starts` counts all its starts,
    also those that failed, since the gateway knows it as it is; `restarts` counts those of them
    after a fault within the window of the budget. `cage` is its isolation, `since` the UTC time at which its
    state began.
    """

    state: State = State.IDLE
    error: str = ""
    failures: int = 0
    retry_in_s: float | None = None
    pid: int | None = None
    in_flight: int = 0
    starts: int = 0
    restarts: int = 0
    ended: str = ""
    last_error: str = ""
    cage: str = ""
    since: str = ""
    fault: FaultCode = ""


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """What a server said of itself at the last request. `era` is empty until the gateway reached it."""

    era: Literal["", "handshake", "stateless"] = ""
    protocol_version: str = ""
    title: str = ""
    version: str = ""
    instructions: str = ""


@dataclass(frozen=True, kw_only=True)
class ServerRecord:
    """A server in the catalog. `error` says why its last discovery failed; empty if it succeeded.

    `judged_by` changes with everything that decides which of its parts are withheld.
    """

    name: str
    fingerprint: str
    facts: ServerFacts = field(default_factory=ServerFacts)
    synced_at: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()
    judged_by: str = ""


@dataclass(frozen=True, kw_only=True)
class MachineAspect:
    """One means of isolation. `works` is false if a part is missing; `told` describes it or says why not."""

    name: Literal["jail", "limits", "engine", "scan"]
    works: bool
    told: str
