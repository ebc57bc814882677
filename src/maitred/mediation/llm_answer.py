"""Check the answer of a language model about tools, entry by entry.

A malicious tool may have instructed the model. So a tool is built from the server's own values, and only
allowed parts of an entry replace them. Annotations stay. The schema only gains hints: descriptions, and types
as a choice between that type and anything, so every valid call stays valid. A tool that declares no
parameters gets a whole schema, marked as inferred, by which no call is checked. A text that addresses models,
has addresses, or names other tools is refused. An entry with a fault is refused whole.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maitred.config.taxonomy import CATEGORIES, MOST_TAGS, normalise_tag
from maitred.llm import LlmError, json_objects, plain_text
from maitred.mediation.base import EnhancedTool, SourceTool
from maitred.mediation.inferred_schema import InferredParameter, infer_schema, is_open
from maitred.mediation.llm_prompt import (
    MAX_DEFAULT,
    MAX_DESCRIPTION,
    MAX_GROUP,
    MAX_PARAMETER,
    MAX_TITLE,
    MOST_SUGGESTED,
    MOST_USE_CASES,
    USE_CASE_LENGTH,
    properties_of,
    shown_name,
    shown_text,
)
from maitred.mediation.overrides import TEXTS

_ADDRESSED = re.compile(
    r"""
    \b(ignor|disregard|forget|overrid|bypass)\w*\b.{0,40}\b(instruction|rule|prompt|guideline)s?\b
    | \byou\ (must|should|shall|ought\ to|are\ (required|now|an?\ (ai|assistant|agent|model)))\b
    | \b(always|never|must|should|(have|has|need|needs)\ to)\ (first\ )?
      (call|use|invoke|run|execute|prefer|choose|select)\b
    | \b(first|only|immediately|please)\ (call|use|invoke|run)\ (this|the|it)\b
    | \b(call|use|invoke|run|prefer|choose)\ (this|it)\b.{0,12}
      \b(first|before|instead|always|immediately|whenever)\b
    | \b(before|after|with|in)\ (every|each|all|any)\ (other\ )?
      (call|question|conversation|response|answer)s?\b
    | \b(other|another)\ tools?\b
    | \b(best|preferred|recommended|only\ trusted|most\ (reliable|trusted|important))\ tool\b
    | \byour\ (system\ |own\ |previous\ )?(prompt|instruction|context|rule|guideline)s?\b
    | \b(not|don't|never|without)\ (tell|inform|mention|notify|ask)\w*\b.{0,20}
      \b(user|human|person|operator|anyone)s?\b
    | \bas\ an?\ (ai|assistant|agent|llm|language\ model)\b
    | \b(dear|attention|note\ to|hey)\ (ai|assistant|agent|llm|model)s?\b
    """,
    re.VERBOSE,
)
_LINK = re.compile(
    r"[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+"
    r"|\b(?:www\.|mailto:|javascript:|data:)[^\s\"'<>)\]]+"
    r"|[^\s@<>\"'(]+@[^\s@]+\.[a-z]{2,}"
    r"|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s\"'<>)\]]*"
    r"|\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|app|ai|co|info|biz|xyz|site|online|ru|cn|example)\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
)
_MARKUP = re.compile(r"<[a-z!/?][^>]*>?|\]\(|```|\{\{")
_READ_AS = {ord("\u2019"): "'", ord("\u200c"): None, ord("\u200d"): None}
_SPACES = re.compile(r"[\s_-]+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][_.-]\w|[a-z][A-Z]")
_TOKEN = re.compile(r"[\w-]+"), re.compile(r"[\w./-]+")


def identifiers(names: Iterable[str]) -> AbstractSet[str]:
    """The names that are no ordinary words, such as `list_users`; for `why_not`."""
    return {_fold(name) for name in names if _IDENTIFIER.search(name)}


def why_not(text: str, original: str, others: AbstractSet[str] = frozenset()) -> str:
    """Why a tool may not have a text; empty if it may.

    The rules are few and strict: an honest tool sometimes loses a better description by them.

    Args:
        text: A text or a name from the model.
        original: What the model saw of the server's own texts. Addresses, markup and tools that occur in it
            may occur in `text`.
        others: The `identifiers` among the names of other tools; ordinary words are allowed.
    """
    seen, known = _fold(text), _fold(original)
    if _ADDRESSED.search(_SPACES.sub(" ", seen)):
        return "it gives orders to its reader"
    if _links(seen) - _links(known):
        return "it holds an address that the server does not mention"
    if any(mark not in known for mark in _MARKUP.findall(seen)):
        return "it holds markup"
    if (_tokens(seen) & others) - _tokens(known):
        return "it names another tool"
    return ""


def _links(text: str) -> set[str]:
    return {link.rstrip(".,;:!?/") for link in _LINK.findall(text)}


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().translate(_READ_AS)


def _tokens(text: str) -> set[str]:
    return {token.strip("./-") for pattern in _TOKEN for token in pattern.findall(text)}


SUREST = 0.9
"""Upper limit of a model's confidence, whatever it claims."""

_MAX_ANSWER = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_GROUP = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+){0,4}")
_MAX_GROUP = 40
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_RAW_FIELDS = tuple(field.name for field in fields(SourceTool))
_TEN = frozenset(category.name for category in CATEGORIES)

Refuse = Callable[[SourceTool, str], None]
"""Called with a tool whose entry is refused, and the reason."""


_SCALARS: frozenset[type] = frozenset({str, bool, int, float})
_DEFAULTS: Mapping[str, frozenset[type]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "array": frozenset(),
    "object": frozenset(),
}
"""Type of a parameter -> the exact types of a default; `True` is no integer."""


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Parameter(_Strict):
    description: Annotated[str, Field(max_length=MAX_PARAMETER)] = ""
    type: Literal["string", "number", "integer", "boolean", "array", "object"] | None = None
    required: Any = False
    default: Any = None

    @property
    def default_part(self) -> Mapping[str, Any]:
        """The default, if it is a short scalar of the type."""
        value, kinds = self.default, _DEFAULTS.get(self.type or "", _SCALARS)
        is_plain = not isinstance(value, str) or (len(value) <= MAX_DEFAULT and plain_text(value) == value)
        return {"default": value} if type(value) in kinds and is_plain and _is_finite(value) else {}


class _Entry(_Strict):
    tool: str
    name: str = ""
    title: Annotated[str, Field(max_length=MAX_TITLE)] = ""
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION)] = ""
    parameters: dict[str, _Parameter] = {}
    category: str = ""
    tags: list[str] = []
    use_cases: list[str] = []
    confidence: Annotated[float, Field(allow_inf_nan=False)] = 0.5

    def texts(self) -> Iterator[str]:
        """All texts that a reader of the tool sees, except names of parameters."""
        yield from (self.name, self.title, self.description, *_use_cases(self.use_cases))
        yield from (parameter.description for parameter in self.parameters.values())
        yield from (one.default for one in self.parameters.values() if isinstance(one.default, str))


class _Group(_Strict):
    name: Annotated[str, Field(max_length=_MAX_GROUP)]
    description: Any = ""
    tools: list[int]


@dataclass(frozen=True, kw_only=True)
class _Heading:
    """A group of the model's."""

    name: str = ""
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class _TakenNames:
    """Names that an entry may not take, and names that it may not mention."""

    tool: SourceTool
    taken: AbstractSet[str]
    unspoken: AbstractSet[str]
    group: _Heading | None


def read_answer(
    text: str, tools: Sequence[SourceTool], *, names: Collection[str], grouped: bool, by: str, refuse: Refuse
) -> list[EnhancedTool | None]:
    """One answer a tool, in order; `None` if the model has none or its entry is refused.

    Args:
        text: The model's answer, with or without words and fences around it.
        tools: The tools of the question, numbered from 1.
        names: The names of all tools of the server.
        grouped: Whether the question asked for groups, whose names become the categories.
        by: The value of `enhanced_by`.
        refuse: Called for every refused entry.

    Raises:
        LlmError: The text as a whole is no answer to the question.
    """
    answer = _object(text)
    entries = answer["tools"]
    numbers = [str(number) for number in range(1, len(tools) + 1)]
    if not entries.keys() <= set(numbers):
        raise LlmError("the model answered for tools that it was not asked about")
    entries_by_number = {number: _entry(entry) for number, entry in entries.items()}
    new = Counter(entry.name.casefold() for entry in entries_by_number.values() if isinstance(entry, _Entry))
    old = {name.casefold() for name in names}
    spoken = identifiers([*names, *new])
    groups = _groups(answer.get("groups"), spoken) if grouped else None
    answers: list[EnhancedTool | None] = []
    for number, tool in zip(numbers, tools, strict=True):
        entry = entries_by_number.get(number, "it is missing in the answer")
        if isinstance(entry, _Entry):
            name, own = entry.name.casefold(), tool.name.casefold()
            own_names = _TakenNames(
                tool=tool,
                taken=(old - {own}) | ({name} if new[name] > 1 else set()),
                unspoken=spoken - {own, name},
                group=None if groups is None else groups.get(int(number), _Heading()),
            )
            fault = _fault(entry, own_names)
            answers.append(None if fault else _enhance(entry, own_names, by))
        else:
            fault = entry
            answers.append(None)
        if fault:
            refuse(tool, fault)
    return answers


def _object(text: str) -> Mapping[str, Any]:
    """The last JSON object with tools in a text."""
    objects = [
        value
        for value in json_objects(text[:_MAX_ANSWER])
        if isinstance(value, dict) and isinstance(value.get("tools"), dict)
    ]
    if not objects:
        raise LlmError("the model answered without a list of tools")
    return objects[-1]


def _entry(value: Any) -> _Entry | str:
    """An entry of the right shape, or its fault."""
    fields = (
        {key: part for key, part in value.items() if part is not None} if isinstance(value, dict) else value
    )
    try:
        return _Entry.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:64] for part in first["loc"])
        return plain_text(f"{where or 'it'}: {first['msg']}")


def _groups(value: Any, names: AbstractSet[str]) -> Mapping[int, _Heading]:
    """Number of a tool -> its group: the first one with a usable name.

    A group loses a description that is too long, or that says what no text of a tool may say.
    """
    groups: dict[int, _Heading] = {}
    for entry in value if isinstance(value, list) else ():
        try:
            group = _Group.model_validate(entry)
        except ValidationError:
            continue
        if _GROUP.fullmatch(group.name) and not why_not(group.name, ""):
            text = plain_text(group.description) if isinstance(group.description, str) else ""
            is_usable = len(text) <= MAX_GROUP and not why_not(text, "", names)
            heading = _Heading(name=group.name, description=text if is_usable else "")
            groups = dict.fromkeys(group.tools, heading) | groups
    return groups


def _fault(entry: _Entry, names: _TakenNames) -> str:
    """Why an entry is refused; empty if it is not."""
    tool = names.tool
    if plain_text(entry.tool) != shown_name(tool):
        return "it is about another tool"
    if entry.name and entry.name != tool.name:
        if not _NAME.fullmatch(entry.name):
            return "no tool may have its name"
        if entry.name.casefold() in names.taken:
            return "its name is that of another tool"
    properties = properties_of(tool.input_schema)
    if properties and not entry.parameters.keys() <= properties.keys():
        return "it names a parameter that the tool does not have"
    if not properties and not all(_PARAMETER.fullmatch(name) for name in entry.parameters):
        return "it suggests a parameter with a name that no parameter may have"
    original = shown_text(tool)
    texts = [*entry.texts(), *(entry.parameters if not properties else ())]
    return next(filter(None, (why_not(plain_text(text), original, names.unspoken) for text in texts)), "")


def _enhance(entry: _Entry, names: _TakenNames, by: str) -> EnhancedTool | None:
    own = {name: getattr(names.tool, name) for name in _RAW_FIELDS}
    fields = {
        **own,
        "name": entry.name or names.tool.name,
        "title": plain_text(entry.title) or names.tool.title,
        "description": plain_text(entry.description) or names.tool.description,
        "input_schema": _schema(names.tool.input_schema, entry.parameters),
    }
    own_category = _Heading(name=entry.category if entry.category in _TEN else "")
    category = own_category if names.group is None else names.group
    is_inferred = fields["input_schema"] != own["input_schema"] and not properties_of(own["input_schema"])
    tags = dict.fromkeys(filter(None, map(normalise_tag, entry.tags)))
    use_cases = _use_cases(entry.use_cases)
    if fields == own and not (category.name or tags or use_cases):
        return None
    return EnhancedTool(
        **fields,
        original_name=names.tool.name,
        category=category.name,
        category_description=category.description,
        inferred=tuple(properties_of(fields["input_schema"])) if is_inferred else (),
        tags=tuple(islice(tags, MOST_TAGS)),
        use_cases=use_cases,
        confidence=min(max(entry.confidence, 0.0), SUREST),
        enhanced_by=by,
    )


def _use_cases(texts: Sequence[str]) -> tuple[str, ...]:
    shortest, longest = USE_CASE_LENGTH
    valid = dict.fromkeys(text for text in map(plain_text, texts) if shortest <= len(text) <= longest)
    return tuple(islice(valid, MOST_USE_CASES))


def _schema(
    schema: Mapping[str, Any] | None, parameters: Mapping[str, _Parameter]
) -> Mapping[str, Any] | None:
    """The schema with the model's hints where it says nothing; the same object if there are none."""
    own: Mapping[str, Any] = {"type": "object"} if schema is None else schema
    properties = properties_of(own)
    if not properties:
        return infer_schema(own, _inferred(parameters)) if parameters and is_open(own) else schema
    new = {name: _with_hints(part, parameters.get(name, _Parameter())) for name, part in properties.items()}
    return schema if new == properties else {**own, "properties": new}


def _inferred(parameters: Mapping[str, _Parameter]) -> Mapping[str, InferredParameter]:
    """The parameters that the model suggests; one with a default is not required."""
    return {
        name: InferredParameter(
            schema={
                **({"type": part.type} if part.type else {}),
                **({"description": text} if (text := plain_text(part.description)) else {}),
                **part.default_part,
            },
            is_required=part.required is True and not part.default_part,
        )
        for name, part in islice(parameters.items(), MOST_SUGGESTED)
    }


def _with_hints(schema: Any, hints: _Parameter) -> Any:
    """A parameter's schema with the model's hints where the server says nothing."""
    if not (schema is True or isinstance(schema, Mapping)):
        return schema
    own: Mapping[str, Any] = {} if schema is True else schema
    text = "" if own.get("description") else plain_text(hints.description)
    hint = hints.type if TEXTS.issuperset(own) else None
    new = {
        **({"description": text} if text else {}),
        **({"anyOf": [{"type": hint}, {}]} if hint else {}),  # `{}`: any type stays valid
    }
    return {**own, **new} if new else schema
