"""Measure what mediation does to search: the gain of a poor server, and the loss of any other.

The module mediates tools as the gateway does with rules alone. It proves each server's proposals beside the
tools of all others and drops proposals that make something worse. To measure loss, it asks for a server's
tools in words of their original descriptions (`maitred.evaluation.paraphrase`), among all tools.
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
"""The points of R@5 that a poor server has to gain."""

ALLOWED_LOSS: Final = 1.0
"""The points of R@5 that any server may lose."""

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
    """The number of mediated tools of a server, and of those left alone because something would be worse."""

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
        """The gain of R@5, in points; below 0 for a loss."""
        return 100 * (self.after.recall_at_5 - self.before.recall_at_5)

    def to_json(self) -> dict[str, Any]:
        """Return all fields, for programs."""
        return asdict(self) | {"points": self.points}


@dataclass(frozen=True, kw_only=True)
class MediationGain:
    """The poor server: alone, and then among the recorded tools if there are any."""

    server: str
    tools: int
    compared: Sequence[BeforeAndAfter]

    @property
    def passes(self) -> bool:
        """Whether it gains enough when it is alone."""
        return self.compared[0].points >= WANTED_GAIN


@dataclass(frozen=True, kw_only=True)
class ServerFigures:
    """One of many servers that are all mediated: the figures of its tools for their own words."""

    server: str
    tools: int
    compared: BeforeAndAfter

    @property
    def passes(self) -> bool:
        """Whether it loses no more than allowed."""
        return self.compared.points >= -ALLOWED_LOSS


@dataclass(frozen=True, kw_only=True)
class MediationEvaluation:
    """The effect of mediation on a poor server, and on each recorded one."""

    gain: MediationGain
    servers: Sequence[ServerFigures] = ()

    @property
    def passes(self) -> bool:
        """Whether the poor server gains enough and no other loses too much."""
        return self.gain.passes and all(one.passes for one in self.servers)

    def to_json(self) -> dict[str, Any]:
        """Return all fields, for programs."""
        gain = asdict(self.gain) | {
            "passes": self.gain.passes,
            "compared": [one.to_json() for one in self.gain.compared],
        }
        servers = [
            asdict(one) | {"passes": one.passes, "compared": one.compared.to_json()} for one in self.servers
        ]
        return {"passes": self.passes, "gain": gain, "servers": servers}


# Files.


def read_server(path: Path) -> list[RawTool]:
    """Read the tools of a YAML or JSON file with the keys `server` and `tools`, these as in `tools/list`.

    Raises:
        ConfigError: The file cannot be read, or has another form.
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
    """Read the tools of all recorded servers: `*.jsonl` in a folder, one server a line.

    Raises:
        ConfigError: There is no such file, one cannot be read, a line has another form, or a server has the
            name of one in `besides`.
    """
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise ConfigError(str(folder), ["holds no file *.jsonl with recorded servers"])
    tools: dict[ToolKey, RawTool] = {}
    for path in paths:
        for number, line in enumerate(_text(path).split("\n"), 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise ConfigError(str(path), [f"line {number}: is not JSON: {error}"]) from error
            tools |= {tool.key: tool for tool in _tools(path, f"line {number}: ", entry)}
    if both := {tool.key.server for tool in besides} & {key.server for key in tools}:
        raise ConfigError(str(folder), [f"records a server {min(both)!r} too; give one of them another name"])
    return list(tools.values())


def read_queries(path: Path, tools: Sequence[RawTool]) -> list[tuple[str, ToolKey]]:
    """Read the queries of a file: each line a query and the name of its tool, with a tab between.

    Raises:
        ConfigError: The file cannot be read, is empty, or has faults; the error names each with its line.
    """
    keys = {tool.key.name: tool.key for tool in tools}
    faults: list[str] = []
    queries = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        query, _, name = (part.strip(" \r") for part in line.partition("\t"))
        if not (query and name):
            faults.append(f"line {number}: must be a query and the name of a tool, with a tab between")
        elif name not in keys:
            faults.append(f"line {number}: there is no tool {name!r}")
        else:
            queries.append((query, keys[name]))
    if faults or not queries:
        raise ConfigError(str(path), faults[:_MAX_FAULTS] or ["holds no queries"])
    return queries


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


# Measurements.


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
        queries: Queries of users, each with the tool of the poor server that serves it.
        recorded: Tools of others, none of a server of the same name.
        embedder: The embedder for searches and proofs.
        step: Called after each server.
    """
    server = poor[0].key.server
    comparisons = []
    for tools in (poor, [*poor, *recorded]) if recorded else (poor,):
        before = await snapshot_of(tools)
        after, counts = await _mediate(before, [server], embedder, step)
        old, new = (_Search(one, embedder).figures(queries) for one in (before, after))
        comparisons.append(
            BeforeAndAfter(
                among=len(tools), mended=counts[server], queries=len(queries), before=old, after=new
            )
        )
    servers = await losses(recorded, embedder=embedder, step=step) if recorded else []
    return MediationEvaluation(
        gain=MediationGain(server=server, tools=len(poor), compared=comparisons), servers=servers
    )


async def losses(
    tools: Sequence[RawTool], *, embedder: Embedder, step: Step = lambda: None
) -> list[ServerFigures]:
    """Mediate all servers, and measure for each how search finds its tools among all, by their own words."""
    before = await snapshot_of(tools)
    after, counts = await _mediate(before, list(before.by_server), embedder, step)
    results = []
    searches = [_Search(one, embedder) for one in (before, after)]
    for server, tools_of_server in before.by_server.items():
        queries = [
            (query, tool.key) for tool in tools_of_server for query in paraphrases(document(before, tool))
        ]
        old, new = (search.figures(queries) for search in searches)
        comparison = BeforeAndAfter(
            among=len(before.tools), mended=counts[server], queries=len(queries), before=old, after=new
        )
        results.append(ServerFigures(server=server, tools=len(tools_of_server), compared=comparison))
    return results


class _Search:
    """Search over a snapshot, as the gateway does it."""

    def __init__(self, snapshot: Snapshot, embedder: Embedder) -> None:
        self._embedder = embedder
        self._filter = Filter(visible=frozenset(snapshot.servers))
        self._index = HybridIndex()
        self._index.update(snapshot)
        pending = self._index.pending()
        documents = self._index.documents(pending)
        self._index.keep(pending, embedder.documents(list(documents.values())))

    def figures(self, queries: Asked) -> RankFigures:
        """Measure how well each query finds its tool."""
        rankings = [(self._ranking(text), [_id(key)]) for text, key in queries]
        return RankFigures(
            recall_at_1=mean([recall(ranking, relevant, 1) for ranking, relevant in rankings]),
            recall_at_5=mean([recall(ranking, relevant, _SHOWN) for ranking, relevant in rankings]),
            ndcg_at_10=mean([ndcg(ranking, relevant, _RESULTS) for ranking, relevant in rankings]),
        )

    def _ranking(self, text: str) -> list[str]:
        """Return the tools of a search, best first; a tool's equals on other servers follow it."""
        query = EmbeddedQuery(
            phrase=text, text=text, vectors=self._embedder.queries([text, *clauses(text)[:_MAX_CLAUSES]])
        )
        hits = self._index.search([query], self._filter, _RESULTS).hits
        return [_id(tool.key) for hit in hits for tool in (hit.tool, *hit.also)]


def _id(key: ToolKey) -> str:
    return f"{key.server}/{key.name}"


# Mediation.


async def _mediate(
    snapshot: Snapshot, servers: Sequence[str], embedder: Embedder, step: Step
) -> tuple[Snapshot, Mapping[str, MediationCount]]:
    """Mediate these servers as the gateway would; return the snapshot and the number of tools."""
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


async def snapshot_of(tools: Sequence[RawTool]) -> Snapshot:
    """A snapshot of the tools of some servers, for a search or a proof."""
    groups: dict[str, list[RawTool]] = {}
    for tool in tools:
        groups.setdefault(tool.key.server, []).append(tool)
    changes = [
        await plan(
            Snapshot(), DiscoveredServer(spec=_spec(server), facts=_FACTS, tools=tools_of_server), _count
        )
        for server, tools_of_server in groups.items()
    ]
    all_servers = Change(
        servers=[record for change in changes for record in change.servers],
        tools=[tool for change in changes for tool in change.tools],
        schemas={digest: body for change in changes for digest, body in change.schemas.items()},
    )
    return Snapshot().after(all_servers, 1)


def _spec(server: str) -> ServerSpec:
    return ServerSpec(name=server, command="none")


async def _count(texts: Sequence[str]) -> Sequence[int]:
    """Estimate tokens roughly: the price of a definition has no influence on a search."""
    return [len(text) // _CHARACTERS_PER_TOKEN for text in texts]
