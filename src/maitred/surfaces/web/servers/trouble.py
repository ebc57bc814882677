"""What is wrong with a server, and the one thing that helps."""

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote as shell
from typing import Literal

from maitred.gateway import ServerStatus
from maitred.model.servers import State
from maitred.model.transports import reach_of
from maitred.surfaces.advice import advice

Tone = Literal["good", "warn", "bad", "quiet"]
Remedy = Literal["", "approve", "resume", "login", "refresh"]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a server needs a person, and what helps: a `remedy` with a button, else `then`, in words."""

    status: ServerStatus
    why: str
    remedy: Remedy
    then: str = ""
    command: str = ""


def trouble_of(status: ServerStatus, *, awaits: bool, lines: Sequence[str] = ()) -> Trouble | None:
    """The trouble of a server; `None` if it has none. `awaits` says whether a person has to decide on it."""
    name, health = status.name, status.health
    if not status.spec.enabled:
        return None
    if awaits:
        return Trouble(status=status, why="It waits for your approval.", remedy="approve")
    if status.spec.suspended or health.state is State.SUSPENDED:
        return Trouble(status=status, why=f"It {status.withheld or 'is suspended'}.", remedy="resume")
    if not (why := status.unwell):
        return None
    if health.fault == "login_needed":
        return Trouble(
            status=status,
            why=_sentence(why),
            remedy="login",
            then="log in",
            command=f"maitred login {shell(name)}",
        )
    then = advice(status, lines)
    return Trouble(
        status=status,
        why=_sentence(why),
        remedy="refresh",
        then=then,
        command=f"maitred doctor {shell(name)}",
    )


def _sentence(why: str) -> str:
    return f"{why[:1].upper()}{why[1:].rstrip('.')}."


def tone_of(status: ServerStatus) -> Tone:
    """How the state of a server looks: one that is idle is well, since it starts when it is needed."""
    if not status.spec.enabled:
        return "quiet"
    if status.health.state is State.READY:
        return "warn" if status.withheld_parts else "good"
    if status.withheld or status.health.state is State.SUSPENDED or status.withheld_parts:
        return "warn"
    return "bad" if status.unwell else "quiet"


def isolation_text(status: ServerStatus) -> str:
    """In what the processes of a server run, or will when it starts."""
    if status.isolation:
        return status.isolation
    reach = reach_of(status.spec.transport)
    return "runs elsewhere" if reach == "network" else "in the gateway" if reach == "internal" else "none"


def state_text(status: ServerStatus) -> str:
    """The state of a server in one or two words."""
    if not status.spec.enabled:
        return "switched off"
    if status.spec.suspended:
        return "suspended"
    if status.withheld:
        return "withheld"
    if status.health.state is State.IDLE:
        return "failed" if status.unwell else "starts when needed"
    return {State.READY: "running", State.STARTING: "starting", State.STOPPING: "stopping"}.get(
        status.health.state, status.health.state.value
    )
