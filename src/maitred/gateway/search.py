"""Search for viewers: phrases and filters in; an answer out, with the withheld tools and why."""

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from maitred.config.taxonomy import check_tags, normalise_tag
from maitred.disclosure import views
from maitred.disclosure.answers import SEARCH_TOKENS, FoundTool, SearchAnswer
from maitred.disclosure.pages import ToolPage
from maitred.errors import PathNotFoundError, UnknownTagError
from maitred.gateway.authorization import Authorization, ScopedCatalog
from maitred.gateway.menu import PageFilter
from maitred.gateway.state import STARTING, GatewayState
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import Viewer, beyond
from maitred.model.details import Detail
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import ANY_USE, WINDOW_DAYS, Usage, UsageFilter
from maitred.search.engine import SearchEngine
from maitred.search.results import Filter, SearchHits
from maitred.telemetry.activity import Activity
from maitred.tracing import root_span
from maitred.usage.recorder import UsageRecorder
from maitred.wording import count_of

ELSEWHERE: Final = "other servers"
"""In place of the names of servers whose matching tools are outside the viewer's scope."""
MAX_LIMIT = 20
MAX_PHRASES = 20
_PHRASE_CHARACTERS = 2_000
_FEW: Final = 5


@dataclass(frozen=True, kw_only=True)
class ToolMatch:
    """Tags that a tool must have, and the tools that meet limits of use; `None` if there are no limits."""

    tags: frozenset[str] = frozenset()
    used: Mapping[ToolKey, Usage] | None = None

    def fits(self, tool: Tool) -> bool:
        """Whether a tool has all tags and meets the limits."""
        return self.tags.issubset(tool.placement.tags) and (self.used is None or tool.key in self.used)


class SearchService:
    """Searches for a gateway."""

    def __init__(
        self,
        context: GatewayState,
        access: Authorization,
        visibility: VisibilityService,
        engine: SearchEngine,
        usage: UsageRecorder,
        activity: Activity,
    ) -> None:
        self._context = context
        self._usage = usage
        self._access = access
        self._visibility = visibility
        self._engine = engine
        self._activity = activity

    async def search(
        self,
        phrases: Sequence[str],
        *,
        server: str = "",
        category: str = "",
        tags: Sequence[str] = (),
        read_only: bool = False,
        use: UsageFilter = ANY_USE,
        limit: int = 5,
        detail: Detail = "brief",
        viewer: Viewer,
    ) -> SearchAnswer:
        """Find tools by capability; see `Gateway.search`."""
        started, result = time.perf_counter(), "failed"
        with root_span(
            self._activity.tracer, "search_tools", "internal", {"maitred.phrases": len(phrases)}
        ) as span:
            try:
                answer = await self._answer(
                    phrases, server, category, tags, use, limit, detail, viewer, read_only=read_only
                )
                result = "found" if answer.results else "nothing"
                span.note(maitred__results=len(answer.results))
            finally:
                self._activity.searched(result, time.perf_counter() - started)
        return answer

    async def _answer(
        self,
        phrases: Sequence[str],
        server: str,
        category: str,
        tags: Sequence[str],
        use: UsageFilter,
        limit: int,
        detail: Detail,
        viewer: Viewer,
        *,
        read_only: bool,
    ) -> SearchAnswer:
        view = views.detail_view(detail)
        used = await fitting_use(self._usage, use)
        await self._context.keeper.catch_up()
        there = self._access.portion(viewer)
        context = there.context
        await self._engine.update(self._context.snapshot, self._context.approved_at)
        wanted = [readable(phrase) for phrase in phrases[:MAX_PHRASES] if phrase.strip()]
        reasons = context.reasons()
        visible = frozenset(name for name, why in reasons.items() if not why)
        keys = None if used is None else frozenset(used)
        only = filter_of(there, server, category, tags)
        only = replace(only, visible=visible, read_only=read_only, only=keys)
        most = min(max(limit, 1), MAX_LIMIT) * max(len(wanted), 1)
        found, note = await self._engine.search(wanted, only, most)
        unread = _unread(reasons, context, self._context.snapshot.known)
        return SearchAnswer(
            phrases=wanted or phrases[:1],
            results=_results(found, view, partial(self._visibility.why_hidden, viewer=viewer), used),
            bands=found.bands,
            corrections=found.corrections,
            withheld=self._withheld(found, reasons, there.outside, beyond(viewer.grant)),
            unread=unread,
            note="; ".join(filter(None, [note, use_note(used, context), *_unread_notes(unread)])),
            has_servers=bool(self._context.settings.servers),
            budget_tokens=context.budget(SEARCH_TOKENS),
        )

    async def fitting(self, tags: Sequence[str], use: UsageFilter, viewer: Viewer) -> "ToolMatch":
        """What a tool must have to fit; see `Gateway.tool_match`."""
        return ToolMatch(
            tags=known_tags(tags, self._access.portion(viewer).context),
            used=await fitting_use(self._usage, use),
        )

    async def page(
        self,
        path: str,
        cursor: str,
        size: int,
        *,
        tags: Sequence[str],
        use: UsageFilter,
        viewer: Viewer,
    ) -> ToolPage:
        """A page of tools with tags and by use; see `Gateway.filtered_page`."""
        used = await fitting_use(self._usage, use)
        there = self._access.portion(viewer)
        only = PageFilter(tags=known_tags(tags, there.context), used=used, note=use_note(used, there.context))
        return there.menu.page(path, cursor, size, self._visibility.hidden(viewer), only)

    def _withheld(
        self, found: SearchHits, reasons: Mapping[str, str], outside: frozenset[ToolKey], why: str
    ) -> dict[str, tuple[int, str]]:
        """By server, how many matches may not be shown, and why; one entry for all outside the scope."""
        inside = [tool for tool in found.withheld if tool.key not in outside and tool.server in reasons]
        counts = Counter(tool.server for tool in inside)
        own = {tool.server: self._context.why_hidden(tool).removeprefix("is ") for tool in inside}
        said = {name: (n, reasons[name] or own[name]) for name, n in counts.items()}
        if elsewhere := sum(tool.key in outside for tool in found.withheld):
            said[ELSEWHERE] = (elsewhere, why)
        return said


async def fitting_use(recorder: UsageRecorder, use: UsageFilter) -> Mapping[ToolKey, Usage] | None:
    """The use of the tools that meet the limits, up to now; `None` without limits.

    Raises:
        StoreError: The use of tools cannot be read.
    """
    if not use.is_set:
        return None
    now = datetime.now(UTC)
    totals = await recorder.totals(WINDOW_DAYS)
    return {key: usage for key, usage in totals.items() if use.fits(usage, now)}


def filter_of(there: ScopedCatalog, server: str, category: str, tags: Sequence[str]) -> Filter:
    """The filter of a search, from the names of a server, a category and tags.

    It leaves out the tools outside the scope, and those that are switched off.

    Raises:
        PathNotFoundError: There is no such server or category.
        UnknownTagError: A tag is not in the vocabulary.
    """
    context = there.context
    if server and server not in context.settings.servers:
        raise PathNotFoundError(f"server/{server}", nearest=context.near_servers(server))
    name = category.removeprefix("category/")
    part = context.subcategories.get(name)
    is_group = part is None and name in context.groups
    return Filter(
        visible=frozenset(),
        server=server,
        categories=there.menu.within(part.parent if part else name) if name and not is_group else frozenset(),
        subcategory=name if part else "",
        group=name if is_group else "",
        tags=known_tags(tags, context),
        outside=_union(there.outside, context.switched_off),
    )


def known_tags(tags: Sequence[str], context: GatewayState) -> frozenset[str]:
    """Tags in the form of the catalog: those of the vocabulary, and groups that mediation named.

    Raises:
        UnknownTagError: A tag is neither.
    """
    strange = [tag for tag in tags if normalise_tag(tag) is None]
    if strange:
        in_use = {tag for tool in context.snapshot.tools for tag in tool.placement.tags}
        if faults := check_tags([tag for tag in strange if tag not in in_use]):
            raise UnknownTagError(faults)
    return frozenset(normalise_tag(tag) or tag for tag in tags)


def use_note(used: Mapping[ToolKey, Usage] | None, context: GatewayState) -> str:
    """How many tools meet the limits of use, since a tool without calls meets none."""
    if used is None:
        return ""
    known = context.snapshot.by_key
    fitting = sum(key in known for key in used)
    return (
        f"by use: {fitting:,} of {count_of(len(known), 'tool')};"
        f" what was not called in {WINDOW_DAYS} days meets no limit of use"
    )


def _union(some: frozenset[ToolKey], more: frozenset[ToolKey]) -> frozenset[ToolKey]:
    """Both sets; the same object if one is empty, since filters are compared at every search."""
    return some | more if some and more else some or more


def _unread_notes(unread: Mapping[str, str]) -> Iterator[str]:
    """Which servers were not searched, and what to do: wait for those that start, and look at the others."""
    starting = [name for name, why in unread.items() if why == STARTING]
    failed = [name for name in unread if name not in starting]
    if starting:
        yield f"the tools of {_first_names(starting)} are not known yet: search again in some seconds"
    if failed:
        yield f"the tools of {_first_names(failed)} are not known: `maitred doctor` says why and what to do"


def _first_names(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {count_of(more, 'more server')}" if more > 0 else "")


def _unread(reasons: Iterable[str], context: GatewayState, known: Container[str]) -> dict[str, str]:
    """The enabled servers whose tools are not known, with the reason."""
    unknown = [name for name in reasons if name not in known and context.is_enabled(name)]
    return {name: context.why_not_known(name) for name in unknown}


def _results(
    found: SearchHits,
    view: views.DetailView,
    why_not: Callable[[Tool], str],
    used: Mapping[ToolKey, Usage] | None,
) -> list[FoundTool]:
    """The hits as results, from their snapshot, with the reason if they make no sense now.

    Their use is `used` if they were chosen by that, else as of the last computation of the tiers.
    """
    standings = found.snapshot.standings
    known = used or {
        hit.tool.key: standings[hit.tool.key].usage for hit in found.hits if hit.tool.key in standings
    }
    return [
        FoundTool(
            tool=hit.tool,
            line=view.in_search(found.snapshot, hit.tool),
            band=hit.band,
            also=[other.name for other in hit.also],
            why_not=why_not(hit.tool),
            usage=known.get(hit.tool.key),
            shows_usage=used is not None,
        )
        for hit in found.hits[: view.most_results]
    ]


def readable(phrase: str) -> str:
    """A phrase for the search engine: of bounded length, without lone surrogates."""
    return phrase[:_PHRASE_CHARACTERS].encode("utf-8", "replace").decode()
