"""Read what servers list into values: tools as `RawTool`, all else as `Offer`.

Servers may send anything. An entry without a usable key is left out, the first of duplicates counts, and
a value of a wrong type is dropped. Texts lose the characters that deceive a reader: control,
bidirectional, zero-width and tag characters.
Schemas stay, valid or not; only their titles and descriptions are cleaned. Keys stay unchanged, since the
gateway sends them back: names, URIs, URI templates, arguments.
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.model.resources import Offer, OfferKey, OfferKind
from maitred.model.tools import RawTool, ToolKey

TOOLS_KEY: Final = "maitred/tools"
"""Where the `_meta` of a result repeats its field `tools`, which the SDK drops on either side."""

_MAX_DEPTH = 200
_NAMED = 5
_NAME = 40
_TEXT_KEYS = frozenset({"title", "description", "$comment"})
_FIELDS = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations"})
_EXTRA = frozenset({"icons", "_meta", "execution"})
_ICON = ("src", "mimeType", "sizes", "theme")
_KEEP = frozenset("\n\t")
_JOINERS = frozenset({0x200C, 0x200D})
_INVISIBLE = frozenset(
    {0x200B, 0x2060, 0xFEFF, 0x00AD, 0x180E, 0x034F, 0x115F, 0x1160, 0x3164, 0xFFA0}
    | set(range(0xFE00, 0xFE0E))  # variation selectors but the two that emoji need
    | set(range(0xE0100, 0xE01F0))
)
_DECEIVING_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str) -> str:
    """Strip control, bidirectional, zero-width and tag characters; joiners stay.

    U+200C and U+200D stay: Persian, Indic scripts and emoji need them, and they hide nothing by themselves.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return text.translate({ord(c): None for c in set(text) if deceives(c)})


def deceives(character: str) -> bool:
    """Whether a character is invisible, reorders its neighbours, or controls a terminal."""
    if character in _KEEP or ord(character) in _JOINERS:
        return False
    return ord(character) in _INVISIBLE or unicodedata.category(character) in _DECEIVING_CATEGORIES


def clean_schema(value: Any, depth: int = 0) -> Any:
    """Clean the titles and descriptions inside a schema; drop what is nested more than 200 levels deep."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {
            _mended(key): clean(item)
            if key in _TEXT_KEYS and isinstance(item, str)
            else clean_schema(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [clean_schema(item, depth + 1) for item in value]
    return value if not isinstance(value, str) or is_text(value) else _mended(value)


def is_text(text: str) -> bool:
    """Whether a text can be encoded; an unpaired surrogate, as JavaScript's patterns may contain, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mended(text: str) -> str:
    return text if is_text(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tools_as_sent(server: str, tools: Iterable[RawTool], definitions: Iterable[Any]) -> list[RawTool]:
    """The tools that were read from `definitions`, with their original texts; wrong types are dropped."""
    wanted = {tool.key.name for tool in tools}
    found: dict[str, RawTool] = {}
    for definition in definitions:
        name = definition.get("name") if isinstance(definition, Mapping) else None
        if isinstance(name, str) and name in wanted and name not in found:
            texts: dict[str, Any] = {
                k: v for k in ("title", "description") if isinstance(v := definition.get(k), str)
            }
            annotations = definition.get("annotations")
            found[name] = RawTool(
                key=ToolKey(server=server, name=name),
                input_schema=definition.get("inputSchema"),
                output_schema=definition.get("outputSchema"),
                annotations=annotations if isinstance(annotations, dict) else {},
                extra=extra_fields(definition),
                **texts,
            )
    return list(found.values())


def read_tools(server: str, definitions: Iterable[Any]) -> tuple[list[RawTool], list[str]]:
    """Read the entries of `tools/list`; returns the tools, and notes on what was left out and why."""
    tools: dict[str, RawTool] = {}
    notes: list[str] = []
    unknown: set[str] = set()
    for definition in definitions:
        name = definition.get("name") if isinstance(definition, Mapping) else None
        if not isinstance(name, str) or not name or not is_text(name):
            notes.append("an entry of tools/list without a usable name was left out")
        elif name in tools:
            notes.append(f"tool {clean(name)!r} is listed twice; only the first can be called")
        else:
            tools[name] = _read(server, name, definition)
            unknown |= definition.keys() - _FIELDS - _EXTRA
    return list(tools.values()), notes + unknown_fields("tools/list", unknown)


def _read(server: str, name: str, definition: Mapping[str, Any]) -> RawTool:
    annotations = definition.get("annotations")
    return RawTool(
        key=ToolKey(server=server, name=name),
        title=_text(definition.get("title")),
        description=_text(definition.get("description")),
        input_schema=clean_schema(definition.get("inputSchema")),
        output_schema=clean_schema(definition.get("outputSchema")),
        annotations=clean_schema(annotations) if isinstance(annotations, dict) else {},
        extra=clean_schema(extra_fields(definition)),
    )


def extra_fields(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Icons, `_meta` and execution of a tool, prompt, template or resource, unchanged.

    Only fields of the protocol are taken: an unknown field would reach agents and clients without a check.
    """
    found: dict[str, Any] = {}
    if isinstance(icons := definition.get("icons"), list):
        found["icons"] = [_icon(icon) for icon in icons if isinstance(icon, Mapping)]
    if isinstance(meta := definition.get("_meta"), dict):
        found["_meta"] = meta
    execution = definition.get("execution")
    if isinstance(execution, Mapping) and isinstance(support := execution.get("taskSupport"), str):
        found["execution"] = {"taskSupport": support}
    return found


def _icon(icon: Mapping[str, Any]) -> dict[str, Any]:
    return {key: icon[key] for key in _ICON if isinstance(icon.get(key), str | list)}


def unknown_fields(method: str, names: Collection[str]) -> list[str]:
    """The note on fields that the protocol does not have; empty if there are none."""
    if not names:
        return []
    some = ", ".join(repr(clean(str(name))[:_NAME]) for name in sorted(names, key=str)[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"fields of {method} that the protocol does not have were left out: {some}{more}"]


def _text(value: Any) -> str:
    return clean(value).strip() if isinstance(value, str) else ""


_TYPES: Mapping[str, type] = {
    "title": str,
    "description": str,
    "mimeType": str,
    "size": int,
    "annotations": dict,
    "required": bool,
}
_EXTRA_OFFERS = frozenset({"icons", "_meta"})
_ARGUMENT = frozenset({"name", "title", "description", "required"})


@dataclass(frozen=True, kw_only=True)
class OfferListing:
    """Where one kind of offer is listed, and which fields it has beside its key, icons and `_meta`.

    `declared` is false if no capability promises the list.
    """

    kind: OfferKind
    method: str
    field: str
    key: str
    capability: str
    fields: frozenset[str]
    declared: bool = True

    def unknown(self, entry: Mapping[str, Any]) -> frozenset[str]:
        """The fields of an entry that the protocol does not have."""
        return frozenset(entry) - self.fields - _EXTRA_OFFERS - {self.key}


_RESOURCE = frozenset({"name", "title", "description", "mimeType", "annotations"})
LISTS = (
    OfferListing(
        kind="resource",
        method="resources/list",
        field="resources",
        key="uri",
        capability="resources",
        fields=_RESOURCE | {"size"},
    ),
    OfferListing(
        kind="template",
        method="resources/templates/list",
        field="resourceTemplates",
        key="uriTemplate",
        capability="resources",
        fields=_RESOURCE,
        declared=False,
    ),
    OfferListing(
        kind="prompt",
        method="prompts/list",
        field="prompts",
        key="name",
        capability="prompts",
        fields=frozenset({"title", "description", "arguments"}),
    ),
)


def read_offers(server: str, listed: OfferListing, entries: Iterable[Any]) -> tuple[list[Offer], list[str]]:
    """Read the entries of a list; returns the offers, and notes on what was left out and why."""
    offers: dict[str, Offer] = {}
    notes: list[str] = []
    unknown: set[str] = set()
    for entry in entries:
        key = entry.get(listed.key) if isinstance(entry, Mapping) else None
        if not isinstance(key, str) or not key or not is_text(key):
            notes.append(f"an entry of {listed.method} without a usable {listed.key} was left out")
        elif key in offers:
            notes.append(f"{listed.kind} {clean(key)!r} is listed twice; only the first can be used")
        else:
            made = OfferKey(server=server, kind=listed.kind, key=key)
            offers[key] = Offer(key=made, name="", definition=_definition(listed, entry))
            unknown |= listed.unknown(entry)
    return list(offers.values()), notes + unknown_fields(listed.method, unknown)


def offers_as_sent(listed: OfferListing, offers: Iterable[Offer], entries: Iterable[Any]) -> list[Offer]:
    """The offers that were read from `entries`, with all fields as the server sent them."""
    first: dict[str, Any] = {}
    for entry in entries:
        key = entry.get(listed.key) if isinstance(entry, Mapping) else None
        if isinstance(key, str):
            first.setdefault(key, entry)
    return [replace(offer, definition=first[offer.key.key]) for offer in offers]


def _definition(listed: OfferListing, entry: Mapping[str, Any]) -> dict[str, Any]:
    known = {k: v for k in listed.fields & _TYPES.keys() if isinstance(v := entry.get(k), _TYPES[k])}
    definition: dict[str, Any] = clean_schema({**known, **extra_fields(entry)})
    definition[listed.key] = entry[listed.key]
    if listed.kind != "prompt":  # the name is for display, and clients require it
        name = entry.get("name")
        definition["name"] = (clean(name).strip() if isinstance(name, str) else "") or entry[listed.key]
    elif isinstance(arguments := entry.get("arguments"), list):
        definition["arguments"] = [_argument(a) for a in arguments if _has_name(a)]
    return definition


def _has_name(argument: Any) -> bool:
    name = argument.get("name") if isinstance(argument, dict) else None
    return isinstance(name, str) and bool(name) and is_text(name)


def _argument(argument: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in argument.items() if k in _ARGUMENT and isinstance(v, _TYPES.get(k, str))}
    return {**clean_schema(kept), "name": argument["name"]}
