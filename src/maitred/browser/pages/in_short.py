"""Writes the arguments of a call for a person who decides about it, so that none of them hides another."""

import json
from collections.abc import Mapping
from typing import Any, Final

from maitred.backends.listing import clean

_MOST_TEXT: Final = 80
_MOST_ITEMS: Final = 12
_MOST_LEVELS: Final = 4
_MOST_ALL: Final = 4_000


def in_short(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON: each text in it is cut by itself, and loses the characters that deceive a reader."""
    written = json.dumps(_short(arguments, _MOST_LEVELS), ensure_ascii=False)
    more = len(written) - _MOST_ALL
    return f"{written[:_MOST_ALL]}… ({more:,} more characters, not shown)" if more > 0 else written


def _short(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping | list) and value and not levels:
        return f"… ({len(value):,} parts, not shown)"
    if isinstance(value, Mapping):
        items = list(value.items())
        short = {_text(str(key)): _short(item, levels - 1) for key, item in items[:_MOST_ITEMS]}
        return short | ({"…": _more(items)} if len(items) > _MOST_ITEMS else {})
    if isinstance(value, list):
        short_items = [_short(item, levels - 1) for item in value[:_MOST_ITEMS]]
        return short_items + ([_more(value)] if len(value) > _MOST_ITEMS else [])
    return value


def _text(text: str) -> str:
    cleaned = " ".join(clean(text).split())
    more = len(cleaned) - _MOST_TEXT
    return f"{cleaned[:_MOST_TEXT]}… ({more:,} more characters)" if more > 0 else cleaned


def _more(items: list[Any]) -> str:
    return f"{len(items) - _MOST_ITEMS:,} more, not shown"
