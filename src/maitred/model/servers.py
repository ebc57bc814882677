"""Servers as values: how to reach one, what it said of itself, and how it is doing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Literal

from maitred.model.tools import canonical, content_hash

Transport = Literal["stdio", "http", "sse", "memory", "chain"]
EraChoice = Literal["auto", "handshake", "stateless"]
_NOT_REACH: Final = frozenset({"enabled", "timeouts", "era", "cache_s", "visibility", "result_tools"})


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds that a server may take before maitred gives up on it."""

    start_s: float = 60.0
    list_s: float = 30.0
    call_s: float = 120.0
    idle_stop_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """How to reach one server, as the operator wrote it; references such as `${TOKEN}` are not resolved.

    `visibility` is what was declared of its facts and rules, read by `maitred.disclosure.declared`;
    `result_tools` says whether its results may bring tools.
    """

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    era: EraChoice = "auto"
    enabled: bool = True
    cache_s: float = 0.0
    result_tools: bool = False
    visibility: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the server that the specification reaches may be another one."""
        reach = {k: v for k, v in asdict(self).items() if k not in _NOT_REACH}
        return content_hash(canonical(reach))

    @cached_property
    def run(self) -> "ServerSpec":
        """What of it decides how the server runs; what else changes needs no other connection."""
        return replace(self, cache_s=0.0, result_tools=False, visibility={})

    @property
    def target(self) -> str:
        """What a person would recognise it by: its command line or its address."""
        return (
            " ".join([self.command, *self.args])
            if self.transport == "stdio"
            else self.url or "in this process"
        )


class State(StrEnum):
    """What a backend is doing."""

    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Health:
    """How a backend is doing now. `retry_in_s` is set while its circuit breaker is open."""

    state: State = State.IDLE
    error: str = ""
    failures: int = 0
    retry_in_s: float | None = None
    pid: int | None = None
    in_flight: int = 0
    starts: int = 0


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
    """A server as the catalog knows it. `error` is why its last discovery failed, empty if it did not."""

    name: str
    fingerprint: str
    facts: ServerFacts = field(default_factory=ServerFacts)
    synced_at: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()
