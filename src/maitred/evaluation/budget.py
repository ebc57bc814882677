"""Measure the price of each answer of the menu, against the limits that the menu promises.

It asks a gateway as an agent would, over all tools, and counts exactly (o200k). Figures of the tiers add up:
a reader of T2 has read T0 and T1 before. It starts no server and changes nothing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from maitred.catalog.token_count import count_tokens
from maitred.disclosure import pages as menu
from maitred.disclosure import views
from maitred.disclosure.answers import SEARCH_TOKENS
from maitred.disclosure.budget import for_model
from maitred.gateway import Gateway
from maitred.meta_tools.menu import definitions
from maitred.model.access import Viewer
from maitred.model.tools import Tool

MENU_TOKENS: Final = 500
BRIEF_TOKENS: Final = 299

_A_CALL = 10
_FULL_ANSWERS = 50
_SEARCHES = 200
_FIRST_WORDS = 8
_P95 = 0.95

Counted = Sequence[tuple[str, int]]
"""Token counts, by the name of each text."""


@dataclass(frozen=True, kw_only=True)
class AnswerCost:
    """The price of one answer in o200k tokens; `limit` is its maximum, `detail` names the worst case."""

    name: str
    tokens: int
    limit: int
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether the answer keeps its limit."""
        return self.tokens <= self.limit

    def to_json(self) -> dict[str, Any]:
        """Return all fields, for programs."""
        return asdict(self) | {"ok": self.ok}


async def measure(gateway: Gateway, viewer: Viewer) -> Sequence[AnswerCost]:
    """Measure every answer of the menu at its worst; searches as median, 95th percentile and worst.

    The catalog has to place the tools in categories first (`Gateway.settled`).
    """
    pages = list(_pages(gateway, viewer))
    answers = {_group(group): await _full(gateway, viewer, group) for group in _by_weight(gateway, viewer)}
    tiers = [*_tiers(gateway, viewer, pages, answers), *_tiers_as_json(gateway, viewer, pages)]
    return [
        *tiers,
        await _details(gateway, viewer),
        *_menu(gateway, viewer),
        *await _searches(gateway, viewer),
    ]


# Tiers.


@dataclass(frozen=True, kw_only=True)
class _MenuPage:
    """One page of T2, as a value and as text."""

    name: str
    page: menu.ToolPage
    text: str


def _tiers(
    gateway: Gateway, viewer: Viewer, pages: Sequence[_MenuPage], answers: Mapping[str, str]
) -> Iterator[AnswerCost]:
    hot, first = count_tokens([gateway.hot(viewer).text, gateway.browse(viewer=viewer).text])
    texts = _count({page.name: page.text for page in pages})
    yield from _cumulative("", hot, first, texts, _count(answers))


def _tiers_as_json(gateway: Gateway, viewer: Viewer, pages: Sequence[_MenuPage]) -> Iterator[AnswerCost]:
    parts = [_json(gateway.hot(viewer).to_json()), _json(gateway.categories(viewer).to_json())]
    hot, categories = count_tokens(parts)
    texts = _count({page.name: _json(page.page.to_json()) for page in pages})
    yield from _cumulative(" as JSON", hot, hot + categories, texts, [])


def _cumulative(how: str, hot: int, first: int, pages: Counted, answers: Counted) -> Iterator[AnswerCost]:
    t0, t1, t2, t3 = menu.CUMULATIVE
    page, tokens = _worst(pages)
    second = first + tokens
    yield AnswerCost(name=f"T0{how}", tokens=hot, limit=t0)
    yield AnswerCost(name=f"T0 and T1{how}", tokens=first, limit=t1)
    yield AnswerCost(name=f"T0 to T2{how}", tokens=second, limit=t2, detail=f"{page}: {tokens:,}")
    if answers:
        names, tokens = _worst(answers)
        yield AnswerCost(
            name=f"T0 to T3{how}", tokens=second + tokens, limit=t3, detail=f"{names}: {tokens:,}"
        )


def _pages(gateway: Gateway, viewer: Viewer) -> Iterator[_MenuPage]:
    """Yield every page of every category and server, as a reader who follows the cursors gets them."""
    paths = [f"category/{line.category.name}" for line in gateway.categories(viewer).lines]
    paths += [f"server/{status.name}" for status in gateway.watched_servers(viewer) if status.tools]
    for path in paths:
        cursor, number = "", 1
        while number == 1 or cursor:
            page = gateway.page(path, cursor, viewer=viewer)
            text_page = page.page
            yield _MenuPage(name=f"{path}, page {number}", page=page, text=text_page.text)
            cursor, number = text_page.cursor, number + 1


def _by_weight(gateway: Gateway, viewer: Viewer) -> Iterator[Sequence[Tool]]:
    """Yield tools in groups of the size of one call: the heaviest first, then a spread over the others."""
    tools = sorted(gateway.visible_tools(viewer), key=lambda tool: (-tool.cost_tokens, tool.name))
    step = _A_CALL * max(1, len(tools) // (_A_CALL * _FULL_ANSWERS))
    for start in range(0, len(tools), step):
        yield tools[start : start + _A_CALL]


async def _full(gateway: Gateway, viewer: Viewer, tools: Sequence[Tool]) -> str:
    return (await gateway.info([tool.name for tool in tools], "full", viewer=viewer)).text


def _group(tools: Sequence[Tool]) -> str:
    return tools[0].name if len(tools) == 1 else f"{tools[0].name} and {len(tools) - 1} more"


# Details, menu, search.


async def _details(gateway: Gateway, viewer: Viewer) -> AnswerCost:
    names = [tool.name for tool in gateway.visible_tools(viewer)]
    briefs = _count({name: (await gateway.info([name], viewer=viewer)).text for name in names})
    name, tokens = _worst(briefs)
    return AnswerCost(name="tool_info, brief", tokens=tokens, limit=BRIEF_TOKENS, detail=name)


def _menu(gateway: Gateway, viewer: Viewer) -> Iterator[AnswerCost]:
    index = gateway.index(viewer)
    texts = {
        "menu": (for_model(definitions()), MENU_TOKENS),
        "menu with index": (for_model(definitions(index)), MENU_TOKENS + menu.INDEX_TOKENS),
        "capability index": (index, menu.INDEX_TOKENS),
        "overview": (gateway.overview(viewer), menu.OVERVIEW_TOKENS),
    }
    counts = count_tokens([text for text, _ in texts.values()])
    for (name, (_, limit)), tokens in zip(texts.items(), counts, strict=True):
        yield AnswerCost(name=name, tokens=tokens, limit=limit)


async def _searches(gateway: Gateway, viewer: Viewer) -> Sequence[AnswerCost]:
    """Search for a spread of the tools, each by its name and by the first words of its description."""
    tools = gateway.visible_tools(viewer)
    answers = {}
    for tool in tools[:: max(1, -(-len(tools) // _SEARCHES))]:
        phrases = [tool.key.name]
        if words := views.first_sentence(tool.description)[0].split()[:_FIRST_WORDS]:
            phrases.append(" ".join(words))
        answers[tool.name] = (await gateway.search(phrases, viewer=viewer)).text
    counts = sorted(_count(answers), key=lambda one: one[1])
    if not counts:
        return []
    tokens = [count for _, count in counts]
    figures = [
        ("median", round(median(tokens)), f"of {len(tokens)} searches"),
        ("p95", tokens[int(len(tokens) * _P95)], ""),
        ("worst", tokens[-1], counts[-1][0]),
    ]
    return [
        AnswerCost(name=f"search_tools, {name}", tokens=count, limit=SEARCH_TOKENS, detail=detail)
        for name, count, detail in figures
    ]


def _count(texts: Mapping[str, str]) -> Counted:
    return list(zip(texts, count_tokens(list(texts.values())), strict=True))


def _worst(counts: Counted) -> tuple[str, int]:
    return max(counts, key=lambda one: one[1], default=("", 0))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
