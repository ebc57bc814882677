"""Which tools of a server make sense in its present state, and what to do about those that do not.

A hidden tool still exists and is not forbidden. Search shows it, marked *not available now*, and the gateway
answers a call with the reason and the next step. The next step comes from the same declarations that hide the
tool: the calls that would change the facts which its rule reads.

Everything here is a pure function of its arguments. `gateway.visibility` keeps states and notifies clients.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

from maitred.visibility.facts import DeclaredFacts, Facts, ReadFact, most_specific, surely_after
from maitred.visibility.rules import Compiler, Expression, FactEvaluation, Rule
from maitred.wording import as_code, did_you_mean

_MAX_STATES: Final = 64
_MAX_STEPS: Final = 4
_MAX_CHOICES: Final = 3
_REMEMBERED: Final = 256
_REMEMBERED_TOOLS: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class HiddenReason:
    """Why a tool is hidden, in words that follow "it", and the next step; empty if none is known."""

    reason: str
    do: str = ""

    @property
    def text(self) -> str:
        """Both on one line."""
        return f"{self.reason}; {self.do}" if self.do else self.reason


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """When a tool is shown. `because` and `do` are an operator's words; the gateway fills in an empty one.

    A call that gives the argument `unless_given` is about something else than the facts; it is not refused.
    """

    rule: Rule
    because: str = ""
    do: str = ""
    unless_given: str = ""


@dataclass(frozen=True, kw_only=True)
class VisibilityTable:
    """The rules of one server, by tool or by pattern with `*`; the most specific one counts.

    Tools have the names of their server here. A tool without a rule is always visible.
    """

    declared: DeclaredFacts
    compiler: Compiler = field(repr=False, compare=False)
    rulings: Mapping[str, ToolRule] = field(default_factory=dict)

    def visible(self, tool: str, facts: Facts) -> bool:
        """Return whether a tool is visible; `facts` are the declared and the built-in ones of the moment."""
        ruling = self._ruling(tool)
        return ruling is None or self._moment(facts).holds(ruling.rule, tool)

    def visible_set(self, tools: Iterable[str], facts: Facts) -> frozenset[str]:
        """Return those of the tools that are visible."""
        moment = self._moment(facts)
        return frozenset(
            tool
            for tool in tools
            if (ruling := self._ruling(tool)) is None or moment.holds(ruling.rule, tool)
        )

    def listed_set(self, tools: Iterable[str], facts: Facts, stable: frozenset[str]) -> frozenset[str]:
        """Return those of the tools that the `stable` facts alone do not hide.

        A rule joins its conditions with `&&`. Conditions that read other facts, and rules in Python, count as
        met.
        """
        moment = self._moment(facts)
        return frozenset(
            tool
            for tool in tools
            if (ruling := self._ruling(tool)) is None
            or not isinstance(ruling.rule, Expression)
            or not any(stable.issuperset(part.reads) for part in moment.unmet_conditions(ruling.rule))
        )

    def why_hidden(
        self, tool: str, facts: Facts, named: Callable[[str], str] = lambda tool: tool
    ) -> HiddenReason | None:
        """Explain why a tool is hidden; None if it is visible. `named` maps a tool to its published name."""
        ruling = self._ruling(tool)
        if ruling is None or self.visible(tool, facts):
            return None
        reason = ruling.because or self._moment(facts).reason(ruling.rule, tool)
        return HiddenReason(reason=reason, do=ruling.do or self._next_step(tool, ruling.rule, facts, named))

    def requirement(self, tool: str, stable: frozenset[str]) -> str:
        """Say in a few words what a tool needs, whatever the facts are; empty without a rule.

        Conditions that read only `stable` facts are left out: they hide the tool in each list.
        """
        ruling = self._ruling(tool)
        if ruling is None:
            return ""
        if ruling.because:
            return ruling.because
        if not isinstance(ruling.rule, Expression):
            return f"needs the rule {ruling.rule.name}"
        parts = [part.source for part in ruling.rule.parts if not stable.issuperset(part.reads)]
        return f"needs {' && '.join(parts)}" if parts else ""

    def leaves_to_server(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call of a hidden tool has an argument with which its server itself decides."""
        ruling = self._ruling(tool)
        return ruling is not None and bool(ruling.unless_given and arguments.get(ruling.unless_given))

    @cached_property
    def asks_python(self) -> bool:
        """Whether one of the rules is in Python: such a rule may read any fact."""
        return any(not isinstance(ruling.rule, Expression) for ruling in self.rulings.values())

    def unmatched(self, tools: Collection[str]) -> Sequence[str]:
        """Return one sentence for each entry that fits none of these tools: mostly a misspelled name."""
        names = dict.fromkeys([*self.rulings, *self.declared.on_success])
        return [_unmatched_text(name, tools) for name in names if not any(map(_matcher(name), tools))]

    # The rest caches its results by value: a cached answer is the same as a new one.

    @cached_property
    def _moment(self) -> Callable[[Facts], FactEvaluation]:
        return lru_cache(_REMEMBERED)(self.compiler.moment)

    @cached_property
    def _ruling(self) -> Callable[[str], ToolRule | None]:
        return lru_cache(_REMEMBERED_TOOLS)(lambda tool: self.rulings.get(most_specific(tool, self.rulings)))

    @cached_property
    def _changers(self) -> Sequence[str]:
        """The tools with a rule or effect under their own name that change facts."""
        names = dict.fromkeys([*self.declared.on_success, *self.rulings])
        return [name for name in names if "*" not in name and self.declared.effects(name)]

    @cached_property
    def _reachable(self) -> Callable[[Facts], Sequence[tuple[Sequence[str], Facts]]]:
        return lru_cache(_REMEMBERED)(self._explore)

    def _explore(self, start: Facts) -> Sequence[tuple[Sequence[str], Facts]]:
        """Return the states that calls of visible tools surely lead to, nearest first, with those calls."""
        paths: dict[Facts, Sequence[str]] = {start: ()}
        for facts, path in _while_growing(paths):
            for tool in self._changers if len(path) < _MAX_STEPS else ():
                if len(paths) >= _MAX_STATES:
                    break
                if self.visible(tool, facts):
                    paths.setdefault(surely_after(facts, self.declared, tool), (*path, tool))
        return [(path, facts) for facts, path in paths.items() if path]

    def _next_step(self, tool: str, rule: Rule, facts: Facts, named: Callable[[str], str]) -> str:
        usable = [name for name in self._changers if name != tool and self.visible(name, facts)]
        if direct := self._direct(tool, usable, facts):
            return f"call {' or '.join(map(named, direct))}"
        for path, after in self._reachable(facts):
            if self.visible(tool, after):
                return f"call {', then '.join(map(named, path))}"
        reads = self._unmet_facts(rule, facts)
        for name in usable:
            effects = self.declared.effects(name)
            if facts_read := [fact for fact in reads if isinstance(effects.get(fact), ReadFact)]:
                return f"call {named(name)}, which may change {' and '.join(facts_read)}"
        return ""

    def _direct(self, tool: str, usable: Sequence[str], facts: Facts) -> Sequence[str]:
        """Return the calls that surely show a tool at once: those of them that change the fewest facts."""
        changes = {}
        for name in usable:
            after = surely_after(facts, self.declared, name)
            if self.visible(tool, after):
                changes[name] = sum(after.values[fact] != facts.values.get(fact) for fact in after.values)
        fewest = min(changes.values(), default=0)
        return [name for name, changed in changes.items() if changed == fewest][:_MAX_CHOICES]

    def _unmet_facts(self, rule: Rule, facts: Facts) -> Sequence[str]:
        """Return the facts whose values hide a tool; for a rule in Python, all facts that calls change."""
        if not isinstance(rule, Expression):
            return tuple(self.declared.facts)
        parts = self._moment(facts).unmet_conditions(rule)
        return tuple(dict.fromkeys(name for part in parts for name in part.reads))


def became_visible(before: Collection[str], after: Collection[str]) -> Sequence[str]:
    """Return the tools that were not visible before, by name."""
    return sorted(set(after).difference(before))


def _while_growing(growing: dict[Facts, Sequence[str]]) -> Iterable[tuple[Facts, Sequence[str]]]:
    """Yield the items of a dictionary, and those that are added meanwhile."""
    done = 0
    while done < len(growing):
        for item in list(growing.items())[done:]:
            done += 1
            yield item


def _matcher(pattern: str) -> Callable[[str], bool]:
    return lambda tool: most_specific(tool, [pattern]) != ""


def _unmatched_text(name: str, tools: Collection[str]) -> str:
    hint = did_you_mean(name, tools, quoted=as_code, lead="; ")
    return f"`{name}` fits no tool of the server{hint}"
