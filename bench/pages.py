"""What a call of a web page's tool costs: in the page itself, by maitred's way into pages, through a gateway.

The direct way is `Runtime.evaluate` of the same function over maitred's own connection to the browser. All
ways share one browser and one open page, and take turns within each round. There are two browsers: one has
WebMCP itself (native), in the other maitred brings it (injected). One tool answers at once. The other waits
first, as a tool does that asks its own server.
"""

import gc
import json
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread
from tests.support.chromium import OPTIONS, Running, browser
from tests.support.web_site import Site, serve_site

from bench.calls import DIRECT
from bench.clients import Front, connect_all
from bench.processes import all_cpu_s
from bench.stage import Checkout, Stage
from bench.values import Failure, PeerError, Size, Spread, leaf, ratios, spread
from maitred.backends.base import NOT_ASKED, ConnectOptions
from maitred.backends.process import Warden
from maitred.background import Background
from maitred.browser.browsers import Browsers
from maitred.browser.cdp import CdpConnection
from maitred.browser.errors import AttachError
from maitred.browser.executable import find_chrome, version_of
from maitred.browser.pages.backend import PagesBackend
from maitred.evaluation.metrics import percentile
from maitred.model.pages import PageOptions
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall

INTO_PAGE: Final = "maitred's way into pages, alone"
REACHES: Final = {"native": ["--enable-features=WebMCP"], "injected": []}
"""How maitred reaches a page, with the flags of its browser."""
WAITS_MS: Final = (0, 20)
_LINKS: Final = ("alone", "shared")
_READY_S: Final = 60.0
_POLL_S: Final = 0.2
_UNDECIDED: Final = "new since its server was approved"
_SUM: Final = {"a": 1, "b": 2}
_SCRIPT: Final = """
globalThis.add = async ({a, b, wait_ms}) => {
  if (wait_ms) await new Promise((done) => setTimeout(done, wait_ms));
  return {sum: a + b};
};
const number = {type: 'integer'};
await document.modelContext.registerTool({
  name: 'add', description: 'Add two numbers.', execute: globalThis.add,
  inputSchema: {type: 'object', properties: {a: number, b: number, wait_ms: number}, required: ['a', 'b']},
});
"""

Call = Callable[[int], Awaitable[str]]
"""Calls the tool once, which waits so many milliseconds, and returns the text of its answer."""
Prepare = Callable[[], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class Level:
    """Calls of one way in one round. `cpu_ms` is what the gateway spends on a call."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float


@dataclass(frozen=True, kw_only=True)
class PageWay:
    """One way to make the call: medians over the rounds, and the ratio to direct within each round."""

    name: str
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    ratio: Spread


@dataclass(frozen=True, kw_only=True)
class PageCalls:
    """All ways to a tool that waits so many milliseconds, in a browser with or without WebMCP."""

    reach: str
    wait_ms: int
    ways: Sequence[PageWay]


@dataclass(frozen=True, kw_only=True)
class Pages:
    """What was measured, and how much of it: `calls` by each way in a round."""

    rounds: int
    calls: int
    browser: str
    comparisons: Sequence[PageCalls]
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class _Way:
    """A way that is open; `gateway` are the processes that it adds."""

    name: str
    call: Call
    gateway: Callable[[], list[int]]


def measure(stage: Stage, size: Size) -> Pages:
    """Compare all ways in each of the two browsers."""
    comparisons: list[PageCalls] = []
    failures: list[Failure] = []
    version = ""
    try:
        version = version_of(find_chrome())
    except AttachError as error:
        failures.append(Failure(what="no page can be opened", why=f"{error}; `make servers` installs one"))
    for reach, flags in REACHES.items() if version else ():
        with serve_site() as site, browser(*flags) as running:
            try:
                comparisons += anyio.run(_compare, stage, size, reach, site, running, failures)
            except Exception as error:  # noqa: BLE001  # one browser must not take the figures of the other
                failures.append(Failure(what=f"maitred, {reach}", why=leaf(error)))
            finally:
                for checkout in stage.checkouts:
                    checkout.stop(_config(stage, reach, "shared", checkout))
    return Pages(
        rounds=size.rounds,
        calls=size.calls[1],
        browser=version,
        comparisons=comparisons,
        failures=failures,
    )


async def _compare(
    stage: Stage, size: Size, reach: str, site: Site, running: Running, failures: list[Failure]
) -> list[PageCalls]:
    taken: dict[tuple[str, int], list[Level]] = {}
    async with _ways(stage, size, reach, site, running) as (ways, failed):
        for number in range(-1, size.rounds):  # the first warms up
            turn = number % len(ways)
            for way in [*ways[turn:], *ways[:turn]]:
                for wait_ms in WAITS_MS:
                    level = await _round(way, wait_ms, size.calls[1] // (4 if wait_ms else 1))
                    if number >= 0:
                        taken.setdefault((way.name, wait_ms), []).append(level)
        failures += failed
    return [
        PageCalls(reach=reach, wait_ms=wait_ms, ways=[_summary(way.name, wait_ms, taken) for way in ways])
        for wait_ms in WAITS_MS
    ]


async def _round(way: _Way, wait_ms: int, calls: int) -> Level:
    """So many calls, one after the other; each must have the sum."""
    gc.collect()
    gateway = way.gateway()
    latencies: list[float] = []
    before = all_cpu_s(gateway)
    for _ in range(calls):
        started = time.perf_counter()
        answer = await way.call(wait_ms)
        latencies.append((time.perf_counter() - started) * 1e3)
        if '"sum": 3' not in answer:
            raise PeerError(f"{way.name} answers {answer[:200]!r}, without the sum")
    return Level(
        p50_ms=percentile(latencies, 0.5),
        p95_ms=percentile(latencies, 0.95),
        cpu_ms=(all_cpu_s(gateway) - before) * 1e3 / calls,
    )


def _summary(name: str, wait_ms: int, taken: dict[tuple[str, int], list[Level]]) -> PageWay:
    own, direct = taken[name, wait_ms], taken[DIRECT, wait_ms]
    return PageWay(
        name=name,
        p50_ms=spread([one.p50_ms for one in own]).median,
        p95_ms=spread([one.p95_ms for one in own]).median,
        cpu_ms=spread([one.cpu_ms for one in own]).median,
        ratio=ratios([one.p50_ms for one in own], [one.p50_ms for one in direct]),
    )


# --- the ways ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def _ways(
    stage: Stage, size: Size, reach: str, site: Site, running: Running
) -> AsyncIterator[tuple[Sequence[_Way], Sequence[Failure]]]:
    """All ways, open and ready: gateways are there before the page is loaded, and its tool is approved."""
    async with AsyncExitStack() as stack:
        connection, into_page, look = await stack.enter_async_context(_into_page(site, running))
        fronts = _fronts(stage, size, reach, site)
        connected, failed = await stack.enter_async_context(connect_all(fronts, "lean"))
        for peer in connected:
            place = {"name": "chrome__chrome_connect", "arguments": {"port": running.port}}
            await peer.ask("call_tool", place)
        direct = await _open_page(connection, site.page("bench", _SCRIPT), reach)
        await _ready(into_page.call, look)
        ways = [_Way(name=DIRECT, call=direct, gateway=list), into_page]
        for peer in connected:
            checkout = next(one for one in stage.checkouts if peer.front.name.startswith(f"{one.name}, "))
            config = _config(stage, reach, peer.front.name.rpartition(", ")[2], checkout)
            call = partial(_ask, peer.ask, peer.front.arguments)
            await _ready(call, partial(to_thread.run_sync, _approve, checkout, config), _UNDECIDED)
            ways.append(_Way(name=peer.front.name, call=call, gateway=peer.gateway))
        yield ways, failed


@asynccontextmanager
async def _into_page(site: Site, running: Running) -> AsyncIterator[tuple[CdpConnection, _Way, Prepare]]:
    """A connection to the browser, and the server of page tools on it, without a gateway around it.

    The function lists the tools of its pages, which has to be done before one is called.
    """
    processes = Warden()
    spec = ServerSpec(name="web", transport="pages", pages=PageOptions(allow=(site.origin,)))
    try:
        async with Background() as background:

            def spawn(function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> bool:
                background.start(function, *args)
                return True

            browsers = Browsers(spawn, processes)
            owner = browsers.new_owner()
            connecting = ConnectOptions(era="stateless", on_notice=lambda _: None)
            async with PagesBackend(spec, browsers).connect(connecting) as pages:
                reached = await browsers.attach("", running.port, "127.0.0.1", OPTIONS, owner)

                async def call(wait_ms: int) -> str:
                    wanted = ToolCall(name=f"{site.origin}#add", arguments=_arguments(wait_ms))
                    answer = await pages.call_tool(wanted.name, wanted, timeout_s=_READY_S, caller=NOT_ASKED)
                    return str(answer["content"][0]["text"])

                yield reached.connection, _Way(name=INTO_PAGE, call=call, gateway=list), pages.list_tools
                await reached.leave(owner)
    finally:
        processes.close()


async def _open_page(connection: CdpConnection, url: str, reach: str) -> Call:
    """Open the page in the browser's tab; returns the direct call.

    Raises:
        PeerError: The browser has WebMCP, or has none, and should not.
    """
    targets = (await connection.send("Target.getTargets"))["targetInfos"]
    tab = next(one["targetId"] for one in targets if one["type"] == "page")
    attached = await connection.send("Target.attachToTarget", {"targetId": tab, "flatten": True})
    session = attached["sessionId"]
    loaded = anyio.Event()
    connection.on(session, "Page.loadEventFired", lambda _: loaded.set())
    await connection.send("Page.enable", {}, session)
    await connection.send("Page.navigate", {"url": url}, session)
    await loaded.wait()

    async def evaluate(expression: str) -> Any:
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        return (await connection.send("Runtime.evaluate", asked, session))["result"].get("value")

    is_native = await evaluate("/native code/.test(String(document.modelContext?.registerTool))")
    if is_native != (reach == "native"):
        raise PeerError(f"the browser {'has' if is_native else 'has no'} WebMCP of its own")

    async def call(wait_ms: int) -> str:
        return json.dumps(await evaluate(f"add({json.dumps(_arguments(wait_ms))})"))

    return call


def _arguments(wait_ms: int) -> dict[str, int]:
    return {**_SUM, "wait_ms": wait_ms}


def _fronts(stage: Stage, size: Size, reach: str, site: Site) -> list[Front]:
    """The ways through maitred, each with a configuration and a catalog of its own."""
    name = f"web__http_127_0_0_1_{site.port}_add"
    servers = {
        "chrome": {"transport": "browser"},
        "web": {"transport": "pages", "pages": {"allow": [site.origin]}},
    }
    fronts = []
    for checkout in stage.checkouts:
        for link in (one for one in _LINKS if one in size.links):
            config = _config(stage, reach, link, checkout)
            config.with_suffix(".db").unlink(missing_ok=True)  # its approvals are of another port
            stage.configure(config.stem, {}, servers=servers)
            command = checkout.serve(config, shared=link == "shared")
            fronts.append(
                Front(
                    name=f"{checkout.name}, {link}",
                    command=command,
                    tool="call_tool",
                    arguments={"name": name},
                )
            )
    return fronts


def _config(stage: Stage, reach: str, link: str, checkout: Checkout) -> Path:
    return stage.folder / f"pages-{reach}-{link}{checkout.suffix}.yaml"


async def _ask(
    ask: Callable[[str, Mapping[str, Any]], Awaitable[str]], through: Mapping[str, Any], wait_ms: int
) -> str:
    return await ask("call_tool", {**through, "arguments": _arguments(wait_ms)})


def _approve(checkout: Checkout, config: Path) -> None:
    """Approve what the page offers, as an operator does."""
    command = checkout.command("approve", "web", "--yes", "--config", str(config))
    subprocess.run(command, capture_output=True, check=False)


async def _ready(call: Call, prepare: Prepare, when: str = "") -> None:
    """Wait until the tool can be called: its page is found, and the operator has approved it.

    `prepare` is done when an answer has the text `when`.

    Raises:
        PeerError: It cannot be called in time.
    """
    text = ""
    with anyio.move_on_after(_READY_S):
        while True:
            try:
                text = await call(0)
                if '"sum": 3' in text:
                    return
            except PeerError as error:
                text = str(error)
            if when in text:
                await prepare()
            await anyio.sleep(_POLL_S)
    raise PeerError(f"the tool of the page cannot be called: {text[:300]}")
