"""JSON values in answers: parse a text that is one, and leave out fields by paths such as `items.*.html`."""

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

_ANY = "*"
_STARTS = ("{", "[")


def parse_json(text: str) -> Any:
    """The object or list that a text is, or `None`."""
    if not text.lstrip()[:1].startswith(_STARTS):
        return None
    try:
        return from_json(text)
    except ValueError:
        return None


def without_fields(value: Any, paths: Sequence[str]) -> Any:
    """A copy of a value without the fields at some paths; itself if it has none of them.

    A part of a path is a key, or `*` for every key or item. Lists between two keys are passed through.
    """
    for path in paths:
        value = _without(value, path.split("."))
    return value


def _without(value: Any, path: Sequence[str]) -> Any:
    first, *rest = path
    if isinstance(value, list):
        deeper = rest if first == _ANY and rest else path
        return [_without(item, deeper) for item in value] if first != _ANY or rest else []
    if not isinstance(value, dict):
        return value
    if not rest:
        return {key: one for key, one in value.items() if first not in (_ANY, key)}
    return {key: _without(one, rest) if first in (_ANY, key) else one for key, one in value.items()}
