"""What the tools of a page cost an agent: all of them, behind categories, and opened, with the answers.

Measured as a client of the handshake era lists them, through a gateway, at the pages of `console.html` in a
real browser.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.support.chromium import Running
from tests.support.pages import House, house
from tests.support.sdk_clients import SdkClient, own_client
from tests.support.web_site import Site

from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Disclosure
from maitred.disclosure.budget import for_model
from maitred.model.access import LOCAL_USER
from maitred.surfaces.mcp.server import McpSurface

BREAK_EVEN_TOKENS: Final = 8_000
SIZES: Final[Mapping[str, int]] = {"analytics_tools": 5, "admin_tools": 15, "content_tools": 30}
WHOLE: Final = sum(SIZES.values())
FEW: Final = 10
_PAGES: Final = '{allow: ["http://127.0.0.1:*"]}'


@dataclass(frozen=True, kw_only=True)
class ListedPage:
    """The tools of a page in a list, and the tokens of the answers that opened them.

    `before` are the tokens of all tools of the page without categories.
    """

    page: str
    opened: str
    tools: int
    tokens: int
    answers: int
    before: int

    @property
    def saved(self) -> float:
        """The share of the tokens that an agent does not read."""
        return 1 - (self.tokens + self.answers) / self.before


@dataclass(frozen=True, kw_only=True)
class _Visit:
    """A client that visits pages, and the gateway between."""

    one: House
    client: SdkClient
    web: Site

    async def open(self, how: str, count: int) -> None:
        """Open the page in one of its forms, and wait until its tools can be listed."""
        await self.one.open(self.web.page("blank"))
        await self.one.until(lambda: not self.one.known)
        await self.one.open(f"{self.web.origin}/console.html?{how}")
        await self.one.approve_all(count)

    async def show(self, disclosure: Disclosure) -> None:
        """Have the gateway disclose tools in another way."""
        settings = replace(self.one.gateway.settings, disclosure=disclosure)
        await self.one.gateway.configure(settings, viewer=LOCAL_USER)

    async def listed(self) -> tuple[int, int]:
        """How many tools of the page the client lists, and their tokens."""
        own = [tool for tool in await self.client.definitions() if tool["name"].startswith("web__")]
        return len(own), count_tokens([for_model(own)])[0]

    async def call(self, category: str, **arguments: Any) -> int:
        """Call the tool of a category, of the page or the gateway; returns the tokens of its answer."""
        answer = await self.client.call(f"web__http_127_0_0_1_{self.web.port}_{category}", **arguments)
        assert not answer.startswith("error"), answer
        return count_tokens([answer])[0]


async def measure(folder: Path, running: Running, web: Site) -> Sequence[ListedPage]:
    """All rows: without categories, with those of the page's module, with those of labels, and few tools."""
    async with (
        house(folder, running, _PAGES, "disclosure: {mode: all}\n", share="all") as one,
        own_client(McpSurface(one.gateway).server, "handshake") as client,
    ):
        visit = _Visit(one=one, client=client, web=web)
        await visit.open("labels", WHOLE)
        tools, whole = await visit.listed()
        rows = [_row(f"{WHOLE} tools", "none, all listed", tools, whole, whole)]
        await visit.open("module", len(SIZES))
        rows += await _opened(visit, "its own categories", whole, of_page=True)
        await visit.open("few", FEW)
        _, few_tokens = await visit.listed()
        await visit.show(Disclosure(mode="categories", break_even_tokens=BREAK_EVEN_TOKENS))
        few = _row(f"{FEW} tools", "none, below the break-even", *(await visit.listed()), few_tokens)
        await visit.open("labels", WHOLE)
        rows += await _opened(visit, "labels", whole, of_page=False)
    return [*rows, few]


async def _opened(visit: _Visit, kind: str, whole: int, *, of_page: bool) -> list[ListedPage]:
    """The rows of a page with categories: none opened, one, another, all."""

    async def settle(opened: int) -> None:
        if of_page:
            await visit.one.approve_all(len(SIZES) + opened)

    page = f"{WHOLE} tools, {kind}"
    rows = [_row(page, "none opened", *(await visit.listed()), whole)]
    small, middle, large = SIZES
    for name in (small, middle):
        answer = await visit.call(name)
        await settle(SIZES[name])
        case = f"the one of {SIZES[name]} opened"
        rows.append(_row(page, case, *(await visit.listed()), whole, answers=answer))
        await visit.call(name, collapse=True)
        await settle(0)
    opened, answers = 0, 0
    for name in (small, middle, large):
        answers += await visit.call(name)
        opened += SIZES[name]
        await settle(opened)
    rows.append(_row(page, "all opened", *(await visit.listed()), whole, answers=answers))
    for name in SIZES:
        await visit.call(name, collapse=True)
    await settle(0)
    assert (await visit.listed())[1] == rows[0].tokens
    return rows


def _row(page: str, opened: str, tools: int, tokens: int, before: int, *, answers: int = 0) -> ListedPage:
    return ListedPage(page=page, opened=opened, tools=tools, tokens=tokens, answers=answers, before=before)
