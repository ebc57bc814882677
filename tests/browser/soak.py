"""Four clients work in tabs of one browser at once; after that, browsers are killed during their calls.

Every page says whose it is, so an answer about the page of another client shows. A step is one thing that
an agent does: it opens its page, reads, fills, clicks, stops at a breakpoint and goes on, calls the tool that
all pages have, or tries to take what is another client's.

By hand, from the root of the project: `python -m tests.browser.soak --steps 1000 --kills 20`.
"""

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import psutil
from tests.backends.rig import eventually, is_gone
from tests.support.chromium import Running, browser
from tests.support.pages import House, house, tool_script
from tests.support.sdk_clients import SdkClient, own_client
from tests.support.web_site import Site, serve_site

from maitred.surfaces.mcp.server import McpSurface

NAMES: Final = ("ann", "bob", "cid", "dee")
CALL_S: Final = 60.0
GONE_S: Final = 30.0
PROFILES: Final = "maitred-browser-*"
SCRIPT: Final = """
function press() {
  const whose = document.title;
  window.count = (window.count ?? 0) + 1;
  console.log(whose, 'pressed', window.count);
}
"""
ENDED: Final = re.compile(r"gone during the call|call (chrome__)?chrome_(launch|connect)|gone with its page")
"""What a call says that a killed browser ended, or that needs a browser after that."""


@dataclass(kw_only=True)
class Tally:
    """What came of all steps. `wrong` are answers that no caller should get, `hung` calls without any."""

    steps: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    under_way: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    kills: int = 0
    slowest_end_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": sum(self.steps.values()),
            "kinds": dict(self.steps),
            "calls": self.calls,
            "kills": self.kills,
            "calls that a kill ended": dict(self.ended),
            "slowest end of all calls after a kill (s)": round(self.slowest_end_s, 2),
            "wrong": self.wrong[:20],
            "hung": self.hung,
            "left": self.left,
        }


class BrowserEndedError(Exception):
    """A call said that its browser has ended."""


class Agent:
    """One client with a page of its own."""

    def __init__(self, name: str, client: SdkClient, place: "Place", *, seed: int) -> None:
        self.name = name
        self._client = client
        self.place = place
        self._tally = place.tally
        self._random = random.Random(f"{seed} {name}")
        self._count = self._pressed = self._windows = 0

    async def start(self, port: int) -> None:
        """Connect to the browser, and open the own page."""
        await self.do("Connected", "chrome_connect", port=port, connection_id=self.name)
        await self._navigate()

    async def launch(self) -> int:
        """Start a browser, open the own page in it, and return its port."""
        answer = await self.do("Started", "chrome_launch", headless=True, connection_id=self.name)
        await self._navigate()
        return int(answer.partition(" on port ")[2].split()[0])

    async def leave(self) -> None:
        """End the connection."""
        await self.do("has ended", "chrome_disconnect", connection_id=self.name)

    async def asks_to_connect(self) -> None:
        """After the end of the browser, a call says what to do."""
        try:
            await self.refused("is not answered", "query_elements", selector="h1")
        except BrowserEndedError:
            return

    # --- calls --------------------------------------------------------------------------------------------

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The text of an answer, which begins with `error: ` if the call failed.

        Raises:
            BrowserEndedError: It says that the browser has ended.
        """
        self._tally.calls += 1
        self._tally.under_way += 1
        try:
            with anyio.fail_after(CALL_S):
                answer = await self._client.call(name, **arguments)
        except TimeoutError:
            self._tally.hung.append(f"{self.name}: {name}")
            answer = "error: no answer"
        finally:
            self._tally.under_way -= 1
        if answer.startswith("error") and self.place.is_killed and ENDED.search(answer):
            self._tally.ended[re.sub(r"http\S+|t\d+", "…", answer)[:120]] += 1
            raise BrowserEndedError
        return answer

    async def do(self, expected: str, name: str, /, **arguments: Any) -> str:
        """A call whose answer has an expected text, and nothing of the page of another client."""
        answer = await self.call(f"chrome__{name}", arguments)
        own = "\n".join(line for line in answer.splitlines() if "(belongs to client" not in line)
        others = [one for one in NAMES if one != self.name and re.search(rf"\b{one}\b", own)]
        if expected not in answer or others or answer.startswith("error"):
            self._tally.wrong.append(f"{self.name}: {name} {arguments}: {answer[:300]}")
        return answer

    async def refused(self, expected: str, name: str, /, **arguments: Any) -> None:
        """A call that must fail with a text."""
        answer = await self.call(f"chrome__{name}", arguments)
        if not answer.startswith("error") or expected not in answer:
            self._tally.wrong.append(f"{self.name}: {name} {arguments} was not refused: {answer[:300]}")

    # --- steps --------------------------------------------------------------------------------------------

    async def step(self) -> None:
        """One random thing."""
        kinds: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._navigate, 2), (self._query, 3), (self._fill, 3), (self._click, 3), (self._stop, 2),
            (self._tool, 3), (self._list, 1), (self._take, 2), (self._handle, 1), (self._window, 1),
        ]  # fmt: skip
        act = self._random.choices([one for one, _ in kinds], [weight for _, weight in kinds])[0]
        self._tally.steps[act.__name__.strip("_")] += 1
        await act()

    async def _navigate(self) -> None:
        url = self.place.web.origin + f"/{self.name}"
        await self.do(f"Page: '{self.name}' {url}", "navigate", url=url)
        self._pressed = 0

    async def _query(self) -> None:
        await self.do(f'<h1 id="who"> "{self.name}"', "query_elements", selector="h1")

    async def _fill(self) -> None:
        self._count += 1
        mine = f"{self.name}-{self._count}"
        await self.do("Filled", "fill_element", selector="[name=note]", text=mine)
        await self.do(f'value="{mine}"', "query_elements", selector="[name=note]")

    async def _click(self) -> None:
        self._pressed += 1
        await self.do(f"Page: '{self.name}'", "click_element", selector="#press")
        pressed = f"{self.name} pressed {self._pressed}"
        await self.do(pressed, "get_console_logs", limit=1, filter_level="info")

    async def _stop(self) -> None:
        """Stop at a breakpoint of the script that all pages have, look around, and go on."""
        await self.call("chrome__debugger_enable", {})  # refused if it is on
        answer = await self.do("is set", "debugger_set_breakpoint", url="agent.js", line_number=4)
        number = answer.partition("Breakpoint ")[2].split()[0]
        await self.do(f"whose = '{self.name}'", "click_element", selector="#press")
        evaluate = "debugger_evaluate_on_call_frame"
        await self.do(f"'{self.name}'", evaluate, call_frame_id="0", expression="document.title")
        await self._call_tool(
            "paused by a debugger", f"\n{self.name}"
        )  # the latter in another tab of its own
        await self.do("agent.js:5", "debugger_step_over")
        await self.do("The page runs", "debugger_resume")
        await self.do("removed", "debugger_remove_breakpoint", breakpoint_id=number)
        self._pressed += 1

    async def _tool(self) -> None:
        """The tool of a page has one name for all of them, and is called in the own one."""
        await self._call_tool(f"\n{self.name}")

    async def _call_tool(self, *expected: str) -> None:
        """Call the tool of the page; it is there a moment after the page has loaded."""
        answer = "error: not called"

        def fits() -> bool:
            return any(answer.endswith(one) or (one in answer and one[0] != "\n") for one in expected)

        with anyio.move_on_after(CALL_S):
            while not fits() and answer.startswith("error") and not self.place.is_killed:
                answer = await self.call(self.place.tool, {})
                await anyio.lowlevel.checkpoint()
        if not fits() and not self.place.is_killed:
            self._tally.wrong.append(f"{self.name}: the tool of its page: {answer[:300]}")

    async def _list(self) -> None:
        """Its own tab is in the list, unless the list was the same the last time."""
        answer = await self.do("", "list_targets")
        if "(current)" not in answer and "Only what changed" not in answer:
            self._tally.wrong.append(f"{self.name}: list_targets has no tab of its own: {answer[:300]}")

    async def _take(self) -> None:
        """Work with the tab of another client, which is refused with the name of its owner."""
        other = self._random.choice([one for one in NAMES if one != self.name])
        await self.refused("this tab belongs to client ", "switch_target", title=other)

    async def _handle(self) -> None:
        """Use the connection of another client, which is not known."""
        other = self._random.choice([one for one in NAMES if one != self.name])
        await self.refused("there is no connection", "query_elements", selector="h1", connection_id=other)

    async def _window(self) -> None:
        """Open a window, work in it, and go back."""
        if self._windows >= 2:
            return
        self._windows += 1
        await self.do("Clicked", "click_element", selector="#more")
        with anyio.move_on_after(CALL_S):  # a window has its address a moment later
            while f"/{self.name}?more" not in await self.do("", "list_targets"):
                await anyio.lowlevel.checkpoint()
        await self.do("Works with", "switch_target", url=f"/{self.name}?more")
        await self.do(f'<h1 id="who"> "{self.name}"', "query_elements", selector="h1")
        await self._navigate()


@dataclass(kw_only=True)
class Place:
    """The gateway, the site, and what came of the steps."""

    one: House
    web: Site
    tally: Tally
    is_killed: bool = False
    """A browser is killed, or may be at any moment."""

    @property
    def tool(self) -> str:
        """The name of the tool that each page has."""
        return f"web__http_127_0_0_1_{self.web.port}_who"


def write_pages(web: Site) -> None:
    """A page for each client, which differ in nothing but the name."""
    web.pages |= {"/agent.js": SCRIPT, "/favicon.ico": ""}
    for name in NAMES:
        body = (
            f'<script src="agent.js"></script><h1 id="who">{name}</h1><input name="note">'
            f'<button id="press" onclick="press()">Press</button>'
            f'<a id="more" href="?more" target="_blank">More</a>'
        )
        web.page(name, tool_script("who", "document.title", description="Whose page it is."), body=body)


@asynccontextmanager
async def agents(
    folder: Path, running: Running, tally: Tally, seed: int, within_s: float
) -> AsyncIterator[list[Agent]]:
    """Four clients of one gateway; the first is connected. Nothing here would tell stateless ones apart."""
    more = "disclosure: {mode: all}\n"
    with serve_site() as web:
        write_pages(web)
        allowed = f'{{allow: ["{web.origin}"]}}'
        async with AsyncExitStack() as stack:
            making = house(folder, running, allowed, more, connect=False, within_s=within_s)
            one = await stack.enter_async_context(making)
            surface, place = McpSurface(one.gateway), Place(one=one, web=web, tally=tally)
            made = []
            for name in NAMES:
                client = await stack.enter_async_context(own_client(surface.server, "handshake"))
                made.append(Agent(name, client, place, seed=seed))
            await made[0].start(running.port)
            await one.until(lambda: bool(one.known))
            await one.approve()
            await one.until(lambda: one.names() == {"who"})
            yield made


async def work(team: list[Agent], steps: int) -> None:
    """All agents at once, until they made so many steps together."""
    left = steps

    async def go(agent: Agent) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await agent.step()

    async with anyio.create_task_group() as tasks:
        for agent in team:
            tasks.start_soon(go, agent)


async def be_killed(team: list[Agent], place: Place, seed: int) -> None:
    """All agents use a browser that one of them started, until it is killed during calls."""
    before = folders()
    place.is_killed = False
    port = await team[0].launch()
    for agent in team[1:]:
        await agent.start(port)
    await place.one.until(lambda: place.one.names() == {"who"})
    made = folders() - before
    pid = browser_of(made)
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    killed_at = 0.0

    async def go(agent: Agent) -> None:
        try:
            while True:
                await agent.step()
        except BrowserEndedError:
            place.tally.slowest_end_s = max(place.tally.slowest_end_s, time.monotonic() - killed_at)
        await agent.asks_to_connect()

    async with anyio.create_task_group() as tasks:
        for agent in team:
            tasks.start_soon(go, agent)
        await anyio.sleep(random.Random(seed).random() * 0.5)
        while not place.tally.under_way:
            await anyio.lowlevel.checkpoint()
        place.is_killed, killed_at = True, time.monotonic()
        os.kill(pid, signal.SIGKILL)
        place.tally.kills += 1
    await look_for_rests(tree, made, place.tally)


def folders() -> set[Path]:
    """The fresh profiles of browsers that this process started."""
    return {one for one in Path(tempfile.gettempdir()).glob(f"{PROFILES}-{os.getpid()}-*") if one.is_dir()}


def browser_of(made: set[Path]) -> int:
    """The process of the browser that uses a profile."""
    [profile] = made
    lines = {one.pid: one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])}
    of_profile = {pid: line for pid, line in lines.items() if f"--user-data-dir={profile}" in line}
    [found] = [pid for pid, line in of_profile.items() if not any("--type=" in word for word in line)]
    return int(found)


async def look_for_rests(tree: list[psutil.Process], made: set[Path], tally: Tally) -> None:
    """Note processes and folders of a browser that are there some time after its end."""
    with suppress(TimeoutError):
        await eventually(lambda: all(is_gone(one.pid) for one in tree), within_s=GONE_S)
        await eventually(lambda: not made & folders(), within_s=GONE_S)
    tally.left += [f"process {one.pid}" for one in tree if not is_gone(one.pid)]
    tally.left += [str(one) for one in made & folders()]
    for one in psutil.process_iter(["cmdline"]):
        if any(str(folder) in word for folder in made for word in one.info["cmdline"] or ()):
            tally.left.append(f"process {one.pid}: {one.info['cmdline'][:3]}")


async def soak(folder: Path, *, steps: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Run it, and return what was found."""
    tally = Tally()
    with browser() as running:
        within_s = 300.0 + 5.0 * steps + 60.0 * kills
        async with agents(folder, running, tally, seed, within_s) as team:
            for agent in team[1:]:
                await agent.start(running.port)
            await work(team, steps)
            for agent in team:
                await agent.leave()
            for number in range(kills):
                await be_killed(team, team[0].place, seed + number)
    return tally.to_json()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        run = partial(soak, Path(folder), steps=options.steps, kills=options.kills, seed=options.seed)
        found = anyio.run(run)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
