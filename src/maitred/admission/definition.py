"""All that a server publishes as one value that can be approved: its content, its hash, its changes.

A definition contains the tools, prompts, resource templates and instructions of a server. They are
normalised, so the order of keys makes no difference, and each part has a hash. Resources are left out, since
they are data that comes and goes. `diff` describes differences for people; quarantine depends on the hashes
alone.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from maitred.admission.schema_diff import SchemaDifference, Weight, differences, rewording_clause, short
from maitred.backends.listing import extra_fields
from maitred.model.nesting import depth_within
from maitred.model.resources import Offer
from maitred.model.tools import RawTool, canonical
from maitred.wording import count_of

PartKind = Literal["tool", "prompt", "template", "instructions"]

MAX_SCHEMA_BYTES: Final = 200_000
"""Larger schemas, and those nested deeper than any honest one, are stored as a hash only."""
_MORE: Final = {"icons": "its icons", "_meta": "its `_meta`", "execution": "whether it runs as a task"}
_MAX_DEPTH: Final = 100
_MAX_CHANGES: Final = 20
_HINTS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}


@dataclass(frozen=True, kw_only=True, order=True, slots=True)
class PartKey:
    """Identifies a part of a definition; `name` is the server's own, empty for the instructions."""

    kind: PartKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {short(self.name)!r}" if self.name else "the server's instructions"


@dataclass(frozen=True, kw_only=True, slots=True)
class DefinitionPart:
    """A part: its normalised content, and the SHA-256 of that in hex."""

    content: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, kw_only=True)
class Definition:
    """All parts that a server publishes."""

    parts: Mapping[PartKey, DefinitionPart] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """The SHA-256, in hex, of all parts; their order makes no difference."""
        entries = [[key.kind, key.name, self.parts[key].digest] for key in sorted(self.parts)]
        return hashlib.sha256(canonical(entries)).hexdigest()

    def digest_of(self, key: PartKey) -> str:
        """The hash of a part; empty if there is no such part."""
        return self.parts[key].digest if key in self.parts else ""

    def to_bytes(self) -> bytes:
        """The stored form; `from_bytes` reads it."""
        return canonical([[key.kind, key.name, self.parts[key].content] for key in sorted(self.parts)])

    @classmethod
    def from_bytes(cls, body: bytes) -> "Definition":
        """Read the stored form; computes the hashes again.

        Raises:
            ValueError: The bytes are no definition.
        """
        try:
            return _of({PartKey(kind=kind, name=name): part for kind, name, part in json.loads(body)})
        except (TypeError, AttributeError) as error:
            raise ValueError("these bytes are not a definition") from error


@dataclass(frozen=True, kw_only=True)
class DefinitionChange:
    """A difference between an approved definition and a live one.

    `kind` is a stable word, `text` a sentence for a person. `weight` says whether the change gives the server
    more power over its caller (`power`), takes some away (`less`), or neither (`wording`).
    """

    part: PartKey
    kind: str
    weight: Weight
    text: str


ShadowLookup = Callable[[str], str]
"""Returns the other server with a tool that resembles a new tool of this name; empty if there is none."""


def no_shadow(_: str) -> str:
    """For a server without others: no name resembles another."""
    return ""


def define(
    tools: Iterable[RawTool], offers: Iterable[Offer] = (), *, title: str = "", instructions: str = ""
) -> Definition:
    """The definition of a server from what it published, with texts exactly as the server sent them.

    So an invisible change counts too, such as one of invisible characters. The server's title is part of its
    instructions.
    """
    contents: dict[PartKey, Mapping[str, Any]] = {}
    for tool in tools:
        contents[PartKey(kind="tool", name=tool.key.name)] = {
            "title": tool.title,
            "description": tool.description,
            **_schema("annotations", dict(tool.annotations)),
            **_schema("input", tool.input_schema),
            **_schema("output", tool.output_schema),
            **_extra_fields(tool.extra),
        }
    for offer in offers:
        if offer.key.kind == "prompt":
            contents[PartKey(kind="prompt", name=offer.key.key)] = _prompt(offer.definition)
        elif offer.key.kind == "template":
            texts = _texts(offer.definition, "name", "title", "description", "mimeType")
            more = _extra_fields(offer.definition) | _schema(
                "annotations", offer.definition.get("annotations")
            )
            contents[PartKey(kind="template", name=offer.key.key)] = {**texts, **more}
    if title or instructions:
        contents[PartKey(kind="instructions")] = {"title": title, "description": instructions}
    return _of(contents)


def _of(contents: Mapping[PartKey, Mapping[str, Any]]) -> Definition:
    digests = {key: hashlib.sha256(canonical(content)).hexdigest() for key, content in contents.items()}
    return Definition(parts={k: DefinitionPart(content=contents[k], digest=digests[k]) for k in contents})


def _prompt(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a prompt; its arguments become an object schema, to be compared like parameters."""
    listing = definition.get("arguments")
    entries = [a for a in listing if isinstance(a, Mapping)] if isinstance(listing, list) else []
    arguments = [a for a in entries if isinstance(a.get("name"), str)]
    schema = {
        "type": "object",
        "properties": {a["name"]: _texts(a, "title", "description") for a in arguments},
        "required": [a["name"] for a in arguments if a.get("required") is True],
    }
    return {
        **_texts(definition, "title", "description"),
        **_schema("input", schema),
        **_extra_fields(definition),
    }


def _extra_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are neither a text nor a schema: icons, `_meta`, and whether it runs as a task."""
    values = extra_fields(fields)
    return {name: value for key in _MORE for name, value in _schema(key, values.get(key)).items()}


def _texts(definition: Mapping[str, Any], *names: str) -> dict[str, str]:
    """Some fields of a definition, without values that are no text."""
    return {name: text for name in names if isinstance(text := definition.get(name), str)}


def _schema(key: str, schema: Any) -> dict[str, Any]:
    """A schema in stored form: normalised, or its hash under a key of its own."""
    if schema is None:
        return {}
    if depth_within(schema, _MAX_DEPTH):
        normal = _normal(schema)
        body = canonical(normal)
        if len(body) <= MAX_SCHEMA_BYTES:
            return {key: normal}
        return {f"{key}_hash": hashlib.sha256(body).hexdigest(), f"{key}_bytes": len(body)}
    hasher, size = hashlib.sha256(), 0
    for piece in _pieces(schema):
        hasher.update(piece)
        size += len(piece)
    return {f"{key}_hash": hasher.hexdigest(), f"{key}_bytes": size}


def _normal(value: Any) -> Any:
    """A schema in which everything without an order is sorted."""
    if isinstance(value, Mapping):
        return {key: _in_order(item) if key == "required" else _normal(item) for key, item in value.items()}
    return [_normal(item) for item in value] if isinstance(value, list) else value


def _in_order(names: Any) -> Any:
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return sorted(set(names))
    return _normal(names)


def _pieces(value: Any) -> Iterator[bytes]:
    """A value as a sequence of bytes, whatever its depth; equal values give equal sequences."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            yield b"{%d" % len(item)
            stack += [part for pair in sorted(item.items(), key=lambda pair: pair[0]) for part in pair]
        elif isinstance(item, list):
            yield b"[%d" % len(item)
            stack += item
        else:
            body = canonical(item)
            yield b"=%d:%s" % (len(body), body)


def diff(
    approved: Definition, live: Definition, *, shadowed: ShadowLookup = no_shadow
) -> Sequence[DefinitionChange]:
    """The differences between an approved definition and a live one, by part, the most serious first.

    Every part with another hash is named at least once, and a part at most some twenty times.
    """
    changes: list[DefinitionChange] = []
    for key in sorted(approved.parts.keys() | live.parts.keys()):
        before, after = approved.parts.get(key), live.parts.get(key)
        if before is None:
            changes.append(_new(key, shadowed))
        elif after is None:
            changes.append(DefinitionChange(part=key, kind="gone", weight="less", text=f"{key} is gone"))
        elif before.digest != after.digest:
            changes += _as_changes(key, _compare(before.content, after.content))
    return changes


def _new(key: PartKey, shadowed: ShadowLookup) -> DefinitionChange:
    owner = shadowed(key.name) if key.kind == "tool" else ""
    if owner:
        text = f"{key} is new, and could be taken for the tool of that name of server {owner!r}"
        return DefinitionChange(part=key, kind="shadowing", weight="power", text=text)
    return DefinitionChange(part=key, kind="added", weight="wording", text=f"{key} is new")


def _as_changes(key: PartKey, clauses: Iterable[SchemaDifference]) -> Iterator[DefinitionChange]:
    order = ("power", "wording", "less")
    in_order = sorted(clauses, key=lambda f: order.index(f.weight))
    for difference in in_order[:_MAX_CHANGES]:
        yield DefinitionChange(
            part=key, kind=difference.kind, weight=difference.weight, text=f"{key}: {difference.text}"
        )
    if (rest := len(in_order) - _MAX_CHANGES) > 0:
        weight, text = in_order[_MAX_CHANGES].weight, f"{key}: {count_of(rest, 'more change')}"
        yield DefinitionChange(part=key, kind="more", weight=weight, text=text)
    if not in_order:  # no words for this difference: the worst is assumed
        yield DefinitionChange(part=key, kind="changed", weight="power", text=f"{key} has changed")


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SchemaDifference]:
    for key in ("title", "description"):
        old, new = before.get(key, ""), after.get(key, "")
        if old != new:
            yield SchemaDifference(
                kind="reworded", weight="wording", text=rewording_clause(f"its {key}", old, new)
            )
    for key in ("name", "mimeType"):
        if before.get(key) != after.get(key):
            text = f"its {key} is {short(str(after.get(key)))!r} instead of {short(str(before.get(key)))!r}"
            yield SchemaDifference(kind="renamed", weight="wording", text=text)
    for key, label in _MORE.items():
        names = (key, f"{key}_hash")
        if [before.get(name) for name in names] != [after.get(name) for name in names]:
            yield SchemaDifference(kind=key.strip("_"), weight="wording", text=f"{label} changed")
    yield from _annotations(before.get("annotations", {}), after.get("annotations", {}))
    yield from _schemas("input", before, after)
    yield from _schemas("output", before, after)


def _schemas(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SchemaDifference]:
    whole, size = f"{key}_hash", f"{key}_bytes"
    if before.get(whole) != after.get(whole):
        bytes_now = after.get(size) or before.get(size) or 0
        text = f"its {key} schema changed and is too large to be compared ({bytes_now:,} bytes)"
        yield SchemaDifference(
            kind=f"{key}_schema", weight="power" if key == "input" else "wording", text=text
        )
    elif key == "output" and (key in before) != (key in after):
        event = "was added" if key in after else "is gone"
        yield SchemaDifference(kind="output_schema", weight="wording", text=f"its output schema {event}")
    elif before.get(key) != after.get(key):
        for difference in differences(before.get(key), after.get(key)):
            if key == "input":
                yield difference
            else:  # an output schema asks nothing of the caller
                yield SchemaDifference(
                    kind="output_schema", weight="wording", text=f"in its answer, {difference.text}"
                )


def _annotations(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SchemaDifference]:
    """Changes of a tool's annotations; a missing one has the default meaning of the protocol."""
    was, now = ({h: a.get(h) if isinstance(a.get(h), bool) else d for h, d in _HINTS.items()}
                for a in (before, after))  # fmt: skip
    if was["readOnlyHint"] and not now["readOnlyHint"]:
        yield SchemaDifference(kind="read_only_lost", weight="power", text="it is no longer read-only")
    if now["readOnlyHint"] and not was["readOnlyHint"]:
        text = "it says now that it is read-only, so it would be called where only reading is allowed"
        yield SchemaDifference(kind="read_only_gained", weight="power", text=text)
    if now["destructiveHint"] and not was["destructiveHint"]:
        yield SchemaDifference(
            kind="destructive_gained", weight="power", text="it says now that it may destroy something"
        )
    if was["destructiveHint"] and not now["destructiveHint"]:
        yield SchemaDifference(
            kind="destructive_lost", weight="wording", text="it says now that it destroys nothing"
        )
    if now["openWorldHint"] and not was["openWorldHint"]:
        yield SchemaDifference(
            kind="open_world_gained", weight="power", text="it says now that it reaches the outside"
        )
    covered_hints = {"readOnlyHint", "destructiveHint", "openWorldHint"}
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and (key not in covered_hints or was.get(key) == now.get(key)):
            values = [short(json.dumps(a[key])) if key in a else "nothing" for a in (before, after)]
            text = f"its annotation {short(key)!r} is {values[1]} instead of {values[0]}"
            yield SchemaDifference(kind="annotation", weight="wording", text=text)
