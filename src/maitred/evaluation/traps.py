"""Measure how well mediation refuses the answers of a language model that misreads a tool.

A trap is a tool with two answers: a wrong one, and a right one, so that refusing everything does not pass.
Each answer goes the way of the gateway: it is read, laid over the rules and proven among the tools of its
server. Held-back servers are those by which nothing was tuned.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from maitred.backends.listing import read_tools
from maitred.catalog.snapshot import Snapshot
from maitred.catalog.stages import raw_tools
from maitred.errors import ConfigError
from maitred.evaluation.mediation import snapshot_of
from maitred.llm import Reply
from maitred.mediation.llm import LlmTransformer
from maitred.mediation.memo import Memo, MemoryStore
from maitred.mediation.proof import Ranker
from maitred.mediation.proof_store import Proofs
from maitred.mediation.search_ranker import SearchRanker
from maitred.mediation.service import MediationService, Proposal, RememberedModel, ThreadedRules
from maitred.model.tools import RawTool
from maitred.search.base import Embedder

ALLOWED_THROUGH: Final = 0.02
"""The share of wrong answers that may be used."""

WANTED_USED: Final = 0.9
"""The share of right answers that must be used."""

_BELOW_THE_MODEL: Final = 40

Step = Callable[[], None]
"""Called after each trap, for a progress bar."""


@dataclass(frozen=True, kw_only=True)
class Trap:
    """A tool with a wrong and a right answer of a model; `kind` says how the wrong one misreads it."""

    server: str
    tool: str
    kind: str
    wrong: Mapping[str, Any]
    right: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TrapSet:
    """Traps, the tools of their servers, and the servers that are held back."""

    tools: Sequence[RawTool]
    traps: Sequence[Trap]
    held_back: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class TrapResult:
    """Whether the wrong answer of a trap was used, and the right one; `why_*` if it was not."""

    trap: Trap
    wrong_is_used: bool
    right_is_used: bool
    why_wrong_is_refused: str = ""
    why_right_is_refused: str = ""


@dataclass(frozen=True, kw_only=True)
class TrapShare:
    """The number of wrong answers and of right ones that were used, of so many traps."""

    traps: int
    through: int
    used: int

    @property
    def passes(self) -> bool:
        """Whether few enough wrong answers are used, and enough right ones."""
        return self.through <= ALLOWED_THROUGH * self.traps and self.used >= WANTED_USED * self.traps


@dataclass(frozen=True, kw_only=True)
class TrapEvaluation:
    """What became of the traps of a set; `held_back` are those of the held-back servers."""

    tuned: Sequence[TrapResult]
    held_back: Sequence[TrapResult]

    @property
    def passes(self) -> bool:
        """Whether both parts pass."""
        return all(share_of(part).passes for part in (self.tuned, self.held_back) if part)

    def to_json(self) -> dict[str, Any]:
        """Return all figures, for programs; single traps only of the part that is not held back."""
        parts = {"tuned": self.tuned, "held_back": self.held_back}
        return {
            "passes": self.passes,
            "tuned": asdict(share_of(self.tuned)),
            "held_back": asdict(share_of(self.held_back)),
            "kinds": {
                name: {kind: asdict(share) for kind, share in by_kind(part).items()}
                for name, part in parts.items()
            },
            "traps": [asdict(one) for one in self.tuned],
        }


def share_of(results: Sequence[TrapResult]) -> TrapShare:
    """Count results."""
    return TrapShare(
        traps=len(results),
        through=sum(one.wrong_is_used for one in results),
        used=sum(one.right_is_used for one in results),
    )


def by_kind(results: Sequence[TrapResult]) -> Mapping[str, TrapShare]:
    """Count results by the kind of their trap."""
    kinds = sorted({one.trap.kind for one in results})
    return {kind: share_of([one for one in results if one.trap.kind == kind]) for kind in kinds}


def read_traps(folder: Path) -> TrapSet:
    """Read `servers.jsonl` and `traps.jsonl` of a folder; its README says what a line holds.

    Raises:
        ConfigError: A file cannot be read, a line has another form, or a trap is about no tool of its server.
    """
    tools: list[RawTool] = []
    held_back = set()
    for path, number, entry in _lines(folder / "servers.jsonl"):
        if not isinstance(entry.get("server"), str) or not isinstance(entry.get("tools"), list):
            raise _fault(path, number, "must be a server with the keys `server` and `tools`")
        tools += read_tools(entry["server"], entry["tools"])[0]
        held_back |= {entry["server"]} if entry.get("held_back") else set()
    known = {(tool.key.server, tool.key.name) for tool in tools}
    traps = []
    for path, number, entry in _lines(folder / "traps.jsonl"):
        try:
            trap = Trap(**entry)
        except TypeError:
            raise _fault(path, number, f"must have the keys {', '.join(Trap.__annotations__)}") from None
        if (trap.server, trap.tool) not in known:
            raise _fault(path, number, f"there is no tool {trap.tool!r} of a server {trap.server!r}")
        traps.append(trap)
    return TrapSet(tools=tools, traps=traps, held_back=frozenset(held_back))


def _lines(path: Path) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from error
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise _fault(path, number, f"is not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise _fault(path, number, "must be an object")
        yield path, number, entry


def _fault(path: Path, number: int, why: str) -> ConfigError:
    return ConfigError(str(path), [f"line {number}: {why}"])


async def evaluate(trap_set: TrapSet, *, embedder: Embedder, step: Step = lambda: None) -> TrapEvaluation:
    """Mediate the tool of each trap twice, by the wrong answer and by the right one."""
    ranker = SearchRanker(embedder)
    snapshots = {
        server: await snapshot_of([tool for tool in trap_set.tools if tool.key.server == server])
        for server in dict.fromkeys(trap.server for trap in trap_set.traps)
    }
    results = []
    for trap in trap_set.traps:
        wrong, right = [
            await _mediate(snapshots[trap.server], trap, answer, ranker)
            for answer in (trap.wrong, trap.right)
        ]
        results.append(
            TrapResult(
                trap=trap,
                wrong_is_used=wrong.state == "used",
                right_is_used=right.state == "used",
                why_wrong_is_refused=_why(wrong),
                why_right_is_refused=_why(right),
            )
        )
        step()
    return TrapEvaluation(
        tuned=[one for one in results if one.trap.server not in trap_set.held_back],
        held_back=[one for one in results if one.trap.server in trap_set.held_back],
    )


def _why(proposal: Proposal) -> str:
    """Why a proposal is not used; empty if it is."""
    if proposal.state == "used":
        return ""
    verdict = proposal.verdict
    if verdict is None or not (verdict.unfit or verdict.harmed):
        return proposal.state
    return verdict.unfit or f"it lowers {verdict.harmed[0].tool} for {verdict.harmed[0].query!r}"


class _AnsweringModel:
    """A language model that always gives one answer about one tool, and leaves the others as they are."""

    name = "recorded"

    def __init__(self, tools: Sequence[RawTool], trap: Trap, answer: Mapping[str, Any]) -> None:
        entries = {
            str(number): {"tool": tool.key.name, **(answer if tool.key.name == trap.tool else {})}
            for number, tool in enumerate(tools, 1)
        }
        self._text = json.dumps({"tools": entries})

    async def ask(self, rules: str, prompt: str, *, max_tokens: int) -> Reply:
        """Return the answer."""
        del rules, prompt, max_tokens
        return Reply(text=self._text)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


async def _mediate(snapshot: Snapshot, trap: Trap, answer: Mapping[str, Any], ranker: Ranker) -> Proposal:
    """The proposal for the tool of a trap, proven."""
    tools = raw_tools(snapshot, trap.server)
    model = _AnsweringModel(tools, trap, answer)
    transformer = LlmTransformer(model)
    service = MediationService(
        [ThreadedRules(_BELOW_THE_MODEL)],
        "evaluation",
        model=RememberedModel(model=transformer, memo=Memo(transformer, MemoryStore()), close=model.aclose),
        proofs=Proofs(lambda: ranker, MemoryStore()),
    )
    await service.ask(trap.server, tools)
    await service.prove(trap.server, tools, snapshot)
    proposals = await service.proposals(trap.server, tools)
    return next(one for one in proposals if one.before.name == trap.tool)
