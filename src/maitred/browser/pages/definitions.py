"""Reads what a page says of its tools: within limits, without characters that deceive, and nothing else.

A page may say anything. What does not fit is left out, with a note that has no text of the page in it but the
name of a tool, of which the characters are limited.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cachetools import LRUCache
from jsonschema_rs import FancyRegexOptions, Validator, validator_for

from maitred.backends.listing import clean, clean_schema
from maitred.browser.pages.links import PageTool
from maitred.model.nesting import depth_within
from maitred.model.pages import mark
from maitred.model.schema_work import MOST_TRIES, SchemaWork
from maitred.model.tools import as_written
from maitred.token_bucket import TokenBucket

MOST_TOOLS: Final = 64
"""The most tools of one origin at a time."""
MOST_DESCRIPTION: Final = 1_000
MOST_SCHEMA: Final = 16_384
MOST_DEPTH: Final = 8
TOO_LARGE: Final = "too large"
"""What the script in a page reports in place of a schema that is far too large."""
_MOST_LABEL: Final = 40
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_BLANKS: Final = re.compile(r"\s+")
_LABEL: Final = re.compile(r"[^a-z0-9]+")
_OUR_KEYS: Final = ("x-category",)
_CLAIMS: Final[Mapping[str, tuple[str, ...]]] = {
    "readOnlyHint": ("readOnlyHint", "readOnly"),
    "destructiveHint": ("destructiveHint", "destructive"),
    "idempotentHint": ("idempotentHint", "idempotent"),
    "consequentialHint": ("consequentialHint", "consequential"),
}
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_IDENTITIES: Final = frozenset({"$id", "id"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"enum", "const", "default", "examples"})
_MOST_NOTES: Final = 20
_PARTS: Final = 100
"""So many parts, arguments have at least room for."""
_MOST_PATTERNS: Final = 20
_PATTERNS: Final = FancyRegexOptions(backtrack_limit=50_000)
_known: Final[LRUCache[bytes, str]] = LRUCache(1_024)
_compiling: Final = TokenBucket(per_s=50, size=1_000, now=time.monotonic())
"""Milliseconds for the schemas with patterns of all pages, which are compiled while all else waits."""


def read_page_tools(definitions: Iterable[Any]) -> tuple[dict[str, PageTool], tuple[str, ...]]:
    """The tools of a document by name, and notes on what was left out."""
    tools: dict[str, PageTool] = {}
    notes: list[str] = []
    for number, definition in enumerate(definitions):
        if number >= 2 * MOST_TOOLS:
            notes.append(f"further tools were left out; a page may have {MOST_TOOLS}")
            break
        name = definition.get("name") if isinstance(definition, Mapping) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            notes.append("a tool without a usable name was left out; 64 of the characters A-Z a-z 0-9 _ . -")
        elif name in tools:
            notes.append(f"a second tool {name!r} was left out")
        elif fault := _fault(definition):
            notes.append(f"the tool {name!r} was left out: {fault}")
        elif len(tools) >= MOST_TOOLS:
            notes.append(f"the tool {name!r} was left out; a page may have {MOST_TOOLS}")
        else:
            tools[name] = _read(name, definition)
    return tools, tuple(dict.fromkeys(notes))[:_MOST_NOTES]


def _fault(definition: Mapping[str, Any]) -> str:
    """Why a tool is left out; empty if it is not."""
    description, schema = definition.get("description"), definition.get("inputSchema")
    if not isinstance(description, str) or not _one_line(description):
        return "it has no description"
    if len(description) > MOST_DESCRIPTION:
        return f"its description has more than {MOST_DESCRIPTION:,} characters"
    return "" if schema is None else _schema_fault(schema)


def _schema_fault(schema: Any) -> str:
    is_object = isinstance(schema, dict) and schema.get("type", "object") == "object"
    if schema == TOO_LARGE or (is_object and is_large(schema)):
        return f"its input schema has more than {MOST_SCHEMA:,} bytes or {MOST_DEPTH} levels"
    if not is_object:
        return "its input schema is not of an object"
    if _leads_elsewhere(schema):
        return "its input schema refers to another document"
    return _check_fault(as_written(schema))


def _check_fault(written: bytes) -> str:
    """Why arguments cannot be checked by a schema; what is known of one is not found out again."""
    if (known := _known.get(written)) is not None:
        return known
    schema, patterns = json.loads(written), written.count(b'"pattern')
    if patterns and _compiling.take(0, now=time.monotonic()) > 0:
        return "its patterns take too long now, beside those of other tools; load its page again later"
    started = time.process_time()
    _known[written] = fault = _work_fault(schema, patterns)
    _compiling.spend((time.process_time() - started) * 1_000)
    return fault


def _work_fault(schema: Mapping[str, Any], patterns: int) -> str:
    """The same. How many tries a check takes is known before the schema is compiled."""
    if patterns > _MOST_PATTERNS or SchemaWork(schema).of(_PARTS, MOST_DEPTH) > MOST_TRIES:
        return "its input schema would take too long to check arguments by"
    try:
        make_validator(schema)
    except ValueError:
        return "its input schema is not valid"
    return ""


def make_validator(schema: Mapping[str, Any]) -> Validator:
    """What checks arguments by a schema; its patterns are bounded.

    Raises:
        ValueError: The schema is not valid.
    """
    return validator_for(dict(schema), pattern_options=_PATTERNS)


def is_large(schema: Any) -> bool:
    """Whether a schema is over a limit; each level of a value takes two levels of its schema."""
    return (
        not depth_within(schema, 2 * MOST_DEPTH)
        or _has_more_than(schema, MOST_SCHEMA)
        or len(as_written(schema)) > MOST_SCHEMA
    )


def _has_more_than(value: Any, characters: int) -> bool:
    """Whether the texts of a value have more characters; it stops there, so a megabyte costs nothing."""
    rest, found = [value], 0
    while rest and found <= characters:
        one = rest.pop()
        if isinstance(one, str):
            found += len(one)
        elif isinstance(one, Mapping):
            found += sum(map(len, one))
            rest += one.values()
        elif isinstance(one, list):
            found += len(one)
            rest += one
    return found > characters


def _leads_elsewhere(schema: Any) -> bool:
    """Whether a schema, or a schema in it, names another document; a property may have any name."""
    if isinstance(schema, list):
        return any(map(_leads_elsewhere, schema))
    if not isinstance(schema, dict):
        return False
    for key, item in schema.items():
        if key in _REFERENCES and not str(item).startswith("#"):
            return True
        if key in _IDENTITIES and isinstance(item, str):
            return True
        parts = list(item.values()) if key in _NAMED and isinstance(item, dict) else item
        if key not in _VALUES and _leads_elsewhere(parts):
            return True
    return False


def _read(name: str, definition: Mapping[str, Any]) -> PageTool:
    schema = dict(definition.get("inputSchema") or {"type": "object", "properties": {}})
    category = schema.get("x-category")
    given = definition.get("annotations")
    annotations = given if isinstance(given, Mapping) else {}
    claims = {
        hint: True for hint, keys in _CLAIMS.items() if any(annotations.get(key) is True for key in keys)
    }
    title = definition.get("title")
    return PageTool(
        name=name,
        description=definition["description"],
        title=title[:_MOST_LABEL] if isinstance(title, str) else "",
        schema={"type": "object", **{key: value for key, value in schema.items() if key not in _OUR_KEYS}},
        claims=claims,
        consequential="consequentialHint" in claims,
        label=_label(category) if isinstance(category, str) else "",
    )


def _label(text: str) -> str:
    """A page's name for a group of its tools, as letters and digits alone."""
    return _LABEL.sub("_", text.lower()).strip("_")[:_MOST_LABEL]


def _one_line(text: str) -> str:
    return _BLANKS.sub(" ", clean(text)).strip()


def quote_text(origin: str, text: str) -> str:
    """A text of a page as agents read it: on one line, and marked as what it is."""
    return f"{mark(origin)} {_one_line(text)}"


def cleaned_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of a page as agents read it."""
    cleaned: dict[str, Any] = clean_schema(dict(schema))
    return cleaned
