"""Which tools of a server make sense in its present state, and what to do about those that do not.

A hidden tool is neither gone nor forbidden: it is found in search, marked *not available now*, and a call of
it is answered with why and what to do. What is to be done is worked out from the same declarations that hide
it: the calls that would change the facts which its rule reads.

Everything here is a pure function of its arguments. States are kept, and clients told, elsewhere.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

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
    """Why a tool is hidden, in words that go on from "it", and the next step, empty if none is known."""

    reason: str
    do: str = ""

    @property
    def text(self) -> str:
        """Both on one line."""
        return f"{self.reason}; {self.do}" if self.do else self.reason


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """When a tool is shown. `because` and `do` are an operator's words; what is empty is worked out."""

    rule: Rule
    because: str = ""
    do: str = ""


@dataclass(frozen=True, kw_only=True)
class VisibilityTable:
    """The rules of one server, by tool or by pattern with `*`; the most specific one counts.

    Tools go by the names they have on their server. A tool for which there is no rule is always visible.
    """

    declared: DeclaredFacts
    compiler: Compiler = field(repr=False, compare=False)
    rulings: Mapping[str, ToolRule] = field(default_factory=dict)

    def visible(self, tool: str, facts: Facts) -> bool:
        """Whether a tool is visible. `facts` are the declared ones and the built-in ones of the moment."""
        ruling = self._ruling(tool)
        return ruling is None or self._moment(facts).holds(ruling.rule, tool)

    def visible_set(self, tools: Iterable[str], facts: Facts) -> frozenset[str]:
        """Those of the tools that are visible."""
        moment = self._moment(facts)
        return frozenset(
            tool
            for tool in tools
            if (ruling := self._ruling(tool)) is None or moment.holds(ruling.rule, tool)
        )

    def listed_set(self, tools: Iterable[str], facts: Facts, stable: frozenset[str]) -> frozenset[str]:
        """Those of the tools that the `stable` facts alone do not hide.

        A rule joins its conditions with `&&`; those that read other facts, and rules in Python, count as met.
        """
        moment = self._moment(facts)
        return frozenset(
            tool
            for tool in tools
            if (ruling := self._ruling(tool)) is None
            or not isinstance(ruling.rule, Expression)
            or not any(stable.issuperset(part.reads) for part in moment.failing(ruling.rule))
        )

    def why_hidden(
        self, tool: str, facts: Facts, named: Callable[[str], str] = lambda tool: tool
    ) -> HiddenReason | None:
        """Why a tool is hidden and what to do; None if it is visible. `named` tells what tools are called."""
        ruling = self._ruling(tool)
        if ruling is None or self.visible(tool, facts):
            return None
        reason = ruling.because or self._moment(facts).reason(ruling.rule, tool)
        return HiddenReason(reason=reason, do=ruling.do or self._next_step(tool, ruling.rule, facts, named))

    @cached_property
    def asks_python(self) -> bool:
        """Whether a rule in Python is among the rules: it may read any fact."""
        return any(not isinstance(ruling.rule, Expression) for ruling in self.rulings.values())

    def unmatched(self, tools: Collection[str]) -> Sequence[str]:
        """What is declared for tools that are not among these, one sentence each: mostly slips of the pen."""
        named = dict.fromkeys([*self.rulings, *self.declared.on_success])
        return [_stranger(name, tools) for name in named if not any(map(_fitting(name), tools))]

    # The rest remembers what it worked out, by value: an answer is the same whether it was remembered or not.

    @cached_property
    def _moment(self) -> Callable[[Facts], FactEvaluation]:
        return lru_cache(_REMEMBERED)(self.compiler.moment)

    @cached_property
    def _ruling(self) -> Callable[[str], ToolRule | None]:
        return lru_cache(_REMEMBERED_TOOLS)(lambda tool: self.rulings.get(most_specific(tool, self.rulings)))

    @cached_property
    def _changers(self) -> Sequence[str]:
        """The tools that are known by name and change facts."""
        named = dict.fromkeys([*self.declared.on_success, *self.rulings])
        return [name for name in named if "*" not in name and self.declared.effects(name)]

    @cached_property
    def _reachable(self) -> Callable[[Facts], Sequence[tuple[Sequence[str], Facts]]]:
        return lru_cache(_REMEMBERED)(self._explored)

    def _explored(self, start: Facts) -> Sequence[tuple[Sequence[str], Facts]]:
        """The states that calls of visible tools surely lead to, the nearest first, with those calls."""
        found: dict[Facts, Sequence[str]] = {start: ()}
        for facts, path in _while_growing(found):
            for tool in self._changers if len(path) < _MAX_STEPS else ():
                if len(found) >= _MAX_STATES:
                    break
                if self.visible(tool, facts):
                    found.setdefault(surely_after(facts, self.declared, tool), (*path, tool))
        return [(path, facts) for facts, path in found.items() if path]

    def _next_step(self, tool: str, rule: Rule, facts: Facts, named: Callable[[str], str]) -> str:
        usable = [name for name in self._changers if name != tool and self.visible(name, facts)]
        if direct := self._direct(tool, usable, facts):
            return f"call {' or '.join(map(named, direct))}"
        for path, after in self._reachable(facts):
            if self.visible(tool, after):
                return f"call {', then '.join(map(named, path))}"
        reads = self._failing(rule, facts)
        for name in usable:
            effects = self.declared.effects(name)
            if told := [fact for fact in reads if isinstance(effects.get(fact), ReadFact)]:
                return f"call {named(name)}, which may change {' and '.join(told)}"
        return ""

    def _direct(self, tool: str, usable: Sequence[str], facts: Facts) -> Sequence[str]:
        """The calls that surely show a tool at once; of these, the ones that change the fewest facts."""
        changes = {}
        for name in usable:
            after = surely_after(facts, self.declared, name)
            if self.visible(tool, after):
                changes[name] = sum(after.values[fact] != facts.values.get(fact) for fact in after.values)
        fewest = min(changes.values(), default=0)
        return [name for name, changed in changes.items() if changed == fewest][:_MAX_CHOICES]

    def _failing(self, rule: Rule, facts: Facts) -> Sequence[str]:
        """The facts that are not as a rule wants them; all that calls change, if it is a rule in Python."""
        if not isinstance(rule, Expression):
            return tuple(self.declared.facts)
        parts = self._moment(facts).failing(rule)
        return tuple(dict.fromkeys(name for part in parts for name in part.reads))


def became_visible(before: Collection[str], after: Collection[str]) -> Sequence[str]:
    """The tools that were not visible before, by name."""
    return sorted(set(after).difference(before))


def _while_growing(found: dict[Facts, Sequence[str]]) -> Iterable[tuple[Facts, Sequence[str]]]:
    """The items of a dictionary, and those that are added meanwhile."""
    done = 0
    while done < len(found):
        for item in list(found.items())[done:]:
            done += 1
            yield item


def _fitting(pattern: str) -> Callable[[str], bool]:
    return lambda tool: most_specific(tool, [pattern]) != ""


def _stranger(name: str, tools: Collection[str]) -> str:
    hint = did_you_mean(name, tools, quoted=as_code, lead="; ")
    return f"`{name}` fits no tool of the server{hint}"
