"""Read one YAML or JSON file into a manifest; every fault has its line, key, reason and fix.

Faulty keys do not stop the reading of the others, so that the layers can check the rest. Size, depth and the
number of values are limited first: a file of a few hundred bytes can mean billions of values. Nothing here
judges; the layers do.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from maitred.admission.checks.base import ManifestReading
from maitred.admission.findings import Finding
from maitred.admission.manifest import ADAPTER, FORMS, NAME, SHOWN, Manifest
from maitred.config.document import ConfigDocument, read_document
from maitred.errors import ConfigError
from maitred.model.transports import default_kind, manifest_kinds
from maitred.wording import as_code, did_you_mean

MAX_CHARS = 32 * 1024
"""Largest length of a manifest in characters."""

MAX_DEPTH = 24
_MAX_OPEN = 100  # open brackets anywhere in the text: more take seconds to parse
_OPENING = re.compile(r"[\[{\]}]|(?:[-?:][ \t]+){2,}")
MAX_VALUES = 5_000
LAYER = "schema"
_KEYS = tuple(one.name for one in fields(Manifest))
_UNNAMED = "unnamed"
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)
_TWICE = re.compile(r"(.*): is given twice, first in line \d+", re.DOTALL)
_SAID: Mapping[str, tuple[str, str]] = {
    "string_type": ("must be text", "write one value, in quotes if need be"),
    "tuple_type": ("must be a list", "write [a, b], or one line with `- ` each"),
    "mapping_type": ("must be a mapping", "write names with a value each"),
    "dict_type": ("must be a mapping", "write names with a value each"),
    "dataclass_type": ("must be a mapping", "write keys with a value each"),
    "int": ("must be a whole number", "write digits only"),
    "float": ("must be a number", "write digits, with a point if need be"),
    "finite_number": ("must be a number", "write digits, with a point if need be"),
    "bool": ("must be true or false", "write true or false"),
    "missing": ("is missing", "add it"),
    "literal_error": ("must be {expected}", "choose one of them"),
    "greater_than": ("must be more than {gt:g}", "choose a larger number"),
    "greater_than_equal": ("must be at least {ge:g}", "choose a larger number"),
    "less_than_equal": ("must be at most {le:g}", "choose a smaller number"),
    "string_too_long": ("is longer than {max_length} characters", "shorten it"),
    "string_too_short": ("is empty", "give it a value or leave it out"),
    "too_long": ("has more than {max_length} entries", "leave some out"),
    "too_short": ("is empty", "give it a value or leave it out"),
}


def read_manifest(path: Path, text: str) -> ManifestReading:
    """Read the text of a manifest; the suffix of `path` says JSON or YAML, and findings name it.

    The longest text takes about two seconds of processor time, so a server calls it in a thread.
    """
    if len(text) > MAX_CHARS:
        return _nothing(
            path, 0, f"is longer than {MAX_CHARS:,} characters", "a manifest is one server; shorten it"
        )
    if _most_open(text) > _MAX_OPEN:
        return _nothing(path, 0, f"is nested deeper than {MAX_DEPTH} levels", "write it flatter")
    try:
        document = read_document(path, text)
    except ConfigError as error:
        line, reason = _split_line(error.faults[0])
        reason = reason.replace("with `servers` or `mcpServers`", "of keys to values, such as `name: time`")
        return _nothing(path, line, reason, "correct the YAML")
    if fault := _too_much(document.root):
        return _nothing(path, 1, *fault)
    reader = _ManifestReader(path, document)
    manifest = reader.manifest()
    findings = sorted(reader.findings, key=lambda finding: finding.line)
    return ManifestReading(file=str(path), manifest=manifest, findings=tuple(findings), lines=reader.lines)


def _most_open(text: str) -> int:
    """The greatest number of brackets open at once, or of items that begin on one line."""
    depth = highest = 0
    for match in _OPENING.finditer(text):
        sign = match[0]
        depth = max(depth + (1 if sign in "[{" else -1), 0) if len(sign) == 1 else depth
        highest = max(highest, depth, len(sign.split()))
    return highest


def _nothing(path: Path, line: int, reason: str, fix: str) -> ManifestReading:
    only = Finding(layer=LAYER, severity="refuse", key="", reason=reason, fix=fix, line=line, file=str(path))
    return ManifestReading(file=str(path), findings=(only,))


def _split_line(fault: str) -> tuple[int, str]:
    match = _LINE.fullmatch(fault)
    return (int(match[1]), match[2]) if match else (0, fault)


def _too_much(root: Node | None) -> tuple[str, str] | None:
    """Count values with every alias written out; a value that contains itself has no end."""
    budget, stack = MAX_VALUES, [(root, 1)]
    while stack:
        node, depth = stack.pop()
        budget -= 1
        if depth > MAX_DEPTH:
            return f"is nested deeper than {MAX_DEPTH} levels", "write it flatter"
        if budget < 0:
            return f"has more than {MAX_VALUES:,} values", "write less, and without aliases"
        if isinstance(node, MappingNode):
            stack += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, SequenceNode):
            stack += [(item, depth + 1) for item in node.value]
    return None


class _ManifestReader:
    """Turns a document of limited size into a manifest and collects its faults."""

    def __init__(self, path: Path, document: ConfigDocument) -> None:
        self._file = str(path)
        self._tree = document.tree
        self.lines = dict(_lines(document.root, ""))
        self.findings: list[Finding] = []
        for line, message in document.faults:
            twice = _TWICE.fullmatch(message)
            fix = "keep one of the two" if twice else "write plain text, numbers, lists and mappings"
            at = [key for key, own in self.lines.items() if own == line]
            self._refuse(at[-1] if at else "", message.partition(": ")[2] if twice else message, fix, line)

    def manifest(self) -> Manifest | None:
        """The manifest, with each faulty key at its default; `None` if a needed key is faulty."""
        values = {**self._reach(), **self._tree}
        for key in [key for key, value in self._tree.items() if value is None and key in _KEYS]:
            self._refuse(key, "has no value", "give it one or leave it out")
            del values[key]
        try:
            return ADAPTER.validate_python(values)
        except ValidationError as error:
            faulty = set()
            for fault in error.errors(include_url=False):
                faulty.add(fault["loc"][0])
                self._explain(fault)
        rest = {key: value for key, value in values.items() if key not in faulty}
        guess = next(kind.name for kind in manifest_kinds())
        whole = {"name": _UNNAMED, **self._reach(guess=guess), **rest}
        return replace(ADAPTER.validate_python(whole), name=rest.get("name", ""))

    def _reach(self, guess: str = "") -> Mapping[str, Any]:
        """The transport, if the key that says how to reach the server reveals it."""
        kinds, tree = manifest_kinds(), self._tree
        keys = list(dict.fromkeys(kind.key for kind in kinds))
        given = [default_kind(kinds, key, str(tree.get("url"))) for key in keys if key in tree]
        if not given and not guess and "transport" not in tree:
            fix = f"add one of {', '.join(map(as_code, keys))}"
            self._refuse("transport", "nothing says how to reach the server", fix)
        return {"transport": given[0].name if given and given[0] else guess or kinds[0].name}

    def _explain(self, fault: Any) -> None:
        key = _path([part for part in fault["loc"] if part != "[key]"])
        kind, context = fault["type"], fault.get("ctx", {})
        if kind == "unexpected_keyword_argument":
            names = _names_at(fault["loc"])
            fix = did_you_mean(key, names, quoted=as_code, otherwise=f"there are {', '.join(names)}")
            self._refuse(key, "is not a known key", fix)
        elif kind == "string_pattern_mismatch":
            self._refuse(key, *_form_fault(context["pattern"], str(fault["input"])))
        elif kind == "value_error":
            reason, _, fix = str(context["error"]).partition("; ")
            self._refuse(key, reason, fix)
        else:
            stem = kind if kind in _SAID else kind.partition("_")[0]
            reason, fix = _SAID.get(stem, (fault["msg"], ""))
            self._refuse(key, reason.format_map(context), fix)

    def _refuse(self, key: str, reason: str, fix: str, line: int = 0) -> None:
        line = line or ManifestReading(file=self._file, lines=self.lines).line(key)
        self.findings.append(
            Finding(
                layer=LAYER, severity="refuse", key=key, reason=reason, fix=fix, line=line, file=self._file
            )
        )


def _names_at(loc: Sequence[Any]) -> Sequence[str]:
    """The keys that are allowed in the place of an unknown one."""
    limits = ("start_s", "list_s", "call_s", "longest_call_s", "idle_stop_s")
    kinds = {"filesystem": ("path", "mode", "at"), "timeouts": limits}
    return kinds.get(str(loc[0]), ()) if len(loc) > 1 else _KEYS


def _form_fault(pattern: str, text: str) -> tuple[str, str]:
    """Why a text does not have its form, and the fix; it shows only a deceptive character of the text."""
    reason, fix = FORMS.get(pattern, ("has not the form it needs", ""))
    odd = ""
    if pattern == SHOWN:
        odd = next((c for c in text if not re.match(SHOWN, c)), "")
    elif pattern == NAME:
        odd = next((c for c in text if not c.isascii()), "")
    character = f"U+{ord(odd):04X} {unicodedata.name(odd, '')}".strip() if odd else ""
    return (f"{reason}: {character}" if character else reason), fix


def _path(parts: Sequence[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _lines(node: Node | None, key: str) -> Iterator[tuple[str, int]]:
    """Every key of a document of limited size, with its line."""
    if isinstance(node, MappingNode):
        for name, value in node.value:
            last = str(name.value) if isinstance(name, ScalarNode) else ""  # other keys are faults already
            below = f"{key}.{last}" if key else last
            yield below, name.start_mark.line + 1
            yield from _lines(value, below)
    elif isinstance(node, SequenceNode):
        for at, item in enumerate(node.value):
            yield f"{key}[{at}]", item.start_mark.line + 1
            yield from _lines(item, f"{key}[{at}]")
