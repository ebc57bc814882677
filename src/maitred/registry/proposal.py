"""Make an entry of the configuration, or a manifest, of a launch and the answers of a person.

A text of the registry is literal: a dollar sign in it begins no reference, so no entry can read a variable,
a file or a secret. Only an answer of the person may be a reference.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from maitred.config.interpolate import escape
from maitred.registry.entries import Argument, Input
from maitred.registry.launches import LaunchOption

Kind = Literal["variable", "header", "value"]
_BRACED: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_FLAG_ANSWERS: Final = ("yes", "no")
"""Whether a flag without a value is passed, which it is if the person does not say."""
_REFERENCE: Final = re.compile(r"\$\{[^{}]+\}")


@dataclass(frozen=True, kw_only=True)
class ValueQuestion:
    """Something that a person may say, or must: a variable, a header, or another value by its name."""

    kind: Kind
    name: str
    input: Input

    @property
    def key(self) -> tuple[Kind, str]:
        """The key of its answer."""
        return self.kind, self.name


@dataclass(frozen=True, kw_only=True)
class GivenValue:
    """What a person said: a literal text, or one with references as in the configuration."""

    text: str
    is_raw: bool = False


GivenValues = Mapping[tuple[Kind, str], GivenValue]


def value_of(text: str) -> GivenValue:
    """What a person typed: a reference if all of it is one, else a literal text."""
    return GivenValue(text=text, is_raw=_REFERENCE.fullmatch(text) is not None)


def questions(launch: LaunchOption) -> Sequence[ValueQuestion]:
    """All that may be asked, required things and others, each once."""
    found: dict[tuple[Kind, str], ValueQuestion] = {}
    for question in _questions(launch):
        found.setdefault(question.key, question)
    return list(found.values())


def _questions(launch: LaunchOption) -> Iterator[ValueQuestion]:
    for variable in launch.variables:
        yield from _of_input("variable", variable)
    for argument in launch.arguments:
        if not argument.input.is_bare:
            yield from _of_input("value", argument.input)
        elif argument.is_named:
            flag = replace(argument.input, choices=_FLAG_ANSWERS)
            yield ValueQuestion(kind="value", name=flag.name, input=flag)
    for header in launch.headers:
        yield from _of_input("header", header)
    for name, variable in launch.in_url.items():
        yield ValueQuestion(kind="value", name=name, input=variable)


def _of_input(kind: Kind, own: Input) -> Iterator[ValueQuestion]:
    if not own.value:
        yield ValueQuestion(kind=kind, name=own.name or own.hint or "?", input=own)
    for name in dict.fromkeys(_BRACED.findall(own.value)):
        if name in own.variables:
            yield ValueQuestion(kind="value", name=name, input=own.variables[name])


def as_entry(launch: LaunchOption, answers: GivenValues) -> dict[str, Any]:
    """The entry of the server: its program, image or address, with arguments, variables and headers."""
    env = dict(_pairs("variable", launch.variables, answers))
    if launch.by == "remote":
        headers = dict(_pairs("header", launch.headers, answers))
        url = _filled(launch.what, launch.in_url, answers)
        return {"url": url, "transport": launch.transport} | ({"headers": headers} if headers else {})
    args = [*map(escape, launch.head), *_arguments(launch.arguments, answers)]
    program = {"image": launch.what} if launch.by == "image" else {"command": launch.by}
    return program | ({"args": args} if args else {}) | ({"env": env} if env else {})


def _pairs(kind: Kind, own: Sequence[Input], answers: GivenValues) -> Iterator[tuple[str, str]]:
    for one in own:
        value = _value(kind, one, answers)
        if value is not None and one.name:
            yield one.name, value


def _arguments(arguments: Sequence[Argument], answers: GivenValues) -> Iterator[str]:
    for argument in arguments:
        own = argument.input
        value = _value("value", own, answers)
        if own.is_bare:
            yield from [escape(own.name)] if argument.is_named and value != "no" else []
        elif value is not None:
            yield from [escape(own.name), value] if argument.is_named else [value]


def _value(kind: Kind, own: Input, answers: GivenValues) -> str | None:
    """The value of an input: as it is fixed, as the person said, or its default; `None` without any."""
    if own.value:
        return _filled(own.value, own.variables, answers)
    answer = answers.get((kind, own.name or own.hint or "?"))
    if answer is not None:
        return _joined([answer])
    return escape(own.default) if own.default else None


def _filled(text: str, variables: Mapping[str, Input], answers: GivenValues) -> str:
    """A text with the values of its variables; other words in braces stay as they are."""
    parts: list[GivenValue] = []
    at = 0
    for match in _BRACED.finditer(text):
        known = variables.get(match[1])
        answer = answers.get(("value", match[1]))
        if known is None or (answer is None and not (known.value or known.default)):
            continue
        parts += [
            GivenValue(text=text[at : match.start()]),
            answer or GivenValue(text=known.value or known.default),
        ]
        at = match.end()
    return _joined([*parts, GivenValue(text=text[at:])])


def _joined(parts: Sequence[GivenValue]) -> str:
    """Texts one after another, in which only the raw ones have references, also at the seams."""
    merged: list[GivenValue] = []
    for part in parts:
        if part.text and merged and merged[-1].is_raw == part.is_raw:
            merged[-1] = GivenValue(text=merged[-1].text + part.text, is_raw=part.is_raw)
        elif part.text:
            merged.append(part)
    joined = ""
    for at, part in enumerate(merged):
        after = merged[at + 1].text[:1] if at + 1 < len(merged) else ""
        if part.is_raw:
            dollars = len(part.text) - len(part.text.rstrip("$"))
            joined += part.text + ("$" if dollars % 2 and after in ("$", "{") else "")
        elif after in ("$", "{"):
            joined += escape(part.text + after)[:-1]
        else:
            joined += escape(part.text)
    return joined
