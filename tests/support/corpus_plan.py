"""Decide what every tool of the made corpus is called, how large it is and what is odd about it.

Names, sizes and oddities are shares of the whole, so they are decided for all tools at once, before
`corpus_write` writes any. Nothing is rendered here.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

from tests.support.corpus_words import (
    BAD_SCHEMAS,
    DESTROY,
    DOMAINS,
    FIELDS,
    GENERIC,
    HEADS,
    LARGEST_SHARE,
    LARGEST_TOOL_TOKENS,
    LONGEST_NAME,
    ODD_NAMES,
    PARAMETERS,
    QUALIFIERS,
    READ,
    REAL_SERVERS,
    REAL_TOOLS,
    SERVER_TOOLS,
    STYLES,
    TAILS,
    TOOL_TOKENS,
    WRITE,
    Points,
)

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Domain:
    """What a family of servers is about."""

    name: str
    place: str
    nouns: list[str]


@dataclass(kw_only=True)
class Plan:
    """What is decided of a tool before it is written: its words, its sizes and its oddities."""

    server: "Server"
    domain: Domain
    verb: str
    noun: str
    qualifier: str = ""
    by: str = ""
    name: str = ""
    tokens: float = 0
    parameters: int = 0
    traits: set[str] = field(default_factory=set)

    @property
    def words(self) -> list[str]:
        by = ["by", self.by] if self.by else []
        return [self.verb, *self.qualifier.split(), *self.noun.split(), *by]

    @property
    def kind(self) -> str:
        return "read" if self.verb in READ else "destroy" if self.verb in DESTROY else "write"


@dataclass(kw_only=True)
class Server:
    """A server and the tools planned for it."""

    name: str
    product: str
    domains: list[Domain]
    size: int
    style: str = "Mixed"
    prefix: str = ""
    traits: set[str] = field(default_factory=set)
    plans: list[Plan] = field(default_factory=list)

    def styled(self, plan: Plan) -> str:
        words = [self.prefix, *plan.words] if self.prefix else plan.words
        capital = [word.capitalize() for word in words]
        return {
            "snake": "_".join(words),
            "Mixed": "_".join([plan.domain.name.capitalize(), *words]),
            "kebab": "-".join(words),
            "camel": "".join([words[0], *capital[1:]]),
            "Pascal": "".join(capital),
            "flat": "".join(words),
        }[self.style]


def fold(name: str) -> str:
    """A name without case and separators: two names that fold alike are easily mixed up."""
    return re.sub(r"[\W_]", "", name).lower()


def quantile(points: Points, share: float) -> float:
    for (low, small), (high, large) in pairwise(points):
        if share <= high:
            part = (share - low) / (high - low)
            return float((small + 1) ** (1 - part) * (large + 1) ** part - 1)
    return points[-1][1]


def _sizes(servers: int, tools: int) -> list[int]:
    """How many tools each server has; the first is the one that holds a third of all."""
    if not 0 < servers <= tools:
        raise ValueError(f"{tools} tools cannot be shared among {servers} servers")
    largest = min(round(tools * LARGEST_SHARE), tools - servers + 1) if servers > 1 else tools
    shape = [quantile(SERVER_TOOLS, index / max(1, servers - 2)) for index in range(servers - 1)][::-1]
    sizes = [max(1, round(value * (tools - largest) / sum(shape))) for value in shape]
    while drift := tools - largest - sum(sizes):
        step = 1 if drift > 0 else -1
        for index in [at for at, size in enumerate(sizes) if size + step >= 1][: abs(drift)]:
            sizes[index] += step
    return [max(1, largest), *sizes]


class Planner:
    """Decides names, sizes and oddities of the whole corpus, since they are shares of the whole."""

    def __init__(self, rng: random.Random, servers: int, tools: int) -> None:
        self.rng = rng
        self.scale, self.server_scale = tools / REAL_TOOLS, servers / REAL_SERVERS
        lines = [line.split(" | ") for line in DOMAINS.strip().splitlines()]
        self.domains = [Domain(name=name, place=at, nouns=nouns.split(", ")) for name, at, nouns in lines]
        self.taken: set[str] = set()
        self.servers = self._servers(_sizes(servers, tools))
        self.plans: list[Plan] = []

    def plan(self) -> list[Server]:
        self._share_names()
        for server in self.servers:
            self._fill(server)
        self.plans = [plan for server in self.servers for plan in server.plans]
        self._twin_names()
        self._odd_names()
        self._size_tools()
        self._mark_texts()
        self._mark_servers()
        self._mark_schemas()
        for server in self.servers:
            self.rng.shuffle(server.plans)
        return self.rng.sample(self.servers, len(self.servers))

    def _many(self, real: int, scale: float | None = None) -> int:
        return max(1, round(real * (self.scale if scale is None else scale)))

    def _servers(self, sizes: list[int]) -> list[Server]:
        rng = self.rng
        names = [head + tail for head, tail in product(HEADS, TAILS)]
        rng.shuffle(names)
        names += [f"{name}{round_}" for round_ in range(2, len(sizes) // len(names) + 2) for name in names]
        servers = []
        for name, size in zip(names, sizes, strict=False):
            domain = rng.choice(self.domains)
            label = rng.choice((name, name, f"{name}-{domain.name}", f"mcp-{name}", f"{name}_{domain.name}"))
            server = Server(name=label, product=name.capitalize(), domains=[domain], size=size)
            servers.append(server)
        servers[0].domains = self.domains
        room = {style: share * sum(sizes[1:]) for style, share in STYLES.items()}
        for server in servers[1:]:
            server.style = max(room, key=lambda style: room[style])
            room[server.style] -= server.size
        small = [server for server in servers[1:] if server.style == "snake" and server.size <= 60]
        for server in rng.sample(small, min(len(small) * 2 // 3, self._many(30, self.server_scale))):
            server.prefix = server.product.lower()
        return servers

    def _share_names(self) -> None:
        """152 names that stand on several servers, `search` on 8; see also `_twin_names`."""
        hosts = [one for one in self.servers if one.style == "snake" and not one.prefix and one.size > 3]
        words = [(verb, noun) for verb, noun in product((*READ, *WRITE), GENERIC)]
        several = [8] + [5] * 3 + [4] * 7 + [3] * 20 + [2] * 121
        pairs = self.rng.sample(words, self._many(len(several)))
        for count, (verb, noun) in zip(several, pairs, strict=False):
            free = [host for host in hosts if len(host.plans) < host.size // 2]
            free.sort(key=lambda host: self.rng.random() ** (1 / host.size))
            for host in free[-count:] if len(free) > 1 else []:
                plan = Plan(server=host, domain=host.domains[0], verb=verb, noun=noun, traits={"shared"})
                plan.name = "_".join(plan.words)
                if count == several[0]:
                    plan.verb = plan.name = "search"
                self.taken.add(fold(plan.name))
                host.plans.append(plan)

    def _fill(self, server: Server) -> None:
        rng, attempts = self.rng, 0
        while len(server.plans) < server.size:
            attempts += 1
            domain = server.domains[attempts % len(server.domains)]
            verbs = rng.choices((READ, WRITE, DESTROY), (6, 3, 1))[0]
            plan = Plan(server=server, domain=domain, verb=rng.choice(verbs), noun=rng.choice(domain.nouns))
            plan.qualifier = rng.choice(["", "", *QUALIFIERS][: 2 + attempts // 3])
            plan.by = rng.choice(FIELDS) if attempts > 3 * server.size else ""
            plan.name = server.styled(plan)
            if fold(plan.name) not in self.taken and len(plan.name) <= LONGEST_NAME:
                self.taken.add(fold(plan.name))
                server.plans.append(plan)

    def _twin_names(self) -> None:
        """39 names that differ from one elsewhere only in case and separators."""
        fresh = [plan for plan in self.plans if "shared" not in plan.traits and not plan.server.prefix]
        sources = [plan for plan in fresh if plan.server.style == "snake"]
        targets = [plan for plan in fresh if plan.server.style in ("kebab", "camel", "Pascal", "flat")]
        count = min(self._many(39), len(sources), len(targets))
        pairs = zip(self.rng.sample(sources, count), self.rng.sample(targets, count), strict=True)
        for source, target in pairs:
            target.verb, target.qualifier, target.noun, target.by = (
                source.verb, source.qualifier, source.noun, source.by,
            )  # fmt: skip
            target.name = target.server.styled(target)
            source.traits.add("shared")
            target.traits.add("shared")

    def _odd_names(self) -> None:
        """One server with illegal names, one with a name twice, one with names that a prefix overflows."""
        hosts = [one for one in self.servers if one.style == "snake" and not one.prefix]
        hosts.sort(key=lambda one: abs(one.size - 2 * len(ODD_NAMES)))
        odd, twice, long = (hosts * 3)[:3]
        for plan, name in zip(reversed(odd.plans), ODD_NAMES, strict=False):
            plan.name = name
        if len(twice.plans) > 1:
            twice.plans[-1].name = twice.plans[-2].name
        long.name = f"{long.name}-connector-preview"
        for plan in long.plans[-3:]:
            words = plan.words + self.rng.sample(FIELDS, 12)
            plan.name = next(
                name for end in range(len(words), 0, -1)
                if len(name := "_".join(words[:end])) <= LONGEST_NAME
            )  # fmt: skip

    def _size_tools(self) -> None:
        plans = self.rng.sample(self.plans, len(self.plans))
        for index, plan in enumerate(plans):
            plan.tokens = quantile(TOOL_TOKENS, (index + 0.5) / len(plans))
        plans[-1].tokens = LARGEST_TOOL_TOKENS
        plans[-1].traits.add("output")
        ranks = [(rank / len(plans), plan) for rank, plan in enumerate(plans)]
        ranks.sort(key=lambda pair: pair[0] + self.rng.gauss(0, 0.3) * (1.02 - pair[0]))
        for index, (_, plan) in enumerate(ranks):
            plan.parameters = round(quantile(PARAMETERS, (index + 0.5) / len(plans)))

    def _mark(
        self,
        trait: str,
        real: int,
        wanted: Callable[[Plan], bool],
        *,
        without: set[str] | frozenset[str] = frozenset(),
    ) -> None:
        pool = [plan for plan in self.plans if wanted(plan) and not plan.traits & without]
        for plan in self.rng.sample(pool, min(len(pool), self._many(real))):
            plan.traits.add(trait)

    def _mark_texts(self) -> None:
        half, long, longest = (quantile(TOOL_TOKENS, share) for share in (0.5, 0.88, 0.96))
        self._mark("description over 2048", 127, lambda plan: longest < plan.tokens < LARGEST_TOOL_TOKENS)
        special = {"description over 2048"}
        for trait, real, wanted in (
            ("description over 1024", 462 - 127, lambda plan: plan.tokens > long),
            ("description missing", 9, lambda plan: plan.tokens < half),
            ("description short", 412, lambda plan: plan.tokens < half),
            ("description cjk", 53, lambda plan: 150 < plan.tokens < long and plan.server.size < 100),
        ):
            self._mark(trait, real, wanted, without=special)
            special.add(trait)
        special -= {"description over 1024", "description over 2048"}
        for trait, real in (("shout", 290), ("xml", 86), ("first", 65), ("hidden", 40), ("path", 1)):
            self._mark(trait, real, lambda plan: plan.tokens > 180, without=special)

    def _mark_schemas(self) -> None:
        huge = quantile(TOOL_TOKENS, 0.985)
        for plan in self.plans:
            if plan.tokens > huge and "description over 2048" not in plan.traits:
                plan.traits.add("output")
        rich = sum("output" in plan.traits for plan in self.plans)
        share = len(self.plans) / self.scale
        self._mark("output", round(0.24 * share - rich / self.scale), lambda plan: 90 < plan.tokens <= huge)
        self._mark("annotations", round(0.75 * share), lambda plan: plan.tokens > 70)
        self._mark("title", round(0.56 * share), lambda plan: plan.tokens > 70)
        self._mark("meta", round(0.43 * share), lambda plan: plan.tokens > 100)
        self._mark("anyOf", round(0.35 * share), lambda plan: plan.tokens > 90 and plan.parameters > 0)
        odd = {*SCHEMA_ODDITIES, *(f"bad schema {number}" for number in range(len(BAD_SCHEMAS)))}
        for trait, (real, _) in SCHEMA_ODDITIES.items():
            self._mark(trait, real, lambda plan: plan.tokens > 150 and plan.parameters > 1, without=odd)

    def _mark_servers(self) -> None:
        """Dialects go by server, as does a list of tools whose schemas are none."""
        rest = self.rng.sample(self.servers[1:], len(self.servers) - 1)
        for trait, real in (("draft-07", 1493), ("2020-12", 176)):
            left = self._many(real)
            for server in rest:
                if server.size <= left * 1.1 and not server.traits:
                    server.traits.add(trait)
                    left -= server.size
        plain = [server for server in rest if server.style != "snake" and server.size >= len(BAD_SCHEMAS)]
        for plan, number in zip((plain or self.servers)[0].plans, range(len(BAD_SCHEMAS)), strict=False):
            plan.traits.add(f"bad schema {number}")


def _last(schema: Record) -> Record:
    """A parameter to spoil: the last one."""
    changed: Record = {}
    schema["properties"][list(schema["properties"])[-1]] = changed
    return changed


def _refer(schema: Record) -> None:
    _last(schema)["$ref"] = "#/$defs/Range"
    schema["$defs"] = {"Range": {"type": "object", "properties": {"from": {"type": "string"}}}}


def _recurse(schema: Record) -> None:
    _last(schema)["$ref"] = "#/$defs/Node"
    children = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    schema["$defs"] = {
        "Node": {"type": "object", "properties": {"label": {"type": "string"}, "children": children}}
    }


def _nest(schema: Record, levels: int = 12) -> None:
    inner: Record = {"type": "string"}
    for _ in range(levels - 2):
        inner = {"type": "object", "properties": {"where": inner}}
    _last(schema).update(inner)


def _true(schema: Record) -> None:
    schema["properties"][list(schema["properties"])[-1]] = True


SCHEMA_ODDITIES: dict[str, tuple[int, Callable[[Record], None]]] = {
    "$ref": (59, _refer),
    "recursive $ref": (12, _recurse),
    "remote $ref": (3, lambda schema: _last(schema).update({"$ref": "https://schemas.invalid/range.json"})),
    "boolean subschema": (6, _true),
    "draft-3 required": (8, lambda schema: _last(schema).update(type="string", required=True)),
    "mixed enum": (20, lambda schema: _last(schema).update(enum=[1, "two", None, True, 4.5])),
    "array without items": (25, lambda schema: _last(schema).update(type="array")),
    "12 levels": (3, _nest),
}
