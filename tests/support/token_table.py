"""The design's table of tokens: what lists and answers of ordinary servers put into an agent's context.

Measured with a client of each era through a gateway over a catalog of given tools. Counted as the design
counts: of a definition its name, description and input schema, which clients give a model; of an answer its
text. `DOCUMENT` is what the design document says.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.support.sdk_clients import Era, SdkClient, own_client

from maitred.backends.listing import read_tools
from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Disclosure, Search
from maitred.disclosure.budget import for_model
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.model.access import LOCAL_USER
from maitred.surfaces.mcp.server import McpSurface

Json = dict[str, Any]

SERVER: Final = "office"
ERAS: Final[tuple[Era, ...]] = ("handshake", "stateless")
SIZES: Final[Mapping[str, int]] = {"analytics": 5, "admin": 15, "content": 30}
SMALL: Final = ("fetch", "git", "memory", "filesystem", "ref-slack", "sqlite", "time", "ref-puppeteer")
"""Recorded servers below the break-even; the schemas of some have titles or a dialect, of others neither."""

DOCUMENT: Final[Mapping[str, float]] = {
    "50 tools, none opened": 0.97,
    "50 tools, 1 category of 5 opened": 0.87,
    "10 tools, all used": 0.0,
}
_ABOUT: Final = {
    "analytics": "View metrics and reports",
    "admin": "Manage users, roles, permissions",
    "content": "Create, edit, publish content",
}
_NOUNS: Final = {
    "analytics": ("report",),
    "admin": ("user", "role", "permission"),
    "content": ("page", "article", "comment", "picture", "menu", "form"),
}
_VERBS: Final = ("create", "delete", "rename", "list", "archive")
_GIVEN: Final = ("name", "description", "inputSchema")


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """One row: the tokens of the servers' own definitions, of the list, and of the answers that opened it.

    `whole_saved` is the share that is saved with whole definitions, as they are listed, but for `_meta`.
    """

    scenario: str
    era: Era
    tools: int
    raw: int
    listed: int
    answers: int
    whole_saved: float

    @property
    def total(self) -> int:
        """All that the agent reads to know the tools."""
        return self.listed + self.answers

    @property
    def saved(self) -> float:
        """The share of the raw tokens that the agent does not read."""
        return 1 - self.total / self.raw


def thin(category: str, count: int) -> list[Json]:
    """Tools of about 100 tokens, as in the document; a category of the server is declared in `_meta`."""
    made = []
    for noun in _NOUNS[category]:
        for verb in _VERBS:
            properties = {
                f"{noun}_id": {"type": "string", "description": f"The {noun}, as list_{noun} shows it"},
                "reason": {"type": "string", "description": "Why, for the audit trail"},
                "notify": {"type": "boolean", "description": "Tell the team about it by mail"},
            }
            made.append(
                {
                    "name": f"{verb}_{noun}",
                    "description": f"{verb.capitalize()} a {noun} of the team. Ask before you change one that"
                    f" somebody else made; the answer is the {noun} as it is afterwards.",
                    "inputSchema": {"type": "object", "properties": properties, "required": [f"{noun}_id"]},
                    "_meta": {"category": {"name": category, "description": _ABOUT[category]}},
                }
            )
    return made[:count]


def of_python(tool: Json) -> Json:
    """A tool as the SDK for Python writes its schema: with titles."""
    schema = tool["inputSchema"]
    properties = {
        name: {**one, "title": name.replace("_", " ").title()} for name, one in schema["properties"].items()
    }
    return {**tool, "inputSchema": {**schema, "properties": properties, "title": f"{tool['name']}Arguments"}}


def of_typescript(tool: Json) -> Json:
    """A tool as the SDK for TypeScript writes its schema: with a dialect, and without further properties."""
    dialect = {"$schema": "http://json-schema.org/draft-07/schema#", "additionalProperties": False}
    return {**tool, "inputSchema": {**tool["inputSchema"], **dialect}}


def given_tokens(definitions: Iterable[Mapping[str, Any]]) -> int:
    """The tokens of what clients give a model of definitions."""
    given = [{key: one[key] for key in _GIVEN if key in one} for one in definitions]
    return count_tokens([json.dumps(given, ensure_ascii=False, separators=(",", ":"))])[0]


def whole_tokens(definitions: Iterable[Mapping[str, Any]]) -> int:
    """The tokens of whole definitions without their `_meta`."""
    return count_tokens([for_model(definitions)])[0]


async def measure(recorded: Mapping[str, Sequence[Json]] | None = None) -> list[TokenRow]:
    """All rows; `recorded` has the definitions of real servers by name."""
    fifty = [tool for category, count in SIZES.items() for tool in thin(category, count)]
    categories = Disclosure(mode="categories", break_even_tokens=0)
    rows = [row for era in ERAS for row in await _opened(fifty, era, categories)]
    python = [of_python(tool) for tool in fifty]
    for era in ERAS:
        every = (await _opened(python, era, categories))[-1]
        rows.append(replace(every, scenario=f"{len(python)} tools of a Python server, all opened"))
    small: dict[str, Sequence[Json]] = {"10 tools, all used": thin("admin", 10), "3 tools": thin("admin", 3)}
    small |= {
        "10 tools of a Python server": [of_python(tool) for tool in thin("admin", 10)],
        "10 tools of a TypeScript server": [of_typescript(tool) for tool in thin("admin", 10)],
    }
    for scenario, tools in small.items():
        rows += [await listed_as_is(scenario, SERVER, tools, era) for era in ERAS]
    for name, tools in (recorded or {}).items():
        rows.append(await listed_as_is(f"`{name}`", name, tools, "stateless"))
    return rows


async def listed_as_is(scenario: str, server: str, tools: Sequence[Json], era: Era) -> TokenRow:
    """A small catalog as a client lists it by default."""
    async with (
        gateway_with_tools(read_tools(server, list(tools))[0], Search(mode="lexical")) as gateway,
        own_client(McpSurface(gateway).server, era) as client,
    ):
        settings = replace(gateway.settings, disclosure=Disclosure())
        await gateway.configure(settings, viewer=LOCAL_USER)
        return await _row(scenario, era, tools, client, ())


async def _opened(tools: Sequence[Json], era: Era, disclosure: Disclosure) -> list[TokenRow]:
    """Categories of a server: none opened, each of two alone, all."""
    small, middle, large = SIZES
    cases = {
        "none opened": (),
        f"1 category of {SIZES[small]} opened": (small,),
        f"1 category of {SIZES[middle]} opened": (middle,),
        "all opened": (small, middle, large),
    }
    rows = []
    async with gateway_with_tools(read_tools(SERVER, list(tools))[0], Search(mode="lexical")) as gateway:
        await gateway.configure(replace(gateway.settings, disclosure=disclosure), viewer=LOCAL_USER)
        for case, opened in cases.items():
            async with own_client(McpSurface(gateway).server, era) as client:
                await client.definitions()
                answers = [await client.call(f"{SERVER}__{category}_tools") for category in opened]
                rows.append(await _row(f"{len(tools)} tools, {case}", era, tools, client, answers))
    return rows


async def _row(
    scenario: str, era: Era, tools: Sequence[Json], client: SdkClient, answers: Sequence[str]
) -> TokenRow:
    listed, read = await client.definitions(), sum(count_tokens(answers)) if answers else 0
    assert not any(answer.startswith("error") for answer in answers), answers
    return TokenRow(
        scenario=scenario,
        era=era,
        tools=len(tools),
        raw=given_tokens(tools),
        listed=given_tokens(listed),
        answers=read,
        whole_saved=1 - (whole_tokens(listed) + read) / whole_tokens(tools),
    )
