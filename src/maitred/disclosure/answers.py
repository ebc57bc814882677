"""Answers of the gateway: values for programs, each with the text that an agent reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from maitred.audit.masking import mask_text
from maitred.backends.listing import clean
from maitred.disclosure.budget import PackedItems, estimate, pack
from maitred.disclosure.views import first_sentence, short_figures
from maitred.model.servers import Health, ServerFacts, ServerSpec, State
from maitred.model.sharing import UNSHARED, Instance, Sharing
from maitred.model.tools import Band, Tool
from maitred.model.usage import Usage
from maitred.wording import count_of

SEARCH_TOKENS = 1_500
NOT_NOW = "not available now"
_FEW = 5
_NEAREST = 3
_REASON = 160
_ENTRY_TOKENS = 26  # 30 servers cost less than 800 tokens
_ENTRY_FRAME_TOKENS = 12  # keys, number of tools and state
_ENTRY_WORDS_TOKENS = 3


NO_SERVERS: Final = (
    "No server is configured yet: `maitred import` takes over those of your other clients,"
    " `maitred add NAME -- COMMAND` adds one."
)
"""The text in place of tools where no server is configured."""


@dataclass(frozen=True, kw_only=True)
class FoundTool:
    """One search result: the tool, its call-ready line (or definition), and how well it fits.

    `also` are the published names of the same tool on other servers. `why_not` says why the tool makes no
    sense in the present state of its server, and what to do. `usage` is its use; with `shows_usage` the text
    has it too.
    """

    tool: Tool
    line: str
    band: Band = "strong"
    also: Sequence[str] = ()
    why_not: str = ""
    usage: Usage | None = None
    shows_usage: bool = False

    def usage_json(self) -> Mapping[str, Any] | None:
        """Return its use for programs; `None` if it was not called."""
        if self.usage is None:
            return None
        return {
            "calls": self.usage.calls,
            "success_rate": round(self.usage.success_rate, 4),
            "avg_latency_ms": round(self.usage.mean_ms, 1),
            "last_used": self.usage.last_used,
        }

    @property
    def text(self) -> str:
        """The text that an agent reads."""
        elsewhere = f" (also: {', '.join(self.also[:_FEW])})" if self.also else ""
        absent = f" [{NOT_NOW}: it {self.why_not}]" if self.why_not else ""
        figures = f", {short_figures(self.usage)}" if self.usage and self.shows_usage else ""
        return f"{self.line}{elsewhere} [{self.band}{figures}]{absent}"


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """Search results, best first, with matches that the gateway withholds (server -> (how many, why)).

    `bands` says for each phrase how well its best result fits. `unread` are the servers whose tools
    are not known, with the reason. `corrections` are the words that were searched for instead of mistyped
    ones, by those. `note` says what search had to do without, and what to do.
    `has_servers` is false if no server is configured for any caller.
    """

    phrases: Sequence[str]
    results: Sequence[FoundTool]
    bands: Mapping[str, Band] = field(default_factory=dict)
    withheld: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    corrections: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    has_servers: bool = True
    budget_tokens: int = SEARCH_TOKENS

    @property
    def band(self) -> Band:
        """How well the best result fits its phrase; `weak` and `none` mean that there is nothing relevant."""
        order: Sequence[Band] = ("strong", "fair", "weak")
        return next((band for band in order if band in self.bands.values()), "none")

    @property
    def is_relevant(self) -> bool:
        """Whether a result fits well enough to be called one."""
        return self.band in ("strong", "fair")

    @property
    def shown(self) -> Sequence[FoundTool]:
        """The results that the text has, as far as its budget allows: without a relevant one, the nearest."""
        return self.results if self.is_relevant else self.results[:_NEAREST]

    @cached_property
    def _packed(self) -> PackedItems:
        return pack([result.text for result in self.shown], self.budget_tokens)

    @property
    def lines(self) -> Sequence[FoundTool]:
        """The results that the text has within its budget."""
        return self.shown[: len(self._packed.items)]

    @property
    def shown_names(self) -> Sequence[str]:
        """The published names of the tools in the text, in their order."""
        return [result.tool.name for result in self.lines]

    @property
    def text(self) -> str:
        """Lines to call from, then what is missing and why, then the next step."""
        return "\n".join([*self._rows(), self._next_step()])

    @property
    def text_of_results(self) -> str:
        """The same without the next step."""
        return "\n".join(self._rows())

    def _next_step(self) -> str:
        if self.is_relevant:
            return "Next: call_tool(name, arguments)."
        if self.has_servers:
            words = "English words" if self._is_foreign else "other words"
            return f"Try {words}, one capability per phrase, or list_tools_meta to look around."
        return NO_SERVERS

    def _rows(self) -> list[str]:
        has_results, packed = self.is_relevant, self._packed
        rows = list(packed.items)
        if packed.left:
            rows.append(f"({packed.left} more; ask for fewer phrases at once)")
        rows = (
            [*rows, *self._phrases_without_result()]
            if has_results
            else [*self._phrases_without_result(), *rows]
        )
        rows += _few(
            "Withheld",
            [f"{count} on {name} ({_shorten(why)})" for name, (count, why) in self.withheld.items()],
        )
        rows += _few("Not searched", [f"{name} ({_shorten(why)})" for name, why in self.unread.items()])
        if self.corrections:
            rows.append(f"({self._corrections_text()})")
        if self.note:
            rows.append(f"({self.note})")
        return rows

    @property
    def _is_foreign(self) -> bool:
        """Whether a phrase is in another language: as a whole read as English, or in letters of its own."""
        return any(phrase in self.corrections or not phrase.isascii() for phrase in self.phrases)

    def _corrections_text(self) -> str:
        pairs = [f"{word!r} (not {typed!r})" for typed, word in self.corrections.items()]
        more = len(pairs) - _FEW
        return f"searched for {', '.join(pairs[:_FEW])}" + (f" and {more} more" if more > 0 else "")

    def _phrases_without_result(self) -> list[str]:
        """Report the phrases for which there is no relevant result."""
        weak = [repr(p[:80]) for p in self.phrases if self.bands.get(p, "none") in ("weak", "none")]
        if not weak:
            return []
        nearest = "; the nearest, weak:" if self.band == "weak" else "."
        return [f"Nothing relevant for {', '.join(weak[:_FEW])}{nearest}"]


def _few(what: str, entries: Sequence[str]) -> list[str]:
    """List the first of many reasons, and the number of the other servers."""
    rows = [f"{what}: {entry}" for entry in entries[:_FEW]]
    more = len(entries) - _FEW
    return [*rows, f"{what}: {count_of(more, 'more server')}"] if more > 0 else rows


def _shorten(reason: str) -> str:
    """A reason of bounded length that ends with a whole clause, or if its first is too long, a whole word."""
    if len(reason) <= _REASON:
        return reason
    head = reason[: _REASON - 1]
    end = max(head.rfind(mark) for mark in (", ", "; ", ": "))
    end = end if end > 0 else head.rfind(" ")
    return f"{head[:end] if end > 0 else head} …"


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    """A server as the gateway sees it now.

    `isolation` is what its processes run in, or will when it starts. `sharing` says which clients use one
    process of it, and why. `instances` are those beside the default one.
    `withheld` says why the gateway withholds all of it. `withheld_parts` is the number of its tools, prompts
    and templates that wait for a person's approval.
    """

    spec: ServerSpec
    health: Health
    facts: ServerFacts
    tools: int
    cost_tokens: int
    synced_at: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()
    withheld: str = ""
    withheld_parts: int = 0
    isolation: str = ""
    sharing: Sharing = UNSHARED
    instances: Sequence[Instance] = ()

    @property
    def name(self) -> str:
        """The name of the server in the configuration."""
        return self.spec.name

    @property
    def is_running(self) -> bool:
        """Whether a process or a session of it is ready for calls, for all clients or for some."""
        every = (self.health, *(one.health for one in self.instances))
        return any(one.state is State.READY for one in every)

    @property
    def unwell(self) -> str:
        """Why the server cannot be used now; empty if it can be, or if nothing is known against it.

        A failed server that starts for the next call is usable; one that should always run is not.
        """
        failed = self.health.state is State.FAILED and self.spec.start == "always"
        if self.withheld or failed or self.health.retry_in_s is not None:
            return self.withheld or self.health.error
        return "" if self.facts.era else self.error  # it never answered a list

    @property
    def remark(self) -> str:
        """What the operator should know about the server; empty if all is well."""
        parts = parts_withheld(self.withheld_parts)
        old = "its tools are those from before its definition changed" if self.has_old_tools else ""
        return self.withheld or "; ".join(filter(None, (self.error or self.health.error, old, parts)))

    @property
    def has_old_tools(self) -> bool:
        """Whether its tools are known from another definition of it alone: it has not answered since."""
        return bool(self.tools and self.error and not self.facts.era)

    def to_entry(self) -> dict[str, Any]:
        """Return the entry in the list of all servers, within its share of tokens, for programs and agents.

        A reason why all of it is withheld replaces what the server says about itself.
        """
        entry: dict[str, Any] = {
            "name": self.name,
            "tools": self.tools,
            "status": self.health.state.value,
        }
        key = "withheld" if self.withheld else "description"
        about = self.withheld or self.facts.instructions or self.facts.title
        room = _ENTRY_TOKENS - _ENTRY_FRAME_TOKENS - estimate(self.name)
        if about and room >= _ENTRY_WORDS_TOKENS:
            entry[key] = first_sentence(clean(about), room)[0]
        elif self.withheld:
            entry[key] = ""
        return entry

    def to_json(self) -> dict[str, Any]:
        """Return what a program may want to know, without values of the environment or of headers."""
        return {
            "name": self.name,
            "target": mask_text(self.spec.target),
            "transport": self.spec.transport,
            "enabled": self.spec.enabled,
            "tools": self.tools,
            "tokens": self.cost_tokens,
            "protocol_version": self.facts.protocol_version,
            "version": self.facts.version,
            "state": self.health.state.value,
            "since": self.health.since,
            "desired": self.spec.start,
            "cage": self.isolation,
            "share": self.sharing.share,
            "share_reason": self.sharing.why,
            "instances": [instance.to_json() for instance in self.instances],
            "restarts": self.health.restarts,
            "ended": self.health.ended,
            "last_error": self.health.last_error,
            "synced_at": self.synced_at,
            "error": self.error or self.health.error,
            "notes": list(self.notes),
            "withheld": self.withheld,
            "withheld_parts": self.withheld_parts,
        }


def parts_withheld(count: int) -> str:
    """Say how many parts of a server are withheld; empty if none is."""
    return f"{count} withheld until approved: `maitred approvals`" if count else ""


@dataclass(frozen=True, kw_only=True)
class InfoAnswer:
    """Details of some tools, and the tools that did not fit."""

    tools: Sequence[Tool]
    texts: Sequence[str]
    left_out: Sequence[str] = ()
    problems: Sequence[str] = ()

    @property
    def shown(self) -> Sequence[str]:
        """The published names of the tools in the text, in their order."""
        return [tool.name for tool in self.tools[: len(self.texts)]]

    @property
    def text(self) -> str:
        """The details, one after the other."""
        rows = [*self.texts, *self.problems]
        if self.left_out:
            rows.append(f"Left out for size, ask again for: {', '.join(self.left_out)}")
        return "\n\n".join(rows)
