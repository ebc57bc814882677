"""How long the pages of the web interface take, over a large catalog and a long audit trail.

A real `maitred serve` with ten thousand tools and the past of a thousand work sessions (`trail.py`). One
plain HTTP client, which entered as an admin, loads every page of every screen in turn, and the smallest file
that the same server sends, which is the floor. A page whose path has parts gets a real tool, server or call.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from re import compile as pattern
from typing import Final
from urllib.parse import quote, urlencode

import anyio
import httpx2
from anyio import to_thread
from tests.support import corpus

from bench.growth import live_server
from bench.listening import Program, listening
from bench.processes import cpu_s
from bench.replicas import replicate_servers, tools_of
from bench.stage import CURRENT, Stage
from bench.tiers import await_categories
from bench.trail import write_past
from bench.values import Failure, PeerError, Size
from maitred.access.tokens import TokenRequest
from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.evaluation.metrics import percentile
from maitred.gateway import Gateway
from maitred.model.access import EVERYTHING, LOCAL_USER
from maitred.model.tools import Tool
from maitred.storage.sqlite import SqliteDatabase
from maitred.surfaces.web.screen import BASE
from maitred.surfaces.web.screens import SCREENS
from maitred.surfaces.web.templates import static_files

FLOOR: Final = "a static file (the floor)"
MOST_MS: Final = 100
"""What a page may take, 95 of 100 times."""
MOST_BYTES: Final = 80_000
"""What all scripts and styles may have together."""
_FLOOR_PATH: Final = f"{BASE}/static/mark.svg"
_LIVE: Final = "live"
_HOST: Final = "127.0.0.1"
_LIMIT_S: Final = 120.0
_WAIT_S: Final = 3_600
_POLL_S: Final = 0.1
_PART: Final = pattern(r"\{(\w+)\}")
_HELD: Final = pattern(rf'href="{BASE}/held/([^"]+)"')
_REPLAYED: Final = pattern(rf'href="{BASE}/replay\?of=(\d+)"')
_OK: Final = 200


@dataclass(frozen=True, kw_only=True)
class _Amount:
    tools: int
    servers: int
    sessions: int
    lines: int
    loads: int


_FULL: Final = _Amount(tools=10_000, servers=250, sessions=1_000, lines=100_000, loads=50)
_QUICK: Final = _Amount(tools=300, servers=10, sessions=20, lines=1_000, loads=5)


@dataclass(frozen=True, kw_only=True)
class PageLoads:
    """One page: its name in the table, its address, and what loading it took; `cpu_ms` is the gateway's."""

    name: str
    path: str
    bytes: int
    p50_ms: float
    p95_ms: float
    cpu_ms: float


@dataclass(frozen=True, kw_only=True)
class WebPages:
    """All pages, the floor first. `failures` are pages that did not answer 200, and what is too large."""

    tools: int
    servers: int
    sessions: int
    lines: int
    loads: int
    pages: Sequence[PageLoads]
    static_bytes: int
    failures: Sequence[Failure]


@dataclass(kw_only=True)
class _Taken:
    """The loads of one page."""

    name: str
    path: str
    status: int = _OK
    size: int = 0
    ms: list[float] = field(default_factory=list)
    cpu_s: float = 0.0


def measure(stage: Stage, size: Size) -> WebPages:
    """Measure all pages."""
    return anyio.run(_measure, stage, _QUICK if size.quick else _FULL)


async def _measure(stage: Stage, amount: _Amount) -> WebPages:
    _, path = stage.definitions()
    tools = tools_of(replicate_servers(corpus.read(path), amount.tools, amount.servers))
    async with gateway_with_tools(tools, Search(mode="lexical")) as gateway:
        await await_categories(gateway)
        tool, unused = await _write_past(gateway, amount)
        made = await gateway.make_token(
            TokenRequest(name="bench", role="admin", scope=EVERYTHING), LOCAL_USER
        )
        config = _configure(gateway, stage.folder / "web.yaml")
        async with (
            listening(CURRENT.serve_http(config)) as program,
            _held_call(program, made.token) as held,
        ):
            parts = {
                "server": tool.server,
                "tool": tool.key.name,
                "token": made.record.id,
                "id": held,
                "section": "servers",
            }
            person = _Person(program, made.token)
            taken, failures = await to_thread.run_sync(_load_all, person, parts, unused, amount.loads)
        return WebPages(
            tools=len(gateway.snapshot.tools),
            servers=len(gateway.settings.servers),
            sessions=amount.sessions,
            lines=amount.lines,
            loads=amount.loads,
            pages=[_summary(one) for one in taken],
            static_bytes=_static_bytes(),
            failures=[*failures, *_faults(taken)],
        )


async def _write_past(gateway: Gateway, amount: _Amount) -> tuple[Tool, str]:
    """Write sessions that use some of the servers; a tool that was used, and a server that was not."""
    servers = sorted({tool.server for tool in gateway.snapshot.tools})
    used, unused = set(servers[: len(servers) * 4 // 5]), servers[-1]
    tools = [tool for tool in gateway.snapshot.tools if tool.server in used]
    database = SqliteDatabase(Path(gateway.settings.catalog.path))
    await write_past(database, tools, sessions=amount.sessions, lines=amount.lines)
    return sorted(tools, key=lambda tool: (tool.cost_tokens, tool.name))[len(tools) // 2], unused


def _configure(gateway: Gateway, path: Path) -> Path:
    """A configuration for the catalog of a gateway, with a server that runs, whose calls are held."""
    command, *arguments = live_server()
    servers = {name: {"command": spec.command} for name, spec in gateway.settings.servers.items()}
    servers[_LIVE] = {"command": command, "args": arguments}  # type: ignore[dict-item]  # JSON takes both
    rule = {"when": f'server == "{_LIVE}"', "by": "operator", "because": "A person looks at it first"}
    body = {
        "servers": servers,
        "catalog": {"path": gateway.settings.catalog.path},
        "search": {"mode": "lexical"},
        "held_calls": {"rules": [rule], "wait_s": _WAIT_S},
    }
    lines = [f"{section}: {json.dumps(value)}\n" for section, value in body.items()]  # JSON is YAML
    path.write_text("".join(lines), encoding="utf-8")
    return path


# --- a call that waits ------------------------------------------------------------------------------------


@asynccontextmanager
async def _held_call(program: Program, token: str) -> AsyncIterator[str]:
    """The id of a call that waits for a person for as long as the context."""
    headers = {"Authorization": f"Bearer {token}"}
    tool = f"/api/v1/tools/{_LIVE}/echo"
    async with (
        httpx2.AsyncClient(
            base_url=f"http://{_HOST}:{program.port}", headers=headers, timeout=_WAIT_S
        ) as client,
        anyio.create_task_group() as tasks,
    ):
        ended: list[str] = []

        async def wait() -> None:
            with anyio.fail_after(_LIMIT_S):  # the server is listed after the start
                while True:
                    if (await client.get(tool)).status_code == _OK:
                        break
                    await anyio.sleep(_POLL_S)
            answer = await client.post(f"{tool}/call", json={"arguments": {"text": "hello"}})
            ended.append(f"{answer.status_code}: {answer.text[:200]}")

        tasks.start_soon(wait)
        yield await to_thread.run_sync(_held_id, program, token, ended)
        tasks.cancel_scope.cancel()


def _held_id(program: Program, token: str, ended: Sequence[str]) -> str:
    """The id of the call on the page of approvals, once it is there.

    Raises:
        PeerError: It was not held.
    """
    person, until = _Person(program, token), time.monotonic() + _LIMIT_S
    with closing(person):
        while time.monotonic() < until and not ended:
            _, text = person.load(f"{BASE}/approvals")
            if found := _HELD.search(text.decode()):
                return found[1]
            time.sleep(_POLL_S)
    raise PeerError(f"the call that should wait for a person does not: {''.join(ended) or 'no answer'}")


# --- pages ------------------------------------------------------------------------------------------------


class _Person:
    """A browser without all that a browser does: one connection, on which an admin has entered."""

    def __init__(self, program: Program, token: str) -> None:
        self.pid = program.pid
        self._connection = HTTPConnection(_HOST, program.port, timeout=_LIMIT_S)
        self._headers: dict[str, str] = {}
        origin = f"http://{_HOST}:{program.port}"
        kind = "application/x-www-form-urlencoded"
        body = urlencode({"token": token})
        self._connection.request(
            "POST", f"{BASE}/enter", body, headers={"Origin": origin, "Content-Type": kind}
        )
        answer = self._connection.getresponse()
        answer.read()
        if not (cookie := answer.getheader("set-cookie")):
            raise PeerError(f"an admin cannot enter: {answer.status}")
        self._headers["Cookie"] = cookie.partition(";")[0]

    def load(self, path: str) -> tuple[int, bytes]:
        """The status and the body of a page."""
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _load_all(
    person: _Person, parts: Mapping[str, str], unused: str, loads: int
) -> tuple[Sequence[_Taken], Sequence[Failure]]:
    """Load every page once, and then all of them in turn so many times."""
    taken, failures = [_Taken(name=FLOOR, path=_FLOOR_PATH)], list[Failure]()
    with closing(person):
        _, listed = person.load(f"{BASE}/replay")
        replayed = _REPLAYED.search(listed.decode())
        queries = _queries(parts, unused, replayed[1] if replayed else "")
        for screen in SCREENS:
            for page in screen.pages:
                if lacking := [part for part in _PART.findall(page.path) if part not in parts]:
                    why = f"`bench/web.py` has no example of {', '.join(lacking)}"
                    failures.append(Failure(what=f"maitred {BASE}/{page.path}", why=why))
                    continue
                for name, path in (*_addresses(page.path, parts), *queries.get(page.path, ())):
                    taken.append(_Taken(name=name, path=path))
        for number in range(-1, loads):  # the first warms up
            for one in taken:
                _load(person, one, is_counted=number >= 0)
    return taken, failures


def _load(person: _Person, one: _Taken, *, is_counted: bool) -> None:
    used, started = cpu_s(person.pid), time.perf_counter()
    status, body = person.load(one.path)
    ms = (time.perf_counter() - started) * 1e3
    one.status = status if one.status == _OK else one.status
    one.size = len(body)
    if is_counted:
        one.ms.append(ms)
        one.cpu_s += cpu_s(person.pid) - used


def _addresses(path: str, parts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The name and the address of a page."""
    below = _PART.sub(lambda found: quote(parts[found[1]], safe=""), path)
    yield f"{BASE}/{path}", f"{BASE}/{below}"


def _queries(parts: Mapping[str, str], unused: str, replayed: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Further addresses of pages, with what a person asks there: their names too, by the path of a page."""

    def asked(path: str, **fields: str) -> tuple[str, str]:
        return f"{BASE}/{path}?{'&'.join(fields)}", f"{BASE}/{path}?{urlencode(fields)}"

    name = "servers/{server}"
    return {
        "tools": [asked("tools", q="file read")],
        "search": [asked("search", q="read a file and look for words in it")],
        "activity": [
            asked("activity", tool=parts["tool"]),
            asked("activity", who="person-7", outcome="failed"),
            asked("activity", project="website"),
            asked("activity", project="website", outcome="nothing_found"),
            (f"{BASE}/activity?tool, never called", f"{BASE}/activity?tool=no-such-tool"),
        ],
        "replay": [asked("replay", of=replayed)],
        name: [(f"{BASE}/{name}, never called", f"{BASE}/servers/{quote(unused, safe='')}")],
    }


def _summary(one: _Taken) -> PageLoads:
    return PageLoads(
        name=one.name,
        path=one.path,
        bytes=one.size,
        p50_ms=percentile(one.ms, 0.5),
        p95_ms=percentile(one.ms, 0.95),
        cpu_ms=one.cpu_s / len(one.ms) * 1e3,
    )


def _static_bytes() -> int:
    """The bytes of all scripts and styles."""
    return sum(len(body) for name, body in static_files().items() if name.endswith((".js", ".css")))


def _faults(taken: Sequence[_Taken]) -> Iterator[Failure]:
    for one in taken:
        if one.status != _OK:
            yield Failure(what=f"maitred {one.path}", why=f"a page answered with {one.status}")
    if (size := _static_bytes()) > MOST_BYTES:
        yield Failure(what="maitred, scripts and styles", why=f"{size:,} bytes, more than {MOST_BYTES:,}")
