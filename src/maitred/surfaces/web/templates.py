"""Templates: every value that one prints is bounded, marked and escaped, unless it is our own markup."""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from shlex import quote as shell
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from maitred.audit.masking import mask_text
from maitred.surfaces.web import charts
from maitred.surfaces.web.audit_words import act_text, outcome_text, outcome_tone
from maitred.surfaces.web.durations import duration_text
from maitred.surfaces.web.events import server_fragment
from maitred.surfaces.web.screen import BASE, url_of
from maitred.surfaces.web.text import area_text, as_markup, as_words, field_text, safe_text
from maitred.wording import count_of, noun_of

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s|\n")
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""The kinds of files that pages load, by ending."""


def _own_file(name: str) -> Traversable:
    return files("maitred.surfaces.web").joinpath(*name.split("/"))


def ending_of(name: str) -> str:
    """The ending of a file's name, with its dot."""
    return f".{name.rpartition('.')[2]}"


@cache
def static_files() -> dict[str, bytes]:
    """The files that pages load, by name."""
    every = _own_file("static").iterdir()
    return {one.name: one.read_bytes() for one in every if ending_of(one.name) in TYPES}


@cache
def static_version(name: str) -> str:
    """A text that changes with a file, so that browsers may keep it for ever."""
    return hashlib.sha256(static_files()[name]).hexdigest()[:12]


def static_url(name: str) -> str:
    """The address of a file that pages load."""
    return f"{BASE}/static/{name}?v={static_version(name)}"


def _template(name: str) -> tuple[str, str, None]:
    """A template with the name of its file, for the report of a fault in it."""
    file = _own_file(name)
    return file.read_text(encoding="utf-8"), str(file), None


def link(*parts: str, **query: str | int) -> Markup:
    """The address of a page, whole however long it is (see `url_of`)."""
    return field_text(url_of(*parts, **query))


def as_json(value: Any) -> str:
    """A value as JSON to read."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def short_time(moment: str) -> str:
    """A time of the gateway (ISO 8601, UTC) without its fraction and zone; pages say once that it is UTC."""
    return moment.replace("T", " ")[:19]


def first_sentence(text: str) -> str:
    """The first sentence of a text, or its first line; pages bound it."""
    return _SENTENCE.split(text.strip()[:1_000], maxsplit=1)[0]


_CELL: Final = re.compile(r"<tr\b|<(td|th)\b([^>]*>)(\s*</t)?")


def add_labels(rows: Markup, heads: Sequence[str]) -> Markup:
    """The rows of a table, in which each cell that is not empty has the head of its column as its label.

    The style sheet shows the labels where there is no room for columns.
    """
    at = 0

    def with_label(found: re.Match[str]) -> str:
        nonlocal at
        if not found[1]:
            at = 0
            return found[0]
        head, at = heads[at] if at < len(heads) else "", at + 1
        if found[1] == "th" or found[3] is not None:
            return found[0]
        return f'<td data-label="{escape(head)}"{found[2]}'

    return Markup(_CELL.sub(with_label, str(rows)))  # noqa: S704  # rows are escaped


@cache
def environment() -> Environment:
    """The templates with their filters and functions; an unknown name in a template is a fault."""
    made = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=safe_text,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "foreign": as_markup,
        "words": as_words,
        "field": field_text,
        "area": area_text,
        "shell": shell,
        "json": as_json,
        "time": short_time,
        "duration": duration_text,
        "act": act_text,
        "outcome": outcome_text,
        "tone": outcome_tone,
        "id_of": id,
        "fragment": server_fragment,
        "first_sentence": first_sentence,
        "masked": lambda text: mask_text(str(text)),
        "without": str.removeprefix,
    }
    made.globals |= {
        "url": link,
        "static": static_url,
        "count": count_of,
        "noun": noun_of,
        "add_labels": add_labels,
        "chart": charts,
    }
    return made


def render(template: str, /, **values: Any) -> str:
    """The page of a template."""
    return environment().get_template(template).render(**values)
