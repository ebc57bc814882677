"""`maitred call --interactive`: asks for the arguments of a tool, one parameter after the other.

Questions go to standard error, so that standard output has the answer of the tool alone. Each answer is
checked before the next question. A text parameter takes what is typed; another one takes JSON.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import typer
from rich.text import Text

from maitred.calls.arguments import ArgumentChecker
from maitred.errors import ConfigError
from maitred.model.tools import Tool
from maitred.surfaces.cli.console import err, in_json, visible
from maitred.surfaces.cli.tables import wrap

_MOST_TRIES: Final = 5
_NONE: Final = object()
_SHARED: Final = ("$schema", "$defs", "definitions", "$id")
_FOLLOWED: Final = 20
"""Most references that are followed from one parameter."""


def ask_arguments(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for each parameter that is not given, required ones first; nothing typed leaves one out.

    Raises:
        ConfigError: The input ends before a required parameter, or an answer was wrong too often.
    """
    found = schema.get("properties")
    properties = found if isinstance(found, Mapping) else {}
    listed = schema.get("required")
    required = [name for name in listed if name in properties] if isinstance(listed, list) else []
    arguments = dict(given)
    if not properties:
        err.print("It has no parameters.")
    for name in dict.fromkeys([*required, *properties]):
        if name not in arguments:
            parameter = _ParameterQuestion(name=name, root=schema, is_required=name in required)
            if (value := parameter.ask()) is not _NONE:
                arguments[name] = value
    return arguments


def confirm_call(tool: Tool, arguments: Mapping[str, Any], *, asks: bool) -> bool:
    """Show what is sent; a tool that may change things needs a yes."""
    err.print(Text.assemble("Calls ", (tool.name, "bold"), f" with {in_json(dict(arguments), indent=2)}"))
    if tool.read_only or not asks:
        return True
    may = "change or destroy" if tool.destructive else "change"
    return _confirm(f"It may {may} things. Call it?")


@dataclass(frozen=True, kw_only=True)
class _ParameterQuestion:
    """One parameter of a tool, and how its user gives it."""

    name: str
    root: Mapping[str, Any]
    is_required: bool

    def ask(self) -> Any:
        """A value that fits; `_NONE` if it is left out."""
        schema = _resolved(self.root["properties"][self.name], self.root)
        self._describe(schema)
        for _ in range(_MOST_TRIES):
            typed = _line(f"{visible(self.name)}: ")
            if typed is None and self.is_required and "default" not in schema:
                raise ConfigError(
                    "--interactive", [f"the input ended before {self.name!r}, which is required"]
                )
            if not typed:
                if "default" in schema or not self.is_required:
                    return _NONE
                if not _is_text(schema) or not self._fits(""):
                    err.print("  It is required.")
                    continue
            value = self._value(typed or "", schema)
            if faults := self._faults(value):
                for fault in faults:
                    err.print(Text(f"  {visible(fault)}", style="red"))
                continue
            return value
        raise ConfigError("--interactive", [f"no answer for {self.name!r} fits"])

    def _describe(self, schema: Mapping[str, Any]) -> None:
        kind = _kind(schema)
        needed = "required" if self.is_required else "optional, Enter leaves it out"
        if "default" in schema:
            needed = f"Enter means {in_json(schema['default'])}"
        err.print(Text.assemble((visible(self.name), "bold"), f" ({kind}; {needed})"))
        about = schema.get("description")
        if isinstance(about, str) and about.strip():
            for line in wrap(visible(" ".join(about.split())), err.width - 2):
                err.print(Text(f"  {line}", style="dim"))
        for number, choice in enumerate(_choices(schema), 1):
            err.print(Text(f"  {number}. {visible(_shown(choice))}"))

    def _value(self, typed: str, schema: Mapping[str, Any]) -> Any:
        """What was typed as a value: a choice by its number or its text, a text, or JSON."""
        choices = _choices(schema)
        by_text = {_shown(choice): choice for choice in choices}
        if typed in by_text:
            return by_text[typed]
        if choices and typed.isdecimal() and 0 < int(typed) <= len(choices):
            return choices[int(typed) - 1]
        if _is_text(schema):
            return typed
        if schema.get("type") == "boolean" and typed.lower() in ("yes", "y", "no", "n"):
            return typed.lower().startswith("y")
        try:
            return json.loads(typed)
        except (ValueError, RecursionError):
            return typed

    def _fits(self, value: Any) -> bool:
        return not self._faults(value)

    def _faults(self, value: Any) -> list[str]:
        shared = {key: self.root[key] for key in _SHARED if key in self.root}
        schema = {
            **shared,
            "type": "object",
            "properties": {self.name: self.root["properties"][self.name]},
            "required": [self.name],
        }
        return ArgumentChecker().faults(self.name, lambda _: schema, {self.name: value})


def _resolved(start: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its local references followed, as far as a question needs it."""
    schema: Mapping[str, Any] = start if isinstance(start, Mapping) else {}
    for _ in range(_FOLLOWED):
        reference, choices = schema.get("$ref"), schema.get("anyOf")
        target: Any = None
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
        if isinstance(reference, str) and reference.startswith("#/"):
            target, beside = root, {key: value for key, value in schema.items() if key != "$ref"}
            for part in reference.removeprefix("#/").split("/"):
                target = target.get(part) if isinstance(target, Mapping) else None
        elif isinstance(choices, list) and "type" not in schema:  # as Pydantic writes what may be left out
            variants = [one for one in choices if isinstance(one, Mapping) and one.get("type") != "null"]
            target = variants[0] if len(variants) == 1 else None
        if not isinstance(target, Mapping):
            break
        schema = {**target, **beside}
    return schema


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    found = schema.get("enum")
    return found if isinstance(found, list) else []


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    words = [str(one) for one in kind] if isinstance(kind, list) else [str(kind)] if kind else ["any JSON"]
    if _choices(schema):
        return "one of these, or its number"
    if words == ["boolean"]:
        return "true or false"
    return " or ".join(f"{one}, as JSON" if one in ("object", "array") else one for one in words)


def _is_text(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "string" or (
        isinstance(kind, list) and [one for one in kind if one != "null"] == ["string"]
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else in_json(value)


def _line(prompt: str) -> str | None:
    """What is typed, without the end of its line; `None` at the end of the input."""
    err.print(Text(prompt), end="")
    line = sys.stdin.readline()
    if not sys.stdin.isatty():
        err.print()
    return line.rstrip("\r\n") if line else None


def _confirm(question: str) -> bool:
    while True:
        answer = _line(f"{question} [y/N] ")
        if answer is None or answer.strip().lower() in ("", "n", "no"):
            return False
        if answer.strip().lower() in ("y", "yes"):
            return True
        typer.echo("Answer y or n.", err=True)
