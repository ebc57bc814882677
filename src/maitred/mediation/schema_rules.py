"""Infer the parameters of a tool that declares none, from its name and what its description says of them.

Each form in which servers write of parameters is a pattern: sections such as `Args:`, bullets, `@param`,
`name (type, default 10)`, calls such as `resize(path, width=200)`, and examples in JSON. What the text does
not say is not inferred: a type, a default or a choice has to be there in words.
"""

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.audit.masking import mask_text
from maitred.mediation.inferred_schema import InferredParameter
from maitred.mediation.words import pieces
from maitred.model.pages import name_in_page

_MAX_TEXT: Final = 4_000
_MAX_SENTENCE: Final = 200
_MAX_HEADER: Final = 60
_MAX_ITEM: Final = 400
_MAX_ARGUMENTS: Final = 400
_MAX_VALUE: Final = 100
_MAX_NUMBER: Final = 10**30
_MAX_SEEN_NAME: Final = 32
_MOST_SEEN_WORDS: Final = 4
_MAX_CHOICES: Final = 20
_MOST: Final = 12

_TYPES: Final[Mapping[str, str]] = {
    "string": "string", "str": "string", "int": "integer", "integer": "integer", "number": "number",
    "float": "number", "bool": "boolean", "boolean": "boolean", "array": "array", "list": "array",
    "object": "object", "dict": "object",
}  # fmt: skip
_KINDS: Final = frozenset({"date", "datetime", "email", "id", "path", "text", "timestamp", "url", "uuid"})
"""Words in a note that say what a value is, and no JSON type."""
_NAMED_TYPES: Final[Mapping[str, str]] = {
    "limit": "integer", "offset": "integer", "page": "integer", "count": "integer", "email": "string",
}  # fmt: skip
"""Names whose type is not in doubt."""
_PYTHON_TYPES: Final[Mapping[type, str]] = {
    str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object",
}  # fmt: skip
_NO_NAMES: Final = frozenset({
    "and", "args", "arguments", "cls", "ctx", "default", "e", "eg", "example", "examples", "fields", "g",
    "http", "https", "i", "ie", "input", "inputs", "note", "one", "optional", "or", "output", "parameters",
    "params", "required", "return", "returns", "see", "self", "the", "todo", "usage", "warning",
})  # fmt: skip
_ASKS_FOR: Final = frozenset(
    {"get", "find", "fetch", "lookup", "look", "read", "retrieve", "search", "show", "delete"}
)
_SEARCH: Final = "search"

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,39}"
_NONE = re.compile(r"\b(?:no|without(?: any)?) (?:arguments?|parameters?|inputs?|args)\b", re.IGNORECASE)
_FENCED = re.compile(r"```.*?(?:```|$)", re.DOTALL)
_HEADER = re.compile(r"[\s*#_]*([A-Za-z][A-Za-z ]{0,30}?)[\s*_]*:?[\s*_]*:?[\s*_]*")
_OF_PARAMETERS = re.compile(
    r"(?:(?:required|optional|input) )?(?:args|arguments|parameters|params|inputs?|options|fields)"
    r"|required|optional",
    re.IGNORECASE,
)
_LINE_ITEM = re.compile(
    rf"\s*(?:[-*•]\s+)?[`*\"']*({_NAME})[`*\"']*\s*(?:\(([^()]{{0,120}})\))?\s*(?:(?:[:=\u2013\u2014]|-(?=\s))\s*(.*))?"
)
_BULLET = re.compile(r"\s*[-*•]\s+")
_AT_PARAM = re.compile(rf"@param\s+(?:\{{([^{{}}]{{1,40}})\}}\s+)?({_NAME})\s*([^\n@]*)")
_COLON_PARAM = re.compile(rf":param\s+(?:([A-Za-z\[\], ]{{1,30}}?)\s+)?({_NAME})\s*:([^\n]*)")
_COLON_TYPE = re.compile(rf":type\s+({_NAME})\s*:\s*([A-Za-z]+)")
_START = r"(?:^|(?<=[.;,:!?]\s)|(?<=\n))[ \t]*"
_PLAIN_COLON = re.compile(rf"(?:^|(?<=[.;!?]\s)|(?<=\n))({_NAME}):\s+(?=\S)")
_PLAIN_NOTE = re.compile(rf"{_START}({_NAME}) \(([^()]{{1,120}})\)(?::\s*([^;\n]{{1,300}}))?")
_TICKED = re.compile(rf"[`]({_NAME})[`](?: \(([^()]{{1,120}})\))?")
_INLINE = re.compile(
    r"\b(required|optional)?(?: ?(?:args|arguments|parameters|params|inputs|fields))?: ", re.IGNORECASE
)
_LIST_ITEM = re.compile(
    rf"\s*(?:and |or )?[`\"']?({_NAME})[`\"']?\s*(?:\(([^()]{{0,120}})\))?\s*(?:$|[,.;]\s*|(?=and |or ))"
)
_TAKEN = re.compile(
    r"\b(?:takes|accepts|expects|needs|requires|given|specified|provided)\s+(?:the )?$", re.IGNORECASE
)
_CALL = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60})\(")
_BEFORE_EXAMPLE = re.compile(
    r"(?:\bexamples?(?: (?:call|input|arguments|usage))?"
    r"|\b(?:input|arguments|usage|call(?: it)?(?: like| with)?))\W*$",
    re.IGNORECASE,
)
_DEFAULT = re.compile(
    r"(?<![\"'`])\bdefault(?:s|ing)?(?:\s+(?:value|is|to))*\s*[:=]?\s*"
    r"(\"[^\"]{0,60}\"|'[^']{0,60}'|`[^`]{0,60}`|-?\d{1,30}(?:\.\d{1,30})?(?![\w.]*\w)|[A-Za-z_]\w{0,19}(?=\s*(?:$|[),.;])))",
    re.IGNORECASE,
)
_ONE_OF = re.compile(
    r"\b(?:one of|either|allowed values(?: are)?|possible values(?: are)?)\s*:?\s+", re.IGNORECASE
)
_CHOICE = re.compile(
    r"\s*(?:or |and )?(?:`([^`]{1,40})`|\"([^\"]{1,40})\"|'([^']{1,40})'|([A-Za-z0-9_-]{1,40}))"
)
_BARS = re.compile(r"[`\"']?[\w-]{1,40}[`\"']?(?:\s*\|\s*[`\"']?[\w-]{1,40}[`\"']?)+")
_OPTIONAL = re.compile(r"\boptional\b|\bnot required\b", re.IGNORECASE)
_REQUIRED = re.compile(
    r"\brequired\b(?!\s+(?:at|by|for|if|in|on|only|to|unless|when|with)\b)"
    r"|\bmandatory\b|\bmust be (?:given|set|specified|provided)\b",
    re.IGNORECASE,
)
_IS_SAID = re.compile(
    r"\s+(?:is one of|must be|is required|is optional|defaults? to|is a|is an)\b[^;\n]{0,400}", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class _Evidence:
    """What one place of a text says of a parameter; `None` where it says nothing."""

    name: str
    type: str = ""
    is_required: bool | None = None
    choices: tuple[str, ...] = ()
    default: Any = None
    text: str = ""


def infer_parameters(name: str, description: str) -> Mapping[str, InferredParameter]:
    """The parameters that the texts of a tool name, in the order of the text; at most twelve.

    Args:
        name: The tool's name, as its server has it.
        description: What its server says of it.
    """
    text = _fold_blanks(_FENCED.sub("", description[:_MAX_TEXT]))
    if _NONE.search(text):
        return {}
    own_name = name_in_page(name)
    found: dict[str, _Evidence] = {}
    for one in _of_text(own_name, text):
        if one.name.lower() in _NO_NAMES:
            continue
        before = found.get(one.name)
        found[one.name] = one if before is None else _both(before, one)
        if len(found) == _MOST:
            break
    if not found:
        found = {one.name: one for one in _of_name(own_name)}
    return {one.name: _parameter(one) for one in found.values()}


def _fold_blanks(text: str) -> str:
    """Make one blank of each run of blanks, so that no pattern goes through a run again and again.

    The blanks before a line stay: they say to what it belongs.
    """
    lines = ((line, line.lstrip()) for line in text.splitlines())
    return "\n".join(line[: len(line) - len(own)] + re.sub(r"\s+", " ", own) for line, own in lines)


def _of_text(name: str, text: str) -> Iterator[_Evidence]:
    body, rest = _sections(text)
    yield from body
    for kind, own, words in _AT_PARAM.findall(rest):
        yield _evidence(own, kind, words)
    for kind, own, words in _COLON_PARAM.findall(rest):
        yield _evidence(own, kind, words)
    for own, kind in _COLON_TYPE.findall(rest):
        yield _evidence(own, kind, "")
    yield from _of_calls(name, rest)
    yield from _of_examples(rest)
    yield from _of_lists(rest)
    yield from _of_ticks(rest)
    for own, note, words in _PLAIN_NOTE.findall(rest):
        if _is_note(note):
            yield _evidence(own, note, words)
    places = list(_PLAIN_COLON.finditer(rest))
    for at, match in enumerate(places):
        end = places[at + 1].start() if at + 1 < len(places) else len(rest)
        words = re.split(r"[;\n]", rest[match.end() : end], maxsplit=1)[0]
        if match[1].islower() or "_" in match[1]:
            yield _evidence(match[1], "", words, also_type=False)


def _sections(text: str) -> tuple[list[_Evidence], str]:
    """The parameters in sections and bullets that are about them, and the text without any section."""
    found: list[_Evidence] = []
    rest: list[str] = []
    section = ""  # that of the present line: "", "parameters", "required", "optional" or "other"
    indent: int | None = None
    for line in text.splitlines():
        header = _HEADER.fullmatch(line) if len(line) <= _MAX_HEADER else None
        if header and line.strip().endswith((":", "**", ":**")):
            title = header[1].strip().lower()
            section = "other"
            if _OF_PARAMETERS.fullmatch(title):
                section = title.split()[0] if title.startswith(("required", "optional")) else "parameters"
            indent = None
            continue
        item = _LINE_ITEM.fullmatch(line[:_MAX_ITEM])
        if section and not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        is_bullet = _BULLET.match(line) is not None
        if section not in ("", "other") and item and (item[2] or item[3] or is_bullet):
            indent = depth if indent is None else indent
            if depth <= indent:
                one = _evidence(item[1], item[2] or "", item[3] or "")
                found.append(replace(one, is_required=True) if section == "required" else one)
            continue
        if section and (depth or is_bullet):
            continue
        section = ""
        if item and is_bullet and item[2] and _is_note(item[2]):
            found.append(_evidence(item[1], item[2], item[3] or ""))
        elif not is_bullet:
            rest.append(line)
    return found, "\n".join(rest)


def _of_calls(name: str, text: str) -> Iterator[_Evidence]:
    """Calls of the tool: `resize(path, width=200)`, or with types as in Python."""
    own_pieces = pieces(name)
    for match in _CALL.finditer(text):
        arguments, bracket, _ = text[match.end() : match.end() + _MAX_ARGUMENTS].partition(")")
        if not bracket or arguments.lstrip().startswith("{") or pieces(match[1]) != own_pieces:
            continue
        try:
            tree = ast.parse(f"def f({arguments}): ...")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        [function] = tree.body
        if not isinstance(function, ast.FunctionDef):
            continue
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        defaults = [*([None] * (len(positional) - len(given.defaults))), *given.defaults]
        for argument, default in zip(
            [*positional, *given.kwonlyargs], [*defaults, *given.kw_defaults], strict=True
        ):
            kind = argument.annotation.id if isinstance(argument.annotation, ast.Name) else ""
            yield _Evidence(
                name=argument.arg,
                type=_TYPES.get(kind, ""),
                is_required=default is None,
                default=None if default is None else _value_of(default),
            )


def _of_examples(text: str) -> Iterator[_Evidence]:
    """Examples of arguments as JSON, where the text says that they are."""
    for match in re.finditer(r"\{[^{}]{2,600}\}", text):
        before = text[max(0, match.start() - 60) : match.start()]
        if not (_BEFORE_EXAMPLE.search(before) or re.search(r"\bcall\b.{0,30}\($", before, re.IGNORECASE)):
            continue
        try:
            value = json.loads(match[0])
        except ValueError:
            continue
        for name, item in value.items():
            if re.fullmatch(_NAME, name):
                yield _Evidence(name=name, type=_PYTHON_TYPES.get(type(item), ""))


def _of_lists(text: str) -> Iterator[_Evidence]:
    """Lists in a sentence: `Required: to, subject`, `Arguments: host (string), count (integer)`."""
    for match in _INLINE.finditer(text):
        words = match[0].strip(": ").lower()
        if not words or (words.endswith("fields") and not match[1]):  # `Fields:` may be those of the answer
            continue
        is_required = {"required": True}.get((match[1] or "").lower())
        at = match.end()
        while item := _LIST_ITEM.match(text, at):
            one = _evidence(item[1], item[2] or "", "")
            yield one if one.is_required is not None else replace(one, is_required=is_required)
            at = item.end()
            if item[0].rstrip().endswith((".", ";")):
                break


def _of_ticks(text: str) -> Iterator[_Evidence]:
    """Names in backticks of which the text says more than the name, or that the tool takes them."""
    end, was_taken = 0, False
    for match in _TICKED.finditer(text):
        name, note = match[1], match[2] or ""
        before = text[: match.start()]
        said = _IS_SAID.match(text, match.end())
        goes_on = was_taken and text[end : match.start()].strip() in (",", "and", "or", ", and", "")
        is_taken = bool(_TAKEN.search(before[-40:])) or goes_on
        if note and (_is_note(note) or _BARS.fullmatch(note.strip())):
            yield _evidence(name, note, "")
        elif said:
            yield _evidence(name, "", _sentence(said[0]), also_type=False)
        elif is_taken:
            yield _Evidence(name=name)
        end, was_taken = match.end(), is_taken


def _of_name(name: str) -> Iterator[_Evidence]:
    """What a name alone says: what `get_user_by_email` goes by, and that a search needs words.

    An id is left out: it is `id` or `user_id`, one as often as the other.
    """
    words = pieces(name)
    if "by" in words[1:-1] and words[-2] == "by" and words[0] in _ASKS_FOR and words[-1] != "id":
        yield _Evidence(name=words[-1], is_required=True)
    elif words and words[0] == _SEARCH:
        yield _Evidence(name="query", type="string", is_required=True)


def _evidence(name: str, note: str, words: str, *, also_type: bool = True) -> _Evidence:
    """What a note in brackets and the words after it say of a parameter."""
    words = words[:_MAX_ITEM]
    kind = next((_TYPES[word] for word in re.findall(r"[A-Za-z]+", note.lower()) if word in _TYPES), "")
    if not kind and also_type and (first := re.match(r"([A-Za-z]+)\s*(?=[(,|]|-\s|$)", words.strip())):
        kind = _TYPES.get(first[1].lower(), "")
    whole = f"{note}; {words}"
    default = next((_literal(match[1]) for match in _DEFAULT.finditer(whole)), None)
    is_required = None
    if _OPTIONAL.search(whole):
        is_required = False
    elif _REQUIRED.search(whole):
        is_required = True
    return _Evidence(
        name=name,
        type=kind,
        is_required=is_required,
        choices=_choices(note, words),
        default=default,
        text=_sentence(words),
    )


def _choices(note: str, words: str) -> tuple[str, ...]:
    for part in (note, words):
        if match := _ONE_OF.search(part):
            return _listed(part[match.end() :])
        bars = _BARS.match(part.strip())
        if bars and not all(word in _TYPES for word in re.findall(r"\w+", bars[0].lower())):
            return tuple(one.strip(" `\"'") for one in bars[0].split("|"))
    return ()


def _listed(text: str) -> tuple[str, ...]:
    """The values of a list; empty if it is a list of words in a sentence."""
    found: list[str] = []
    at = 0
    while (match := _CHOICE.match(text, at)) and len(found) < _MAX_CHOICES:
        found.append(next(filter(None, match.groups())))
        at = match.end()
        after = re.compile(r"\s*,\s*|\s+(?=or |and )").match(text, at)
        if not after:
            break
        at = after.end()
    is_end = re.match(r"\s*(?:$|[.;)\n(])", text[at:]) is not None
    return tuple(dict.fromkeys(found)) if is_end and len(found) > 1 else ()


def _is_note(note: str) -> bool:
    """Whether words in brackets say what a value is, or whether it has to be there."""
    words = set(re.findall(r"[a-z]+", note.lower()))
    parts = [part.strip() for part in re.split(r"[,;]", note.lower())]
    kinds = [
        re.sub(r"^(?:optional|required) | (?:optional|required)$|(?:array|list) of ", "", one)
        for one in parts
    ]
    says_kind = any(one.rstrip("s") in _TYPES for one in kinds) or bool(words & {"required", "optional"})
    says_kind = says_kind or (bool(words) and words <= _KINDS)
    return says_kind or any(_literal(match[1]) is not None for match in _DEFAULT.finditer(note))


def _literal(text: str) -> Any:
    """A text as a value: a number, a truth value or a short text; `None` for anything else."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("none", "null", "empty", "is", "to"):
        return None
    try:
        value = json.loads(text) if len(text) <= _MAX_VALUE else None
    except ValueError:
        value = text.strip("`\"'") or None
    return _plain(value)


def _value_of(node: ast.expr) -> Any:
    """The value that a call gives, or a name that stands for one; `None` for any other expression."""
    if isinstance(node, ast.Name):
        return _literal(node.id)
    try:
        return _plain(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _plain(value: Any) -> Any:
    """A value that a schema can show: a truth value, a short printable text or a finite number; or `None`."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_VALUE and value.isprintable() else None
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < _MAX_NUMBER else None
    return value if isinstance(value, float) and math.isfinite(value) else None


def _both(first: _Evidence, more: _Evidence) -> _Evidence:
    """What two places say; the first one goes before."""
    return _Evidence(
        name=first.name,
        type=first.type or more.type,
        is_required=more.is_required if first.is_required is None else first.is_required,
        choices=first.choices or more.choices,
        default=more.default if first.default is None else first.default,
        text=first.text or more.text,
    )


def _parameter(one: _Evidence) -> InferredParameter:
    choices: list[Any] = list(one.choices)
    if choices and all(re.fullmatch(r"-?\d{1,15}", choice) for choice in one.choices):
        choices = [int(choice) for choice in one.choices]
    of_choices = _PYTHON_TYPES[type(choices[0])] if choices else ""
    of_default = "" if one.default is None else _PYTHON_TYPES[type(one.default)]
    kind = one.type or of_choices or of_default or _NAMED_TYPES.get(one.name.lower(), "")
    is_of_kind = of_default == kind or (kind == "number" and of_default == "integer")
    has_choices = bool(choices) and of_choices == kind
    has_default = bool(of_default) and is_of_kind and (not has_choices or one.default in choices)
    schema: dict[str, Any] = {"type": kind} if kind else {}
    if one.text:
        schema["description"] = one.text
    if has_choices:
        schema["enum"] = choices
    if has_default:
        schema["default"] = one.default
    return InferredParameter(schema=schema, is_required=bool(one.is_required) and not has_default)


def _sentence(words: str) -> str:
    """The first sentence of what is said of a parameter, on one line and bounded."""
    text = " ".join(words.split())
    end = re.search(r"[.!?](?=\s|$)", text)
    return (text[: end.end()] if end else text)[:_MAX_SENTENCE].strip()


def merge_seen(
    parameters: Mapping[str, InferredParameter], seen: Iterable[tuple[str, str]]
) -> Mapping[str, InferredParameter]:
    """The parameters with those of calls that succeeded, as pairs of a name and a JSON type or nothing.

    All callers see the schema, so a name that may be data of one caller is left out: see `_may_publish`.
    """
    merged = dict(parameters)
    for name, kind in seen:
        own = merged.get(name)
        if own is None and len(merged) < _MOST and _may_publish(name):
            merged[name] = InferredParameter(schema={"type": kind} if kind else {})
        elif own is not None and kind and "type" not in own.schema:
            merged[name] = replace(own, schema={"type": kind, **own.schema})
    return merged


def _may_publish(name: str) -> bool:
    """Whether the name of an argument is short, has few words and holds no secret."""
    return len(name) <= _MAX_SEEN_NAME and len(pieces(name)) <= _MOST_SEEN_WORDS and mask_text(name) == name
