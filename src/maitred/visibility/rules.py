"""Visibility rules: expressions in CEL (Common Expression Language) over facts, and functions in Python.

The binding of the C++ reference implementation (`cel-expr-python`) compiles an expression such as
`connections > 1` and checks its types when it is loaded. The first expression imports the binding. Nothing
can stop an expression that runs, so its cost is bounded before: by length, nesting, use of lists in macros,
and the size of facts. The library allows 10,000 iterations of macros. A rule never raises: an error, or a
result that is neither true nor false, hides the tool with a reason.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import structlog

from maitred.config.expressions import (
    CLOSED,
    MATCH_COST,
    OPEN,
    Token,
    cost_fault,
    explain,
    is_macro,
    plain_error,
    position_of,
    source_fault,
    tokens_of,
    type_fault,
)
from maitred.visibility.facts import MAX_ITEMS, Facts, Kind, Value, misfit

log = structlog.get_logger(__name__)

RuleFunction = Callable[[str, Mapping[str, Value]], bool | str]
"""A rule in Python: takes a tool's name and the facts; returns whether it is visible, or why it is not."""

_SHOWN: Final = 60
_WORD = re.compile(r"(?!in$)\w+").fullmatch


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One of the conditions that an expression joins with `&&`, and the facts that it reads."""

    source: str
    reads: tuple[str, ...]
    program: Any = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Expression:
    """A compiled expression. Its parts serve to say which of them does not hold."""

    source: str
    reads: tuple[str, ...]
    program: Any = field(repr=False, compare=False)
    parts: tuple[Condition, ...] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class NamedRule:
    """A rule in Python and the name of its registration."""

    name: str
    function: RuleFunction = field(repr=False)


Rule = Expression | NamedRule


class RuleRegistry:
    """The rules in Python that configurations may name."""

    def __init__(self, functions: Mapping[str, RuleFunction] | None = None) -> None:
        self._functions = dict(functions or {})

    def add(self, name: str, function: RuleFunction) -> None:
        """Register a rule; a name that is in use raises a `ValueError`."""
        if name in self._functions:
            raise ValueError(f"there is a visibility rule {name!r} already")
        self._functions[name] = function

    def find(self, name: str) -> NamedRule | None:
        """Return the rule of this name."""
        function = self._functions.get(name)
        return NamedRule(name=name, function=function) if function else None

    @property
    def names(self) -> Sequence[str]:
        """The names of all rules, in the order of registration."""
        return tuple(self._functions)


class Compiler:
    """Compiles and evaluates the expressions of one server, whose facts have these types."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds
        self._compiled: dict[str, tuple[Expression | None, Sequence[str]]] = {}

    @cached_property
    def _cel(self) -> Any:
        return import_module("cel_expr_python.cel")

    @cached_property
    def _env(self) -> Any:
        kinds = self._cel.Type
        types = {"bool": kinds.BOOL, "int": kinds.INT, "str": kinds.STRING, "list": kinds.List(kinds.STRING)}
        return self._cel.NewEnv(variables={name: types[kind] for name, kind in self._kinds.items()})

    @property
    def reads(self) -> Collection[str]:
        """The facts that any compiled expression reads."""
        return {name for expression, _ in self._compiled.values() if expression for name in expression.reads}

    def compile(self, source: str) -> tuple[Expression | None, Sequence[str]]:
        """Compile an expression, or return None and all its faults; positions count from 1."""
        if source not in self._compiled:
            self._compiled[source] = self._compile(source)
        return self._compiled[source]

    def _compile(self, source: str) -> tuple[Expression | None, Sequence[str]]:
        if fault := source_fault(source):
            return None, [fault]
        tokens = list(tokens_of(source))
        if faults := list(_cost_faults(tokens, self._kinds)):
            return None, faults
        try:
            program = self._env.compile(source)
        except RuntimeError as error:
            return None, list(explain(str(error), source, self._kinds, "fact"))
        if fault := type_fault(program.return_type().name()):
            return None, [fault]
        parts = tuple(self._parts(tokens))
        reads = _reads(tokens, self._kinds)
        whole = (Condition(source=source, reads=reads, program=program),)
        return Expression(source=source, reads=reads, program=program, parts=parts or whole), ()

    def _parts(self, tokens: Sequence[Token]) -> Iterator[Condition]:
        for piece in _conjuncts(tokens):
            source = piece[0].string[piece[0].start() : piece[-1].end()]
            yield Condition(
                source=source, reads=_reads(piece, self._kinds), program=self._env.compile(source)
            )

    def moment(self, facts: Facts) -> "FactEvaluation":
        """Bind the facts of a moment for the evaluation of rules."""
        return FactEvaluation(facts, self._kinds, self.reads, self._activation)

    def _activation(self, values: Mapping[str, Any]) -> Any:
        return self._env.Activation(values)  # made at the first evaluation, and the library is loaded with it


class FactEvaluation:
    """Evaluates rules for the facts of one moment; each expression is evaluated once."""

    def __init__(
        self,
        facts: Facts,
        kinds: Mapping[str, Kind],
        reads: Collection[str],
        bind: Callable[[Mapping[str, Any]], Any],
    ) -> None:
        self.facts = facts
        self._kinds = kinds
        self._reads = reads
        self._bind = bind
        self._results: dict[str, bool] = {}
        self._failed: set[str] = set()

    @cached_property
    def _unfit(self) -> Mapping[str, str]:
        """Return the facts that rules read and whose value is missing or does not fit, and why."""
        values = self.facts.values
        misfits = {name: misfit(values[name], self._kinds[name]) for name in self._reads if name in values}
        missing = {name: "no value" for name in self._reads if name not in values}
        return {name: fault for name, fault in misfits.items() if fault} | missing

    @cached_property
    def _bound(self) -> Any:
        fit = [name for name in self._reads if name not in self._unfit]
        values = {name: self.facts.values[name] for name in fit}
        return self._bind({n: list(v) if isinstance(v, tuple) else v for n, v in values.items()})

    def holds(self, rule: Rule, tool: str) -> bool:
        """Return whether a rule shows a tool."""
        if isinstance(rule, NamedRule):
            return self._ask_function(rule, tool) is True
        holds = self._results.get(rule.source)
        if holds is None:
            holds = self._results[rule.source] = self._value(rule) is True
        return holds

    def reason(self, rule: Rule, tool: str) -> str:
        """Return why a rule hides a tool, in words that follow "it"; empty if it does not."""
        if self.holds(rule, tool):
            return ""
        if isinstance(rule, NamedRule):
            answer = self._ask_function(rule, tool)
            return answer if isinstance(answer, str) and answer else f"is hidden by the rule {rule.name}"
        first, *rest = [self._condition_text(part) for part in self.unmet_conditions(rule)] or [
            f"needs `{rule.source}`"
        ]
        return " and ".join([first, *(text.removeprefix("needs ") for text in rest)])

    def unmet_conditions(self, rule: Expression) -> Sequence[Condition]:
        """Return the parts of an expression that do not hold."""
        return [part for part in rule.parts if self._value(part) is not True]

    def _value(self, of: Expression | Condition) -> Any:
        """Return the value of an expression; if it fails, its error as text."""
        if any(name in self._unfit for name in of.reads):
            return next(f"{name} has {fault}" for name, fault in self._unfit.items() if name in of.reads)
        try:
            return of.program.eval(self._bound).value()
        except RuntimeError as error:
            return str(error)

    def _condition_text(self, part: Condition) -> str:
        value = self._value(part)
        values = [f"{name} is {self._value_text(name)}" for name in part.reads]
        now = f" ({', '.join(values)})" if values else ""
        if value is False:
            return f"needs `{part.source}`{now}"
        what = value if isinstance(value, str) else "it is neither true nor false"
        return f"has a rule, `{part.source}`, that cannot be worked out: {plain_error(what)}{now}"

    def _value_text(self, name: str) -> str:
        if name in self._unfit:
            return "unknown"
        value = self.facts.values[name]
        text = json.dumps(value)
        doubt = self.facts.doubts.get(name)
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        return f"{text}, perhaps no more: {doubt}" if doubt else text

    def _ask_function(self, rule: NamedRule, tool: str) -> bool | str:
        """Return the answer of a rule in Python; an exception counts as no."""
        try:
            answer = rule.function(tool, dict(self.facts.values))
        except Exception as error:
            if rule.name not in self._failed:  # the rule runs for every tool
                self._failed.add(rule.name)
                log.exception("visibility_rule_failed", rule=rule.name, tool=tool)
            return f"is hidden, since the rule {rule.name} failed with {type(error).__name__}"
        if isinstance(answer, bool | str):
            return answer
        return f"is hidden, since the rule {rule.name} answered neither true nor false nor a reason"


# The form of the source.


def _names(tokens: Sequence[Token], kinds: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the places where facts are named; of `a.b.c` the longest beginning that is a fact."""
    for place, token in enumerate(tokens):
        if token.lastgroup != "name" or _is_member(tokens, place):
            continue
        path, fact, at = token[0], "", place
        while True:
            fact = path if path in kinds else fact
            at += 2
            if at >= len(tokens) or tokens[at - 1][0] != "." or tokens[at].lastgroup != "name":
                break
            path += f".{tokens[at][0]}"
        if fact:
            yield place, fact


def _is_member(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a name belongs to the value before its dot; a dot after nothing does not count."""
    if place < 2 or tokens[place - 1][0] != ".":  # noqa: PLR2004
        return False
    before = tokens[place - 2]
    return before.lastgroup in ("text", "raw") or before[0] in CLOSED or _WORD(before[0]) is not None


def _reads(tokens: Sequence[Token], kinds: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, name in _names(tokens, kinds)))


def _conjuncts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the pieces between `&&` outside brackets; none if another operator joins them."""
    depth, cuts = 0, [-1]
    for place, token in enumerate(tokens):
        depth += (token[0] in OPEN) - (token[0] in CLOSED)
        if depth == 0 and token.lastgroup == "sign" and token[0] in ("||", "?"):
            return
        if depth == 0 and token[0] == "&&":
            cuts.append(place)
    for start, end in zip(cuts, [*cuts[1:], len(tokens)], strict=True):
        yield tokens[start + 1 : end]


def _cost_faults(tokens: Sequence[Token], kinds: Mapping[str, Kind]) -> Iterator[str]:
    """Report what makes an expression too expensive to run at every list and every call.

    A token costs 1, a fact that is a list as many as it may have items. `matches` costs what its pattern may
    take to compile. Inside a macro, everything counts as often as the macro may run it.
    """
    lists = {place for place, name in _names(tokens, kinds) if kinds[name] == "list"}
    ends = {place + 2 * name.count("."): place for place, name in _names(tokens, kinds)}
    open_macros: list[bool] = []
    cost = 0
    for place, token in enumerate(tokens):
        weight = MAX_ITEMS if place in lists else MATCH_COST if token[0] == "matches" else 1
        cost += weight * MAX_ITEMS ** sum(open_macros)
        if token[0] in OPEN:
            macro = is_macro(tokens, place)
            if macro and ends.get(place - 3) not in lists:
                yield f"{position_of(token)}: `{tokens[place - 1][0]}` works only on a fact that is a list"
            open_macros.append(macro)
        elif token[0] in CLOSED and open_macros:
            open_macros.pop()
    if fault := cost_fault(cost):
        yield fault
