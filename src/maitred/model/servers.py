"""Servers as values: how to reach one, what it said of itself, and how it is doing.

What a machine has to cage registered servers with, as values.
"""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Literal

from maitred.model.tools import canonical, content_hash

EraChoice = Literal["auto", "handshake", "stateless"]
StartChoice = Literal["on_demand", "always"]
_NOT_RUN: Final = frozenset(
    ["cache_s", "visibility", "result_tools", "overrides", "allowed_origins", "start"]
)
"""Keys that do not decide how a server runs: when they change, its connection stays."""

_NOT_REACH: Final = _NOT_RUN | frozenset(
    ["enabled", "timeouts", "era", "withheld", "suspended", "resumed", "registered", "exempted", "cage"]
)
"""Keys that do not decide which server it is: when they change, what is known of it and approved stays."""

_NEWER: Final = ("image", "auth")
"""Keys that count only where they are set, so that what older versions knew is known still."""


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds that a server may take before maitred gives up on it."""

    start_s: float = 60.0
    list_s: float = 30.0
    call_s: float = 120.0
    idle_stop_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """How maitred presents itself where a server sends it to log in; what is empty is found out there.

    `client_secret` may be a reference. `redirect_uri` is where the browser comes back to, a loopback address;
    without a port a free one is taken. `issuer` is the authorization server that is expected.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()
    redirect_uri: str = "http://127.0.0.1/callback"
    issuer: str = ""


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A folder or file of this machine that a caged server sees at `at`; an absolute path, as `path` is."""

    path: str
    at: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class Cage:
    """What the processes of a registered server may use of this machine, as its manifest was approved.

    `memory` and `disk` in bytes, `nano_cpus` in billionths of a core, `output` in bytes a second. Without
    `network` they reach nothing but themselves. `cpu_shares` of 0 leaves the weight as it is.
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
    `visibility` is what was declared of its facts and rules, read by `maitred.visibility.declarations`;
    `result_tools` says whether its results may bring tools. With `auth` a person logs in to it by OAuth.
    `overrides`, which a manifest may have, are those of one server in a file of overrides; with
    `allowed_origins` links in its results may lead nowhere else.

    The operator did not write the last six; admission sets them. `withheld` is why it may not be used now,
    in words that go on from its name; empty if it may; `suspended` whether that is for a suspension, which
    `maitred resume` ends, and `resumed` how often that was done. `registered` tells a server that came by a
    manifest from one in the operator's own configuration; `exempted` are the networks, else forbidden, that
    a registered http server may reach. `cage` is what a registered server's processes may use.

    A server with `start: always` is started with the gateway and again whenever it ends.
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
    era: EraChoice = "auto"
    enabled: bool = True
    start: StartChoice = "on_demand"
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

    @property
    def usable(self) -> bool:
        """Whether it may be started: neither switched off nor withheld."""
        return self.enabled and not self.withheld

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the server that the specification reaches may be another one."""
        reach = {k: v for k, v in asdict(self).items() if k not in _NOT_REACH and (v or k not in _NEWER)}
        return content_hash(canonical(reach))

    @cached_property
    def run(self) -> Mapping[str, Any]:
        """What of it decides how the server runs; what else changes needs no other connection."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NOT_RUN}

    @property
    def target(self) -> str:
        """What a person would recognise it by: its command line, as a shell takes it, or its address."""
        return (
            shlex.join([self.command, *self.args])
            if self.command
            else self.url or self.image or "in this process"
        )


class State(StrEnum):
    """What a backend is doing."""

    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"
    SUSPENDED = "suspended"


@dataclass(frozen=True, kw_only=True)
class Health:
    """How a backend is doing now. `retry_in_s` is set while its circuit breaker is open.

    `error` is what is wrong now; `ended` is the kind of its last end by a fault (see `backends.base.Ending`),
    and `last_error` the reason. `restarts` is how often it was started again after a fault, within the window
    of the budget; `cage` is what it runs in, `since` the UTC time at which it came into its state.
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


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """What a server said of itself when it was last asked. `era` is empty while it was never reached."""

    era: Literal["", "handshake", "stateless"] = ""
    protocol_version: str = ""
    title: str = ""
    version: str = ""
    instructions: str = ""


@dataclass(frozen=True, kw_only=True)
class ServerRecord:
    """A server as the catalog knows it. `error` is why its last discovery failed, empty if it did not.

    `judged_by` changes with all that decides which of its parts are withheld.
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
    """One part of it. `works` is false if something is missing; `told` says what there is, or why not."""

    name: Literal["jail", "limits", "engine", "scan"]
    works: bool
    told: str
