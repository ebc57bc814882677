"""Cuts a query into the parts that may each name a tool."""

import re

_BREAK = re.compile(r"[.!?;,\n]+(?=\s|$)")


def clauses(text: str) -> list[str]:
    """The parts between sentence ends and commas that have two words or more; the whole if there are none."""
    parts = [part.strip() for part in _BREAK.split(text)]
    return [part for part in parts if len(part.split()) > 1] or [text]
