"""Rules for answers: their faults in a configuration, the presets, and which of them count for a tool.

A preset is an entry of `result_presets.yaml`, in the form of the configuration. Nothing here changes an
answer; `maitred.calls.result_rules` does.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from maitred.config.settings import ResultDrop, ResultRule, Results
from maitred.errors import ConfigError
from maitred.wording import as_code, did_you_mean, one_of

AUTO, NO_PRESET = "auto", "none"
PRESETS_FILE: Final = Path(__file__).with_name("result_presets.yaml")
_GLOB: Final = "*?["
_CHOICES: Final = tuple(one.name for one in fields(ResultRule) if one.name != "tools")
_FIELD_PATH: Final = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")


@dataclass(frozen=True, kw_only=True)
class ResultPreset:
    """Rules for one published server; `names` are what it calls itself. Its patterns name tools alone."""

    package: str
    names: tuple[str, ...]
    rules: tuple[ResultRule, ...]


@dataclass(frozen=True, kw_only=True)
class ToolResultRule:
    """What counts for the answers of one tool, taken from all rules for it."""

    budget: int | None = None
    drop: ResultDrop = field(default_factory=ResultDrop)
    changes_only: bool = False
    fold: tuple[str, ...] = ()
    ids: str = ""


@cache
def result_presets(path: Path = PRESETS_FILE) -> Mapping[str, ResultPreset]:
    """Read the presets, by name.

    Raises:
        ConfigError: The file has a fault. It is part of the package, so this is for those who add an entry.
    """
    entries = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    presets = TypeAdapter(dict[str, ResultPreset]).validate_python(entries)
    for name, preset in presets.items():
        if faults := [fault for rule in preset.rules for _, fault in _rule_faults(rule)]:
            raise ConfigError(str(path), [f"{name}: {fault}" for fault in faults])
    return presets


@cache
def _presets_text() -> str:
    return PRESETS_FILE.read_text(encoding="utf-8")


def recognised_preset(server_name: str) -> str:
    """Return the name of the preset for a server by what it calls itself; empty if there is none.

    The presets are parsed for a server whose name is in their file, and no other: that takes time.
    """
    if server_name not in _presets_text():
        return ""
    found = (name for name, preset in result_presets().items() if server_name in preset.names)
    return next(found, "")


def rule_for(settings: Results, server: str, tool: str, server_name: str) -> ToolResultRule | None:
    """Return what counts for the answers of a tool; `None` if no rule is for it.

    Of each choice the first rule counts that makes it. The operator's rules come before those of a preset.
    `server` is the name in the configuration, `server_name` what the server calls itself.
    """
    chosen = recognised_preset(server_name) if settings.preset == AUTO else settings.preset
    preset = result_presets()[chosen].rules if chosen not in ("", NO_PRESET) else ()
    rules = [
        *(rule for rule in settings.rules if _fits(f"{server}/{tool}", rule.tools)),
        *(rule for rule in preset if _fits(tool, rule.tools)),
    ]
    choices: dict[str, Any] = {}
    for rule in rules:
        made = {name: getattr(rule, name) for name in _CHOICES}
        choices = {name: value for name, value in made.items() if value is not None} | choices
    return ToolResultRule(**choices) if rules else None


def result_faults(section: Results, servers: Iterable[str]) -> Iterator[tuple[Sequence[Any], str]]:
    """Yield the faults of the section: the keys below it, and a text. `servers` are those of the file."""
    names = list(servers)
    for place, rule in enumerate(section.rules):
        for number, pattern in enumerate(rule.tools):
            for fault in _pattern_faults(pattern, names):
                yield ["rules", place, "tools", number], fault
        for keys, fault in _rule_faults(rule):
            yield ["rules", place, *keys], fault
    known = (
        [AUTO, NO_PRESET, *result_presets()] if section.preset not in (AUTO, NO_PRESET) else [section.preset]
    )
    if section.preset not in known:
        yield ["preset"], f"{section.preset!r} is no preset; use {one_of(known)}"


def _pattern_faults(pattern: str, servers: Sequence[str]) -> Iterator[str]:
    server, slash, tool = pattern.partition("/")
    if not (slash and server and tool):
        yield f"{pattern!r} must be SERVER/TOOL, such as `browser/*` for all tools of the server `browser`"
    elif not set(server) & set(_GLOB) and server not in servers:
        yield f"there is no server {server!r}{did_you_mean(server, servers, quoted=as_code, lead='; ')}"


def _rule_faults(rule: ResultRule) -> Iterator[tuple[Sequence[Any], str]]:
    if all(getattr(rule, name) is None for name in _CHOICES):
        yield [], f"says nothing about the answers; set at least one of {one_of(_CHOICES, as_code)}"
    drop = rule.drop or ResultDrop()
    patterns = [(["drop", "text", number], text) for number, text in enumerate(drop.text)]
    patterns += [(["fold", number], text) for number, text in enumerate(rule.fold or ())]
    patterns += [(["ids"], rule.ids)] if rule.ids else []
    for keys, pattern in patterns:
        if fault := _expression_fault(pattern):
            yield keys, fault
    for number, path in enumerate(drop.fields):
        if not _FIELD_PATH.fullmatch(path):
            yield ["drop", "fields", number], f"{path!r} is no path of fields, such as `items.*.html`"


def _expression_fault(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"is no regular expression: {error}"
    return "must not match an empty text" if re.search(pattern, "") else ""


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
