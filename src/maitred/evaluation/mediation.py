"""Measure what mediation does to search: how much better a poor server is found, and that no other loses.

Tools are mended as the gateway mends them with rules alone: each server's proposals are proven beside the
tools of all others, and what makes something worse is not used. A server that is measured for loss is asked
for in words of its own descriptions as they were before (`maitred.evaluation.paraphrase`), among all tools.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from maitred.backends.listing import read_tools
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.stages import raw_tools, with_mendings
from maitred.catalog.sync import DiscoveredServer, plan
from maitred.errors import ConfigError
from maitred.evaluation.metrics import mean, ndcg, recall
from maitred.evaluation.paraphrase import paraphrases
from maitred.mediation.memo import MemoryStore
from maitred.mediation.proof_store import Proofs
from maitred.mediation.rules import RuleTransformer
from maitred.mediation.search_ranker import SearchRanker
from maitred.mediation.service import MediationService
from maitred.model.servers import ServerFacts, ServerSpec
from maitred.model.tools import RawTool, ToolKey
from maitred.search.base import Embedder, document
from maitred.search.fusion import clauses
from maitred.search.index import HybridIndex
from maitred.search.results import EmbeddedQuery, Filter

WANTED_GAIN: Final = 25.0
"""How many points of R@5 a poor server has to gain."""

ALLOWED_LOSS: Final = 1.0
"""How many points of R@5 any server may lose."""

_RESULTS = 10
_SHOWN = 5
_MAX_CLAUSES = 8
_MAX_FAULTS = 20
_FACTS = ServerFacts(era="handshake", protocol_version="2025-11-25")
_CHARACTERS_PER_TOKEN = 4

Step = Callable[[], None]
"""Called after each server, for a progress bar."""

Asked = Sequence[tuple[str, ToolKey]]
"""Queries, each with the tool that it should find."""


@dataclass(frozen=True, kw_only=True)
class RankFigures:
    """Means over queries, from 0 to 1."""

    recall_at_1: float
    recall_at_5: float
    ndcg_at_10: float


@dataclass(frozen=True, kw_only=True)
class MediationCount:
    """How many tools of a server were mended, and how many were not because something would be worse."""

    kept: int
    taken_back: int


@dataclass(frozen=True, kw_only=True)
class BeforeAndAfter:
    """Figures of queries for the tools of a server among `among` tools, before and after mediation."""

    among: int
    mended: MediationCount
    queries: int
    before: RankFigures
    after: RankFigures

    @property
    def points(self) -> float:
        """What R@5 gains, in points; below 0 for a loss."""
        return 100 * (self.after.recall_at_5 - self.before.recall_at_5)

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return asdict(self) | {"points": self.points}


@dataclass(frozen=True, kw_only=True)
class MediationGain:
    """The poor server: alone, and then among the recorded tools if there are any."""

    server: str
    tools: int
    compared: Sequence[BeforeAndAfter]

    @property
    def passes(self) -> bool:
        """Whether it gains as much as it should when it is alone."""
        return self.compared[0].points >= WANTED_GAIN


@dataclass(frozen=True, kw_only=True)
class ServerFigures:
    """One of many servers that are all mediated: how its tools are found by their own words."""

    server: str
    tools: int
    compared: BeforeAndAfter

    @property
    def passes(self) -> bool:
        """Whether it loses no more than it may."""
        return self.compared.points >= -ALLOWED_LOSS


@dataclass(frozen=True, kw_only=True)
class MediationEvaluation:
    """What mediation does to a poor server, and to each recorded one."""

    gain: MediationGain
    servers: Sequence[ServerFigures] = ()

    @property
    def passes(self) -> bool:
        """Whether the poor server gains enough and no other loses too much."""
        return self.gain.passes and all(one.passes for one in self.servers)

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        gain = asdict(self.gain) | {
            "passes": self.gain.passes,
            "compared": [one.to_json() for one in self.gain.compared],
        }
        servers = [
            asdict(one) | {"passes": one.passes, "compared": one.compared.to_json()} for one in self.servers
        ]
        return {"passes": self.passes, "gain": gain, "servers": servers}


# --- reading ----------------------------------------------------------------------------------------------


def read_server(path: Path) -> list[RawTool]:
    """The tools of a YAML or JSON file with the keys `server` and `tools`, these as in `tools/list`.

    Raises:
        ConfigError: It cannot be read, or is something else.
    """
    try:
        entry = YAML(typ="safe").load(_text(path))
    except YAMLError as error:
        raise ConfigError(str(path), [f"is not YAML: {error}"]) from error
    tools = _tools(path, "", entry)
    if not tools:
        raise ConfigError(str(path), ["tools: holds no tool with a name"])
    return tools


def read_recorded(folder: Path, besides: Sequence[RawTool] = ()) -> list[RawTool]:
    """The tools of all recorded servers: `*.jsonl` in a folder, one server a line.

    Raises:
        ConfigError: There is no such file, one cannot be read, a line is something else, or a server has
            the name of one of those that they are to stand beside.
    """
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise ConfigError(str(folder), ["holds no file *.jsonl with recorded servers"])
    found: dict[ToolKey, RawTool] = {}
    for path in paths:
        for number, line in enumerate(_text(path).split("\n"), 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise ConfigError(str(path), [f"line {number}: is not JSON: {error}"]) from error
            found |= {tool.key: tool for tool in _tools(path, f"line {number}: ", entry)}
    if both := {tool.key.server for tool in besides} & {key.server for key in found}:
        raise ConfigError(str(folder), [f"records a server {min(both)!r} too; give one of them another name"])
    return list(found.values())


def read_queries(path: Path, tools: Sequence[RawTool]) -> list[tuple[str, ToolKey]]:
    """The queries of a file: each line a query and the name of the tool that serves it, with a tab between.

    Raises:
        ConfigError: It cannot be read, is empty, or has faults; each is named with its line.
    """
    known = {tool.key.name: tool.key for tool in tools}
    faults: list[str] = []
    found = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        query, _, name = (part.strip(" \r") for part in line.partition("\t"))
        if not (query and name):
            faults.append(f"line {number}: must be a query and the name of a tool, with a tab between")
        elif name not in known:
            faults.append(f"line {number}: there is no tool {name!r}")
        else:
            found.append((query, known[name]))
    if faults or not found:
        raise ConfigError(str(path), faults[:_MAX_FAULTS] or ["holds no queries"])
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), ["is not UTF-8 text"]) from error


def _tools(path: Path, where: str, entry: Any) -> list[RawTool]:
    server = entry.get("server") if isinstance(entry, Mapping) else None
    tools = entry.get("tools") if isinstance(entry, Mapping) else None
    if not isinstance(server, str) or not isinstance(tools, list):
        raise ConfigError(str(path), [f"{where}must be a server with the keys `server` and `tools`"])
    return read_tools(server, tools)[0]


# --- measuring --------------------------------------------------------------------------------------------


async def evaluate(
    poor: Sequence[RawTool],
    queries: Asked,
    recorded: Sequence[RawTool] = (),
    *,
    embedder: Embedder,
    step: Step = lambda: None,
) -> MediationEvaluation:
    """Mediate a poor server, then each recorded one, and measure both.

    Args:
        poor: The tools of one server.
        queries: What users would ask, each with the tool of it that serves this.
        recorded: Tools of others, none of a server of the same name.
        embedder: The one to search and to prove with.
        step: Called after each server.
    """
    server = poor[0].key.server
    compared = []
    for tools in (poor, [*poor, *recorded]) if recorded else (poor,):
        before = await _snapshot(tools)
        after, counts = await _mediated(before, [server], embedder, step)
        old, new = (_Search(one, embedder).figures(queries) for one in (before, after))
        compared.append(
            BeforeAndAfter(
                among=len(tools), mended=counts[server], queries=len(queries), before=old, after=new
            )
        )
    servers = await losses(recorded, embedder=embedder, step=step) if recorded else []
    return MediationEvaluation(
        gain=MediationGain(server=server, tools=len(poor), compared=compared), servers=servers
    )


async def losses(
    tools: Sequence[RawTool], *, embedder: Embedder, step: Step = lambda: None
) -> list[ServerFigures]:
    """Mediate all servers, and measure for each how its tools are found among all, by their own words."""
    before = await _snapshot(tools)
    after, counts = await _mediated(before, list(before.by_server), embedder, step)
    found = []
    searches = [_Search(one, embedder) for one in (before, after)]
    for server, own in before.by_server.items():
        asked = [(query, tool.key) for tool in own for query in paraphrases(document(before, tool))]
        old, new = (search.figures(asked) for search in searches)
        compared = BeforeAndAfter(
            among=len(before.tools), mended=counts[server], queries=len(asked), before=old, after=new
        )
        found.append(ServerFigures(server=server, tools=len(own), compared=compared))
    return found


class _Search:
    """Search over a snapshot, as the gateway does it."""

    def __init__(self, snapshot: Snapshot, embedder: Embedder) -> None:
        self._embedder = embedder
        self._wanted = Filter(visible=frozenset(snapshot.servers))
        self._index = HybridIndex()
        self._index.update(snapshot)
        pending = self._index.pending()
        self._index.keep(pending, embedder.documents(list(pending.values())))

    def figures(self, asked: Asked) -> RankFigures:
        """How well each query finds its tool."""
        found = [(self._ranking(text), [_id(key)]) for text, key in asked]
        return RankFigures(
            recall_at_1=mean([recall(ranking, wanted, 1) for ranking, wanted in found]),
            recall_at_5=mean([recall(ranking, wanted, _SHOWN) for ranking, wanted in found]),
            ndcg_at_10=mean([ndcg(ranking, wanted, _RESULTS) for ranking, wanted in found]),
        )

    def _ranking(self, text: str) -> list[str]:
        """The tools that a search gives, best first; those that are the same follow the one they are like."""
        query = EmbeddedQuery(
            phrase=text, vectors=self._embedder.queries([text, *clauses(text)[:_MAX_CLAUSES]])
        )
        hits = self._index.search([query], self._wanted, _RESULTS).hits
        return [_id(tool.key) for hit in hits for tool in (hit.tool, *hit.also)]


def _id(key: ToolKey) -> str:
    return f"{key.server}/{key.name}"


# --- mending ----------------------------------------------------------------------------------------------


async def _mediated(
    snapshot: Snapshot, servers: Sequence[str], embedder: Embedder, step: Step
) -> tuple[Snapshot, Mapping[str, MediationCount]]:
    """The snapshot with these servers mended as the gateway would, and how many tools; others stay."""
    proofs = Proofs(lambda: SearchRanker(embedder), MemoryStore())
    mender = MediationService([RuleTransformer()], "evaluation", proofs=proofs)
    counts = {}
    for server in servers:
        tools = raw_tools(snapshot, server)
        await mender.prove(server, tools, snapshot)
        states = [one.state for one in await mender.proposals(server, tools)]
        counts[server] = MediationCount(kept=states.count("used"), taken_back=states.count("harmful"))
        step()
    change = await with_mendings(snapshot, Change(), servers, mender, _count)
    return snapshot.after(change, snapshot.generation + 1), counts


async def _snapshot(tools: Sequence[RawTool]) -> Snapshot:
    groups: dict[str, list[RawTool]] = {}
    for tool in tools:
        groups.setdefault(tool.key.server, []).append(tool)
    found = [
        await plan(Snapshot(), DiscoveredServer(spec=_spec(server), facts=_FACTS, tools=own), _count)
        for server, own in groups.items()
    ]
    whole = Change(
        servers=[record for change in found for record in change.servers],
        tools=[tool for change in found for tool in change.tools],
        schemas={digest: body for change in found for digest, body in change.schemas.items()},
    )
    return Snapshot().after(whole, 1)


def _spec(server: str) -> ServerSpec:
    return ServerSpec(name=server, command="none")


async def _count(texts: Sequence[str]) -> Sequence[int]:
    """Roughly: what a definition costs has no influence on a search."""
    return [len(text) // _CHARACTERS_PER_TOKEN for text in texts]
