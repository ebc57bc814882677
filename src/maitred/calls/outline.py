"""Describe a JSON value or a text in a few lines, and cut it down by its structure, within a token budget.

Sizes are approximate. The module compares them in characters, then searches for the number of characters for
which the token estimate fits. That takes a few estimates for a whole answer, not one for each string. Parts
that do not fit are not read, so the budget bounds the work, besides one pass over each long list.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic_core import to_json

from maitred.wording import count_of

Estimate = Callable[[str], int]
T = TypeVar("T")

MOST_CHARS_PER_TOKEN = 12  # more characters per token of a budget are over it without a count
_FIRST_GUESS = 4
_GOOD_SHARE = 0.9
_TRIES = 8
_ROUNDS = 5
_MAX_DEPTH = 100  # levels of a value that stays whole
_CUT_DEPTH = 20
_ENDLESS = 1 << 62
_MARKER_CHARS = 26
_MEMBER_CHARS = 24  # the least that a key's value gets before keys are left out
_LINE_END_SHARE = 0.9
_SHAPES = ((24, 3), (12, 3), (8, 2), (4, 1), (0, 0))  # keys shown, levels
_SHAPE_SHARE = 0.6
_MIN_FIRST_TOKENS = 20
_SAMPLE = 20
_KEY_CHARS = 40
_LONG_TEXT = 200
_HEAD_CHARS = 4_000
_HEAD_LINES = 5
_MOST = 0.6  # this share of the first lines makes a kind
_NAMES: Mapping[type, tuple[str, str]] = {
    dict: ("object", "objects"),
    list: ("list", "lists"),
    str: ("str", "strings"),
    bool: ("bool", "booleans"),
    int: ("int", "integers"),
    float: ("number", "numbers"),
    type(None): ("null", "nulls"),
}
_LOG = re.compile(
    r"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} +\d+ \d\d:\d\d|\d\d:\d\d:\d\d|(DEBUG|INFO|WARN|ERROR)\b)"
)
_MARKDOWN = re.compile(r"#{1,6} \S|```|[-*] \S|\|.*\|$|> \S|\d+\. \S")


def compact(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON; in its cut form if it is nested too deep to be encoded."""
    try:
        return to_json(value, indent=indent).decode()
    except ValueError:  # a lone surrogate, or nested deeper than the quick encoder goes
        separators = (",", ":") if indent is None else None
        try:
            return json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)
        except RecursionError:
            return compact(_cut(value, _ENDLESS, 0), indent=indent)


def truncate(value: Any, budget_tokens: int, estimate: Estimate) -> tuple[Any, bool]:
    """A JSON value cut by its structure so that its compact JSON fits, and whether anything was cut.

    As many keys stay as fit, the first items of lists, and the beginning of strings. Each cut place says how
    much was left out (`…+1,180 more items`). Small members stay whole, large ones share the remaining room.
    A value that fits is returned itself. The smallest result is the string `…`, whatever the budget.
    """
    most = MOST_CHARS_PER_TOKEN * budget_tokens
    if size(value, most) <= most and estimate(compact(value)) <= budget_tokens:
        return value, False
    return fit(lambda chars: _cut(value, chars, 0), compact, budget_tokens, estimate), True


def clip(text: str, budget_tokens: int, estimate: Estimate) -> tuple[str, bool]:
    """The beginning of a text, up to a line end if one is near, and whether anything was cut."""
    if len(text) <= MOST_CHARS_PER_TOKEN * budget_tokens and estimate(text) <= budget_tokens:
        return text, False

    def start(chars: int) -> str:
        end = break_at(text, chars)
        return f"{text[:end].rstrip()}\n…+{len(text) - end:,} characters" if end else ""

    return fit(start, str, budget_tokens, estimate), True


def break_at(text: str, chars: int) -> int:
    """The end of a piece of at most `chars` characters: after a near line end, never inside a character."""
    if chars >= len(text):
        return len(text)
    near = text.rfind("\n", int(chars * _LINE_END_SHARE), chars)
    if near > 0:
        return near + 1
    if chars > 1 and "\ud800" <= text[chars - 1] <= "\udbff" and "\udc00" <= text[chars] <= "\udfff":
        return chars - 1
    return chars


def outline(value: Any, budget_tokens: int, estimate: Estimate) -> str:
    """The shape of a JSON value, or the kind of a text, with its beginning; empty if nothing fits."""
    if isinstance(value, str):
        first = "\n".join(line[:_LONG_TEXT] for line in _head(value)[:_HEAD_LINES])
        count = value.count("\n") + (not value.endswith("\n"))
        told = f"{kind(value)}, {count_of(count, 'line')}, {count_of(len(value), 'character')}"
        return clip(f"{told}; it begins:\n{first}" if first else told, budget_tokens, estimate)[0]
    told = ""
    for width, depth in _SHAPES:
        told = _shape(value, width, depth)
        if estimate(told) <= budget_tokens * _SHAPE_SHARE:
            break
    items = _longest_list(value)
    rest = budget_tokens - estimate(told) - len("first item")
    if items and rest >= _MIN_FIRST_TOKENS:
        told += f"\nfirst item: {compact(truncate(items[0], rest, estimate)[0])}"
    return clip(told, budget_tokens, estimate)[0]


def kind(text: str) -> str:
    """The probable kind of a text, by its first lines: a guess for a reader, not for a parser."""
    start, end = text[:_HEAD_CHARS].lstrip(), text[-_HEAD_CHARS:].rstrip()
    lines = _head(text)[:_SAMPLE]
    found = "plain text"
    if len(lines) > 1 and all(line[0] == "{" and line[-1] == "}" for line in lines):
        found = "JSON lines"
    elif start[:1] + end[-1:] in ("{}", "[]"):
        found = "JSON"
    elif re.match(r"<(!doctype html|html)\b", start, re.IGNORECASE):
        found = "HTML"
    elif re.match(r"<[?!A-Za-z]", start) and end.endswith(">"):
        found = "XML"
    elif _share(lines, lambda line: bool(_LOG.match(line))) >= _MOST:
        found = "log lines"
    elif _is_table(lines):
        found = "CSV"
    elif lines and (start.startswith("# ") or _share(lines, lambda x: bool(_MARKDOWN.match(x))) >= _MOST / 2):
        found = "Markdown"
    return found


def size(value: Any, most: int, depth: int = 0) -> int:
    """About how many characters a value has as JSON. Above `most` it stops, and returns more than `most`."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    if depth > _MAX_DEPTH:
        return most + 1
    total = 2
    if isinstance(value, dict):
        for key, member in value.items():
            total += len(key) + 4
            if total > most:
                return total
            total += size(member, most - total, depth + 1)
    elif isinstance(value, list):
        for item in value:
            total += size(item, most - total, depth + 1) + 1
            if total > most:
                return total
    else:
        total = len(str(value))
    return total


def fit(make: Callable[[int], T], render: Callable[[T], str], budget_tokens: int, estimate: Estimate) -> T:
    """The result of `make` for the number of characters whose tokens come near the budget."""
    best = make(0)
    fits, over, chars = 0, MOST_CHARS_PER_TOKEN * budget_tokens + 1, _FIRST_GUESS * budget_tokens
    for _ in range(_TRIES):
        if not fits < chars < over:
            break
        made = make(chars)
        used = estimate(render(made))
        if used > budget_tokens:
            over = chars
        else:
            best, fits = made, chars
            if used >= budget_tokens * _GOOD_SHARE:
                break
        goal = int(chars * budget_tokens * (1 + _GOOD_SHARE) / 2 / max(used, 1))
        chars = goal if fits < goal < over else (fits + over) // 2
    return best


def _cut(value: Any, chars: int, depth: int) -> Any:
    """A value cut to about as many characters."""
    if not value or size(value, chars) <= chars:
        return value
    if isinstance(value, str):
        marker = f"…+{count_of(len(value), 'character')}"
        end = break_at(value, max(chars - len(marker) - 2, 0))
        return f"{value[:end]}…+{count_of(len(value) - end, 'character')}" if end else _if_room(marker, chars)
    if isinstance(value, dict):
        made = _cut_object(value, chars - _MARKER_CHARS, depth) if depth < _CUT_DEPTH else {}
        return made or _if_room(f"…+{count_of(len(value), 'key')}", chars)
    if isinstance(value, list):
        items = _cut_list(value, chars - _MARKER_CHARS, depth) if depth < _CUT_DEPTH else []
        return items or _if_room(f"…+{count_of(len(value), 'item')}", chars)
    return "…"


def _if_room(marker: str, chars: int) -> str:
    return marker if len(marker) + 2 <= chars else "…"


def _cut_object(value: dict[str, Any], room: int, depth: int) -> dict[str, Any]:
    chosen: list[str] = []
    spent = names = 0
    for key, member in value.items():
        spent += len(key) + 4 + min(size(member, _MEMBER_CHARS), _MEMBER_CHARS)
        if spent > room:
            break
        names += len(key) + 4
        chosen.append(key)
    shares = _shares([value[key] for key in chosen], room - names)
    made = {key: _cut(value[key], share, depth + 1) for key, share in zip(chosen, shares, strict=True)}
    if made and len(made) < len(value):
        made["…"] = f"+{len(value) - len(made):,} more keys"
    return made


def _cut_list(value: list[Any], room: int, depth: int) -> list[Any]:
    if room <= 0:
        return []
    least = room // min(len(value), 3)
    spent = count = 0
    for item in value:
        spent += min(size(item, least), least) + 1
        if spent > room + 1:
            break
        count += 1
    shares = _shares(value[:count], room - count)
    made = [_cut(item, share, depth + 1) for item, share in zip(value, shares, strict=False)]
    if made and count < len(value):
        made.append(f"…+{count_of(len(value) - count, 'more item')}")
    return made


def _shares(values: Sequence[Any], room: int) -> list[int]:
    """Divide room: sizes below an even share get what they need, the others share the rest evenly."""
    shares = [0] * len(values)
    waiting = list(range(len(values)))
    for _ in range(_ROUNDS):
        if not waiting:
            return shares
        even = room // len(waiting)
        sizes = {place: size(values[place], even) for place in waiting}
        waiting = [place for place in waiting if sizes[place] > even]
        if len(waiting) == len(sizes):
            break
        for place in sizes.keys() - set(waiting):
            shares[place] = sizes[place]
            room -= sizes[place]
    for place in waiting:
        shares[place] = room // len(waiting)
    return shares


def _shape(value: Any, width: int, depth: int) -> str:
    """One line about a value. It names fewer keys on each further level."""
    if isinstance(value, dict):
        told = f"object with {count_of(len(value), 'key')}"
        return f"{told}: {_keys([value], width, depth)}" if value and width and depth else told
    if not isinstance(value, list):
        long = isinstance(value, str) and len(value) > _LONG_TEXT
        return f"str of {len(value):,} characters" if long else _name(type(value), 1)
    kinds = {type(item) for item in value}
    if len(kinds) != 1:
        mixed = ", ".join(sorted(_name(one, 2) for one in kinds))
        return f"list of {len(value):,} items ({mixed})" if kinds else "empty list"
    [only] = kinds
    told = f"list of {len(value):,} {_name(only, len(value))}"
    if only is dict and width and depth:
        return f"{told}: {_keys(value[:_SAMPLE], width, depth)}"
    return (
        f"{told}, the first a {_shape(value[0], width // 2, depth - 1)}" if only is list and depth else told
    )


def _keys(objects: Sequence[Mapping[str, Any]], width: int, depth: int) -> str:
    """The keys of objects that are alike, each with the type of its first value that is not null."""
    known: dict[str, Any] = {}
    for one in objects:
        for key in one:
            if known.get(key) is None:
                known[key] = one[key]
    told = []
    for key, member in list(known.items())[:width]:
        shape = _shape(member, width // 2, depth - 1)
        name = " ".join(key.split())[:_KEY_CHARS]
        told.append(f"{name} ({shape})" if isinstance(member, dict | list) else f"{name} {shape}")
    return ", ".join([*told, f"…+{len(known) - width:,}"] if len(known) > width else told)


def _name(kind_of: type, count: int) -> str:
    return _NAMES.get(kind_of, ("value", "values"))[count != 1]


def _longest_list(value: Any, levels: int = 2) -> list[Any]:
    """The probable main list of a result: the value itself, or the longest list up to two objects below."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or not levels:
        return []
    members = [member for member in value.values() if isinstance(member, dict | list)]
    return max((_longest_list(member, levels - 1) for member in members), key=len, default=[])


def _head(text: str) -> list[str]:
    """The first lines that are not blank."""
    return [line.strip() for line in text[:_HEAD_CHARS].splitlines() if line.strip()]


def _share(lines: Sequence[str], test: Callable[[str], bool]) -> float:
    return sum(test(line) for line in lines) / len(lines) if lines else 0.0


def _is_table(lines: Sequence[str]) -> bool:
    """Whether the lines have the same number of separators; the last may be cut off."""
    whole = lines[:-1]
    return len(whole) > 1 and any(
        whole[0].count(mark) and _share(whole, lambda x, m=mark: x.count(m) == whole[0].count(m)) >= _MOST  # type: ignore[misc]
        for mark in ",\t;"
    )
