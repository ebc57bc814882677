"""Gateways that live one after the other on one catalog, and what runs of them on this machine.

A `House` is a configuration, its catalog and its registered servers. A `Life` is one gateway program on it,
from its start to its end, asked over HTTP and killed. What runs is seen from outside (`seen`), and asked of
the engine of containers.
"""

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Final, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
from tests.support import faulty_server, probe_server
from tests.support.podman import Podman

from bench.seen import is_of, marked, running
from bench.stage import CURRENT
from bench.values import PeerError
from maitred.backends.isolation.cgroups import Tree
from maitred.backends.isolation.engine_api import CATALOG, GATEWAY
from maitred.backends.orphans import catalog_of

ALWAYS, AGAIN, NEEDED, DECIDED = "always", "again", "needed", "decided"
JAILED, CAGED = "jailed", "caged"
ANSWER: Final = "an answer"
TAG: Final = "localhost/maitred-faults:1"
"""What the image of the server in a container is called, besides its name in the tests."""

READY_S: Final = 40.0
_ASK_S: Final = 30.0
_POLL_S: Final = 0.03
_GONE_S: Final = 10.0
_PROBE: Final = probe_server.__file__
_PLAIN: Final = ("-I", "-S", faulty_server.__file__, "count")


class Process(Protocol):
    """The process of a gateway."""

    pid: int

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...

    def wait(self, timeout: float) -> int:
        """Its exit code, when it has ended."""
        ...


Begin = Callable[[Sequence[str], IO[str], Mapping[str, str]], Process]
"""Starts `maitred` with arguments, a file for all that it says, and an environment."""


def begin(arguments: Sequence[str], said: IO[str], env: Mapping[str, str]) -> Process:
    """Start the program as it is installed."""
    return subprocess.Popen(
        CURRENT.command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        env=env,
        start_new_session=True,
        text=True,
    )


class GoneError(Exception):
    """The gateway answers nothing any more."""


@dataclass(frozen=True, kw_only=True)
class HttpAnswer:
    """What the HTTP API answered to a caller."""

    status: int
    body: Mapping[str, Any]

    def __str__(self) -> str:
        if "error" in self.body:
            return f"{self.status} {self.body['error']}: {self.body['message']}"
        return ANSWER


@dataclass(kw_only=True)
class House:
    """A configuration with its catalog in `folder` and its servers; those in cages only where there are such.

    `decided` are the decisions that a gateway said it had taken.
    """

    folder: Path
    podman: Podman | None = None
    jail: bool = False
    begin: Begin = begin
    groups: Tree | None = None
    decided: set[str] = field(default_factory=set)
    lives: int = 0

    def __post_init__(self) -> None:
        here = secrets.token_hex(4)
        names = [ALWAYS, AGAIN, NEEDED, DECIDED]
        names += [JAILED] * self.jail + [CAGED] * bool(self.podman)
        self._last: Life | None = None
        self.labels = {name: f"faults-{here}-{name}" for name in names}
        self.kept = [name for name in names if name not in (NEEDED, DECIDED)]
        self.catalog = self.folder / "catalog" / "c.db"
        self.config = self.folder / "maitred.yaml"
        self.bin = self.folder / "bin"
        for folder in (self.catalog.parent, self.bin):
            folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(json.dumps(self._document()), encoding="utf-8")  # JSON is YAML

    def _document(self) -> Mapping[str, Any]:
        plain = {name: label for name, label in self.labels.items() if name not in (JAILED, CAGED)}
        servers = {
            name: {
                "command": sys.executable,
                "args": [*_PLAIN, label],
                "era": "handshake",
                "start": "always" if name in self.kept else "on_demand",
            }
            for name, label in plain.items()
        }
        isolation = {"pull": "never"} | ({"engine": self.podman.address} if self.podman else {})
        sections = {"catalog": {"path": str(self.catalog)}, "http": {"anonymous": "admin"}}
        return {"servers": servers, "isolation": isolation, **sections}

    def manifests(self) -> Mapping[str, Mapping[str, Any]]:
        """The manifests of the servers in cages."""
        usual = {"memory": "96m", "pids": 24, "start": "always"}
        reach: Mapping[str, Mapping[str, Any]] = {
            JAILED: {
                "command": sys.executable,
                "args": ["-I", "-S", _PROBE, "--banner", self.labels.get(JAILED, "")],
                "filesystem": [{"path": _PROBE}],
            },
            CAGED: {"image": TAG, "args": ["/srv/probe_server.py", "--banner", self.labels.get(CAGED, "")]},
        }
        return {name: {"name": name, **reach[name], **usual} for name in reach if name in self.labels}

    def offer(self, program: str, *, there: bool) -> None:
        """Have a program of this machine be on the gateways' PATH, or not; there is nothing else on it."""
        link = self.bin / program
        link.unlink(missing_ok=True)
        found = next((p for p in ("/usr/bin", "/bin", "/usr/local/bin") if Path(p, program).exists()), "")
        if there and found:
            link.symlink_to(Path(found, program))

    def start(self) -> "Life":
        """Start the next gateway."""
        self.lives += 1
        self._last = Life(self)
        return self._last

    def close(self) -> None:
        """Kill the last gateway, if it runs still."""
        if self._last is not None:
            self._last.end(kill=True)

    # --- what runs ----------------------------------------------------------------------------------------

    def running(self) -> Mapping[str, set[int]]:
        """The processes of the servers, by name."""
        return running(self.labels)

    def miscounted(self) -> list[str]:
        """The servers that should run always and do not have exactly one process, in words."""
        found = {name: len(self.running().get(name, ())) for name in self.kept}
        return [f"{name} has {count} processes" for name, count in found.items() if count != 1]

    def settled(self, gateway: int) -> list[str]:
        """What is left of other gateways than one (0 for none) when it had time to go away."""
        until = time.monotonic() + _GONE_S
        while (left := self.orphans(gateway)) and time.monotonic() < until:
            time.sleep(_POLL_S)
        return left

    def orphans(self, gateway: int) -> list[str]:
        """Processes, containers and control groups of gateways of this catalog other than one, in words."""
        catalog = catalog_of(self.catalog)
        others = [(pid, command) for pid, mark, command in marked(catalog) if not is_of(mark, gateway)]
        found = [f"process {pid} ({command})" for pid, command in others]
        if not gateway:
            found += [f"processes {pids} of {name}" for name, pids in self.running().items()]
        if self.groups is not None:
            names = [name for name in self.groups.names() if name.startswith(f"{catalog}-")]
            found += [f"control group {name}" for name in names if not is_of(name, gateway)]
        if self.podman is not None:
            ours = f"label={CATALOG}={catalog}"
            listed = self.podman.run("ps", "-a", "--filter", ours, "--format=json")
            marks = [one["Labels"][GATEWAY] for one in json.loads(listed or "[]")]
            found += [f"container of {mark}" for mark in marks if not is_of(mark, gateway)]
            if len(marks) > 1:
                found.append(f"{len(marks)} containers of one server")
        return found


class Life:
    """One gateway program."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._said = house.folder / f"said-{house.lives}"
        self._port = 0
        self._made = 0
        env = os.environ | {"PATH": str(house.bin), "XDG_STATE_HOME": str(house.folder / "state")}
        arguments = ["serve", "--config", str(house.config), "--transport", "http", "--port", "0"]
        with self._said.open("w", encoding="utf-8") as said:
            self._process = house.begin(arguments, said, env)
        self.started = time.monotonic()
        self.pid = self._process.pid
        self.unguarded = False

    def said(self) -> str:
        """All that it said on its standard streams."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    # --- asking -------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> HttpAnswer:
        """Ask over HTTP.

        Raises:
            GoneError: It does not listen, yet or any more.
        """
        if not self._port:
            if (found := re.search(r"listens on http://127\.0\.0\.1:(\d+)/", self.said())) is None:
                raise GoneError
            self._port = int(found[1])
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://127.0.0.1:{self._port}/api/v1/{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urlopen(request, timeout=_ASK_S) as answer:
                return HttpAnswer(status=answer.status, body=json.loads(answer.read()))
        except HTTPError as error:
            with error:
                return HttpAnswer(status=error.code, body=json.loads(error.read()))
        except (OSError, HTTPException, ValueError) as error:
            raise GoneError from error

    def call(self, server: str, tool: str = "echo", **arguments: Any) -> HttpAnswer:
        """Call a tool."""
        return self.ask("POST", f"tools/{server}/{tool}/call", {"arguments": arguments})

    def hello(self, server: str) -> HttpAnswer:
        """Call a server, whatever it is."""
        return self.call(server, "hello") if server in (JAILED, CAGED) else self.call(server, text=server)

    def states(self) -> Mapping[str, str]:
        """The state of each server."""
        answer = self.ask("GET", "servers").body.get("servers", ())
        return {one["name"]: one["state"] for one in answer}

    # --- the desired state --------------------------------------------------------------------------------

    def desired(self) -> bool:
        """Whether all that should run always does, and what is started on demand answers."""
        return self.keeps() and str(self.hello(NEEDED)) == ANSWER

    def keeps(self) -> bool:
        """Whether all that should run always does."""
        states = self.states()
        return all(states.get(name) == "ready" for name in self._house.kept)

    def settle(self, since: float | None = None, *, keeping: bool = False) -> float:
        """Wait for the desired state; after how many seconds since its start, or since then, it was reached.

        With `keeping` it is enough that all runs that should run always.

        Raises:
            PeerError: It is not reached in time.
            GoneError: The gateway has ended.
        """
        self._wait(self.keeps if keeping else self.desired)
        return time.monotonic() - (self.started if since is None else since)

    def listen(self) -> None:
        """Wait until it answers; raises as `settle` does."""
        self._wait(lambda: bool(self.states()))

    def _wait(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + READY_S
        while True:
            with suppress(GoneError):
                if holds():
                    return
            if not psutil.pid_exists(self.pid) or psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE:
                raise GoneError(self.said()[-300:])
            if time.monotonic() > until:
                raise PeerError(f"not there after {READY_S:g} s: {self.states()}; {self.said()[-300:]}")
            time.sleep(_POLL_S)

    def register(self) -> None:
        """Register the servers in cages, and approve them."""
        for name, manifest in self._house.manifests().items():
            answer = self.ask("POST", "servers", manifest)
            if str(answer) != ANSWER:
                raise PeerError(f"{name} cannot be registered: {answer}")
            seen = self.ask("GET", f"servers/{name}/approval").body["digest"]
            answer = self.ask("POST", f"servers/{name}/approval", {"verdict": "approve", "seen": seen})
            if str(answer) != ANSWER:
                raise PeerError(f"{name} cannot be approved: {answer}")

    # --- decisions ----------------------------------------------------------------------------------------

    def decide(self) -> HttpAnswer:
        """Suspend a server, or resume it; what it says that it has decided is kept in mind."""
        where = f"servers/{DECIDED}/approval"
        state = self.ask("GET", where).body.get("state")
        verdict = "resume" if state == "suspended" else "suspend"
        self._made += 1
        why = f"{self._house.lives}.{self._made}"
        answer = self.ask("POST", where, {"verdict": verdict, "why": why})
        if str(answer) == ANSWER:
            self._house.decided.add(why)
        return answer

    def lost(self) -> int:
        """How many decisions are not in the log exactly once though they were said to be taken."""
        log = [event["why"] for event in self.ask("GET", f"servers/{DECIDED}/approval").body["log"]]
        return sum(log.count(why) != 1 for why in self._house.decided)

    # --- the end ------------------------------------------------------------------------------------------

    def kill(self, *, warden: bool = False) -> None:
        """Kill it, and before it the one that would clear up after it."""
        if warden:
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(self.pid).children():
                    if "warden.py" in " ".join(child.cmdline()):
                        child.kill()
                        self.unguarded = True
        self._process.kill()

    def end(self, *, kill: bool = False) -> None:
        """Wait for its end, which is asked for unless it was killed already."""
        if kill:
            self.kill()
        self._process.wait(timeout=_GONE_S)

    def leave(self) -> None:
        """Ask it to end, and wait for that."""
        self._process.terminate()
        self.end()
