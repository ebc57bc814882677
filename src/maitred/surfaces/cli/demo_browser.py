"""`maitred demo browser`: the tools of a web page and of Chrome's debugger, in a browser that it starts."""

import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from rich.table import Table
from rich.text import Text

from maitred.background import Background
from maitred.browser.errors import AttachError
from maitred.browser.executable import find_chrome
from maitred.catalog.token_count import count_tokens
from maitred.config.load import load
from maitred.disclosure.budget import for_model
from maitred.errors import ConfigError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import Tool
from maitred.surfaces.cli.console import err, out, run
from maitred.surfaces.cli.demo_console import heading, request_line, show_call, website
from maitred.wiring import open_gateway

if TYPE_CHECKING:  # the SDK takes a second to import
    from mcp import Client

PAGE_TOOLS: Final = 11
"""How many tools the page registers."""
_SOON_S: Final = 60.0
_LINE: Final = "document.querySelector('#sum')"
_MISSING: Final = (
    "no Chromium and no Chrome is installed, which this demonstration starts: install it, as by `apt-get"
    " install chromium`; `maitred demo` needs no browser"
)


def demonstrate() -> None:
    """Show the page, then the debugger.

    Raises:
        ConfigError: There is no browser on this machine.
    """
    try:
        find_chrome()
    except AttachError:
        raise ConfigError("demo browser", [_MISSING]) from None
    pages = {"/": _text("demo_bakery.html"), "/bakery.js": _text("demo_bakery.js")}
    with tempfile.TemporaryDirectory(prefix="maitred-demo-") as folder, website(pages) as origin:
        run(lambda: _show(Path(folder), origin))


def _text(name: str) -> str:
    return (files("maitred.surfaces.cli") / name).read_text(encoding="utf-8")


async def _show(folder: Path, origin: str) -> None:
    chrome: dict[str, Any] = {"transport": "browser"}
    if sys.platform != "win32" and os.geteuid() == 0:
        err.print("Chrome does not run as root with its sandbox, so it runs without, for a page of its own")
        chrome["browser"] = {"sandbox": False}
    web = {"transport": "pages", "pages": {"allow": [origin]}}
    by_category = {"mode": "categories", "break_even_tokens": 0}
    async with _open(_configure(folder, "page", {"chrome": chrome, "web": web}, by_category)) as one:
        await _show_page(one, origin)
    async with _open(_configure(folder, "debugger", {"chrome": chrome}, {"mode": "all"})) as one:
        await _show_debugger(one, origin)
    _show_next()


def _configure(folder: Path, name: str, servers: Mapping[str, Any], disclosure: Mapping[str, Any]) -> Path:
    """Write a configuration, whose catalog is beside it."""
    path = folder / f"{name}.yaml"
    settings = {"servers": servers, "disclosure": disclosure, "catalog": {"path": f"{name}.db"}}
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@dataclass
class _Agent:
    """A client of a gateway; `changed` is called when its list, or what the gateway knows, has changed."""

    gateway: Gateway
    client: "Client"
    _news: anyio.Event = field(default_factory=anyio.Event)

    def changed(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def until(self, is_true: Callable[[], bool]) -> None:
        with anyio.fail_after(_SOON_S):
            while not is_true():
                await self._news.wait()

    @property
    def page_tools(self) -> list[Tool]:
        """The tools of pages that the gateway knows, approved or not."""
        return list(self.gateway.snapshot.by_server.get("web", ()))

    async def names_of(self, server: str, count: int) -> set[str]:
        """The tools of a server in the list of the client, as soon as there are so many."""
        with anyio.fail_after(_SOON_S):
            while True:
                news, listed = self._news, (await self.client.list_tools()).tools
                names = {one.name.removeprefix(server) for one in listed if one.name.startswith(server)}
                if len(names) == count:
                    return names
                await news.wait()


@asynccontextmanager
async def _open(path: Path) -> AsyncIterator[_Agent]:
    """The gateway of a configuration with a client of it, which notices changes of its list."""
    from mcp import Client  # noqa: PLC0415  # as above

    from maitred.surfaces.mcp.server import McpSurface  # noqa: PLC0415

    async with open_gateway(load(path)) as gateway, Background() as background:
        await gateway.settled(_SOON_S)
        surface = McpSurface(gateway)
        background.start(surface.announce)
        agents: list[_Agent] = []

        async def hear(message: object) -> None:  # the library's name
            for one in agents:
                one.changed()

        async with Client(surface.server, mode="legacy", message_handler=hear) as client:
            agents.append(_Agent(gateway=gateway, client=client))
            gateway.listen(lists=agents[0].changed, resource=lambda *_: None)
            yield agents[0]


async def _show_page(one: _Agent, origin: str) -> None:
    heading("1. An agent opens a web page, which offers tools")
    await _do(one.client, "chrome__chrome_launch", {"headless": True})
    await _do(one.client, "chrome__navigate", {"url": f"{origin}/"})
    await one.until(lambda: len(one.page_tools) == PAGE_TOOLS)
    heading("2. A person approves them before any agent sees one")
    out.print(f"The page {origin} has {PAGE_TOOLS} tools; each {one.page_tools[0].withheld}.")
    request_line("maitred approve web")
    await one.gateway.decide("web", "approve", viewer=LOCAL_USER)
    await one.until(lambda: not any(tool.withheld for tool in one.page_tools))
    heading("3. What the agent carries: a line for each category of the page")
    await _show_categories(one)
    heading("4. It searches, and finds a tool of the page")
    await show_call(one.client, "search_tools", {"phrases": ["open orders of today"], "limit": 1})
    heading("5. and calls it; what a page says is data, and is marked so")
    await _do(one.client, _name_of(one, "list_orders"), {})
    out.print("A tool that the page marks as consequential asks a person, and this client has none:")
    await _do(one.client, _name_of(one, "refund_order"), {"id": 1})


async def _show_categories(one: _Agent) -> None:
    listed = [tool for tool in (await one.client.list_tools()).tools if tool.name.startswith("web__")]
    tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]
    [tokens] = count_tokens([for_model(tools)])
    raw = sum(tool.cost_tokens for tool in one.page_tools)
    for tool in listed:
        out.print(Text(f"  {tool.name}: {tool.description}"))
    less = f" as {len(listed)} categories; calling one opens it:"
    out.print(Text.assemble(f"{raw:,} tokens for {PAGE_TOOLS} tools, ", (f"{tokens:,} tokens", "bold"), less))
    await show_call(one.client, next(tool.name for tool in listed if tool.name.endswith("_orders_tools")), {})


def _name_of(one: _Agent, tool: str) -> str:
    """The published name of a tool of the page."""
    return next(known.name for known in one.page_tools if known.key.name.endswith(f"#{tool}"))


async def _do(client: "Client", name: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool by the tool that calls all."""
    return await show_call(client, "call_tool", {"name": name, "arguments": arguments})


async def _show_debugger(one: _Agent, origin: str) -> None:
    heading("6. Chrome's own tools: an agent sees those that make sense now")
    table = Table(box=None, pad_edge=False)
    for title in ("state", "tools", "new"):
        table.add_column(title, justify="right" if title == "tools" else "left")
    seen: set[str] = set()

    async def note(state: str, count: int) -> None:
        nonlocal seen
        names = await one.names_of("chrome__", count)
        table.add_row(state, str(count), ", ".join(sorted(names - seen)))
        seen = names

    line = _text("demo_bakery.js").splitlines().index(f"  {_LINE}.textContent = sum;") + 1
    breakpoint_at = {"url": "bakery.js", "line_number": line}
    await note("no browser", 3)
    await show_call(one.client, "chrome__chrome_launch", {"headless": True})
    await note("connected", 12)
    await show_call(one.client, "chrome__navigate", {"url": f"{origin}/"})
    await show_call(one.client, "chrome__debugger_enable", {})
    await note("debugger on", 15)
    await show_call(one.client, "chrome__debugger_set_breakpoint", breakpoint_at)
    await show_call(one.client, "chrome__click_element", {"selector": "#total"})
    await note("paused", 17)
    frame = {"call_frame_id": "0", "expression": "orders[0].price * orders[0].count"}
    await show_call(one.client, "chrome__debugger_evaluate_on_call_frame", frame)
    out.print("The sum leaves the counts out. A call that makes no sense now says what to do:")
    await show_call(one.client, "chrome__navigate", {"url": f"{origin}/"})
    await show_call(one.client, "chrome__debugger_resume", {})
    await note("runs again", 15)
    await show_call(one.client, "chrome__chrome_disconnect", {"connection_id": "chrome-1"})
    await note("no browser", 3)
    out.print(table)


def _show_next() -> None:
    heading("Yours next")
    out.print("In maitred.yaml, with the origins whose pages may offer tools:")
    out.print("  servers:")
    out.print("    chrome: {transport: browser}")
    out.print('    web: {transport: pages, pages: {allow: ["https://app.example"]}}')
    out.print("`maitred docs browser` and `maitred docs pages` have the rest.")
