"""Measure the poisoning scan on labelled definitions: how many evil and how many honest ones it withholds.

A definition counts as held if a finding has severity `refuse` or `ask`, as in the gateway; `warn` only
informs. Rules are written by the development half. The unseen half, in a folder of its own, was written
before the rules, so its figures are nearer to unknown texts. Therefore the report names failures of the
development half only. Recorded tools of real servers count as honest; a hash of the server's name chooses its
half, since a server repeats its sentences.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from maitred.errors import ConfigError
from maitred.poisoning.scan import PoisonScan

Object = Mapping[str, Any]

OF_A_SERVER: Final = 20
"""The number of tools of a recorded server that count, so that no large server outweighs the rest."""

UNSEEN: Final = "unseen"
"""The folder of the half that no rule is written by."""

_KINDS = ("tool", "prompt", "instructions")
_KEYS = frozenset({"id", "pattern", "subtle", "siblings", "others", "poison", *_KINDS})
_SAID: Mapping[type, str] = {str: "text", dict: "a mapping"}
_MAX_FAULTS = 20
_YAML: Final = YAML(typ="safe", pure=True)


@dataclass(frozen=True, kw_only=True)
class LabelledDefinition:
    """One definition. `siblings` are other tools of its server, `others` tools of other servers.

    `subtle` marks an evil one that a person could overlook. `poison` are the sentences that make it evil, as
    its author marked them.
    """

    id: str
    pattern: str
    definition: Object
    subtle: bool = False
    siblings: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    poison: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordedTool:
    """A tool, or the instructions, of a recorded server; `sampled` ones count as honest definitions.

    `fresh` ones are in the unseen half for any name of their server, since no rule was written by them.
    """

    server: str
    definition: Object
    sampled: bool = False
    fresh: bool = False

    @property
    def unseen(self) -> bool:
        """Whether it is in the unseen half."""
        return self.fresh or is_unseen(self.server)

    @property
    def name(self) -> str:
        """The name for a report."""
        return str(self.definition.get("name", "instructions"))


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The labelled definitions of one half."""

    evil: Sequence[LabelledDefinition]
    honest: Sequence[LabelledDefinition]


@dataclass(frozen=True, kw_only=True)
class HeldShare:
    """The number of held definitions, and of all."""

    held: int
    of: int

    @property
    def share(self) -> float | None:
        """From 0 to 1; `None` if there are none."""
        return self.held / self.of if self.of else None


@dataclass(frozen=True, kw_only=True)
class HalfResult:
    """The figures of one half.

    False positives count over `sampled`: at most twenty tools of each recorded server and its instructions.
    `recorded` is everything recorded, and `honest` are our own texts that look suspicious. `subtle` are some
    of the evil ones. `told` counts those with any finding, even a weak one. `missed` and `mistaken` are ids,
    of the development half only.
    """

    evil: HeldShare
    subtle: HeldShare
    honest: HeldShare
    sampled: HeldShare
    recorded: HeldShare
    told: HeldShare
    patterns: Mapping[str, HeldShare]
    rules: Mapping[str, int]
    missed: Sequence[str] = field(default_factory=list)
    mistaken: Sequence[str] = field(default_factory=list)

    @property
    def recall(self) -> float | None:
        """The share of the evil ones that is held."""
        return self.evil.share

    @property
    def false_positives(self) -> float | None:
        """The share of the sampled tools of real servers that is held."""
        return self.sampled.share


@dataclass(frozen=True, kw_only=True)
class PoisonResult:
    """Both halves."""

    development: HalfResult
    unseen: HalfResult

    def to_json(self) -> dict[str, Any]:
        """Return all fields, for programs."""
        return {
            name: _half_json(half)
            for name, half in (("development", self.development), ("unseen", self.unseen))
        }


def _half_json(half: HalfResult) -> dict[str, Any]:
    return asdict(half) | {"recall": half.recall, "false_positives": half.false_positives}


def is_unseen(server: str) -> bool:
    """Return whether a recorded server is in the unseen half, as one in eight is."""
    return int(hashlib.sha256(server.encode()).hexdigest(), 16) % 8 == 7  # noqa: PLR2004


def read_corpora(folder: Path) -> tuple[Corpus, Corpus]:
    """Read the development half and the unseen half of a folder such as `tests/data/poison`.

    Raises:
        ConfigError: A file is missing or has faults; or an id is in both halves.
    """
    halves = [
        Corpus(evil=_read_all(part, "malicious"), honest=_read_all(part, "benign"))
        for part in (folder, folder / UNSEEN)
    ]
    development_ids, unseen_ids = ({one.id for one in (*half.evil, *half.honest)} for half in halves)
    if twice := sorted(development_ids & unseen_ids):
        raise ConfigError(str(folder / UNSEEN), [f"the id {twice[0]!r} is in the development half too"])
    return halves[0], halves[1]


def labelled_files(folder: Path, kind: str) -> list[Path]:
    """Return the files of a kind, `malicious` or `benign`: the main one, and one for each other author."""
    return [folder / f"{kind}.yaml", *sorted(folder.glob(f"{kind}-*.jsonl"))]


def _read_all(folder: Path, kind: str) -> list[LabelledDefinition]:
    definitions = [one for path in labelled_files(folder, kind) for one in read_labelled(path)]
    twice = next((name for name, count in Counter(one.id for one in definitions).items() if count > 1), None)
    if twice:
        raise ConfigError(str(folder), [f"the id {twice!r} is given twice"])
    return definitions


def read_labelled(path: Path) -> list[LabelledDefinition]:
    """Read the definitions of a file such as `tests/data/poison/malicious.yaml`, or of one in JSON lines.

    Raises:
        ConfigError: The file cannot be read, is empty, or has faults; each names its entry.
    """
    try:
        text = path.read_text(encoding="utf-8")
        is_lines = path.suffix == ".jsonl"
        entries = (
            [json.loads(line) for line in text.split("\n") if line.strip()] if is_lines else _YAML.load(text)
        )
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (ValueError, YAMLError) as error:
        raise ConfigError(str(path), ["is not YAML, or not JSON lines"]) from error
    faults: list[str] = []
    definitions: dict[str, LabelledDefinition] = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else [], 1):
        fault = _fault(entry, definitions)
        if fault:
            faults.append(f"entry {number}: {fault}")
        else:
            definitions[entry["id"]] = _read_definition(entry)
    if faults or not definitions:
        raise ConfigError(str(path), faults[:_MAX_FAULTS] or ["holds no definitions"])
    return list(definitions.values())


def _fault(entry: Any, known_ids: Collection[str]) -> str:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("id", "pattern")):
        return "must have an id and a pattern"
    if entry["id"] in known_ids:
        return f"the id {entry['id']!r} is given twice"
    if unknown := sorted(entry.keys() - _KEYS):
        return f"{unknown[0]} is not a key of an entry"
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        return "must have one of tool, prompt and instructions"
    kind_type = str if kinds == ["instructions"] else dict
    return "" if isinstance(entry[kinds[0]], kind_type) else f"{kinds[0]} must be {_SAID[kind_type]}"


def _read_definition(entry: Object) -> LabelledDefinition:
    parts = {kind: entry[kind] for kind in _KINDS if kind in entry}
    definition = parts if "instructions" in parts else next(iter(parts.values()))
    return LabelledDefinition(
        id=entry["id"],
        pattern=entry["pattern"],
        definition=definition,
        subtle=entry.get("subtle") is True,
        siblings=tuple(entry.get("siblings", ())),
        others=tuple(entry.get("others", ())),
        poison=tuple(entry.get("poison", ())),
    )


def read_recorded(path: Path, *, fresh: bool = False) -> list[RecordedTool]:
    """Read recorded servers: one JSON object a line with `server`, `tools` and perhaps `instructions`.

    `fresh` puts all of them in the unseen half.

    Raises:
        ConfigError: The file cannot be read, or a line is not such an object.
    """
    try:
        with path.open(encoding="utf-8") as file:
            servers = [json.loads(line) for line in file]
        tools = [recorded for server in servers for recorded in _read_server(server, fresh=fresh)]
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(str(path), ["is not a list of recorded servers, one JSON object a line"]) from error
    return tools


def _read_server(server: Object, *, fresh: bool) -> list[RecordedTool]:
    name, tools = server["server"], server["tools"]
    places = sorted((_place(name, tool), number) for number, tool in enumerate(tools))
    sampled_numbers = {number for _, number in places[:OF_A_SERVER]}
    recorded_tools = [
        RecordedTool(server=name, definition=tool, sampled=number in sampled_numbers, fresh=fresh)
        for number, tool in enumerate(tools)
    ]
    if text := server.get("instructions"):
        recorded_tools.append(
            RecordedTool(server=name, definition={"instructions": text}, sampled=True, fresh=fresh)
        )
    return recorded_tools


def _place(server: str, tool: Object) -> str:
    return hashlib.sha256(f"{server}/{tool.get('name')}".encode()).hexdigest()


def evaluate(development: Corpus, unseen: Corpus, recorded: Sequence[RecordedTool] = ()) -> PoisonResult:
    """Scan everything and count, each half separately."""
    names: dict[str, list[str]] = {}
    for one in recorded:
        names.setdefault(one.server, []).append(one.name)
    scan = PoisonScan(names)
    results = [(one, _levels(scan, one.server, one.definition)) for one in recorded]
    development_results, unseen_results = (
        [pair for pair in results if pair[0].unseen is half] for half in (False, True)
    )
    return PoisonResult(
        development=_half(development, development_results, with_ids=True),
        unseen=_half(unseen, unseen_results, with_ids=False),
    )


Levels = Mapping[str, bool]
"""The rules with findings, and whether a finding is severe enough to withhold the definition."""


def _scan_definition(one: LabelledDefinition) -> Levels:
    own_names = [str(one.definition.get("name", "")), *one.siblings]
    return _levels(PoisonScan({"own": own_names, "other": one.others}), "own", one.definition)


def _levels(scan: PoisonScan, server: str, definition: Object) -> Levels:
    levels: dict[str, bool] = {}
    for finding in scan.scan(server, definition):
        levels[finding.rule] = levels.get(finding.rule, False) or finding.severity != "warn"
    return levels


def _half(corpus: Corpus, recorded: Sequence[tuple[RecordedTool, Levels]], *, with_ids: bool) -> HalfResult:
    evil, honest = ([(one, _scan_definition(one)) for one in part] for part in (corpus.evil, corpus.honest))
    sampled = [levels for one, levels in recorded if one.sampled]
    every = [levels for _, levels in honest] + sampled
    patterns = sorted({one.pattern for one, _ in evil})
    rules = Counter(rule for _, levels in evil for rule, is_held in levels.items() if is_held)
    mistaken = [one.id for one, levels in honest if any(levels.values())]
    mistaken += [f"{one.server}/{one.name}" for one, levels in recorded if any(levels.values())]
    return HalfResult(
        evil=_share([levels for _, levels in evil]),
        subtle=_share([levels for one, levels in evil if one.subtle]),
        honest=_share([levels for _, levels in honest]),
        sampled=_share(sampled),
        recorded=_share([levels for _, levels in recorded]),
        told=HeldShare(held=sum(map(bool, every)), of=len(every)),
        patterns={name: _share([levels for one, levels in evil if one.pattern == name]) for name in patterns},
        rules=dict(rules.most_common()),
        missed=[one.id for one, levels in evil if not any(levels.values())] if with_ids else [],
        mistaken=mistaken if with_ids else [],
    )


def _share(all_levels: Sequence[Levels]) -> HeldShare:
    return HeldShare(held=sum(any(levels.values()) for levels in all_levels), of=len(all_levels))
