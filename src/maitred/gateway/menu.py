"""The present menu of a gateway: hot list, categories, pages of tools and servers, details of tools.

It is computed once for each generation of the catalog and set of visible servers, and then cached.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from maitred.calls.arguments import ArgumentChecker
from maitred.catalog.name_forms import meant_by
from maitred.catalog.snapshot import Snapshot
from maitred.disclosure import pages, views
from maitred.disclosure.answers import NO_SERVERS, InfoAnswer, parts_withheld
from maitred.disclosure.budget import pack
from maitred.disclosure.examples import call_examples
from maitred.disclosure.introduction import InstructionForm, ListContent, introduction, overview
from maitred.disclosure.pages import Categories, CategoryLine, HotList, Page, Summary, ToolPage
from maitred.disclosure.server_details import server_details
from maitred.disclosure.signature import parameters
from maitred.disclosure.tiers import hot_list, popular
from maitred.errors import CursorError, MaitredError, PathNotFoundError, ToolNotFoundError, ToolWithheldError
from maitred.gateway.state import GatewayState, without_texts
from maitred.model.details import Detail
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import Usage
from maitred.wording import near_names, shorten_middle

T = TypeVar("T")
ToolKeys = frozenset[ToolKey]
WhyNot = Callable[[Tool], str]

MAX_NAMES = 10
_POPULAR = 2
_MAIN_SERVERS = 12
_MOST_NEAR = 3
_RETURNS_TOKENS = 200
_WHY_TOKENS = 120
_KEPT_PAGES = 2_000
_MOST_NAME = 120
_NONE: ToolKeys = frozenset()
NOT_USED: Mapping[ToolKey, Usage] = MappingProxyType({})
"""Of no tool is the use known."""


@dataclass(frozen=True, kw_only=True)
class PageFilter:
    """The tools that a page shows: those with all of the `tags`, and those in `used` unless it is `None`.

    `note` is for the reader of the page.
    """

    tags: frozenset[str] = frozenset()
    used: Mapping[ToolKey, Usage] | None = None
    note: str = ""

    def fits(self, tool: Tool) -> bool:
        """Whether the page shows a tool."""
        return self.tags.issubset(tool.placement.tags) and (self.used is None or tool.key in self.used)

    def use_of(self, tool: Tool) -> Usage | None:
        """The use by which a tool was chosen; `None` if it was not chosen by use."""
        return self.used.get(tool.key) if self.used is not None else None


def _first_of(names: Sequence[str]) -> Sequence[str]:
    """Names that a caller sent, for a message: the first of them, each as short as messages have it."""
    shown = [shorten_middle(name, _MOST_NAME) for name in names[:MAX_NAMES]]
    more = len(names) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown


class Menu:
    """Makes the pages. `nearest` names the tools that a mistaken name may have meant."""

    def __init__(self, context: GatewayState, nearest: Callable[[str, Snapshot], Sequence[str]]) -> None:
        self._context = context
        self._nearest = nearest
        self._checker = ArgumentChecker()
        self._of: Hashable = None
        self._kept: dict[Hashable, Any] = {}

    @property
    def version(self) -> Hashable:
        """Changes whenever any page may have changed."""
        context = self._context
        return context.snapshot.generation, context.visible, context.revision

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached value of a key for the present version of the menu; makes it if it is missing."""
        if (version := self.version) != self._of or len(self._kept) > _KEPT_PAGES:
            self._of, self._kept = version, {}
        if key not in self._kept:
            self._kept[key] = make()
        return cast("T", self._kept[key])

    # --- T0 and T1 ----------------------------------------------------------------------------------------

    def hot(self, hidden: ToolKeys = _NONE) -> HotList:
        """T0: the most used tools, pinned ones first; a selection over the catalog while no tool was used.

        Tools that are `hidden` now are left out.
        """
        return self.kept(("hot", hidden), lambda: self._hot(hidden))

    def _hot(self, hidden: ToolKeys) -> HotList:
        snapshot = self._context.snapshot
        pinned = {key for key, choice in self._context.settings.tools.items() if choice.pinned}
        pinned |= {tool.key for tool in snapshot.tools if tool.mending and tool.mending.pinned}

        def required(tool: Tool) -> int:
            return sum(needed for _, _, needed in parameters(snapshot.schema(tool.input_hash), nested=False))

        tools = hot_list(
            [tool for tool in self._context.visible_tools() if tool.key not in hidden],
            snapshot.standings,
            pinned,
            at_most=pages.HOT_TOOLS,
            required=required,
        )
        shown = sum(tool.key in pinned for tool in tools)
        share = (pages.HOT_TOKENS - 150) // pages.HOT_TOOLS
        return HotList(
            tools=[Summary(snapshot=snapshot, tool=tool, budget_tokens=share) for tool in tools],
            pinned=shown,
            budget_tokens=self._context.budget(pages.HOT_TOKENS),
        )

    def categories(self) -> Categories:
        """T1: all categories that hold tools."""
        return self.kept("categories", self._categories)

    def _categories(self) -> Categories:
        tools = self._context.visible_tools()
        return Categories(
            lines=self._lines(tools),
            servers=len({tool.server for tool in tools}),
            tools=len(tools),
            budget_tokens=self._context.budget(pages.CATEGORIES_TOKENS),
        )

    def _lines(self, tools: Sequence[Tool]) -> list[CategoryLine]:
        """A line for each category that holds some of these tools, those below a category right after it."""
        by_category: dict[str, list[Tool]] = {}
        for tool in tools:
            by_category.setdefault(tool.placement.category, []).append(tool)
        groups = self._group_lines(tools)
        lines = []
        for category in self._in_order():
            held = [t for name in self._with_below(category.name) for t in by_category.get(name, ())]
            if held:
                standings = self._context.snapshot.standings
                such = [tool.name for tool in popular(held, standings, _POPULAR)]
                servers = self._servers_by_use(held)
                parts = Counter(t.placement.subcategory for t in by_category.get(category.name, ()))
                lines.append(
                    CategoryLine(
                        category=category,
                        tools=len(held),
                        servers=len(servers),
                        popular=such,
                        main_servers=servers[:_MAIN_SERVERS],
                        parts={name: parts[name] for name in self._context.subcategories if parts[name]},
                    )
                )
            lines += groups.pop(category.name, ())
        return [*lines, *(line for name in sorted(groups) for line in groups[name])]

    def _group_lines(self, tools: Sequence[Tool]) -> dict[str, list[CategoryLine]]:
        """A line for each group that holds some of these tools, by the category above it."""
        by_group: dict[str, list[Tool]] = {}
        for tool in tools:
            if tool.placement.group:
                by_group.setdefault(tool.placement.group.name, []).append(tool)
        lines: dict[str, list[CategoryLine]] = {}
        for name, heading in self._context.groups.items():
            if held := by_group.get(name):
                servers = self._servers_by_use(held)
                line = CategoryLine(
                    category=heading.category,
                    tools=len(held),
                    servers=len(servers),
                    popular=[tool.name for tool in popular(held, self._context.snapshot.standings, _POPULAR)],
                    main_servers=servers[:_MAIN_SERVERS],
                    proposed_by=heading.by,
                )
                lines.setdefault(heading.category.parent, []).append(line)
        return lines

    def _servers_by_use(self, tools: Sequence[Tool]) -> list[str]:
        """The servers of some tools: those whose tools were called most first, then those with most tools."""
        standings = self._context.snapshot.standings
        calls: Counter[str] = Counter()
        counts = Counter(tool.server for tool in tools)
        for tool in tools if standings else ():
            if standing := standings.get(tool.key):
                calls[tool.server] += standing.usage.calls
        return sorted(counts, key=lambda name: (-calls[name], -counts[name], name))

    def _in_order(self) -> list[Any]:
        found = self._context.categories
        known = {category.name for category in found}
        tops = [category for category in found if category.parent not in known]

        def below(name: str) -> list[Any]:
            return [c for child in found if child.parent == name for c in (child, *below(child.name))]

        return [category for top in tops for category in (top, *below(top.name))]

    def _with_below(self, name: str) -> list[str]:
        """A category and all below it."""
        children = [category.name for category in self._context.categories if category.parent == name]
        return [name, *(inner for child in children for inner in self._with_below(child))]

    def within(self, category: str) -> frozenset[str]:
        """The names of a category and of all below it.

        Raises:
            PathNotFoundError: There is no such category.
        """
        names = [known.name for known in self._context.categories]
        if category not in names:
            raise PathNotFoundError(f"category/{category}", nearest=self._near_categories(category))
        return frozenset(self._with_below(category))

    def by_use(self, tools: Sequence[Tool]) -> list[Tool]:
        """Tools in the order of a page: the best standing first, then by name."""
        standings = self._context.snapshot.standings
        if not standings:
            return sorted(tools, key=lambda tool: tool.name)
        scores = {key: standing.score for key, standing in standings.items()}
        return sorted(tools, key=lambda tool: (-scores.get(tool.key, 0.0), tool.name))

    def index(self) -> str:
        """The capability index. It ignores the present state of servers, and so stays stable."""
        return self.kept("index", self._index)

    def _index(self) -> str:
        tools = self._context.listable()
        return pages.index(
            self._listable_lines(),
            tools=len(tools),
            servers=len({tool.server for tool in tools}),
            budget_tokens=self._context.budget(pages.INDEX_TOKENS),
        )

    def _listable_lines(self) -> list[CategoryLine]:
        return self.kept("listable lines", lambda: self._lines(self._context.listable()))

    def introduction(self, mode: ListContent, form: InstructionForm) -> str:
        """The names of what there is, and how to use it. It ignores the present state of servers."""
        return self.kept(("introduction", mode, form), lambda: self._introduction(mode, form))

    def _introduction(self, mode: ListContent, form: InstructionForm) -> str:
        specs = self._context.settings.servers
        tops = [line.category for line in self._listable_lines() if not line.category.parent]
        servers = [name for name in specs if specs[name].usable]
        purposes = {one.name: one.description for one in self._context.categories}  # no words of a server
        return introduction(mode, servers, [top.name for top in tops], form, purposes)

    def overview(self) -> str:
        """What maitred is, which tools it has, and how to use them."""
        return self.kept("overview", self._overview)

    def _overview(self) -> str:
        found = self.categories()
        tops = [(line.category.name, line.tools) for line in found.lines if not line.category.parent]
        return overview(found.tools, found.servers, tops, self._context.budget(pages.OVERVIEW_TOKENS))

    # --- T2 -----------------------------------------------------------------------------------------------

    def page(
        self,
        path: str,
        cursor: str = "",
        size: int = pages.PAGE_TOOLS,
        hidden: ToolKeys = _NONE,
        only: PageFilter | None = None,
    ) -> ToolPage:
        """T2: tools of `category/<name>` or `server/<name>`, the most used first; or `tools`, all by name.

        Tools that are `hidden` now are marked.

        Raises:
            PathNotFoundError: There is no such category or server.
            CursorError: The gateway did not make this cursor.
        """
        kind, _, name = path.strip("/").partition("/")
        make, note, below = self._place(kind, name, path)
        tools, names = self.kept(("order", kind, name), lambda: make(name))
        if only is not None:
            tools = [tool for tool in tools if only.fits(tool)]
            names, note = [tool.name for tool in tools], "; ".join(filter(None, (only.note, note)))
        start = pages.start_of(cursor, names)
        size = min(max(size, 1), pages.PAGE_TOOLS)
        share = (pages.PAGE_TOKENS - 150) // max(size, 1)
        snapshot = self._context.snapshot
        shown = tools[start : start + size]
        lines = [line for line in self.categories().lines if _is_below(line, name, below)]
        return ToolPage(
            path=f"{kind}/{name}".rstrip("/"),
            tools=[
                Summary(
                    snapshot=snapshot,
                    tool=tool,
                    budget_tokens=share,
                    not_now=tool.key in hidden,
                    returns=partial(self._answer_schema, tool),
                    usage=only.use_of(tool) if only else None,
                )
                for tool in shown
            ],
            start=start,
            total=len(tools),
            below=lines,
            note=note,
            budget_tokens=self._context.budget(pages.PAGE_TOKENS),
        )

    def _place(
        self, kind: str, name: str, path: str
    ) -> tuple[Callable[[str], tuple[list[Tool], list[str]]], str, frozenset[str]]:
        """What makes the list of tools of a path, a note about it, and the categories in it.

        Raises:
            PathNotFoundError: There is no such category or server.
        """
        if kind == "category" and name in self._context.subcategories:
            return self._in_subcategory, "", frozenset()
        if kind == "category" and name in self._context.groups:
            return self._in_group, "", frozenset()
        if kind == "category":
            return self._in_category, "", self.within(name)
        if kind == "server" and name in self._context.settings.servers:
            status = self._context.status(name)
            note = status.withheld or self._context.why_not_known(name)
            return self._on_server, note or parts_withheld(status.withheld_parts), frozenset()
        if (kind, name) == ("tools", ""):
            return self._all, "", frozenset()
        near = self._context.near_servers(name or kind)
        raise PathNotFoundError(path, nearest=[*near, *self._near_categories(name or kind)][:3])

    def _returns(self, tool: Tool) -> tuple[Any, Literal["schema", "answers", ""]]:
        """The schema of what a tool returns, and whether its server gave it or its answers showed it."""
        declared = self._context.snapshot.schema(tool.output_hash)
        if isinstance(declared, dict):
            return declared, "schema"
        seen = self._context.observations.of(tool)
        return (seen.returns, "answers") if seen and seen.returns else (None, "")

    def _answer_schema(self, tool: Tool) -> Any:
        return self._returns(tool)[0]

    def _returns_json(self, tool: Tool) -> Mapping[str, Any]:
        schema, by = self._returns(tool)
        return {"type": views.returns(schema, _RETURNS_TOKENS), "schema": schema, "by": by}

    def _examples(self, tool: Tool) -> list[dict[str, Any]]:
        """Examples of calls that the tool's schema accepts; the last may be a real one."""
        snapshot = self._context.snapshot
        schema = snapshot.schema(tool.input_hash)
        found: list[dict[str, Any]] = [
            {"arguments": arguments, "from": "schema"} for arguments in call_examples(schema)
        ]
        seen = self._context.observations.of(tool)
        if seen and seen.arguments is not None:
            found.append({"arguments": dict(seen.arguments), "from": "call"})
        check = self._checker.faults
        return [one for one in found if not check(tool.input_hash, snapshot.schema, one["arguments"])]

    def _server_details(self, tool: Tool) -> Mapping[str, Any] | None:
        settings = self._context.settings
        spec = settings.servers.get(tool.server)
        return server_details(spec, jails_programs=settings.isolation.jail != "none") if spec else None

    def _all(self, name: str = "") -> tuple[list[Tool], list[str]]:
        """All tools that may be shown, by name."""
        tools = [tool for tool in self._context.visible_tools() if tool.name.startswith(name)]
        return tools, [tool.name for tool in tools]

    def _in_category(self, name: str) -> tuple[list[Tool], list[str]]:
        held, visible = self.within(name), self._context.visible
        by_category = self._context.snapshot.by_category
        tools = [t for one in held for t in by_category.get(one, ()) if t.server in visible]
        return self._ordered(tools)

    def _in_subcategory(self, name: str) -> tuple[list[Tool], list[str]]:
        visible, category = self._context.visible, self._context.subcategories[name].parent
        held = self._context.snapshot.by_category.get(category, ())
        return self._ordered([t for t in held if t.placement.subcategory == name and t.server in visible])

    def _in_group(self, name: str) -> tuple[list[Tool], list[str]]:
        visible = self._context.visible
        return self._ordered([t for t in self._context.groups[name].tools if t.server in visible])

    def _on_server(self, name: str) -> tuple[list[Tool], list[str]]:
        return self._ordered(self._context.snapshot.by_server.get(name, ()))

    def _ordered(self, tools: Sequence[Tool]) -> tuple[list[Tool], list[str]]:
        ordered = self.by_use([tool for tool in tools if not self._context.is_hidden(tool)])
        return ordered, [tool.name for tool in ordered]

    def _near_categories(self, name: str) -> list[str]:
        names = [category.name for category in self._context.categories]
        further = [*self._context.subcategories, *self._context.groups]
        near = [*near_names(name, names), *near_names(name, further)]
        return [f"category/{one}" for one in near[:_MOST_NEAR]]

    def tasks(self) -> Sequence[str]:
        """The tasks of the tools: titles of categories, then use cases."""

        def made() -> Sequence[str]:
            cases = {case for tool in self._context.visible_tools() for case in tool.use_cases}
            titles = [line.category.title for line in self.categories().lines if line.category.title]
            return [*titles, *sorted(cases)]

        return self.kept("tasks", made)

    def browse(
        self, path: str = "", cursor: str = "", size: int = pages.PAGE_TOOLS, hidden: ToolKeys = _NONE
    ) -> Page:
        """A page as agents read it: T0 and T1 without a path, `servers`, `categories`, `tools`, or one of T2.

        Raises:
            PathNotFoundError: There is no such page.
            CursorError: The gateway did not make this cursor.
        """
        path = path.strip("/")
        if not path:
            if cursor:
                raise CursorError(cursor)
            hot = self.hot(hidden)
            if not self._context.settings.servers:
                return Page(text=NO_SERVERS)
            return Page(text=f"{hot.text}\n\n{self.categories().text}", tools=hot.shown)
        budget = self._context.budget(pages.PAGE_TOKENS)
        if path == "servers":
            servers = {entry.name: entry for entry in self._context.servers()}
            why = self._context.why_not_known

            def line(name: str) -> str:
                return pages.server_line(servers[name], servers[name].withheld or why(name))

            return pages.lines_page(list(servers), line, cursor, budget)
        if path == "categories":
            lines = {line.category.name: line.text for line in self.categories().lines}
            return pages.lines_page(list(lines), lines.__getitem__, cursor, budget)
        if path == "tools":
            tools, _ = self.kept(("order", "tools", ""), self._all)
            return pages.tool_index(tools, lambda tool: tool.key in hidden, cursor, budget)
        return self.page(path, cursor, size, hidden).page

    # --- T3 -----------------------------------------------------------------------------------------------

    def find(self, name: str) -> Tool:
        """A tool by its published name, or by another form that fits only one tool that is not withheld.

        Raises:
            ToolNotFoundError: The name fits no tool, or more than one.
        """
        snapshot, same = self._context.snapshot, self._named(name)
        if len(same) == 1:
            return same[0]
        several = [tool.name for tool in same[:3] if not tool.withheld]
        raise ToolNotFoundError(name, nearest=several or self._nearest(name, snapshot))

    def _named(self, name: str) -> Sequence[Tool]:
        """The tools that a name may mean; one if it is clear."""
        snapshot = self._context.snapshot
        if tool := snapshot.by_name.get(name) or snapshot.formerly.get(name):
            return [tool]
        named = meant_by(name, snapshot)
        free = [tool for tool in named if not tool.withheld] or named
        return [tool for tool in free if self._context.is_enabled(tool.server)] or free

    def keys(self, names: Sequence[str]) -> Sequence[ToolKey]:
        """The keys of the tools that `info` describes for these names."""
        found = map(self._named, dict.fromkeys(names[:MAX_NAMES]))
        return [same[0].key for same in found if len(same) == 1]

    def info(
        self,
        names: Sequence[str],
        detail: Detail = "brief",
        why_not: WhyNot = lambda _: "",
        used: Mapping[ToolKey, Usage] = NOT_USED,
    ) -> InfoAnswer:
        """Details of some tools by published or raw name; unknown names are answered with the nearest.

        `why_not` says why a tool makes no sense now, and `used` how the tools were used up to now.

        Raises:
            ToolNotFoundError: None of the names is known.
            ToolWithheldError: No name can be known, since the server is not known yet.
            UnknownDetailError: There is no such level of detail.
        """
        views.detail_view(detail)
        tools: list[Tool] = []
        problems: list[MaitredError] = []
        for name in dict.fromkeys(names[:MAX_NAMES]):
            try:
                tools.append(self.find(name))
            except ToolNotFoundError as error:
                why = self._context.why_unknown(name)
                problems.append(ToolWithheldError(name, why) if why else error)
        if problems and not tools:
            raise problems[0]
        budget = self._context.budget(pages.FULL_TOKENS) - 100
        texts: list[str] = []
        for tool in tools:  # one after the other: details that do not fit are not rendered
            texts.append(self.detail(tool, detail, budget, why_not(tool), used.get(tool.key)))
            if pack(texts, budget).left:
                break
        packed = pack(texts, budget)
        left = [tool.name for tool in tools[len(packed.items) :]]
        return InfoAnswer(
            tools=tools,
            texts=packed.items,
            left_out=[*left, *_first_of(names[MAX_NAMES:])],
            problems=[str(error) for error in problems],
        )

    def detail(
        self,
        tool: Tool,
        detail: Detail,
        budget_tokens: int = pages.FULL_TOKENS,
        why_not: str = "",
        usage: Usage | None = None,
    ) -> str:
        """One tool in a level of detail, with the reason why it cannot be called now.

        Raises:
            UnknownDetailError: There is no such level.
        """
        snapshot, tool = self._context.snapshot, without_texts(tool)
        withheld = self._context.reason(tool.server) or why_not
        budget_tokens -= _WHY_TOKENS + 10 if withheld else 0
        needs = self._context.needs(tool.server)
        text = views.detail_view(detail).in_info(snapshot, tool, needs, budget_tokens, usage)
        return f"{text}\nnot now: {views.first_sentence(withheld, _WHY_TOKENS)[0]}" if withheld else text

    def to_json(self, tool: Tool, why_not: str = "", usage: Usage | None = None) -> Mapping[str, Any]:
        """Everything about one tool, for programs. Its level and score are those of the last computation."""
        snapshot, tool = self._context.snapshot, without_texts(tool)
        standing = snapshot.standings.get(tool.key)
        return {
            "tier": "T3",
            "name": tool.name,
            "server": tool.server,
            "raw_name": tool.key.name,
            "definition": snapshot.definition(tool),
            "returns": self._returns_json(tool),
            "examples": self._examples(tool),
            "runs": self._server_details(tool),
            "original": views.original_texts(snapshot, tool),
            "category": tool.placement.category,
            "subcategory": tool.placement.subcategory,
            "group": _group_json(tool),
            "confidence": round(tool.placement.confidence, 3),
            "placed_by": tool.placement.by,
            "tags": list(tool.placement.tags),
            "use_cases": list(tool.use_cases),
            "needs": list(self._context.needs(tool.server)),
            "withheld": self._context.reason(tool.server) or why_not,
            "tokens": tool.cost_tokens,
            "level": standing.level if standing else "cold",
            "score": round(standing.score, 4) if standing else 0.0,
            "usage": {
                "calls": usage.calls,
                "success_rate": round(usage.success_rate, 4),
                "mean_ms": round(usage.mean_ms, 1),
                "p95_ms": round(usage.p95_ms, 1),
                "calls_7d": usage.calls_7d,
                "calls_30d": usage.calls_30d,
                "last_used": usage.last_used,
            }
            if usage
            else None,
        }


def _is_below(line: CategoryLine, name: str, below: frozenset[str]) -> bool:
    """Whether a page of a category, of which `below` are the categories in it, names this line."""
    return line.category.name in below - {name} or (bool(line.proposed_by) and line.category.parent in below)


def _group_json(tool: Tool) -> Mapping[str, str] | None:
    group = tool.placement.group
    return {"name": group.name, "proposed_by": group.by} if group else None
