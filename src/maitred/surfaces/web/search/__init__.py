"""Search: what an agent finds by some phrases and why, other texts for a tool on trial, and R@5 of a set.

The reasons come from `Gateway.explain_search` and `Gateway.try_text`; nothing is ranked here.
To add a reason, put it into `maitred.search.reasons`, and print it in `search.html`.
"""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from maitred.errors import ConfigError, ToolNotFoundError, ToolWithheldError, UnknownTagError
from maitred.evaluation.labelled_queries import LabelledQuery, parse_queries
from maitred.evaluation.runner import QueryResult, ask, quality
from maitred.gateway import MAX_LIMIT, Explanation, TrialExplanation, TrialText
from maitred.model.tools import Tool
from maitred.surfaces.web.narrowing import NarrowingFields, narrowing_of
from maitred.surfaces.web.outcomes import Outcomes
from maitred.surfaces.web.screen import Action, Form, ScreenPage, Visit, WebScreen, url_of
from maitred.wording import count_of

_MOST_PHRASES: Final = 10
_MOST_QUERIES: Final = 500
_LIMIT: Final = 5
_KS: Final = (1, 3, 5, 10)
_MISSES: Final = 100
_FIELDS: Final = (
    *("q", "server", "category", "read_only", "limit", "expected"),
    *("tag", "max_latency_ms", "min_success", "used_within"),
)


@dataclass(frozen=True, kw_only=True)
class SearchQuestion:
    """A search as the form has it."""

    phrases: Sequence[str]
    server: str
    category: str
    read_only: bool
    limit: int
    expected: str
    narrow: NarrowingFields = field(default_factory=NarrowingFields)

    @property
    def fields(self) -> dict[str, str | int]:
        """The fields of an address that asks the same."""
        return {
            "q": "\n".join(self.phrases),
            "server": self.server,
            "category": self.category,
            "read_only": "yes" if self.read_only else "",
            "limit": self.limit if self.limit != _LIMIT else "",
            "expected": self.expected,
            **self.narrow.fields,
        }

    @property
    def filters(self) -> dict[str, Any]:
        """What a search of the gateway takes beside the phrases."""
        return {
            "server": self.server,
            "category": self.category,
            "tags": self.narrow.tags,
            "read_only": self.read_only,
            "use": self.narrow.use,
            "limit": self.limit,
        }

    @property
    def command(self) -> str:
        """The command that searches alike."""
        parts = [
            *(["--server", self.server] if self.server else []),
            *(["--category", self.category] if self.category else []),
            *self.narrow.options,
            *(["--read-only"] if self.read_only else []),
            *(["--limit", str(self.limit)] if self.limit != _LIMIT else []),
        ]
        return shlex.join(["maitred", "search", *parts, "--", *self.phrases])


def question_of(query: Form) -> SearchQuestion:
    """The search that a form asks."""
    lines = [line.strip() for line in query.raw("q").split("\n")]
    return SearchQuestion(
        phrases=[line for line in lines if line][:_MOST_PHRASES],
        server=query.text("server"),
        category=query.text("category"),
        read_only=query.text("read_only") == "yes",
        limit=max(query.number("limit", _LIMIT, most=MAX_LIMIT), 1),
        expected=query.text("expected")[:300],
        narrow=narrowing_of(query),
    )


async def view(visit: Visit) -> Mapping[str, Any]:
    """The search of the form, with reasons; with `edit` also the texts of a tool, and a trial of others."""
    asked, query = question_of(visit.query), visit.query
    values: dict[str, Any] = {
        "asked": asked,
        "servers": sorted(visit.gateway.server_names(visit.viewer)),
        "categories": [
            (line.category.name, line.tools, list(line.parts.items()))
            for line in visit.gateway.categories(visit.viewer).lines
        ],
        "tags": _tags(visit),
        "faults": asked.narrow.faults,
        "expected_fault": "",
        "found": None,
        "answer": "",
        "edited": None,
        "trial": None,
        "may_keep": visit.gateway.is_allowed(visit.viewer, "configure"),
        "limits": (3, 5, 10, 20),
        "mode": visit.gateway.mode(visit.viewer),
        "disclosure": visit.gateway.settings.disclosure,
    }
    if asked.phrases and not asked.narrow.faults:
        try:
            values |= await _searched(visit, asked)
        except UnknownTagError as error:
            values["faults"] = error.faults
    if name := query.text("edit"):
        tool = visit.gateway.find(name, visit.viewer)
        if tool.withheld:
            raise ToolWithheldError(tool.name, f"it {tool.withheld}")
        values["edited"] = await _edited(visit, tool)
        if "description" in query.names() and asked.phrases and not values["faults"]:
            values["trial"] = await _tried(visit, asked, values["edited"]["trial"])
    return values


def _tags(visit: Visit) -> Sequence[tuple[str, int]]:
    """The tags of the tools that the viewer may see with the number of tools, the most used first."""
    counts = Counter(tag for tool in visit.gateway.visible_tools(visit.viewer) for tag in tool.placement.tags)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


async def _searched(visit: Visit, asked: SearchQuestion) -> Mapping[str, Any]:
    gateway, viewer = visit.gateway, visit.viewer
    fault, expected = "", asked.expected
    if expected:
        try:
            expected = gateway.find(expected, viewer).name
        except ToolNotFoundError as error:
            fault, expected = str(error), ""
    found: Explanation = await gateway.explain_search(
        asked.phrases, **asked.filters, expected=expected, viewer=viewer
    )
    answer = await gateway.search(asked.phrases, **asked.filters, viewer=viewer)
    return {
        "found": found,
        "expected_fault": fault,
        "answer": answer.text,
        "answer_tokens": gateway.tokens_of(answer.text),
        "limit_now": asked.limit if answer.is_relevant else len(answer.shown),
        "is_read": any(expected in (one.tool.name, *one.also) for one in answer.shown),
    }


async def _edited(visit: Visit, tool: Tool) -> Mapping[str, Any]:
    """The texts of a tool to edit: those of the trial, or else its present ones."""
    query = visit.query
    present = tool.use_cases or (tool.mending.use_cases if tool.mending else ())
    is_tried = "description" in query.names()
    description = query.raw("description") if is_tried else tool.description
    read = (await visit.gateway.info([tool.name], "brief", viewer=visit.viewer)).text
    cases = query.raw("use_cases").split("\n") if is_tried else present
    return {
        "tool": tool,
        "description": description,
        "use_cases": "\n".join(cases),
        "trial": _trial(tool.name, description, cases),
        "is_kept": tool.mending is not None and tool.mending.by == "overrides",
        "original": tool.raw.description,
        "read": read,
        "tokens": visit.gateway.tokens_of(read),
    }


def _trial(name: str, description: str, cases: Sequence[str]) -> TrialText:
    wanted = tuple(case.strip() for case in cases if case.strip())
    return TrialText(tool=name, description=description, use_cases=wanted)


async def _tried(visit: Visit, asked: SearchQuestion, trial: TrialText) -> Mapping[str, Any]:
    """The result of a trial; a fault in its texts is shown beside them."""
    try:
        async with visit.memory.trials:
            made: TrialExplanation = await visit.gateway.try_text(
                trial, asked.phrases, **asked.filters, viewer=visit.viewer
            )
    except ConfigError as error:
        return {"faults": error.faults, "made": None}
    return {"faults": (), "made": made, "tokens": visit.gateway.tokens_of(made.line)}


async def keep(visit: Visit, form: Form) -> str:
    """Write the texts of a trial into the file of overrides."""
    trial = _trial(form.text("tool"), form.raw("description"), form.raw("use_cases").split("\n"))
    file = await visit.gateway.keep_text(trial, visit.viewer)
    visit.notify(f"Agents find {trial.tool} by these texts now. They are in {file}.")
    return _back(form)


async def drop(visit: Visit, form: Form) -> str:
    """Take the texts of a tool out of the file of overrides."""
    file = await visit.gateway.drop_text(form.text("tool"), visit.viewer)
    visit.notify(f"{form.text('tool')} has the texts of its server again. They are out of {file}.")
    return _back(form)


def _back(form: Form) -> str:
    fields = {name: form.raw(name) for name in _FIELDS}
    return url_of("search", **fields, edit=form.text("tool"))


# --- a labelled set ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SetFigures:
    """How well a labelled set is found: R@k (0 to 1), and the queries that miss a tool in the first five."""

    queries: int
    silent: int
    recall: Sequence[tuple[int, float]]
    mrr: float
    misses: Sequence[QueryResult]
    ms: float


_MEASURED: Final = Outcomes[SetFigures]()
_EXAMPLE: Final = '{"query": "what a user wants", "relevant": ["name_of_a_tool"]}'


async def view_set(visit: Visit) -> Mapping[str, Any]:
    """The form for a labelled set, and the figures of the last one."""
    tools = visit.gateway.visible_tools(visit.viewer)
    return {
        "page_title": "A labelled set · Search",
        "measured": _MEASURED.find(visit.session, visit.query.text("of")),
        "example": _EXAMPLE,
        "sample": [tool.name for tool in tools[:3]],
        "misses": _MISSES,
        "most": _MOST_QUERIES,
    }


async def measure(visit: Visit, form: Form) -> str:
    """Search for each query of a set, and count what is found."""
    gateway, viewer = visit.gateway, visit.viewer
    ids = {tool.key: tool.name for tool in gateway.catalog(viewer).tools}
    queries = parse_queries(form.raw("set"), ids.values(), source="the set")
    if len(queries) > _MOST_QUERIES:
        raise ConfigError(
            "the set", [f"has {count_of(len(queries), 'query')}; a page measures {_MOST_QUERIES} at most"]
        )
    async with visit.memory.trials:
        results = await ask(gateway, ids, queries, limit=max(_KS), viewer=viewer)
    return url_of("search", "set", of=_MEASURED.keep(visit.session, _measured(queries, results)))


def _measured(queries: Sequence[LabelledQuery], results: Sequence[QueryResult]) -> SetFigures:
    figures = quality(results, _KS)
    return SetFigures(
        queries=len(queries),
        silent=sum(one.is_silent for one in results),
        recall=[(k, share) for k, share in figures.recall.items()] if figures else [],
        mrr=figures.mrr if figures else 0.0,
        misses=[one for one in results if _is_missed(one)],
        ms=sum(one.ms for one in results) / max(len(results), 1),
    )


def _is_missed(one: QueryResult) -> bool:
    """Whether a relevant tool is not among the first five, or something was found where nothing should be."""
    if not one.query.relevant:
        return not one.is_silent
    return not set(one.query.relevant) <= set(one.ranking[:_LIMIT])


SCREEN: Final = WebScreen(
    title="Search",
    role="viewer",
    summary="what agents find by a phrase, and why",
    pages=[
        ScreenPage(path="search", template="search/search.html", view=view),
        ScreenPage(path="search/set", template="search/set.html", view=view_set),
    ],
    actions=[
        Action(path="search/keep", act=keep),
        Action(path="search/drop", act=drop),
        Action(path="search/measure", act=measure),
    ],
    modules=["drop.js"],
)
