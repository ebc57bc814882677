"""Read the `visibility` section of a server: its facts, what calls change, and when a tool is shown.

    facts: {connections: 0, debugger.paused: false}
    on_success: {connect: {connections: {add: 1}}, pause: {debugger.paused: "$.paused"}}
    visible_when: {pause: connections > 0 && !debugger.paused, deploy: {rule: office_hours}}

The section is in a manifest or in the configuration file. Every fault has its line and keys.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from maitred.config.document import ConfigDocument, Keys, read_document, read_text
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.visibility.facts import (
    BUILT_IN,
    MAX_TEXT,
    PATH,
    SAID,
    Add,
    DeclaredFacts,
    Effect,
    Fact,
    Kind,
    ReadFact,
    ResetFact,
    SetFact,
    Value,
    as_fact,
    misfit,
)
from maitred.visibility.rules import Compiler, Rule, RuleRegistry
from maitred.visibility.visibility import ToolRule, VisibilityTable
from maitred.wording import as_code, did_you_mean

Faults = Callable[[Sequence[Any], str], None]
"""Takes a fault: the keys that lead to it from the top of the section, and what is wrong there."""

MAX_FACTS: Final = 64
MAX_RULES: Final = 500
_SECTIONS: Final = ("facts", "on_success", "visible_when")
_WORDS: Final = ("because", "do", "unless_given")
_RULING: Final = ("when", "rule", *_WORDS)
_KINDS: Final = ("bool", "int", "str", "list")
_ZERO: Mapping[Kind, Value] = {"bool": False, "int": 0, "str": "", "list": ()}
_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")
_INT = re.compile(r"[+-]?\d{1,16}")
_TAKEN: Final = frozenset([
    "as", "bool", "break", "bytes", "const", "continue", "double", "duration", "dyn", "else", "false", "for",
    "function", "if", "import", "in", "int", "let", "list", "loop", "map", "namespace", "null", "null_type",
    "package", "return", "string", "timestamp", "true", "type", "uint", "var", "void", "while",
])  # fmt: skip


def parse(path: Path, text: str, rules: RuleRegistry, keys: Keys = ("visibility",)) -> VisibilityTable:
    """Read the section under these keys in the text of a YAML or JSON file; a missing one hides nothing.

    Raises:
        ConfigError: The text or the section has faults; the error lists all of them with their lines.
    """
    document = read_document(path, text)
    raw: Any = document.tree
    for key in keys:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    table, faults = read_with_lines(document, keys, raw, rules)
    if faults := sorted([*document.faults, *faults]):
        raise ConfigError(str(path), [f"line {line}: {fault}" for line, fault in faults])
    return table


def read_with_lines(
    document: ConfigDocument, keys: Keys, raw: Any, rules: RuleRegistry
) -> tuple[VisibilityTable, list[tuple[int, str]]]:
    """Read the section under `keys` of a document; its faults come with their lines and keys."""
    faults: list[tuple[int, str]] = []

    def fault(below: Sequence[Any], message: str) -> None:
        path = [*keys, *below]
        faults.append((document.line(path), f"{'.'.join(map(str, path))}: {message}"))

    return read({} if raw is None else raw, rules, fault), faults


def read(raw: Any, rules: RuleRegistry, fault: Faults) -> VisibilityTable:
    """Read a section that is a mapping already; the table leaves out entries with faults.

    Values may have types, or be texts as in a `ConfigDocument`: `true` and `3` count as what they look like.
    """
    if not isinstance(raw, Mapping):
        fault([], f"must be a mapping with {', '.join(_SECTIONS)}")
        raw = {}
    for stranger in [key for key in raw if key not in _SECTIONS]:
        fault([stranger], f"is not a known key; {_near(str(stranger), _SECTIONS)}")
    declared = _read_declared_facts(raw, fault)
    compiler = Compiler(declared.kinds)
    rulings = {}
    for tool, entry in _entries(raw, "visible_when", fault, MAX_RULES).items():
        tool_rule = _read_tool_rule(["visible_when", tool], entry, compiler, rules, fault)
        if tool_rule:
            rulings[tool] = tool_rule
    return VisibilityTable(declared=declared, rulings=rulings, compiler=compiler)


def _read_tool_rule(
    keys: Sequence[str], entry: Any, compiler: Compiler, rules: RuleRegistry, fault: Faults
) -> ToolRule | None:
    fields = entry if isinstance(entry, Mapping) else {"when": entry}
    for stranger in [key for key in fields if key not in _RULING]:
        fault([*keys, stranger], f"is not a known key; {_near(str(stranger), _RULING)}")
    sources = [key for key in ("when", "rule") if fields.get(key) is not None]
    if len(sources) != 1:
        fault(keys, "needs either `when` (an expression) or `rule` (the name of a rule in Python)")
        return None
    words = {key: _words([*keys, key], fields[key], fault) for key in _WORDS if fields.get(key)}
    at = [*keys, sources[0]] if isinstance(entry, Mapping) else keys
    rule = _rule(at, sources[0], fields[sources[0]], compiler, rules, fault)
    return ToolRule(rule=rule, **words) if rule else None


def _rule(
    keys: Sequence[str], key: str, raw: Any, compiler: Compiler, rules: RuleRegistry, fault: Faults
) -> Rule | None:
    text = str(raw).lower() if isinstance(raw, bool) else raw
    if not isinstance(text, str):
        fault(keys, "must be text")
        return None
    if key == "rule":
        named_rule = rules.find(text)
        if named_rule is None:
            fault(keys, f"there is no rule {text[:80]!r}; {_near(text, rules.names)}")
        return named_rule
    expression, faults = compiler.compile(text)
    for one in faults:
        fault(keys, one)
    return expression


def _words(keys: Sequence[str], raw: Any, fault: Faults) -> str:
    """Check an operator's words for an agent, and put them on one line."""
    if not isinstance(raw, str) or len(raw) > MAX_TEXT:
        fault(keys, f"must be text of at most {MAX_TEXT} characters")
        return ""
    return " ".join(raw.split())


def _read_declared_facts(raw: Mapping[str, Any], fault: Faults) -> DeclaredFacts:
    facts = {fact.name: fact for fact in _facts(_entries(raw, "facts", fault, MAX_FACTS), fault)}
    effects: dict[str, Mapping[str, Effect]] = {}
    for tool, changes in _entries(raw, "on_success", fault).items():
        keys = ["on_success", tool]
        if not isinstance(changes, Mapping):
            fault(keys, "must be a mapping of facts to how a successful call changes them")
            continue
        effects[tool] = dict(_effects(keys, changes, facts, raw, fault))
    return DeclaredFacts(facts=facts, on_success=effects)


def _entries(raw: Mapping[str, Any], key: str, fault: Faults, at_most: int = MAX_RULES) -> Mapping[str, Any]:
    """Return the mapping under a key, which may be missing; of too many entries, return the first ones."""
    value = raw.get(key)
    if not isinstance(value, Mapping | None):
        fault([key], "must be a mapping")
        return {}
    entries = [(str(name), entry) for name, entry in (value or {}).items()]
    if len(entries) > at_most:
        fault([key], f"are {len(entries)}; a server may have {at_most}")
    return dict(entries[:at_most])


def _near(name: str, known_names: Collection[str]) -> str:
    """Suggest the nearest known name, or list all of them."""
    otherwise = f"there are {', '.join(known_names)}" if known_names else "there are none"
    return did_you_mean(name, known_names, quoted=as_code, otherwise=otherwise)


def _facts(raw: Mapping[str, Any], fault: Faults) -> Iterator[Fact]:
    for name, entry in raw.items():
        if wrong := _name_fault(name, raw):
            fault(["facts", name], wrong)
            continue
        fields = entry if isinstance(entry, Mapping) else {"type": _guess(entry), "initial": entry}
        for stranger in fields.keys() - {"type", "initial"}:
            fault(["facts", name, stranger], "is not a known key; there are `type`, `initial`")
        kind = fields.get("type")
        if kind not in _KINDS:
            fault(["facts", name], f"needs a first value, or a `type` that is one of {', '.join(_KINDS)}")
            continue
        first = fields.get("initial")
        value = _ZERO[kind] if first is None else _literal(first, kind)
        if wrong := misfit(value, kind):
            fault(["facts", name], f"begins with {wrong}")
            continue
        yield Fact(name=name, kind=kind, initial=value)


def _name_fault(name: str, names: Collection[str]) -> str:
    if not _NAME.fullmatch(name) or len(name) > MAX_TEXT:
        return "is no name for a fact: use a-z, 0-9 and _ in parts with dots between, like `debugger.paused`"
    if name in BUILT_IN:
        return "is a fact that is always there; give this one another name"
    if reserved := sorted(_TAKEN.intersection(name.split("."))):
        return f"cannot be named so: `{reserved[0]}` means something in rules"
    parts = name.split(".")
    above = [".".join(parts[:n]) for n in range(1, len(parts))]
    clash = [part for part in above if part in names or part in BUILT_IN]
    clash += [built_in for built_in in BUILT_IN if built_in.startswith(f"{name}.")]
    return (
        f"cannot be used together with `{clash[0]}`: one name goes on where the other ends" if clash else ""
    )


def _guess(first: Any) -> Kind | None:
    """Return the type of a fact from its first value, which may be written as text."""
    if first is None:
        return None
    if isinstance(first, str):
        return "bool" if first.lower() in ("true", "false") else "int" if _INT.fullmatch(first) else "str"
    kinds: Mapping[type[Any], Kind] = {bool: "bool", int: "int", list: "list", tuple: "list"}
    return kinds.get(type(first))


def _literal(raw: Any, kind: Kind) -> Any:
    """Convert a value to the type of its fact; a value that does not fit stays as it is."""
    if isinstance(raw, str) and kind == "bool" and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    if isinstance(raw, str) and kind == "int" and _INT.fullmatch(raw):
        return int(raw)
    return as_fact(raw, kind)


def _effects(
    keys: Sequence[str],
    changes: Mapping[str, Any],
    facts: Mapping[str, Fact],
    raw: Mapping[str, Any],
    fault: Faults,
) -> Iterator[tuple[str, Effect]]:
    raw_facts = _entries(raw, "facts", lambda *_: None)
    for name, change in changes.items():
        if name in facts:
            effect = _effect(facts[name], change)
            if isinstance(effect, str):
                fault([*keys, name], effect)
            else:
                yield name, effect
        elif name in BUILT_IN:
            fault([*keys, name], "is a fact that no call can change")
        elif name not in raw_facts:  # a fact with a faulty declaration was reported already
            fault([*keys, name], f"is no fact of this server; {_near(str(name), list(facts))}")


def _effect(fact: Fact, change: Any) -> Effect | str:
    """Return the effect as written, or a message about what is wrong with it."""
    if isinstance(change, Mapping):
        match dict(change):
            case {"add": by, **rest} if not rest and fact.kind == "int":
                number = _literal(by, "int")
                return (misfit(number, "int") and "`add` needs a whole number") or Add(by=number)
            case {"add": _, **rest} if not rest:
                return f"is {SAID[fact.kind]}, to which nothing can be added"
            case {"reset": really, **rest} if not rest and _literal(really, "bool") is True:
                return ResetFact()
        return "must be a value, a path such as `$.id`, `{add: 1}` or `{reset: true}`"
    if isinstance(change, str) and change.startswith("$"):
        return ReadFact(path=change) if PATH.fullmatch(change) else _PATH_HINT.format(change[:80])
    value = _literal(change, fact.kind)
    wrong = misfit(value, fact.kind)
    return f"is {wrong}; the fact is {SAID[fact.kind]}" if wrong else SetFact(value=value)


_PATH_HINT = "{!r} is not a path; write it like `$.page.id`, `$.pages[0]` or `$arguments.name`"


def read_tables(settings: Settings, rules: RuleRegistry) -> Mapping[str, VisibilityTable]:
    """Read the declarations of all servers in a configuration; the result has those that declare something.

    Raises:
        ConfigError: A declaration has faults; the error lists those of all servers, with their lines.
    """
    faults: list[tuple[str, Sequence[Any], str]] = []

    def fault(server: str, keys: Sequence[Any], message: str) -> None:
        faults.append((server, keys, message))

    sections = {name: spec.visibility for name, spec in settings.servers.items() if spec.visibility}
    tables = {name: read(raw, rules, partial(fault, name)) for name, raw in sections.items()}
    if faults:
        document = _document(settings)
        raise ConfigError(str(settings.source), [_fault_line(document, *one) for one in faults])
    return tables


def _document(settings: Settings) -> ConfigDocument:
    """Return the configuration file, for its lines; an empty document if there is no file."""
    try:
        return read_document(settings.source, read_text(settings.source))
    except ConfigError:
        return ConfigDocument(tree={}, root=None)


def _fault_line(document: ConfigDocument, server: str, below: Sequence[Any], message: str) -> str:
    keys = [document.servers_key, server, "visibility", *below]
    where = f"line {document.line(keys)}: " if document.root is not None else ""
    return f"{where}{'.'.join(map(str, keys))}: {message}"
