"""How costs grow with what the gateway knows, and with how many clients it has.

Definitions of real servers where they are at hand, else generated ones, are copied under other names until
there are enough (`replicas.py`), and put into a catalog (`fill.py`). Then a real gateway is started on a
copy of it and watched from outside: by a client, and by the processor time and memory of its processes. One
server is real and changes ten tools at once; it is not counted.
"""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import psutil
from tests.support import corpus

from bench.http_wire import HttpWire, connect_http
from bench.listening import listening
from bench.processes import all_cpu_s, all_rss_mib, cpu_s, family
from bench.queries import make_queries
from bench.replicas import replicate_servers
from bench.stage import ROOT, Checkout, Command, Stage
from bench.values import Failure, PeerError, Size, Skipped, leaf
from bench.wire import VERSIONS, Era, Wire, connect, environment
from maitred.evaluation.metrics import percentile

CHANGED: Final = 10
"""How many tools change at once."""

_LIVE: Final = "live"
_NOTICE: Final = "notifications/tools/list_changed"
_LIMIT_S: Final = 1_800
_POLL_S: Final = 0.02
_IDLE_S: Final = 0.8
_BUSY: Final = 0.05
_CALLS: Final = 100
_ATTEMPTS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Took:
    """Wall and processor milliseconds."""

    wall_ms: float
    cpu_ms: float


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """All servers discovered from nothing, by `maitred list`; processor time without that of the servers."""

    program: str
    tools: int
    servers: int
    took: Took


@dataclass(frozen=True, kw_only=True)
class Sized:
    """One program at one size. `None` is what it does not do.

    `opened` lasts to the first `tools/list`, `indexed` from there until a first search is answered and the
    program is idle, `changed` from a change of `CHANGED` tools, with a search after it, until it is idle.
    `cpu_ms` is that of a search. `mib` is resident in the end.
    """

    program: str
    tools: int
    servers: int
    opened: Took | None
    indexed: Took
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    changed: Took
    mib: float


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Many clients over HTTP that wait for notices. What they took of the gateway to connect, by client.

    `call_cpu_ms` and `call_p50_ms` are of calls one by one with all of them there; `notified` lasts from a
    change of `CHANGED` tools until all were notified (wall) and the gateway is idle (processor).
    """

    program: str
    era: Era
    clients: int
    connect_cpu_ms: float
    kib: float
    call_p50_ms: float
    call_cpu_ms: float
    notified: Took


@dataclass(frozen=True, kw_only=True)
class Growth:
    """All programs at all sizes, over copies of one corpus."""

    corpus: str
    discoveries: Sequence[Discovery]
    sizes: Sequence[Sized]
    crowds: Sequence[Crowd]
    skipped: Sequence[Skipped]
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class Known:
    """A catalog that knows many servers, by its configuration."""

    config: Path
    commands: Mapping[str, Command]
    tools: int


def measure(stage: Stage, size: Size) -> Growth:
    """Measure each size with all programs before the next; then the clients, on the smallest."""
    name, path = stage.definitions()
    run = _Run(stage, corpus.read(path), size)
    for tools, servers in size.growth:
        catalogs = {checkout: run.discover(checkout, tools, servers) for checkout in stage.checkouts}
        for mode, (checkout, known) in product(size.growth_modes, catalogs.items()):
            if known:
                run.size(checkout, known, mode)
        run.peer(tools, servers)
    for clients, era, checkout in product(size.growth_clients, VERSIONS, stage.checkouts):
        if known := run.discover(checkout, *size.growth[0]):
            run.crowd(checkout, known, era, clients)
    return Growth(
        corpus=name,
        discoveries=run.discoveries,
        sizes=run.sizes,
        crowds=run.crowds,
        skipped=run.skipped,
        failures=run.failures,
    )


class _Run:
    """What has been measured, and what is needed to measure more."""

    def __init__(self, stage: Stage, records: Sequence[corpus.Record], size: Size) -> None:
        self.discoveries: list[Discovery] = []
        self.sizes: list[Sized] = []
        self.crowds: list[Crowd] = []
        self.skipped: list[Skipped] = []
        self.failures: list[Failure] = []
        self._stage = stage
        self._records = records
        self._size = size
        self._queries = list(dict.fromkeys(make_queries(records, 2 * size.growth_queries)))
        self._known: dict[str, Known | None] = {}

    def discover(self, checkout: Checkout, tools: int, servers: int) -> Known | None:
        """A catalog in which a checkout knows so many servers; `None` if it cannot be had."""
        name = f"growth-{tools}-{servers}{checkout.suffix}"
        if name not in self._known:
            self._known[name] = None
            self._try(
                f"{checkout.name}, to discover {tools:,} tools",
                self._discover,
                checkout,
                name,
                (tools, servers),
            )
        return self._known[name]

    def _discover(self, checkout: Checkout, name: str, amount: tuple[int, int]) -> None:
        path = self._definitions(*amount)
        at = corpus.offsets(path)
        commands = {server: corpus.replay_command(path, server, offset) for server, offset in at.items()}
        commands[_LIVE] = live_server()
        config = self._stage.configure(name, commands)
        is_new = not config.with_suffix(".db").exists()
        taken = _discover_all(checkout, config)
        if is_new:
            self.discoveries.append(
                Discovery(program=checkout.name, tools=amount[0], servers=amount[1], took=taken)
            )
        self._known[name] = Known(config=config, commands=commands, tools=amount[0])

    def _definitions(self, tools: int, servers: int) -> Path:
        path = self._stage.folder / f"growth-{tools}-{servers}.jsonl"
        if not path.exists():
            corpus.write(replicate_servers(self._records, tools, servers), path)
        return path

    def size(self, checkout: Checkout, known: Known, mode: str) -> None:
        """A gateway over a catalog."""
        program = f"{checkout.name}, {mode}"

        def attempt() -> None:
            config = self._copy(known, mode, {"mode": "menu"})
            queries = self._queries[: self._size.growth_queries]
            self.sizes.append(anyio.run(_grow, checkout, program, config, known, queries))

        self._try(f"{program}, {known.tools:,} tools", attempt)

    def crowd(self, checkout: Checkout, known: Known, era: Era, clients: int) -> None:
        """A gateway with so many clients."""

        def attempt() -> None:
            config = self._copy(known, "lexical", {"mode": "all"})
            self.crowds.append(anyio.run(_attend, checkout, config, era, clients))

        self._try(f"{checkout.name}, {clients:,} clients, {era}", attempt)

    def peer(self, tools: int, servers: int) -> None:
        """FastMCP's search over the same tools."""
        if tools > self._size.growth_peer_tools:
            why = "it reads every text again for each search, which takes seconds here"
            self.skipped.append(Skipped(what=f"fastmcp bm25, {tools:,} tools", why=why))
            return

        def attempt() -> None:
            arguments = [str(self._size.growth_peer_queries), str(self._definitions(tools, servers))]
            value: dict[str, Any] = json.loads(_printed([sys.executable, "-m", "bench.peers", *arguments]))
            for key in ("indexed", "changed"):
                value[key] = Took(**value[key])
            self.sizes.append(
                Sized(program="fastmcp bm25", tools=tools, servers=servers, opened=None, **value)
            )

        self._try(f"fastmcp bm25, {tools:,} tools", attempt)

    def _try(self, what: str, attempt: Callable[..., None], *arguments: object) -> None:
        try:
            attempt(*arguments)
        except Exception as error:  # noqa: BLE001  # one that fails must not take the figures of others with it
            self.failures.append(Failure(what=what, why=leaf(error)))

    def _copy(self, known: Known, mode: str, disclosure: Mapping[str, str]) -> Path:
        """A configuration on a fresh copy of a catalog, without vectors."""
        config = self._stage.configure(
            f"{known.config.stem}-{mode}-{disclosure['mode']}",
            known.commands,
            disclosure=disclosure,
            search={"mode": mode},
        )
        for old in config.parent.glob(f"{config.stem}.db*"):
            old.unlink()
        with (
            closing(sqlite3.connect(known.config.with_suffix(".db"))) as source,
            closing(sqlite3.connect(config.with_suffix(".db"))) as target,
        ):
            source.backup(target)
        return config


def _discover_all(checkout: Checkout, config: Path) -> Took:
    """Have a checkout discover all servers, again where some failed.

    Raises:
        PeerError: Some fail still.
    """
    total = Took(wall_ms=0, cpu_ms=0)
    for _ in range(_ATTEMPTS):
        took, text = anyio.run(_list, checkout.command("list", "--config", str(config), "--json"))
        total = Took(wall_ms=total.wall_ms + took.wall_ms, cpu_ms=total.cpu_ms + took.cpu_ms)
        failed = [f"{one['name']}: {one['error']}" for one in json.loads(text)["servers"] if one["error"]]
        if not failed:
            return total
    raise PeerError(f"{len(failed)} servers could not be discovered, the first {failed[0][:200]}")


async def _list(command: Command) -> tuple[Took, str]:
    """Run a program, without what its servers use; the last moments before its end are not seen."""
    started, cpu_ms, texts = time.perf_counter(), 0.0, []
    async with await anyio.open_process(command, env=environment(), stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None

        async def watch() -> None:
            nonlocal cpu_ms
            while True:
                with suppress(psutil.NoSuchProcess):
                    cpu_ms = max(cpu_ms, cpu_s(process.pid) * 1e3)
                await anyio.sleep(_POLL_S)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            texts += [piece async for piece in process.stdout]
            await process.wait()
            tasks.cancel_scope.cancel()
    if process.returncode:
        raise PeerError(f"{command[1]} ended with {process.returncode}")
    return Took(wall_ms=(time.perf_counter() - started) * 1e3, cpu_ms=cpu_ms), b"".join(texts).decode()


def live_server() -> Command:
    """The server that changes its tools."""
    script = ROOT / "tests" / "support" / "faulty_server.py"
    return [sys.executable, "-I", "-S", str(script), "renewing", str(CHANGED)]


def _printed(command: Sequence[str]) -> str:
    """The last line that a program prints.

    Raises:
        PeerError: It fails, or takes too long.
    """
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"it took longer than {_LIMIT_S} s") from None
    if done.returncode:
        raise PeerError(f"it ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout.splitlines()[-1]


class _Watch:
    """The processes of a gateway, without the live server: their processor time and memory."""

    def __init__(self, pid: int) -> None:
        self._root = pid
        self._pids: Sequence[int] = ()
        self.look()

    def look(self) -> None:
        """Find its processes."""
        self._pids = family([self._root], without=live_server())

    def cpu_s(self) -> float:
        """Processor time up to now."""
        return all_cpu_s(self._pids)

    def mib(self) -> float:
        """Resident memory now."""
        self.look()
        return all_rss_mib(self._pids)

    async def until_idle(self, action: Awaitable[object]) -> Took:
        """What an action took, with all that the gateway does afterwards: until it does nothing for a while.

        Raises:
            PeerError: It does not become idle.
        """
        before, started = self.cpu_s(), time.perf_counter()
        await action
        self.look()
        last, busy_at = self.cpu_s(), time.perf_counter()
        while (now := time.perf_counter()) - busy_at < _IDLE_S:
            await anyio.sleep(_POLL_S)
            if (used := self.cpu_s()) - last > _BUSY * _POLL_S:
                busy_at = time.perf_counter()
            last = used
            if now - started > _LIMIT_S:
                raise PeerError(f"it is not idle after {_LIMIT_S} s")
        return Took(wall_ms=(busy_at - started) * 1e3, cpu_ms=(last - before) * 1e3)


async def _grow(
    checkout: Checkout, program: str, config: Path, known: Known, queries: Sequence[str]
) -> Sized:
    started = time.perf_counter()
    async with connect(checkout.serve(config)) as wire:
        await wire.list_tools()
        wall_ms = (time.perf_counter() - started) * 1e3
        watch = _Watch(wire.pid)
        opened = Took(wall_ms=wall_ms, cpu_ms=watch.cpu_s() * 1e3)
        indexed = await watch.until_idle(_search(wire, queries[0]))
        searched, used = [], watch.cpu_s()
        for query in queries[1:]:
            started = time.perf_counter()
            await _search(wire, query)
            searched.append((time.perf_counter() - started) * 1e3)
        spent = watch.cpu_s() - used
        await watch.until_idle(_change(wire, "call_tool"))  # starts the server
        changed = await watch.until_idle(_change_and_search(wire, queries[0]))
        info = await _text(
            wire, "tool_info", {"names": [f"{_LIVE}__renewed_{CHANGED - 1}"], "detail": "full"}
        )
        if "as of change 2" not in info:
            raise PeerError(f"the gateway does not know of the change: {info[:200]}")
        return Sized(
            program=program,
            tools=known.tools,
            servers=len(known.commands) - 1,
            opened=opened,
            indexed=indexed,
            p50_ms=percentile(searched, 0.5),
            p95_ms=percentile(searched, 0.95),
            cpu_ms=spent * 1e3 / len(searched),
            changed=changed,
            mib=watch.mib(),
        )


async def _search(wire: Wire, query: str) -> str:
    return await _text(wire, "search_tools", {"phrases": [query]})


async def _change(wire: Wire, through: str) -> None:
    """Have the live server change its tools, through the menu or by its own tool."""
    tool = f"{_LIVE}__change"
    if through == tool:
        await _text(wire, tool, {})
    else:
        await _text(wire, through, {"name": tool, "arguments": {}})


async def _change_and_search(wire: Wire, query: str) -> None:
    await _change(wire, "call_tool")
    await _search(wire, query)


async def _text(wire: Wire, tool: str, arguments: Mapping[str, Any]) -> str:
    result = await wire.call(tool, arguments)
    text = " ".join(str(one.get("text", "")) for one in result["content"])
    if result.get("isError"):
        raise PeerError(f"{tool} answered with an error: {text[:200]}")
    return text


class _Listeners:
    """Clients that wait for notices."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._heard: set[int] = set()
        self.all_heard = anyio.Event()

    async def listen(self, number: int, wire: HttpWire, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Take the notices of one client; started as soon as the gateway sends it any."""
        async for method in wire.notices():
            if not method:
                task_status.started()
            elif method == _NOTICE:
                self._heard.add(number)
                if len(self._heard) == self._wanted:
                    self.all_heard.set()

    def begin(self) -> None:
        """Forget what was heard."""
        self._heard.clear()
        self.all_heard = anyio.Event()


async def _attend(checkout: Checkout, config: Path, era: Era, clients: int) -> Crowd:
    listeners = _Listeners(clients)
    async with AsyncExitStack() as stack:
        program = await stack.enter_async_context(listening(checkout.serve_http(config)))
        caller = await stack.enter_async_context(connect_http(program.port, "/mcp", era))
        watch = _Watch(program.pid)
        await watch.until_idle(_change(caller, f"{_LIVE}__change"))  # starts the server
        tasks = await stack.enter_async_context(anyio.create_task_group())

        async def connect_everyone() -> None:
            for number in range(clients):
                wire = await stack.enter_async_context(connect_http(program.port, "/mcp", era))
                await tasks.start(listeners.listen, number, wire)

        held = watch.mib()
        connected = await watch.until_idle(connect_everyone())
        grown = watch.mib() - held
        latencies, used = [], watch.cpu_s()
        for number in range(_CALLS):
            started = time.perf_counter()
            await _text(caller, f"{_LIVE}__echo", {"text": str(number)})
            latencies.append((time.perf_counter() - started) * 1e3)
        spent = watch.cpu_s() - used
        wall_ms = 0.0

        async def notify_everyone() -> None:
            nonlocal wall_ms
            listeners.begin()
            started = time.perf_counter()
            await _change(caller, f"{_LIVE}__change")
            with anyio.fail_after(60):
                await listeners.all_heard.wait()
            wall_ms = (time.perf_counter() - started) * 1e3

        notified = await watch.until_idle(notify_everyone())
        tasks.cancel_scope.cancel()
    return Crowd(
        program=checkout.name,
        era=era,
        clients=clients,
        connect_cpu_ms=connected.cpu_ms / clients,
        kib=grown * 1024 / clients,
        call_p50_ms=percentile(latencies, 0.5),
        call_cpu_ms=spent * 1e3 / _CALLS,
        notified=Took(wall_ms=wall_ms, cpu_ms=notified.cpu_ms),
    )
