"""Clients of both eras that ask a gateway all the time, over stdio and HTTP, and note how each request ends.

Requests leave at moments of their own, whether those before are answered or not: a gateway that is slow is
not asked less. A client whose connection ends opens another at once, and again four times a second. What got
no answer over HTTP is repeated until its limit, as clients do, unless it may have changed something; that it
had to be repeated is kept.
"""

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from tests.support.real_servers import SERVERS, Place

from bench.http_wire import connect_http
from bench.stage import CURRENT
from bench.values import LostError, PeerError
from bench.wire import Era, Wire, connect

Outcome = Literal["answered", "wrong", "refused", "late", "lost"]
LIMIT_S: Final = 15.0
"""In time: a server may take 10 s to start, and the call 5 s."""

_PATIENCE_S: Final = 30.0
_AGAIN_S: Final = 0.25
_REASON: Final = 110
_NO_SESSION: Final = "answered with 404"
_SEARCHES: Final[Mapping[str, tuple[str, str]]] = {
    "time": ("convert a time from one time zone to another", "time__convert_time"),
    "calculator": ("calculate an arithmetic expression", "calculator__calculate"),
    "filesystem": ("read the text of a file", "filesystem__read_text_file"),
    "everything": ("add two numbers", "everything__get-sum"),
    "git": ("show the status of a working tree", "git__git_status"),
    "sequential-thinking": ("think in steps", "sequential-thinking__sequentialthinking"),
}
"""The servers that are called, each with a search that finds one of its tools."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request: a meta-tool, its arguments, what the answer says. `server` is empty if none is called."""

    kind: str
    tool: str
    arguments: Mapping[str, Any]
    says: str
    server: str = ""
    changes: bool = False


@dataclass(kw_only=True)
class Asked:
    """How a request ended; times are of the monotonic clock.

    `mended` is when a repeat was answered, 0 if none was.
    """

    link: str
    era: Era
    kind: str
    server: str
    started: float
    ended: float = 0.0
    outcome: Outcome = "lost"
    reason: str = ""
    mended: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether it was answered, or refused with a reason, in time."""
        return self.outcome in ("answered", "refused")

    @property
    def is_good_at_last(self) -> bool:
        """The same, or a repeat was answered in time."""
        return self.is_good or 0 < self.mended - self.started <= LIMIT_S


def here() -> Sequence[str]:
    """The servers that are called, as far as they are installed."""
    return [name for name in _SEARCHES if SERVERS[name].is_installed]


def questions(names: Sequence[str], folder: Path, client: int) -> Mapping[str, Sequence[Question]]:
    """What a client may ask, by kind. Some calls need that those before them were made once."""
    found: dict[str, list[Question]] = {"search": [], "info": [], "list": [], "call": []}
    place = Place(folder=folder, tag=f"client-{client}")
    for name in names:
        phrase, tool = _SEARCHES[name]
        found["search"].append(
            Question(kind="search", tool="search_tools", arguments={"phrases": [phrase]}, says=tool)
        )
        found["info"].append(Question(kind="info", tool="tool_info", arguments={"names": [tool]}, says=tool))
        path = {"path": f"server/{name}"}
        found["list"].append(Question(kind="list", tool="list_tools_meta", arguments=path, says=f"{name}__"))
        for call in SERVERS[name].calls(place):
            found["call"].append(
                Question(
                    kind="call, read-only" if call.read_only else "call, may change",
                    tool="call_read_only_tool" if call.read_only else "call_tool",
                    arguments={"name": f"{name}__{call.tool}", "arguments": call.arguments},
                    says=call.says or str(next(iter(call.structured.values()))),
                    server=name,
                    changes=not call.read_only,
                )
            )
    return found


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a client reaches its gateway."""

    link: Literal["stdio", "HTTP"]
    era: Era
    open: Callable[[], AbstractAsyncContextManager[Wire]]


def ways(config: Path, port: int) -> Sequence[Way]:
    """Both links in both eras."""
    eras: tuple[Era, ...] = ("handshake", "stateless")
    command = CURRENT.serve(config, shared=True)
    over_stdio = [Way(link="stdio", era=era, open=lambda era=era: connect(command, era)) for era in eras]  # type: ignore[misc]
    over_http = [
        Way(link="HTTP", era=era, open=lambda era=era: connect_http(port, "/mcp", era))  # type: ignore[misc]
        for era in eras
    ]
    return [*over_stdio, *over_http]


@dataclass(kw_only=True)
class Asker:
    """One client. `noted` gets what became of each request."""

    way: Way
    noted: list[Asked]
    reopened: int = 0
    _wire: Wire | None = None
    _broken: anyio.Event = field(default_factory=anyio.Event)
    _open: anyio.Event = field(default_factory=anyio.Event)

    async def keep_open(self) -> None:
        """Have a connection, and another one when it breaks; runs until cancelled."""
        while True:
            try:
                async with self.way.open() as wire:
                    self._broken = anyio.Event()
                    self._wire = wire
                    self._open.set()
                    await self._broken.wait()
                    self._wire, self._open = None, anyio.Event()
                    self.reopened += 1
            except PeerError:
                waiting, self._open = self._open, anyio.Event()
                waiting.set()
                await anyio.sleep(_AGAIN_S)

    async def opened(self) -> None:
        """Wait until there is a connection."""
        while self._wire is None:
            await self._open.wait()

    async def ask(self, question: Question) -> Asked:
        """Ask once, note the end, and repeat what was lost where a client may."""
        asked = Asked(
            link=self.way.link,
            era=self.way.era,
            kind=question.kind,
            server=question.server,
            started=time.monotonic(),
        )
        was_sent = await self._try(question, asked)
        asked.ended = time.monotonic()
        if asked.is_good and asked.ended - asked.started > LIMIT_S:
            what = ": ".join(filter(None, (f"{asked.outcome} too late", asked.reason)))
            asked.outcome, asked.reason = "late", what
        self.noted.append(asked)
        if asked.outcome == "lost" and not (question.changes and was_sent):
            await self._repeat(question, asked)
        return asked

    async def _repeat(self, question: Question, lost: Asked) -> None:
        while time.monotonic() < lost.started + LIMIT_S:
            await anyio.sleep(_AGAIN_S)
            again = Asked(
                link=lost.link, era=lost.era, kind=lost.kind, server=lost.server, started=time.monotonic()
            )
            was_sent = await self._try(question, again)
            if again.is_good:
                lost.mended = time.monotonic()
            if again.is_good or (question.changes and was_sent):
                return

    async def _try(self, question: Question, asked: Asked) -> bool:
        """Send it; whether the gateway may have got it."""
        wire = None
        try:
            with anyio.fail_after(LIMIT_S + _PATIENCE_S):
                wire = await self._reached()
                result = await wire.call(question.tool, question.arguments)
        except LostError as error:
            asked.outcome, asked.reason = "lost", _plain(str(error))
            self._break(wire)
            return error.was_sent
        except TimeoutError:
            asked.outcome, asked.reason = "lost", f"no answer within {LIMIT_S + _PATIENCE_S:g} s"
            return wire is not None
        except PeerError as error:
            asked.outcome, asked.reason = "refused", _plain(str(error))
            if _NO_SESSION in str(error):
                self._break(wire)
            return True
        text = " ".join(str(one.get("text", "")) for one in result["content"])
        if result.get("isError"):
            asked.outcome, asked.reason = "refused", _plain(text)
        elif question.says in text:
            asked.outcome = "answered"
        else:
            asked.outcome, asked.reason = "wrong", text[:_REASON]
        return True

    async def _reached(self) -> Wire:
        """The connection; one that is being opened is waited for.

        Raises:
            LostError: It cannot be opened now.
        """
        if self._wire is None:
            await self._open.wait()
        if self._wire is None:
            raise LostError("nobody listens", was_sent=False)
        return self._wire

    def _break(self, wire: Wire | None) -> None:
        """Replace this connection, unless it was replaced already."""
        if wire is not None and wire is self._wire:
            self._broken.set()


async def load(
    asker: Asker,
    mix: Mapping[str, float],
    asks: Mapping[str, Sequence[Question]],
    every_s: float,
    seconds: float,
    rng: random.Random,
) -> None:
    """Ask every so often in the middle, of each kind by its weight; after so long wait for all answers."""
    kinds, weights, until = list(mix), list(mix.values()), time.monotonic() + seconds
    async with anyio.create_task_group() as tasks:
        while time.monotonic() < until:
            await anyio.sleep(rng.expovariate(1 / every_s))
            [kind] = rng.choices(kinds, weights)
            tasks.start_soon(asker.ask, rng.choice(asks[kind]))


def _plain(text: str) -> str:
    """A reason without what differs from one time to the next."""
    line = " ".join(text.split())
    for pattern, name in ((rf"\b({'|'.join(_SEARCHES)})(__[\w-]+)?\b", "SERVER"), (r"\d+(\.\d+)?", "N")):
        line = re.sub(pattern, name, line)
    return line[:_REASON]
