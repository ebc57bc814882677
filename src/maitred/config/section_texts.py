"""Cut the text of a configuration file into its top-level sections, and put another text in the place of one.

The pieces together are the file, character by character. A section begins with the comments right above its
key, and ends where the next one begins. Nothing is written here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.tokens import AliasToken, AnchorToken

from maitred.config.document import JSON_SUFFIXES, read_document
from maitred.config.edit import value_end
from maitred.config.load import parse
from maitred.config.settings import Settings
from maitred.errors import ConfigError

STAYS: Final = "must stay as it is"


@dataclass(frozen=True, kw_only=True)
class SectionText:
    """A piece of a file. `name` is its top-level key, empty before the first; `line` counts from 1."""

    name: str
    text: str
    start: int
    line: int


def split_sections(path: Path, text: str) -> Sequence[SectionText]:
    """The pieces of a file in their order; one without a name where sections have no lines of their own.

    Raises:
        ConfigError: The text is neither YAML nor JSON.
    """
    root = read_document(path, text).root
    starts = [("", 0)]
    if root is not None and not root.flow_style and path.suffix not in JSON_SUFFIXES:
        floor = 0
        for key, value in root.value:
            starts.append((str(key.value), _section_start(text, key.start_mark.index, floor)))
            floor = max(key.end_mark.index, _end_of(path, value))
    ends = [*(start for _, start in starts[1:]), len(text)]
    return [
        SectionText(name=name, text=text[start:end], start=start, line=text.count("\n", 0, start) + 1)
        for (name, start), end in zip(starts, ends, strict=True)
        if name or end > start
    ]


def _end_of(path: Path, node: Any) -> int:
    try:
        return value_end(node)
    except RecursionError:  # an alias within its own anchor
        raise ConfigError(str(path), ["is nested too deeply"]) from None


def _section_start(text: str, key_at: int, floor: int) -> int:
    """Where a section begins: at the first of the lines of comments right above its key, after `floor`."""
    start = text.rfind("\n", 0, key_at) + 1
    while start > floor:
        before = text.rfind("\n", 0, start - 1) + 1
        if before < floor or not text[before:start].lstrip(" ").startswith("#"):
            break
        start = before
    return max(start, floor)


def with_section(path: Path, text: str, name: str, new: str) -> str:
    """The text of a file with another text of one section, or with one more section at its end.

    `new` has a line feed at the end of each line; an empty one takes the section out. What else the new text
    changes is for `check_section` to find.

    Raises:
        ConfigError: The text is neither YAML nor JSON.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = new if new.endswith("\n") or not new else f"{new}\n"
    lines = lines.replace("\n", newline)
    for piece in split_sections(path, text):
        if piece.name == name:
            return text[: piece.start] + lines + text[piece.start + len(piece.text) :]
    gap = newline if text and not text.endswith("\n") else ""
    return f"{text}{gap}{lines}"


def without_empty_section(path: Path, text: str, name: str) -> str:
    """The text of a file without a section that is an empty mapping; one with a remark in it stays.

    Raises:
        ConfigError: The text is neither YAML nor JSON.
    """
    if read_document(path, text).tree.get(name) != {}:
        return text
    piece = next((one for one in split_sections(path, text) if one.name == name), None)
    lines = piece.text.splitlines(keepends=True) if piece else []
    above = next((at for at, line in enumerate(lines) if not line.lstrip(" ").startswith("#")), 0)
    if piece is None or any("#" in line for line in lines[above:]):
        return text
    return text[: piece.start] + "".join(lines[:above]) + text[piece.start + len(piece.text) :]


def check_section(path: Path, old: str, new: str, name: str, fixed: Collection[str] = ()) -> Settings:
    """The settings of a new text, which differs from the old one in the values of one section alone.

    `fixed` are keys of the section whose values must stay.

    Raises:
        ConfigError: The new text has faults, or changes what it must not.
    """
    settings = parse(path, new)
    before, after = read_document(path, old).tree, read_document(path, new)
    keys = dict.fromkeys([*before, *after.tree])
    others = [key for key in keys if key != name and _differs(before, after.tree, key)]
    faults = [(after.line([key]), f"{key}: is not a part of `{name}`, and must stay") for key in others]
    own, now = _keys_of(before.get(name)), _keys_of(after.tree.get(name))
    faults += [
        (after.line([name, key]), f"{name}.{key}: {STAYS}") for key in fixed if _differs(own, now, key)
    ]
    if faults:
        raise ConfigError(str(path), [f"line {line}: {fault}" for line, fault in sorted(faults)])
    return settings


def _differs(before: dict[str, Any], after: dict[str, Any], key: str) -> bool:
    return (key in before, before.get(key)) != (key in after, after.get(key))


def _keys_of(section: Any) -> dict[str, Any]:
    return section if isinstance(section, dict) else {}


def has_anchor(text: str) -> bool:
    """Whether a text has anchors or aliases: a short one with them may stand for more than memory holds."""
    try:
        return any(isinstance(one, AnchorToken | AliasToken) for one in YAML(pure=True).scan(text))
    except YAMLError:
        return False  # it has a fault, which its reader reports with the line
