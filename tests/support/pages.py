"""A gateway that watches the pages of a browser, with a client of it, and scripts for pages of tests."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
from tests.support.callers import Answering
from tests.support.chromium import OPTIONS, SOON_S, Running

from maitred.backends.base import NOT_ASKED, Caller
from maitred.config.load import parse
from maitred.config.settings import Catalog, Settings
from maitred.errors import ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.asking import ELICIT
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway


def tool_script(name: str, result: str = "'done'", *, more: str = "", description: str = "") -> str:
    """JavaScript that registers a tool which answers with an expression of `input`."""
    about = description or f"The tool {name} of a test."
    return (
        f"await document.modelContext.registerTool({{name: {name!r}, description: {about!r}, {more}"
        f" execute: async (input) => ({result})}});"
    )


def settings_of(folder: Path, pages: str, more: str = "", *, share: str = "auto") -> Settings:
    """A gateway with a browser server and a pages server; `pages` is the section of the latter."""
    sandbox = str(OPTIONS.sandbox).lower()
    text = (
        "servers:\n"
        f"  chrome: {{transport: browser, share: {share}, browser: {{sandbox: {sandbox}}}}}\n"
        f"  web: {{transport: pages, pages: {pages}}}\n{more}"
    )
    return replace(parse(folder / "maitred.yaml", text), catalog=Catalog(path=str(folder / "c.db")))


YES = {"action": "accept", "content": {}}
NO = {"action": "decline"}


@dataclass
class House:
    """A gateway with a browser of a client that is connected to it."""

    gateway: Gateway
    news: anyio.Event = field(default_factory=anyio.Event)

    def ring(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait until something is true; it is looked at whenever lists may have changed."""
        with anyio.fail_after(SOON_S):
            while not is_true():
                await self.news.wait()

    @property
    def known(self) -> Mapping[str, str]:
        """Each page tool that the catalog has, with the reason why it is withheld."""
        tools = self.gateway.snapshot.by_server.get("web", ())
        return {tool.key.name: tool.withheld for tool in tools}

    def knows_only(self, name: str) -> bool:
        """Whether the catalog has one page tool, of this name."""
        return set(self.known) == {name}

    def names(self) -> set[str]:
        """The page tools that a client sees, by the names in their pages."""
        tools = self.gateway.visible_tools(LOCAL_USER)
        return {tool.key.name.partition("#")[2] for tool in tools if tool.server == "web"}

    def schema(self, name: str) -> Mapping[str, Any]:
        """The schema of a page tool, as a client sees it."""
        [tool] = [t for t in self.gateway.visible_tools(LOCAL_USER) if t.key.name.endswith(f"#{name}")]
        return self.gateway.schema_of(tool.name, LOCAL_USER) or {}

    async def approve(self) -> None:
        await self.gateway.decide("web", "approve", viewer=LOCAL_USER)

    async def approve_all(self, count: int) -> None:
        """Wait until the pages have so many tools, and approve them; clients see them after that."""
        await self.until(lambda: len(self.known) == count)
        if any(self.known.values()):
            await self.approve()
        await self.until(lambda: len(self.names()) == count)

    async def do(
        self, name: str, /, viewer: Viewer = LOCAL_USER, caller: Caller = NOT_ASKED, **arguments: Any
    ) -> str:
        """The answer of a tool of the browser server, which succeeds."""
        made = ToolCall(name=f"chrome__{name}", arguments=arguments)
        answer = await self.gateway.call(made, viewer=viewer, caller=caller)
        text = str(answer["content"][0]["text"])
        assert not answer.get("isError"), text
        return text

    async def open(self, url: str, viewer: Viewer = LOCAL_USER) -> None:
        await self.do("navigate", url=url, viewer=viewer, include_context=False)

    async def call(
        self, name: str, /, *, caller: Caller = NOT_ASKED, viewer: Viewer = LOCAL_USER, **arguments: Any
    ) -> str:
        """The text of a page tool's answer, which begins with `error: ` if the call failed."""
        [tool] = [
            one
            for one in self.gateway.snapshot.tools
            if name in (one.key.name, one.key.name.partition("#")[2])
        ]
        made = ToolCall(name=tool.name, arguments=arguments)
        answer = await self.gateway.call(made, viewer=viewer, caller=caller)
        text = "\n".join(block["text"] for block in answer["content"])
        return f"error: {text}" if answer.get("isError") else text


def person(answer: Mapping[str, Any]) -> Answering:
    """A caller whose user answers each question so."""
    return Answering({ELICIT: answer}, principal="local")


@asynccontextmanager
async def house(
    folder: Path,
    running: Running | None,
    pages: str,
    more: str = "",
    *,
    connect: bool = True,
    share: str = "auto",
    within_s: float = 4 * SOON_S,
    **options: Any,
) -> AsyncIterator[House]:
    """A gateway whose local user is connected to a browser, if there is one, unless the test connects.

    `options` are those of `open_gateway`.
    """
    settings = settings_of(folder, pages, more, share=share)
    with anyio.fail_after(within_s):
        async with open_gateway(settings, serves=True, **options) as gateway:
            made = House(gateway)
            gateway.listen(lists=made.ring, resource=lambda *_: made.ring())
            assert await gateway.settled(SOON_S)
            if connect and running is not None:
                await made.do("chrome_connect", port=running.port)
            yield made
            # else the next test would find the tools of this one's page
            with suppress(AssertionError, ToolWithheldError):
                await made.open("about:blank")
