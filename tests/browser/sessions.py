"""The session of design document 002, played by a client of either era, with the tools that it sees."""

import re
from dataclasses import dataclass, field
from typing import Any

from tests.support.sdk_clients import Json, SdkClient

from maitred.browser.state import BrowserState
from maitred.browser.toolbox import visibility_table
from maitred.browser.tools.table import TOOLS
from maitred.visibility.facts import Facts

ALL = 23
FIRST = visibility_table().visible_set(TOOLS, Facts(values=BrowserState().facts))
"""The tools that make sense without a browser."""


@dataclass
class Session:
    """Plays the document's session; each step checks what the client sees after it.

    `port` is that of a browser that runs already, the second one of the session. In the handshake era
    `notices` are those that the client should have heard, and `shown` what it lists.
    """

    one: SdkClient
    shop: str
    port: int
    notices: int = 0
    count: int = 3
    shown: frozenset[str] = FIRST
    whole: list[Json] = field(default_factory=list)

    @property
    def follows(self) -> bool:
        """Whether the list of the client follows the state."""
        return self.one.era == "handshake"

    async def begin(self) -> None:
        """3 tools, or all 23; what cannot be called yet says what it needs."""
        self.whole = await self.one.definitions()
        names = await self.one.listed()
        assert names == FIRST if self.follows else len(names) == ALL
        for tool in self.whole:
            name = tool["name"].removeprefix(self.one.prefix)
            assert (" Needs " in tool["description"]) == (name not in FIRST), tool

    async def step(self, count: int, name: str, **arguments: Any) -> str:
        """A call after which so many tools make sense; the client hears of it once if that changed."""
        answer = await self.one.call(name, **arguments)
        assert not answer.startswith("error"), answer
        changes, self.count = count != self.count, count
        opened = self._named(answer.partition("Now available: ")[2])
        assert bool(opened) == (changes and name != "chrome_disconnect"), answer
        if not self.follows:
            assert await self.one.definitions() == self.whole
            assert self.one.told == 0
            return answer
        self.notices += changes
        await self.one.until(lambda: self.one.told >= self.notices)
        before, self.shown = self.shown, await self.one.listed()
        assert len(self.shown) == count
        assert opened == self.shown - before
        assert self.one.told == self.notices
        return answer

    async def refused(self, name: str, needs: str, **arguments: Any) -> None:
        """A call that makes no sense now; the refusal says what to call, by the names that the client has."""
        answer = await self.one.call(name, **arguments)
        assert answer.startswith("error"), answer
        what, _, steps = answer.partition("; ")
        assert f"cannot be called now: it {needs}" in what
        assert self._named(steps), answer

    def _named(self, text: str) -> set[str]:
        """The tools that a text names, as the client has to call them."""
        return {name for name in TOOLS if re.search(rf"\b{self.one.prefix}{name}\b", text)}

    async def play(self) -> None:
        """Connect, navigate, breakpoint, pause, inspect, step, resume, disconnect."""
        await self.begin()
        await self.refused("navigate", "needs a connected page", url=self.shop)
        await self.refused("debugger_step_over", "needs a paused debugger")
        await self.step(12, "chrome_launch", headless=True)
        await self.step(12, "navigate", url=f"{self.shop}/index.html")
        await self.refused("chrome_switch_connection", "needs a second connection", connection_id="x")
        await self.step(13, "chrome_connect", port=self.port, host="127.0.0.1", connection_id="second")
        await self.step(13, "chrome_switch_connection", connection_id="chrome-1")
        await self.refused("debugger_pause", "needs a page that runs with its debugger on")
        await self.step(16, "debugger_enable")
        await self.step(16, "debugger_set_breakpoint", url="app.js", line_number=2)
        assert "breakpoint b1" in await self.step(18, "click_element", selector="#add")
        await self.step(17, "chrome_disconnect", connection_id="second")
        assert "#0 add" in await self.step(17, "debugger_get_call_stack")
        value = await self.step(17, "debugger_evaluate_on_call_frame", call_frame_id="0", expression="a * b")
        assert value == "6"
        assert "app.js:3" in await self.step(17, "debugger_step_over")
        await self.refused("navigate", "needs a connected page that is not paused", url=self.shop)
        await self.step(15, "debugger_resume")
        await self.refused("debugger_step_over", "needs a paused debugger")
        await self.step(3, "chrome_disconnect", connection_id="chrome-1")
