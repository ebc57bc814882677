"""The pages of the menu, each with a known maximum price: hot list, categories, summaries, tools.

A page is a value; a surface takes its text (for agents) or its JSON (for programs). The tiers add up: T0, T1,
a page of T2 and an answer of T3 together cost at most the last figure of `CUMULATIVE`. Packing never splits
an entry, and every list says how to go on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

from maitred.catalog.names import prefix
from maitred.catalog.snapshot import Snapshot
from maitred.disclosure import views
from maitred.disclosure.answers import NOT_NOW, ServerStatus, parts_withheld
from maitred.disclosure.budget import PackedItems, estimate, pack
from maitred.disclosure.signature import escape_unprintable, parameters
from maitred.errors import CursorError
from maitred.model.categories import Category, GroupedBy
from maitred.model.tools import Tool
from maitred.model.usage import Usage
from maitred.wording import count_of

CUMULATIVE: Final = (2_000, 4_000, 8_000, 12_000)
"""Tokens that tiers T0 to T3 may cost together."""

HOT_TOKENS: Final = CUMULATIVE[0]
CATEGORIES_TOKENS: Final = CUMULATIVE[1] - CUMULATIVE[0]
PAGE_TOKENS: Final = CUMULATIVE[2] - CUMULATIVE[1]
FULL_TOKENS: Final = CUMULATIVE[3] - CUMULATIVE[2]
INDEX_TOKENS: Final = 200
OVERVIEW_TOKENS: Final = 500
PAGE_TOOLS: Final = 50
HOT_TOOLS: Final = 15
PARTS_FROM: Final = 20
"""A category of more tools than this names its sub-categories."""

INDEX_LINE_TOKENS: Final = 13
"""What a tool may cost in the index of all tools by the estimate; by exact count it is about 12."""

_FRAME_TOKENS = 120
_MARK_TOKENS = 8
_INDEX_FRAME_TOKENS = 8
_INDEX_SERVERS = 2
_INDEX_CATEGORIES = 20
_INDEX_WORDS_TOKENS = 5


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A tool in a list: a call-ready line, or the same as JSON, of at most so many tokens.

    `not_now` says that the tool makes no sense in the present state of its server. `returns` finds the schema
    of its answers, which only programs are shown. `usage` is more recent than the figures of the snapshot.
    """

    snapshot: Snapshot
    tool: Tool
    budget_tokens: int = views.LINE_TOKENS
    not_now: bool = False
    returns: Callable[[], Any] = lambda: None
    usage: Usage | None = None

    @property
    def figures(self) -> Usage | None:
        """The use of the tool; `None` if it was never called."""
        standing = self.snapshot.standings.get(self.tool.key)
        return self.usage or (standing.usage if standing else None)

    @property
    def text(self) -> str:
        """The line of the tool; it has only the top level of parameters."""
        marks = [NOT_NOW] if self.not_now else []
        if self.usage is not None:
            marks.append(views.short_figures(self.usage))
        budget = min(self.budget_tokens, views.LINE_TOKENS) - _MARK_TOKENS * len(marks)
        line = views.line(self.snapshot, self.tool, budget, nested=False)
        return f"{line} [{', '.join(marks)}]" if marks else line

    def to_json(self) -> dict[str, Any]:
        """Return name, server, category, first sentence and parameters; `more_parameters` counts the rest.

        Also the mean latency, if the tool was called, and what it returns, if that is shown.
        """
        tool = self.tool
        entry: dict[str, Any] = {
            "name": tool.name,
            "server": tool.server,
            "category": tool.placement.category,
            "description": "",
            "parameters": {},
        }
        if returns := views.returns(self.returns()):
            entry["returns"] = returns
        if (figures := self.figures) is not None:
            entry["avg_latency_ms"] = round(figures.mean_ms, 1)
        all_parameters = parameters(self.snapshot.schema(tool.input_hash), nested=False)
        kinds = [
            (escape_unprintable(name) + ("" if is_required else "?"), kind)
            for name, kind, is_required in all_parameters
        ]
        remaining = self.budget_tokens - estimate(_json(entry)) - _MARK_TOKENS
        sentence = views.first_sentence(tool.description or tool.title, max(remaining // 2, 8))[0]
        entry["description"] = sentence
        remaining -= estimate(_json(sentence))
        for number, (name, kind) in enumerate(kinds):
            remaining -= estimate(_json({name: kind}))
            if remaining < 0:
                entry["more_parameters"] = len(kinds) - number
                break
            entry["parameters"][name] = kind
        return entry


@dataclass(frozen=True, kw_only=True)
class HotList:
    """T0: `pinned` tools first, then the most used ones; examples as long as no tool was used."""

    tools: Sequence[Summary]
    pinned: int = 0
    budget_tokens: int = HOT_TOKENS

    @cached_property
    def _packed(self) -> PackedItems:
        lines = [f"{summary.text}{_usage_text(summary)}" for summary in self.tools]
        return pack(lines, self.budget_tokens - _FRAME_TOKENS)

    @property
    def shown(self) -> Sequence[str]:
        """The published names of the tools in the text, in their order."""
        return [summary.tool.name for summary in self.tools[: len(self._packed.items)]]

    @property
    def text(self) -> str:
        """One line for each tool."""
        if not self.tools:
            return "No tools yet."
        packed = self._packed
        more = [f"({packed.left} more by search_tools)"] if packed.left else []
        has_usage = any(summary.tool.key in summary.snapshot.standings for summary in self.tools)
        head = "Often used:" if has_usage or self.pinned else "For example:"
        return "\n".join([head, *packed.items, *more])

    def to_json(self) -> dict[str, Any]:
        """Return the tools with their figures, if they have some."""
        entries = []
        for summary in self.tools:
            standing = summary.snapshot.standings.get(summary.tool.key)
            usage = (
                {"calls": standing.usage.calls, "success_rate": round(standing.usage.success_rate, 3)}
                if standing
                else {}
            )
            entries.append(summary.to_json() | usage)
        fitted, left_out = entries_that_fit(entries, self.budget_tokens - _FRAME_TOKENS)
        return {"tier": "T0", "tools": fitted, "left_out": left_out}


def _usage_text(summary: Summary) -> str:
    standing = summary.snapshot.standings.get(summary.tool.key)
    if standing is None:
        return ""
    return f" [{count_of(standing.usage.calls, 'call')}, {views.short_figures(standing.usage)}]"


@dataclass(frozen=True, kw_only=True)
class CategoryLine:
    """A category and the tools in it and below it: their number, and the number of their servers.

    `main_servers` are the most used of these servers, then those with the most tools.
    `parts` are its sub-categories with the number of tools in each. `proposed_by` is empty but for groups.
    """

    category: Category
    tools: int
    servers: int
    popular: Sequence[str] = ()
    main_servers: Sequence[str] = ()
    parts: Mapping[str, int] = field(default_factory=dict)
    proposed_by: GroupedBy | Literal[""] = ""

    @property
    def text(self) -> str:
        """One line, such as `category/data: Data processing - 120 tools on 9 servers, such as a, b`."""
        name = self.category.name
        count = f"{count_of(self.tools, 'tool')} on {count_of(self.servers, 'server')}"
        title = views.first_sentence(self.category.title or name, 24)[0]
        examples = f", such as {', '.join(self.popular)}" if self.popular else ""
        parts = f"; in it: {', '.join(self.parts)}" if self.shows_parts else ""
        return f"{'  ' if self.category.parent else ''}category/{name}: {title} - {count}{examples}{parts}"

    @property
    def shows_parts(self) -> bool:
        """Whether the category has so many tools that a reader wants a part of it."""
        return len(self.parts) > 1 and self.tools > PARTS_FROM

    def to_json(self) -> dict[str, Any]:
        """Return the category, its counts, and two of its tools."""
        return {
            "name": self.category.name,
            "title": views.first_sentence(self.category.title, 24)[0],
            "description": views.first_sentence(self.category.description, 30)[0],
            "parent": self.category.parent,
            "tools": self.tools,
            "servers": self.servers,
            "popular": list(self.popular),
            "parts": dict(self.parts) if self.shows_parts else {},
            "proposed_by": self.proposed_by,
        }


@dataclass(frozen=True, kw_only=True)
class Categories:
    """T1: the categories that have tools, in the order of the menu, and the number of servers."""

    lines: Sequence[CategoryLine]
    servers: int
    tools: int
    budget_tokens: int = CATEGORIES_TOKENS

    @property
    def text(self) -> str:
        """One line for each category, then how to go on."""
        packed = pack([line.text for line in self.lines], self.budget_tokens - _FRAME_TOKENS)
        more = (
            [f"({count_of(packed.left, 'more category')}: path categories with cursor)"]
            if packed.left
            else []
        )
        rows = ["Categories:", *packed.items, *more] if self.lines else []
        counts = f"{count_of(self.tools, 'tool')} on {count_of(self.servers, 'server')}"
        paths = "path category/<name>, server/<name> or servers"
        rows.append(f"{counts}. Next: list_tools_meta with {paths}; or search_tools.")
        return "\n".join(rows)

    def to_json(self) -> dict[str, Any]:
        """Return the categories with their counts."""
        entries = [line.to_json() for line in self.lines]
        fitted, left_out = entries_that_fit(entries, self.budget_tokens - _FRAME_TOKENS)
        return {
            "tier": "T1",
            "categories": fitted,
            "left_out": left_out,
            "tools": self.tools,
            "servers": self.servers,
        }


def index(
    lines: Sequence[CategoryLine], *, tools: int, servers: int, budget_tokens: int = INDEX_TOKENS
) -> str:
    """Write the capability index: totals, then each category with its number of tools and main servers.

    A server is named once. Where the budget is too small, fewer servers are named; each category counts more.
    """
    tops = [line for line in lines if not line.category.parent]
    if not tops:
        return ""
    head = f" {count_of(tools, 'tool')} on {count_of(servers, 'server')} by category: "
    budget = budget_tokens - estimate(head) - _INDEX_FRAME_TOKENS
    names = _index_servers(tops)
    packed = pack(_index_entries(tops, names), budget)
    while packed.left and names:
        names.popitem()
        packed = pack(_index_entries(tops, names), budget)
    more = f", +{packed.left} more" if packed.left else ""
    return f"{head}{''.join(packed.items).removesuffix(', ')}{more}."


def _index_servers(lines: Sequence[CategoryLine]) -> dict[str, str]:
    """Return the servers that the index names, each with its category: the first of each category first."""
    names: dict[str, str] = {}
    for _ in range(_INDEX_SERVERS):
        for line in lines[:_INDEX_CATEGORIES]:
            if server := next((name for name in line.main_servers if name not in names), ""):
                names[server] = line.category.name
    return names


def _index_entries(lines: Sequence[CategoryLine], names: Mapping[str, str]) -> list[str]:
    """Return the entries of the index, such as `data 40 (a, b), `."""
    entries: list[str] = []
    for line in lines:
        own = [views.plain_name(name) for name, category in names.items() if category == line.category.name]
        servers = f" ({', '.join(own)})" if own else ""
        entries.append(f"{line.category.name} {line.tools}{servers}, ")
    return entries


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of text and the cursor of the next page; the cursor is empty at the end.

    `tools` are the published names of the tools that have a line in it, in their order.
    """

    text: str
    cursor: str = ""
    tools: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ToolPage:
    """T2: tools of a category or a server, the most used first; `start` is the place of the first."""

    path: str
    tools: Sequence[Summary]
    start: int
    total: int
    below: Sequence[CategoryLine] = ()
    note: str = ""
    budget_tokens: int = PAGE_TOKENS

    @property
    def page(self) -> Page:
        """Return the part that fits the budget, with the cursor for the next page."""
        budget = self.budget_tokens - _FRAME_TOKENS
        head = [f"({views.first_sentence(self.note, 60)[0]})"] if self.note else []
        if self.start == 0:
            head += pack([line.text for line in self.below], budget // 4).items if self.below else []
        packed = pack([summary.text for summary in self.tools], budget - sum(map(estimate, head)))
        end = self.start + len(packed.items)
        names = [summary.tool.name for summary in self.tools[: len(packed.items)]]
        if end >= self.total:
            return Page(text="\n".join([*head, *packed.items]) or "No tools here.", tools=names)
        cursor = self.cursor_at(len(packed.items))
        more = f"({self.total - end} more: same path with cursor {cursor!r})"
        return Page(text="\n".join([*head, *packed.items, more]), cursor=cursor, tools=names)

    def cursor_at(self, count: int) -> str:
        """Return the cursor after so many tools of the page: the next place, and the last name before it."""
        return f"{self.start + count}:{self.tools[count - 1].tool.name}" if count else str(self.start)

    def to_json(self) -> dict[str, Any]:
        """Return the tools, each in its share of the budget, so that the page has all of them."""
        return {
            "tier": "T2",
            "path": self.path,
            "tools": [summary.to_json() for summary in self.tools],
            "categories": self._below() if self.start == 0 else [],
            "total": self.total,
            "note": self.note,
        }

    def _below(self) -> list[dict[str, Any]]:
        return entries_that_fit([line.to_json() for line in self.below], self.budget_tokens // 4)[0]


def start_of(cursor: str, names: Sequence[str]) -> int:
    """Return the place where a page goes on, even if the order has changed a little since the last page.

    Raises:
        CursorError: The text is not a cursor.
    """
    if not cursor:
        return 0
    place, _, name = cursor.partition(":")
    if name in names:
        return names.index(name) + 1
    if not place.isascii() or not place.isdigit():
        raise CursorError(cursor)
    return min(int(place[:9]), len(names))


def lines_page(
    names: Sequence[str],
    render: Callable[[str], str],
    cursor: str,
    budget_tokens: int,
    *,
    again: str = "same path",
) -> Page:
    """Make a page of lines about names in their order; it renders only the lines that fit, at least one.

    Args:
        names: Whatever has a line, in the order of the lines.
        render: Makes the line of a name.
        cursor: From the page before; empty for the first page.
        budget_tokens: What the page may cost.
        again: What to ask for once more, with the cursor, to get the next page.

    Raises:
        CursorError: The text is not a cursor.
    """
    start = start_of(cursor, names)
    lines: list[str] = []
    spent = _FRAME_TOKENS
    for name in names[start:]:
        text = render(name)
        spent += estimate(text) + 1
        if spent > budget_tokens and lines:
            break
        lines.append(text)
    end = start + len(lines)
    if end >= len(names):
        return Page(text="\n".join(lines))
    cursor = f"{end}:{names[end - 1]}"
    more = f"({len(names) - end} more: {again} with cursor {cursor!r})"
    return Page(text="\n".join([*lines, more]), cursor=cursor)


def tool_index(
    tools: Sequence[Tool], not_now: Callable[[Tool], bool], cursor: str, budget_tokens: int
) -> Page:
    """Make a page of the index of all tools: each server once, below it its tools and what they do in short.

    `tools` are sorted by published name, so those of one server follow each other. A tool that begins with
    the name of its server is written without it.

    Raises:
        CursorError: The text is not a cursor.
    """
    by_name = {tool.name: tool for tool in tools}
    above = ""

    def line(name: str) -> str:
        nonlocal above
        tool = by_name[name]
        start = prefix(tool.server)
        head = f"{start}\n" if name.startswith(start) and start != above else ""
        above = start if name.startswith(start) else ""
        own = name.removeprefix(start)
        rest = INDEX_LINE_TOKENS - estimate(own) - 1
        what = views.first_sentence(tool.description or tool.title, max(rest, _INDEX_WORDS_TOKENS))[0]
        mark = f" [{NOT_NOW}]" if not_now(tool) else ""
        return f"{head}{own}: {what.rstrip('.')}{mark}" if what else f"{head}{own}{mark}"

    page = lines_page(list(by_name), line, cursor, budget_tokens)
    start = start_of(cursor, list(by_name))
    end = start_of(page.cursor, list(by_name)) if page.cursor else len(by_name)
    return replace(page, tools=list(by_name)[start:end])


def server_line(status: ServerStatus, absent: str) -> str:
    """Write a server on one line: path, number of tools, and its description or why it is absent."""
    about = views.first_sentence(absent or status.facts.instructions or status.facts.title, 24)[0]
    parts = parts_withheld(status.withheld_parts)
    tools = f"{count_of(status.tools, 'tool')}{f' ({parts})' if parts else ''}"
    return f"server/{status.name}: {tools}" + (f" - {about}" if about else "")


def entries_that_fit(
    entries: Sequence[dict[str, Any]], budget_tokens: int
) -> tuple[list[dict[str, Any]], int]:
    """Return the first entries that fit a budget as JSON, and the number of the others."""
    packed = pack([_json(entry) for entry in entries], budget_tokens)
    return list(entries[: len(packed.items)]), packed.left


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
