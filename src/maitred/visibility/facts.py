"""Facts: the named values of a server's state that visibility rules read, and how calls change them.

A server's manifest or the operator declares a fact with its type and first value. The effects of a tool
(`on_success`) say which facts its call changes. Built-in facts need no declaration: the caller, the health of
the server, the time. Nothing here asks a server or keeps a state. States are values, so that the caller can
keep them for each principal or connection. Facts are small (whole numbers, short texts, short lists).
"""

import json
import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal

from maitred.model.servers import State

Kind = Literal["bool", "int", "str", "list"]
Value = bool | int | str | tuple[str, ...]

MAX_TEXT: Final = 256
MAX_ITEMS: Final = 100
MAX_INT: Final = 2**53 - 1
_MAX_JSON_CHARS: Final = 262_144
_EMPTY: Mapping[str, Any] = MappingProxyType({})
SAID: Mapping[Kind, str] = {
    "bool": "true or false",
    "int": "a whole number",
    "str": "a text",
    "list": "a list of texts",
}
"""The types in words."""
_STEP = r"""\.(?P<name>[^.\[\]"'\s]+) | \[(?P<index>-?\d{1,9})\] | \["(?P<quoted>[^"]*)"\]"""
PATH = re.compile(rf"\$(?P<root>arguments)?(?P<steps>({_STEP.replace('?P<', '?P<_')})*)", re.VERBOSE)
_STEPS = re.compile(_STEP, re.VERBOSE)

BUILT_IN: Mapping[str, Kind] = MappingProxyType({
    "client": "str",
    "era": "str",
    "roles": "list",
    "server.healthy": "bool",
    "server.state": "str",
    "time.hour": "int",
    "time.weekday": "int",
})  # fmt: skip
"""The facts that always exist. `time.hour` is 0 to 23, `time.weekday` 1 (Monday) to 7 (Sunday)."""


def built_in(
    *,
    client: str,
    era: Literal["handshake", "stateless"],
    roles: Collection[str],
    state: State,
    now: datetime,
) -> Mapping[str, Value]:
    """Return the built-in facts as they are now; it shortens texts that are too long for a fact.

    `client` is the name that the client gave itself, which is a claim and no proof. `state` is the state of
    the server's backend; it counts as healthy unless it failed or is suspended. `now` is in the operator's
    time zone.
    """
    return {
        "client": client[:MAX_TEXT],
        "era": era,
        "roles": tuple(sorted(role[:MAX_TEXT] for role in roles)[:MAX_ITEMS]),
        "server.healthy": state not in (State.FAILED, State.SUSPENDED),
        "server.state": state.value,
        "time.hour": now.hour,
        "time.weekday": now.isoweekday(),
    }


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A declared fact: its type, and its value before any call."""

    name: str
    kind: Kind
    initial: Value


@dataclass(frozen=True, kw_only=True)
class SetFact:
    """An effect: set the fact to this value."""

    value: Value


@dataclass(frozen=True, kw_only=True)
class ReadFact:
    """An effect: set the fact to the value at a path of the result or (`$arguments`) of the arguments."""

    path: str


@dataclass(frozen=True, kw_only=True)
class Add:
    """An effect: add to the number; a negative number subtracts, but the fact never falls below 0."""

    by: int


@dataclass(frozen=True, kw_only=True)
class ResetFact:
    """An effect: set the fact to its first value."""


Effect = SetFact | ReadFact | Add | ResetFact


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """The values of all facts at one moment. 1 and true are different values.

    `doubts` names facts whose last change the gateway could not read, and why. Their values may be out of
    date.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _key(self) -> Hashable:
        typed_values = [
            (name, type(v), v if isinstance(v, int | str) else repr(v)) for name, v in self.values.items()
        ]
        return frozenset(typed_values), frozenset(self.doubts.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def given(self, others: Mapping[str, Value]) -> "Facts":
        """Return these facts with others beside them, such as the built-in ones of a moment."""
        return replace(self, values={**self.values, **others})


@dataclass(frozen=True, kw_only=True)
class DeclaredFacts:
    """The declaration of one server: its facts, and what a successful call of a tool (or pattern) changes."""

    facts: Mapping[str, Fact] = field(default_factory=dict)
    on_success: Mapping[str, Mapping[str, Effect]] = field(default_factory=dict)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The types of all facts that a rule may read, the built-in ones first."""
        return {**BUILT_IN, **{name: fact.kind for name, fact in self.facts.items()}}

    def initial(self) -> Facts:
        """Return the facts before any call."""
        return Facts(values={name: fact.initial for name, fact in self.facts.items()})

    def effects(self, tool: str) -> Mapping[str, Effect]:
        """Return what a successful call of a tool changes."""
        pattern = most_specific(tool, self.on_success)
        return self.on_success[pattern] if pattern else _EMPTY


def most_specific(tool: str, patterns: Collection[str]) -> str:
    """Return the pattern that says most about a tool; empty if none fits.

    Its own name goes before every pattern. Of patterns, the one with the most characters that are not `*`
    wins. Then the longest beginning without `*` wins, then the first in the alphabet.
    """
    if tool in patterns:
        return tool
    matches = [pattern for pattern in patterns if "*" in pattern and _fits_pattern(tool, pattern)]
    return min(matches, key=_vagueness, default="")


def _vagueness(pattern: str) -> tuple[int, int, str]:
    return (pattern.count("*") - len(pattern), -pattern.index("*"), pattern)


def _fits_pattern(tool: str, pattern: str) -> bool:
    """Return whether a name fits a pattern, in a time that no pattern can make long."""
    first, *middle, last = pattern.split("*")
    if len(tool) < len(first) + len(last) or not (tool.startswith(first) and tool.endswith(last)):
        return False
    at, end = len(first), len(tool) - len(last)
    for piece in middle:
        at = tool.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


# Calls change facts.


def after_call(
    facts: Facts, declared: DeclaredFacts, tool: str, arguments: Mapping[str, Any], result: Mapping[str, Any]
) -> Facts:
    """Return the facts after the answer to a call; the same ones if it failed or changes nothing.

    `result` is the answer as on the wire (`content`, `structuredContent`, `isError`). A value that is missing
    or does not fit its fact leaves the fact unchanged and adds an entry to `doubts`. Never raises.
    """
    effects = declared.effects(tool)
    if not effects or result.get("isError"):
        return facts
    values, doubts = dict(facts.values), dict(facts.doubts)
    reads = any(
        isinstance(effect, ReadFact) and not effect.path.startswith("$a") for effect in effects.values()
    )
    roots = {"": _content(result) if reads else None, "arguments": arguments}
    for name, effect in effects.items():
        fact = declared.facts[name]
        before = values.get(name, fact.initial)
        value = (
            _apply_effect(fact, before, effect)
            if not isinstance(effect, ReadFact)
            else _at(effect.path, roots)
        )
        fault = misfit(value := as_fact(value, fact.kind), fact.kind)
        doubts.pop(name, None)
        if fault:
            doubts[name] = f"the answer of {tool} had {fault} at {getattr(effect, 'path', '')}"
        else:
            values[name] = value
    after = Facts(values=values, doubts=doubts)
    return facts if after == facts else after


def surely_after(facts: Facts, declared: DeclaredFacts, tool: str) -> Facts:
    """Return the facts after a successful call of a tool, as far as they do not depend on its answer."""
    effects = declared.effects(tool)
    sure = {
        name: _apply_effect(
            declared.facts[name], facts.values.get(name, declared.facts[name].initial), effect
        )
        for name, effect in effects.items()
        if not isinstance(effect, ReadFact)
    }
    return facts.given(sure)


def _apply_effect(fact: Fact, before: Value, effect: SetFact | Add | ResetFact) -> Value:
    match effect:
        case SetFact(value=value):
            return value
        case Add(by=by):
            return min(max(0, (before if isinstance(before, int) else 0) + by), MAX_INT)
        case ResetFact():
            return fact.initial


def _content(result: Mapping[str, Any]) -> Any:
    """Return the structured content of an answer, or else its first text if that is JSON."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    blocks = result.get("content")
    for block in blocks if isinstance(blocks, list) else []:
        text = block.get("text") if isinstance(block, Mapping) else None
        if isinstance(text, str) and len(text) <= _MAX_JSON_CHARS:
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return None
    return None


class _Missing:
    """Marks a value that is missing."""


_MISSING: Final = _Missing()


def _at(path: str, roots: Mapping[str, Any]) -> Any:
    match = PATH.fullmatch(path)
    if match is None:
        return _MISSING
    value = roots[match["root"] or ""]
    for step in _STEPS.finditer(match["steps"]):
        value = _below(value, step)
    return value


def _below(value: Any, step: re.Match[str]) -> Any:
    if step["index"] is None:
        name = step["name"] if step["name"] is not None else step["quoted"]
        return value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING
    place = int(step["index"])
    fits = isinstance(value, list) and -len(value) <= place < len(value)
    return value[place] if fits else _MISSING


def as_fact(value: Any, kind: Kind) -> Any:
    """Convert a JSON value to a fact: lists of short values to texts, 2.0 to 2; others stay as they are."""
    if kind == "int" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "list" and isinstance(value, list):
        return tuple(
            json.dumps(v) if isinstance(v, bool | int | float) else v for v in value[: MAX_ITEMS + 1]
        )
    return value


def misfit(value: Any, kind: Kind) -> str:
    """Return what is wrong with a value for a fact of this type; empty if it fits."""
    if isinstance(value, _Missing):
        return "nothing"
    if kind == "str" and isinstance(value, str):
        return _unfit_text(value)
    if kind == "list" and isinstance(value, tuple):
        long = f"more than {MAX_ITEMS} items" if len(value) > MAX_ITEMS else ""
        return long or next((f"a list with {fault}" for item in value if (fault := misfit(item, "str"))), "")
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return "" if abs(value) <= MAX_INT else "a number too large"
    return "" if kind == "bool" and isinstance(value, bool) else f"what is not {SAID[kind]}"


def _unfit_text(text: str) -> str:
    if len(text) > MAX_TEXT:
        return f"a text of more than {MAX_TEXT} characters"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a text with half of a character"
    return ""
