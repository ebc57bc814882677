"""Turn resources, templates and prompts as servers send them into `Offer` values, whatever they contain.

The same care as for tools: what has no usable key is left out, duplicates keep the first, wrong types are
replaced by nothing, and texts lose the characters that deceive a reader. Keys (URIs, URI templates, names of
prompts and of their arguments) stay as they are, because they are sent back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from maitred.backends.definitions import clean, clean_schema, extra_fields, is_text, unknown_fields
from maitred.model.offers import Offer, OfferKey, OfferKind

_TYPES: Mapping[str, type] = {
    "title": str,
    "description": str,
    "mimeType": str,
    "size": int,
    "annotations": dict,
    "required": bool,
}
_EXTRA = frozenset({"icons", "_meta"})
_ARGUMENT = frozenset({"name", "title", "description", "required"})


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Where one kind of offer is listed, and which fields it has beside its key, icons and `_meta`.

    `declared` is false where no capability promises the list.
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
        return frozenset(entry) - self.fields - _EXTRA - {self.key}


_RESOURCE = frozenset({"name", "title", "description", "mimeType", "annotations"})
LISTS = (
    Listed(
        kind="resource",
        method="resources/list",
        field="resources",
        key="uri",
        capability="resources",
        fields=_RESOURCE | {"size"},
    ),
    Listed(
        kind="template",
        method="resources/templates/list",
        field="resourceTemplates",
        key="uriTemplate",
        capability="resources",
        fields=_RESOURCE,
        declared=False,
    ),
    Listed(
        kind="prompt",
        method="prompts/list",
        field="prompts",
        key="name",
        capability="prompts",
        fields=frozenset({"title", "description", "arguments"}),
    ),
)


def read_offers(server: str, listed: Listed, entries: Iterable[Any]) -> tuple[list[Offer], list[str]]:
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


def as_sent(listed: Listed, offers: Iterable[Offer], entries: Iterable[Any]) -> list[Offer]:
    """The offers that were read from `entries`, with all fields as they came."""
    first: dict[str, Any] = {}
    for entry in entries:
        key = entry.get(listed.key) if isinstance(entry, Mapping) else None
        if isinstance(key, str):
            first.setdefault(key, entry)
    return [replace(offer, definition=first[offer.key.key]) for offer in offers]


def _definition(listed: Listed, entry: Mapping[str, Any]) -> dict[str, Any]:
    known = {k: v for k in listed.fields & _TYPES.keys() if isinstance(v := entry.get(k), _TYPES[k])}
    definition: dict[str, Any] = clean_schema({**known, **extra_fields(entry)})
    definition[listed.key] = entry[listed.key]
    if listed.kind != "prompt":  # a name to look at, which clients insist on
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
