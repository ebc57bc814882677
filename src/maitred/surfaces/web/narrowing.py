"""The fields by which lists and searches narrow tools: tags, and limits of use, as on the command line."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from maitred.model.usage import ANY_USE, UsageFilter, parse_age
from maitred.surfaces.web.screen import Form

_MOST_CHARACTERS: Final = 400
_MOST_TAGS: Final = 20
_FIELDS: Final = ("max_latency_ms", "min_success", "used_within")


@dataclass(frozen=True, kw_only=True)
class NarrowingFields:
    """What a form says: the texts of its fields, and what they mean. `faults` says which mean nothing."""

    tag: str = ""
    max_latency_ms: str = ""
    min_success: str = ""
    used_within: str = ""
    tags: Sequence[str] = ()
    use: UsageFilter = ANY_USE
    faults: Sequence[str] = ()

    @property
    def is_set(self) -> bool:
        """Whether a field has a text."""
        return any(self.fields.values())

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an address that narrows alike."""
        return {"tag": self.tag, **{name: getattr(self, name) for name in _FIELDS}}

    @property
    def options(self) -> Sequence[str]:
        """The options of a command that narrows alike."""
        limits = [(f"--{name.replace('_', '-')}", getattr(self, name)) for name in _FIELDS]
        pairs = [*(("--tag", tag) for tag in self.tags), *limits]
        return [part for option, value in pairs if value for part in (option, value)]


def narrowing_of(query: Form) -> NarrowingFields:
    """The fields of a form; several tags stand in one field, with commas or spaces between them."""
    written = " ".join(query.every("tag"))[:_MOST_CHARACTERS]
    tags = list(dict.fromkeys(filter(None, re.split(r"[,\s]+", written))))[:_MOST_TAGS]
    texts = {name: query.text(name)[:_MOST_CHARACTERS] for name in _FIELDS}
    faults = list[str]()
    latency = _number(texts["max_latency_ms"], math.inf)
    success = _number(texts["min_success"], 1)
    if texts["max_latency_ms"] and latency is None:
        faults.append("The mean time must be a number of milliseconds, such as 250.")
    if texts["min_success"] and success is None:
        faults.append("The share that succeeded must be a number from 0 to 1, such as 0.95.")
    try:
        span = parse_age(texts["used_within"]) if texts["used_within"] else None
    except ValueError as fault:
        span = None
        faults.append(f"The time since the last call {fault}.")
    return NarrowingFields(
        tag=", ".join(tags),
        tags=tags,
        **texts,
        use=UsageFilter(max_latency_ms=latency, min_success=success, used_within=span),
        faults=faults,
    )


def _number(text: str, most: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= most else None
