"""Rules about calls that wait for a person: their faults in a configuration, and their evaluation for a call.

A rule is a CEL expression over the values of `NAMES`. It holds a call if it is true, and also if it cannot be
worked out: a missing argument or one of another type never lets a call pass.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Final, Literal

from maitred.config.expressions import (
    CLOSED,
    MATCH_COST,
    OPEN,
    Token,
    cost_fault,
    explain,
    is_macro,
    source_fault,
    tokens_of,
    type_fault,
)
from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.model.tools import canonical

ARGS, SEEN_BEFORE = "args", "seen_before"
MOST_BYTES: Final = 65_536
"""Rules that read the arguments are not evaluated for larger ones: such a call is held."""

NAMES: Final[Mapping[str, Literal["text", "flag", "arguments"]]] = {
    "server": "text",
    "tool": "text",
    "category": "text",
    "destructive": "flag",
    "read_only": "flag",
    "idempotent": "flag",
    "open_world": "flag",
    ARGS: "arguments",
    "principal": "text",
    "role": "text",
    "client": "text",
    "surface": "text",
    "in_chain": "flag",
    SEEN_BEFORE: "flag",
}
"""The names that an expression may read, and the type of each."""

_OVERLOAD: Final = re.compile(r"No matching overloads found : _?([^_\w(]{1,3})_?\(([\w, ]{1,100})\)")
_ITEMS: Final = 1_000
"""How many items an argument is taken to have."""
_ADVICE: Final = (
    "use one macro, not one within another; inside it no `matches`, and `in`, `==`, `!=`, `+` and `contains`"
    " with a literal alone"
)
_LITERALS: Final = frozenset({"text", "raw", "number"})
_CONSTANTS: Final = frozenset({"true", "false", "null"})


@dataclass(frozen=True, kw_only=True)
class CompiledRule:
    """A rule with its program, and the names that it reads."""

    rule: HoldRule
    reads: frozenset[str]
    program: Any = field(repr=False, compare=False)


class HoldRuleCompiler:
    """Compiles expressions, and evaluates them. The first one loads the library."""

    @cached_property
    def _env(self) -> Any:
        cel = import_module("cel_expr_python.cel")
        kinds = cel.Type
        types = {
            "text": kinds.STRING,
            "flag": kinds.BOOL,
            "arguments": kinds.Map(kinds.STRING, kinds.DYN),
        }
        return cel.NewEnv(variables={name: types[kind] for name, kind in NAMES.items()})

    def compile(self, rule: HoldRule) -> tuple[CompiledRule | None, Sequence[str]]:
        """Compile the expression of a rule, or return None and all its faults; positions count from 1."""
        source = rule.when
        if fault := source_fault(source):
            return None, [fault]
        tokens = list(tokens_of(source))
        if fault := cost_fault(_cost(tokens), _ADVICE):
            return None, [fault]
        try:
            program = self._env.compile(source)
        except RuntimeError as error:
            return None, list(explain(str(error), source, NAMES, "name"))
        if fault := type_fault(program.return_type().name()):
            return None, [fault]
        return CompiledRule(rule=rule, reads=_reads(tokens), program=program), ()

    def why_held(self, compiled: CompiledRule, values: Mapping[str, Any], size: int) -> str:
        """Return why a rule holds a call, as a sentence about it; empty if it lets the call pass.

        Args:
            compiled: The rule.
            values: The value of each name that the rule reads.
            size: The bytes of the arguments as JSON.
        """
        source = compiled.rule.when
        if ARGS in compiled.reads and size > MOST_BYTES:
            return f"`{source}` reads the arguments, and these have more than {MOST_BYTES:,} bytes"
        try:
            read = {name: values[name] for name in compiled.reads}
            value = compiled.program.eval(self._env.Activation(read)).value()
        except Exception as error:  # noqa: BLE001  # whatever fails, the call is held
            value = str(error)
        if value is False:
            return ""
        if value is True:
            return f"`{source}`"
        return f"`{source}` cannot be worked out: {_why_without_value(value)}"


def _why_without_value(value: Any) -> str:
    """Why an expression has no value, without any part of the arguments: errors of the library quote them."""
    if not isinstance(value, str):
        return "it is neither true nor false"
    if "Key not found" in value:
        return "a field is missing"
    overload = _OVERLOAD.search(value)
    return f"`{overload[1]}` cannot be applied to ({overload[2]})" if overload else "it has no value"


def compile_rules(rules: Sequence[HoldRule]) -> tuple[HoldRuleCompiler, tuple[CompiledRule, ...]]:
    """Compile rules that have no faults.

    Raises:
        ValueError: One has a fault; `load` would have reported it.
    """
    compiler, compiled = HoldRuleCompiler(), []
    for number, rule in enumerate(rules, 1):
        one, faults = compiler.compile(rule)
        if one is None:
            raise ValueError(f"rule {number} of held_calls: {'; '.join(faults)}")
        compiled.append(one)
    return compiler, tuple(compiled)


def policy_text(section: HeldCallSettings) -> bytes:
    """What the version of the policy is a hash of: all that decides which calls are held, and who decides."""
    return canonical([[rule.when, rule.by, rule.session] for rule in section.rules])


def hold_faults(section: HeldCallSettings) -> Iterator[tuple[Sequence[Any], str]]:
    """Yield the faults of the rules: the keys below the section, and a text."""
    compiler = HoldRuleCompiler()
    for place, rule in enumerate(section.rules):
        for fault in compiler.compile(rule)[1]:
            yield ["rules", place, "when"], fault


def _reads(tokens: Sequence[Token]) -> frozenset[str]:
    """The names that an expression may read; a member or a variable of a macro counts, too, which is safe."""
    words: Collection[str] = {token[0] for token in tokens if token.lastgroup == "name"}
    return frozenset(words) & NAMES.keys()


def _cost(tokens: Sequence[Token]) -> int:
    """What an expression may cost: a token 1, `matches` what its pattern may take to compile.

    Inside a macro, everything counts as often as the macro may run it. What looks at all of an argument there
    counts as often as an argument may have items.
    """
    macros: list[bool] = []
    items = {tokens[place + 1][0] for place in range(len(tokens) - 1) if is_macro(tokens, place)}
    cost = 0
    for place, token in enumerate(tokens):
        weight = MATCH_COST if token[0] == "matches" else 1
        if any(macros) and _looks_at_all(tokens, place, items):
            weight = _ITEMS
        cost += weight * _ITEMS ** sum(macros)
        if token[0] in OPEN:
            macros.append(is_macro(tokens, place))
        elif token[0] in CLOSED and macros:
            macros.pop()
    return cost


def _looks_at_all(tokens: Sequence[Token], place: int, items: Collection[str]) -> bool:
    """Whether the operator or function at a place may look at all of an argument, or copies it.

    `items` are the variables of the macros: all items together are no larger than the arguments.
    """
    word, before = tokens[place][0], tokens[place - 1][0] if place else ""
    if word == "in":
        return not _is_short(tokens, place + 1, items)
    if word == "contains":
        return _root(tokens, place) not in items or not _is_short(tokens, place + 2, items)
    if word == "+":
        return not any(_kind(tokens, beside) == "number" for beside in (place - 1, place + 1))
    if word == "=" and before in ("=", "!"):
        return not (_is_short(tokens, place - 2, items) or _is_short(tokens, place + 1, items))
    return False


def _is_short(tokens: Sequence[Token], place: int, items: Collection[str]) -> bool:
    """Whether a literal, a list of literals, or a name that is no argument is at a place."""
    word = tokens[place][0] if 0 <= place < len(tokens) else ""
    if word == "[":
        inner = [token for token in _until_closed(tokens, place + 1) if token[0] != ","]
        return all(token.lastgroup in _LITERALS for token in inner)
    if word == "-":
        return _kind(tokens, place + 1) == "number"
    is_member = place > 0 and tokens[place - 1][0] == "."
    is_name = word in NAMES and word != ARGS and word not in items and not is_member
    return _kind(tokens, place) in _LITERALS or word in _CONSTANTS or is_name


def _until_closed(tokens: Sequence[Token], place: int) -> Iterator[Token]:
    for token in tokens[place:]:
        if token[0] == "]":
            return
        yield token


def _kind(tokens: Sequence[Token], place: int) -> str:
    return (tokens[place].lastgroup or "") if 0 <= place < len(tokens) else ""


def _root(tokens: Sequence[Token], place: int) -> str:
    """The name at the beginning of the path that ends with the member at a place."""
    while place > 1 and tokens[place - 1][0] == "." and _kind(tokens, place - 2) == "name":
        place -= 2
    return tokens[place][0]
