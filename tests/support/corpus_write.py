"""Write the planned tools of the made corpus out as definitions, and the servers as records.

Each tool spends the characters it was given: on its description, then on those of its parameters,
then on its output schema. What a tool is and what is odd about it was decided by `corpus_plan`.
"""

import json
import random
from typing import Any

from tests.support.corpus_plan import SCHEMA_ODDITIES, Plan, Server, quantile
from tests.support.corpus_words import (
    ANSWER_FIELDS,
    BAD_SCHEMAS,
    CHARS_PER_TOKEN,
    CJK,
    CJK_DEEDS,
    DIALECTS,
    FIELDS,
    FIRST,
    HIDDEN,
    INSTRUCTION_TOKENS,
    PARAMETER_KINDS,
    PLURAL_VERBS,
    QUALIFIERS,
    REAL_SERVERS,
    REFUSALS,
    ROLES,
    SENTENCES,
    SHOUTS,
    article,
    plural,
)

Record = dict[str, Any]


def length(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


class Writer:
    """Writes the planned tools out as definitions and the servers as records."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.kinds = [line.split(" | ") for line in PARAMETER_KINDS.strip().splitlines()]
        self.sentences = SENTENCES.strip().splitlines()

    def tool(self, plan: Plan) -> Record:
        rng, words = self.rng, self._words(plan)
        documents = self._choose_parameters(plan, words)
        schema = self._schema(plan, documents)
        tool: Record = {"name": plan.name, "description": "", "inputSchema": schema}
        if "title" in plan.traits:
            tool["title"] = " ".join(plan.words).capitalize()
        if "annotations" in plan.traits:
            tool["annotations"] = self._annotations(plan)
        if "output" in plan.traits:
            result = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
            tool["outputSchema"] = result
        if "meta" in plan.traits:
            tool["_meta"] = {"origin": {"tags": [plan.domain.name]}}
            tool |= {"execution": {"taskSupport": "forbidden"}} if rng.random() < 0.25 else {}
        budget = plan.tokens * CHARS_PER_TOKEN
        if "output" in plan.traits:
            self._grow(tool, words, self.rng.choice((0, 0, 0.2, 0.5)) * (budget - length(tool)))
        tool["description"] = self._description(plan, words, budget - length(tool))
        self._document(schema["properties"], documents, words, budget - length(tool))
        self._grow(tool, words, budget - length(tool))
        self._spoil(tool, plan)
        return tool

    def _words(self, plan: Plan) -> dict[str, str]:
        """What the templates are filled with."""
        noun = f"{plan.qualifier} {plan.noun}".strip()
        others = [other for other in plan.domain.nouns if other != plan.noun]
        other = self.rng.choice(others)
        number = str(self.rng.choice((5, 10, 24, 30, 50, 90, 100, 250, 1000)))
        return {
            "verb": plan.verb,
            "noun": noun,
            "plural": plural(noun),
            "Plural": plural(noun).capitalize(),
            "other": other,
            "others": plural(other),
            "place": plan.domain.place,
            "number": number,
            "product": plan.server.product,
            "role": self.rng.choice(ROLES),
            "qualifier": article(self.rng.choice(QUALIFIERS)),
            **self._fields(),
        }

    def _fields(self) -> dict[str, str]:
        at = self.rng.randrange(len(FIELDS))
        return {"f0": FIELDS[at], "f1": FIELDS[at - 7], "f2": FIELDS[at - 17]}

    def _prose(self, words: dict[str, str], characters: float) -> str:
        """Sentences about the tool, cut to the length asked for."""
        text = ""
        while len(text) < characters:
            text += self.rng.choice(self.sentences).format_map(words | self._fields()) + " "
        text = text[: max(0, int(characters))]
        whole = text[: text.rfind(". ") + 1]
        return (
            whole if len(whole) > 0.85 * len(text) or not text else text.rsplit(" ", 1)[0].rstrip(".,") + "."
        )

    def _opening(self, plan: Plan, words: dict[str, str]) -> str:
        thing = words["plural"] if plan.verb in PLURAL_VERBS else article(words["noun"])
        thing += f" by {plan.by}" if plan.by else ""
        verb = self.rng.choice((plan.verb, plural(plan.verb))).capitalize()
        where = self.rng.choice(("in {product}", "of {place}", "in {place} through {product}")).format_map(
            words
        )
        return f"{verb} {thing} {where}."

    def _description(self, plan: Plan, words: dict[str, str], spare: float) -> str:
        traits = plan.traits
        if "description short" in traits:
            return f"{plan.verb.capitalize()} {plan.noun}"[:29]
        if "description cjk" in traits:
            chinese, japanese = CJK_DEEDS[plan.kind]
            return self.rng.choice(CJK).format_map(words | {"chinese": chinese, "japanese": japanese})
        text = FIRST.format_map(words) if "first" in traits else ""
        text += self.rng.choice(SHOUTS).format_map(words) if "shout" in traits else ""
        text += self._opening(plan, words)
        text += f" Files go to /home/{plan.server.product}/data/out." if "path" in traits else ""
        aim = self._aim(plan, spare) - len(text)
        more = self._prose(words, max(aim, 30 if len(text) < 30 else 0))
        if "hidden" in traits:
            more = f" {self.rng.choice(HIDDEN)}" + more
        if "xml" in traits:
            return f"{text}<usage>{more}</usage>"
        return f"{text} {more}".strip()

    def _aim(self, plan: Plan, spare: float) -> float:
        share = spare * self.rng.uniform(0.12, 0.5)
        if "description over 2048" in plan.traits:
            return min(30_000, max(2_450, 1.4 * share))
        if "description over 1024" in plan.traits:
            return min(2_030, max(1_230, share))
        return min(970, share)

    def _choose_parameters(self, plan: Plan, words: dict[str, str]) -> dict[str, tuple[str, str]]:
        """Name -> kind and description."""
        known = {name: (kind, text.format_map(words)) for name, kind, text in self.kinds}
        known |= {f"min_{one}": ("number", f"Least {one} of the {words['noun']}") for one in FIELDS}
        known |= {f"max_{one}": ("number", f"Largest {one} of the {words['noun']}") for one in FIELDS}
        identifier = plan.noun.replace(" ", "_") + "_id"
        if plan.verb in PLURAL_VERBS:
            first = {"query": known.pop("query")}
        else:
            first = {identifier: ("string", f"Identifier of the {words['noun']}")}
        common = self.rng.sample(list(known)[:19], min(19, max(0, plan.parameters - 1)))
        rare = self.rng.sample(list(known)[19:], max(0, plan.parameters - 20))
        chosen = first | {name: known[name] for name in (*common, *rare)}
        return chosen if plan.parameters else {}

    def _property(self, kind: str, *, nullable: bool) -> Record:
        kinds: dict[str, Record] = {
            "enum": {"type": "string", "enum": self.rng.sample(FIELDS, 3)},
            "strings": {"type": "array", "items": {"type": "string"}},
            "date": {"type": "string", "format": "date-time"},
            "integer": {"type": "integer", "minimum": 1, "maximum": 500},
            "object": {"type": "object", "properties": {self.rng.choice(FIELDS): {"type": "string"}}},
        }
        schema = kinds.get(kind, {"type": kind})
        return {"anyOf": [schema, {"type": "null"}], "default": None} if nullable else schema

    def _schema(self, plan: Plan, documents: dict[str, tuple[str, str]]) -> Record:
        nullable = "anyOf" in plan.traits
        properties = {
            name: self._property(kind, nullable=nullable and (at > 0 or len(documents) == 1))
            for at, (name, (kind, _)) in enumerate(documents.items())
        }
        required = list(properties)[: 1 + (len(properties) - 1) // 4]
        schema: Record = {"type": "object", "properties": properties}
        schema |= {"required": required} if required else {}
        schema |= {"additionalProperties": False} if self.rng.random() < 0.6 else {}
        for trait, address in DIALECTS.items():
            schema |= {"$schema": address} if trait in plan.server.traits else {}
        for trait, (_, spoil) in SCHEMA_ODDITIES.items():
            if trait in plan.traits:
                spoil(schema)
        return schema

    def _annotations(self, plan: Plan) -> Record:
        hints: Record = {"readOnlyHint": plan.kind == "read"}
        if plan.tokens > 120:
            hints |= {"destructiveHint": plan.kind == "destroy", "openWorldHint": self.rng.random() < 0.5}
        return hints

    def _document(
        self, properties: Record, documents: dict[str, tuple[str, str]], words: dict[str, str], spare: float
    ) -> None:
        each = spare / max(1, len(properties))
        for name, schema in properties.items():
            text = documents[name][1]
            if isinstance(schema, dict) and self.rng.random() < 0.93 and each > 8 + len(text) / 4:
                more = self._prose(words, min(420, each - 20 - len(text)))
                schema["description"] = f"{text}. {more}".strip() if more else text

    def _grow(self, tool: Record, words: dict[str, str], spare: float) -> None:
        """Spend what is left on properties of the answer, or of an object among the parameters."""
        schema = tool.get("outputSchema")
        if schema is None and tool["inputSchema"]["properties"] and spare > 200:
            schema = {"type": "object", "properties": {}}
            tool["inputSchema"]["properties"]["options"] = schema
        while schema is not None and spare > 70:
            name = ANSWER_FIELDS[len(schema["properties"])]
            text = self._prose(words, min(spare - 50, self.rng.uniform(30, 200)))
            schema["properties"][name] = {"type": "string", "description": text}
            spare -= len(name) + len(text) + 40

    def _spoil(self, tool: Record, plan: Plan) -> None:
        if "description missing" in plan.traits:
            del tool["description"]
        for number, bad in enumerate(BAD_SCHEMAS):
            if f"bad schema {number}" in plan.traits:
                tool["inputSchema"] = bad
                if bad == "missing":
                    del tool["inputSchema"]

    def record(self, server: Server, facts: Record) -> Record:
        version = f"{self.rng.randint(0, 4)}.{self.rng.randint(0, 20)}.{self.rng.randint(0, 9)}"
        same = self.rng.random() > 100 / REAL_SERVERS
        info = {"name": facts.pop("name", server.name), "version": version if same else "1.0.0"}
        return {
            "server": server.name, "field": server.domains[0].name, "package": f"mcp-server-{server.name}",
            "registry": self.rng.choice(("npm", "pypi")), "version": version, "licence": "MIT",
            "command": f"mcp-server-{server.name}", "args": ["--stdio"], "env_needed": [], "serverInfo": info,
            "instructions": None, "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": self.rng.random() < 0.5}},
            "prompts": 0, "resources": 0, "resourceTemplates": 0, "stdout_noise": 0, "notes": [],
            "tools": [self.tool(plan) for plan in server.plans], "discover": None, **facts,
        }  # fmt: skip

    def instructions(self, server: Server, share: float) -> str:
        words = self._words(server.plans[0])
        return self._prose(words, quantile(INSTRUCTION_TOKENS, share) * CHARS_PER_TOKEN)


def list_facts(rng: random.Random, writer: Writer, servers: list[Server]) -> list[Record]:
    """What distinguishes the servers beside their tools: instructions, revisions, noise, equal names."""
    facts: list[Record] = [{} for _ in servers]

    def some(real: int) -> list[int]:
        return rng.sample(
            range(len(servers)), min(len(servers), max(1, round(real * len(servers) / REAL_SERVERS)))
        )

    chosen = some(59)
    for rank, at in enumerate(chosen):
        facts[at]["instructions"] = writer.instructions(servers[at], (rank + 0.5) / len(chosen))
    old = iter(some(19))
    for version, real in (("2024-11-05", 11), ("2025-03-26", 4), ("2025-06-18", 4)):
        for _, at in zip(range(max(1, round(real * len(servers) / REAL_SERVERS))), old, strict=False):
            facts[at]["protocolVersion"] = version
    for at, fact in enumerate(facts):
        code, message = rng.choices(REFUSALS, (8, 1, 1))[0]
        fact["discover"] = {"error": {"code": code, "message": message}} if at % 3 else None
    for at in some(50):
        facts[at]["discover"] = {"supportedVersions": ["2026-07-28"]}
    for rank, at in enumerate(some(10)):
        facts[at]["stdout_noise"] = 5 if rank == 0 else rank % 4 + 1
    for at in some(2):
        facts[at]["name"] = "tools-server"
    return facts
