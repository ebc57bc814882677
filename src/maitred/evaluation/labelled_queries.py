"""Read labelled sets: `tools.jsonl` and `queries.jsonl`, one JSON object a line.

A tool is `{"id", "server", "name", "description", "inputSchema"}`; server, description and schema may be
null. A query is `{"id", "query", "relevant", "needs"}`. `query` is a phrase or a list of phrases. `relevant`
lists ids of tools, or maps them to grades; if it is empty, nothing should be found. `needs` lists what is
needed, each as the ids of tools that serve it; without it each relevant tool is needed. Other keys are
ignored. An error lists all faults of a file. A part of each set is held back: no choice is made by it, so
that its figures stay honest.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from maitred.errors import ConfigError

Split = Literal["all", "train", "held-back"]

_HELD_BACK_PARTS = 5
_MAX_FAULTS = 20
_BEST_GRADE = 10

MAX_PHRASES = 20
"""The maximum number of phrases of a search; further ones would not be asked."""


@dataclass(frozen=True, kw_only=True)
class LabelledTool:
    """A tool of a set; `server` is empty if the set names none."""

    id: str
    server: str
    name: str
    description: str
    input_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class LabelledQuery:
    """What a user wants, and the ids of the tools that serve it; none if the set has no such tool.

    It is asked as `phrases` at once. `grades` say how well each relevant tool serves it; without them all
    serve alike. Any tool of a need meets that need.
    """

    id: str
    phrases: tuple[str, ...]
    relevant: tuple[str, ...]
    grades: Mapping[str, int] = field(default_factory=dict)
    needs: tuple[tuple[str, ...], ...] = ()

    @property
    def text(self) -> str:
        """All phrases as one text."""
        return "; ".join(self.phrases)

    @property
    def wants(self) -> tuple[tuple[str, ...], ...]:
        """The needs; without any, each relevant tool is one."""
        return self.needs or tuple((one,) for one in self.relevant)


T = TypeVar("T", LabelledTool, LabelledQuery)
Object = Mapping[str, Any]


def read_tools(path: Path) -> list[LabelledTool]:
    """Read the tools of a file.

    Raises:
        ConfigError: The file cannot be read, has no tools, or has faults; the error names each with its line.
    """
    return _read(path, _tool)


def read_queries(path: Path, known: Collection[str]) -> list[LabelledQuery]:
    """Read the queries of a file about the tools with known ids.

    Raises:
        ConfigError: As for tools, or a relevant id is not known.
    """
    return _read(path, _query_about(known))


def parse_queries(text: str, known: Collection[str], *, source: str) -> list[LabelledQuery]:
    """Read the queries of a text, where a query without an id has its own words as id.

    Raises:
        ConfigError: As for `read_queries`; `source` names the text.
    """
    make = _query_about(known)
    return _collect(source, text, lambda value, faults: make({"id": _words_of(value), **value}, faults))


def _words_of(value: Object) -> Any:
    phrases = value.get("query")
    return "; ".join(map(str, phrases)) if isinstance(phrases, list) else phrases


def _query_about(known: Collection[str]) -> Callable[["Object", list[str]], LabelledQuery]:
    ids = frozenset(known)

    def query(value: Object, faults: list[str]) -> LabelledQuery:
        result = _query(value, faults)
        faults += [f"relevant: there is no tool {one!r}" for one in result.relevant if one not in ids]
        return result

    return query


def take(queries: Sequence[LabelledQuery], split: Split, name: str) -> list[LabelledQuery]:
    """Return the queries of one part of the set `name`."""
    if split == "all":
        return list(queries)
    held_back = split == "held-back"
    return [query for query in queries if is_held_back(name, query.id) is held_back]


def is_held_back(name: str, query: str) -> bool:
    """Return whether a query, by its id, is in the fifth of the set `name` that nothing is tuned on."""
    digest = hashlib.sha256(f"{name}/{query}".encode()).hexdigest()
    return int(digest, 16) % _HELD_BACK_PARTS == 0


def set_name(queries: Path) -> str:
    """Return the name of a set: the folder of its queries."""
    return queries.absolute().parent.name


def _read(path: Path, make: Callable[[Object, list[str]], T]) -> list[T]:
    return _collect(str(path), _text_of(path), make)


def _collect(source: str, text: str, make: Callable[[Object, list[str]], T]) -> list[T]:
    entries: dict[str, T] = {}
    lines: dict[str, int] = {}
    faults: list[str] = []
    for number, value in _objects(text, faults):
        wrong: list[str] = []
        one = make(value, wrong)
        if one.id in lines:
            wrong.append(f"id: {one.id!r} is given twice, first in line {lines[one.id]}")
        faults += [f"line {number}: {fault}" for fault in wrong]
        lines.setdefault(one.id, number)
        entries[one.id] = one
    if not entries and not faults:
        faults.append("is empty")
    if faults:
        more: list[str] = [f"and {len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
        raise ConfigError(source, [*faults[:_MAX_FAULTS], *more])
    return list(entries.values())


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), ["is not UTF-8 text"]) from error


def _objects(text: str, faults: list[str]) -> Iterator[tuple[int, Object]]:
    """Yield each object with its line; a line without an object is a fault."""
    for number, line in enumerate(text.split("\n"), 1):  # JSON may contain other characters that end lines
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            faults.append(f"line {number}: is not JSON: {error}")
            continue
        except RecursionError:
            faults.append(f"line {number}: is nested too deeply")
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            faults.append(f"line {number}: must be a JSON object")


def _tool(value: Object, faults: list[str]) -> LabelledTool:
    schema = value.get("inputSchema")
    if schema is not None and not isinstance(schema, dict):
        faults.append("inputSchema: must be an object or null")
        schema = None
    return LabelledTool(
        id=_text(value, "id", faults),
        server=_text(value, "server", faults, optional=True),
        name=_text(value, "name", faults),
        description=_text(value, "description", faults, optional=True),
        input_schema=schema,
    )


def _query(value: Object, faults: list[str]) -> LabelledQuery:
    relevant, grades = _relevant(value.get("relevant"), faults)
    return LabelledQuery(
        id=_text(value, "id", faults),
        phrases=_phrases(value, faults),
        relevant=tuple(relevant),
        grades=grades,
        needs=_needs(value.get("needs"), frozenset(relevant), faults),
    )


def _phrases(value: Object, faults: list[str]) -> tuple[str, ...]:
    phrases = value.get("query")
    if not isinstance(phrases, list):
        return (_text(value, "query", faults),)
    texts = [one for one in phrases if isinstance(one, str) and one.strip()]
    if texts == phrases and 1 <= len(texts) <= MAX_PHRASES:
        return tuple(dict.fromkeys(phrases))
    faults.append(f"query: a list must have 1 to {MAX_PHRASES} phrases, none of them empty")
    return ("",)


def _relevant(relevant: Any, faults: list[str]) -> tuple[Sequence[str], Mapping[str, int]]:
    if isinstance(relevant, dict):
        if all(type(grade) is int and 1 <= grade <= _BEST_GRADE for grade in relevant.values()):
            return list(relevant), relevant
        faults.append(f"relevant: grades must be whole numbers from 1 to {_BEST_GRADE}")
        return [], {}
    if not isinstance(relevant, list) or not all(isinstance(one, str) for one in relevant):
        faults.append("relevant: must be a list of tool ids, or an object of tool ids and grades")
        return [], {}
    if len(set(relevant)) < len(relevant):
        faults.append("relevant: names a tool twice")
    return relevant, {}


def _needs(needs: Any, relevant: Collection[str], faults: list[str]) -> tuple[tuple[str, ...], ...]:
    if needs is None:
        return ()
    if not isinstance(needs, list) or not all(
        isinstance(need, list) and need and all(isinstance(one, str) for one in need) for need in needs
    ):
        faults.append("needs: must be a list of lists of tool ids, none of them empty")
        return ()
    others = dict.fromkeys(one for need in needs for one in need if one not in relevant)
    faults += [f"needs: {one!r} is not in `relevant`" for one in others]
    return tuple(tuple(need) for need in needs)


def _text(value: Object, key: str, faults: list[str], *, optional: bool = False) -> str:
    value_text = value.get(key)
    if optional and value_text is None:
        return ""
    if not isinstance(value_text, str) or (not optional and not value_text.strip()):
        faults.append(f"{key}: must be text" + (" or null" if optional else ", and not empty"))
        return ""
    return value_text
