"""The made corpus has the published numbers, and the replay server serves it to real clients.

The numbers are those of the notes on 191 real servers ("Real servers: what 191 of them do"); each
tolerance says how far a made corpus may be off before it no longer tests the same thing.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.support import corpus

pytestmark = pytest.mark.anyio

Record = dict[str, Any]
STYLES = {
    "snake": r"[a-z0-9]+(_[a-z0-9]+)+",
    "Mixed": r"[A-Za-z0-9]+(_[A-Za-z0-9]+)+",
    "kebab": r"[a-z0-9]+(-[a-z0-9]+)+",
    "flat": r"[a-z0-9]+",
    "camel": r"[a-z][A-Za-z0-9]+",
    "Pascal": r"[A-Z][A-Za-z0-9]+",
}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return corpus.generate()


@pytest.fixture(scope="module")
def tools(records: list[Record]) -> list[Record]:
    return [tool for record in records for tool in record["tools"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus in a file."""
    path = tmp_path_factory.mktemp("corpus") / "servers.jsonl"
    corpus.write(corpus.generate(seed=11, servers=12, tools=300), path)
    return path


def near(real: float, tolerance: float = 0.1) -> Any:
    return pytest.approx(real, rel=tolerance)


def quantile(values: list[int], share: float) -> int:
    return sorted(values)[int(share * (len(values) - 1))]


def schemas(value: Any) -> Iterator[Record]:
    """Every object in a schema, the schema itself first."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from schemas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from schemas(inner)


def levels(schema: Any) -> int:
    """How deep schemas stand in one another; 1 for one that holds no other."""
    if not isinstance(schema, dict):
        return 1
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", []), schema.get("items")]
    return 1 + max((levels(one) for one in inner if isinstance(one, dict)), default=0)


def proper(tools: list[Record]) -> list[Record]:
    """The input schemas that are what the protocol asks for."""
    found = [tool.get("inputSchema") for tool in tools]
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("properties"), dict)]


def properties(tools: list[Record]) -> list[Any]:
    return [one for schema in proper(tools) for one in schema["properties"].values()]


def test_servers_have_the_published_sizes(records: list[Record]) -> None:
    """Median 16 tools, p90 74, the two largest 2,720 and 401, 8,586 in all."""
    sizes = [len(record["tools"]) for record in records]

    assert (len(sizes), sum(sizes)) == (191, 8586)
    assert quantile(sizes, 0.5) == near(16)
    assert quantile(sizes, 0.9) == near(74)
    assert sorted(sizes)[-2:] == [near(401), 2720]


def test_tools_have_the_published_token_counts(records: list[Record], tools: list[Record]) -> None:
    """A tool has a median of 228 tokens, p90 587, p99 2,187, at most 17,296; ten servers hold half."""
    whole = [corpus.tokens(tool) for tool in tools]
    given = [
        sum(
            corpus.tokens({key: tool.get(key) for key in ("name", "description", "inputSchema")})
            for tool in record["tools"]
        )
        for record in records
    ]

    assert quantile(whole, 0.5) == near(228)
    assert quantile(whole, 0.9) == near(587)
    assert quantile(whole, 0.99) == near(2187)
    assert max(whole) == near(17_296)
    assert sum(given) == near(2_399_201)
    assert sum(sorted(given)[-10:]) / sum(given) == near(0.53)


def test_names_are_written_in_the_published_shares_of_styles(tools: list[Record]) -> None:
    """snake_case 51 %, Mixed_Snake 32 %, kebab 8 %, camel 5 %, Pascal 1 %; legal ones at most 53 long."""
    names = [tool["name"] for tool in tools]
    legal = [name for name in names if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)]
    styles = Counter(
        next(style for style, form in STYLES.items() if re.fullmatch(form, name)) for name in legal
    )

    for style, share in {"snake": 0.51, "Mixed": 0.32, "kebab": 0.08, "camel": 0.05, "Pascal": 0.01}.items():
        assert styles[style] / len(names) == pytest.approx(share, abs=0.01), style
    assert 45 <= max(map(len, legal)) <= 53
    assert set(names) - set(legal) == set(corpus.ODD_NAMES)


def test_names_collide_as_often_as_real_ones(records: list[Record]) -> None:
    """152 names on more than one server, `search` on 8, 191 when folded; one server has a name twice."""

    def on_several(spell: Callable[[str], str]) -> Counter[str]:
        listed = Counter(
            name for record in records for name in {spell(tool["name"]) for tool in record["tools"]}
        )
        return Counter({name: count for name, count in listed.items() if count > 1 and name})

    several = on_several(str)
    assert len(several) == near(152, 0.03)
    assert several["search"] == 8
    assert several.total() == near(353, 0.03)
    assert len(on_several(corpus.fold)) == near(191, 0.03)
    names = [[tool["name"] for tool in record["tools"]] for record in records]
    assert sum(len(listed) - len(set(listed)) for listed in names) == 1


def test_some_names_overflow_with_their_server_as_prefix(records: list[Record]) -> None:
    """Server, two underscores and a legal name exceed 64 characters on one server; 30 prefix their own."""
    listed = [(record["server"], tool["name"]) for record in records for tool in record["tools"]]
    over = {server for server, name in listed if len(name) <= 53 and len(f"{server}__{name}") > 64}

    assert len(over) >= 1
    prefixed = [
        record
        for record in records
        if all(
            tool["name"].startswith(record["tools"][0]["name"].split("_")[0] + "_")
            and tool["name"].split("_")[0] in record["server"]
            for tool in record["tools"]
        )
    ]
    assert len(prefixed) == near(30)


def test_descriptions_have_the_published_oddities(tools: list[Record]) -> None:
    """Missing, short, long, Chinese or Japanese, shouting, with tags, and with characters nobody sees."""
    texts = [tool.get("description") or "" for tool in tools]

    def count(form: str) -> int:
        return sum(re.search(form, text) is not None for text in texts)

    assert sum("description" not in tool for tool in tools) == 9
    assert sum(len(text) < 30 for text in texts) == near(421)
    assert sum(len(text) > 1024 for text in texts) == near(462)
    assert sum(len(text) > 2048 for text in texts) == near(127)
    assert count("[\u3040-\u30ff\u4e00-\u9fff]") == 53
    assert count(r"\b(MUST|ALWAYS|NEVER)\b") == near(290)
    assert count("<usage>.*</usage>") == near(86)
    assert count("Call this first") == near(65)
    assert count("/home/") == 1
    for hidden in ("\u202e", "\u2066", "\u200b", "\ufeff", "\x1b", "\x00", "\U000e0068"):
        assert count(re.escape(hidden)) >= 1, hidden


def test_schemas_have_the_published_oddities(tools: list[Record]) -> None:
    """Every form of schema seen on a real server stands in the corpus, in the share it had there."""
    inputs, parameters = proper(tools), properties(tools)
    texts = [json.dumps(tool) for tool in tools]
    enums = [enum for one in parameters if isinstance(one, dict) for enum in [one.get("enum", [])]]

    assert sum(not schema["properties"] for schema in inputs) == near(453)
    assert max(len(schema["properties"]) for schema in inputs) == 55
    assert sum(not (isinstance(one, dict) and "description" in one) for one in parameters) == near(4332, 0.2)
    assert sum('"anyOf"' in text for text in texts) / len(tools) == pytest.approx(0.35, abs=0.02)
    assert sum('"#/$defs' in text for text in texts) == 71
    assert sum('"#/$defs/Node"' in text for text in texts) == 12
    assert sum('"$ref": "https:' in text for text in texts) == 3
    assert sum(one is True for one in parameters) == 6
    assert sum(isinstance(one, dict) and one.get("required") is True for one in parameters) == 8
    assert sum(any(not isinstance(option, str) for option in enum) for enum in enums) == 20
    assert any(one.get("type") == "array" and "items" not in one for one in schemas(parameters))
    assert max(levels(schema) for schema in inputs) == 12
    assert len(tools) - len(inputs) == len(corpus.BAD_SCHEMAS)


def test_tools_carry_the_other_published_fields(tools: list[Record]) -> None:
    """Output schemas on 24 %, annotations on 75 %, titles on 56 %; two dialects are named."""
    dialects = Counter(schema.get("$schema") for schema in proper(tools))

    for key, share in {"outputSchema": 0.24, "annotations": 0.75, "title": 0.56}.items():
        assert sum(key in tool for tool in tools) / len(tools) == pytest.approx(share, abs=0.01), key
    assert dialects[corpus.DIALECTS["draft-07"]] == near(1493)
    assert dialects[corpus.DIALECTS["2020-12"]] == near(176)


def test_servers_differ_as_real_ones_do(records: list[Record]) -> None:
    """59 send instructions; revisions, discovery, noise and names are spread as published."""
    instructions = [record["instructions"] for record in records if record["instructions"]]
    versions = Counter(record["protocolVersion"] for record in records)
    names = Counter(record["serverInfo"]["name"] for record in records)

    assert len({record["server"] for record in records}) == len(records)
    assert len(instructions) == 59
    assert quantile([len(text) for text in instructions], 0.5) / corpus.CHARS_PER_TOKEN == near(312, 0.15)
    assert versions == {"2025-11-25": 172, "2024-11-05": 11, "2025-03-26": 4, "2025-06-18": 4}
    assert sum("supportedVersions" in (record["discover"] or {}) for record in records) == 50
    assert sum(record["stdout_noise"] > 0 for record in records) == 10
    assert [count for count in names.values() if count > 1] == [2]
    differing = [record for record in records if record["version"] != record["serverInfo"]["version"]]
    assert len(differing) == near(100, 0.2)


def test_a_small_corpus_keeps_the_oddities() -> None:
    """Tests that need few tools still meet collisions, illegal names and broken schemas."""
    records = corpus.generate(servers=24, tools=400)
    tools = [tool for record in records for tool in record["tools"]]

    assert (len(records), len(tools)) == (24, 400)
    assert {tool["name"] for tool in tools} & set(corpus.ODD_NAMES)
    assert len(tools) > len(proper(tools))
    assert any("description" not in tool for tool in tools)
    with pytest.raises(ValueError, match="cannot be shared"):
        corpus.generate(servers=5, tools=4)


def test_the_same_seed_makes_the_same_corpus_in_every_process() -> None:
    """Neither the process nor its hash seed shows in the records; another seed makes others."""
    code = "import json; from tests.support import corpus; print(json.dumps(corpus.generate(3, 12, 150)))"
    root = Path(__file__).resolve().parents[2]
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
            timeout=120,
        )
        for seed in ("1", "2")
    ]

    assert runs[0].stdout == runs[1].stdout
    assert json.loads(runs[0].stdout) == corpus.generate(3, 12, 150)
    assert json.loads(runs[0].stdout) != corpus.generate(4, 12, 150)


def test_offsets_find_every_record(made: Path) -> None:
    """Each offset is the first byte of the line of its server."""
    with made.open("rb") as file:
        for server, offset in corpus.offsets(made).items():
            file.seek(offset)
            assert json.loads(file.readline())["server"] == server


def test_recorded_definitions_are_found_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`MAITRED_SHARED` names the folder; without the file in it there are none."""
    monkeypatch.setenv("MAITRED_SHARED", str(tmp_path))
    assert corpus.recorded() is None

    path = tmp_path / "data" / "real_servers" / "servers.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    assert corpus.recorded() == path


def client(path: Path, server: str, mode: str, *options: str) -> Client:
    program, *arguments = corpus.replay_command(path, server, corpus.offsets(path)[server], *options)
    parameters = StdioServerParameters(command=program, args=arguments)
    return Client(parameters, mode=mode)  # type: ignore[arg-type, unused-ignore]


async def list_all(connected: Client) -> list[str]:
    names: list[str] = []
    cursor: str | None = None
    while cursor or not names:
        page = await connected.list_tools(cursor=cursor)
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor
    return names


async def assert_served(path: Path, record: Record, mode: str, *options: str, version: str) -> None:
    """A real client lists the record's tools and gets its own call back."""
    with anyio.fail_after(120):
        async with client(path, record["server"], mode, *options) as connected:
            assert connected.protocol_version == version
            assert connected.instructions == record["instructions"]
            assert await list_all(connected) == [tool["name"] for tool in record["tools"]]
            for tool in record["tools"][:30]:
                result = await connected.call_tool(tool["name"], {"a": "\u00e9"})
                echo = {"server": record["server"], "tool": tool["name"], "arguments": {"a": "\u00e9"}}
                assert json.loads(result.content[0].text) == echo  # type: ignore[union-attr]
            unknown = await connected.call_tool("no such tool", {})
            assert unknown.is_error


def well_formed(path: Path) -> list[Record]:
    """The records whose tools any client accepts, in the order of the file."""
    return [record for record in corpus.read(path) if len(proper(record["tools"])) == len(record["tools"])]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("options", [(), ("--page-size", "7")], ids=["one page", "pages of 7"])
async def test_a_made_record_is_served_to_a_client_of_each_era(
    made: Path, mode: str, options: tuple[str, ...]
) -> None:
    """Without `--era` the server speaks what the record says."""
    records = well_formed(made)
    old = next(record for record in records if "supportedVersions" not in (record["discover"] or {}))
    new = next(record for record in records if "supportedVersions" in (record["discover"] or {}))
    modern = "2026-07-28" if mode == "auto" else new["protocolVersion"]

    await assert_served(made, old, mode, *options, version=old["protocolVersion"])
    await assert_served(made, new, mode, *options, version=modern)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_recorded_server_is_served_to_a_client_of_each_era(mode: str) -> None:
    """The record with the longest line (over 1 MiB) is served too."""
    path = corpus.recorded()
    if path is None:
        pytest.skip("no recorded definitions: set MAITRED_SHARED, or keep shared/ beside the checkout")
    largest = max(corpus.read(path), key=lambda record: len(record["tools"]))

    await assert_served(path, largest, mode, "--era", "handshake", version=largest["protocolVersion"])


async def test_the_era_of_a_replayed_server_can_be_chosen(made: Path) -> None:
    """`--era` overrules the record in both directions."""
    record = well_formed(made)[0]

    await assert_served(made, record, "auto", "--era", "stateless", version="2026-07-28")
    await assert_served(made, record, "auto", "--era", "both", version="2026-07-28")
    await assert_served(made, record, "auto", "--era", "handshake", version=record["protocolVersion"])


async def test_noise_before_the_first_answer_does_not_reach_the_client(made: Path) -> None:
    """A server that chatters on stdout is served with its chatter."""
    noisy = next(record for record in corpus.read(made) if record["stdout_noise"])
    command = corpus.replay_command(made, noisy["server"], corpus.offsets(made)[noisy["server"]])

    with anyio.fail_after(120):
        done = await anyio.run_process(command, input=b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')

    *chatter, answer = done.stdout.splitlines()
    assert len(chatter) == noisy["stdout_noise"]
    assert json.loads(answer) == {"jsonrpc": "2.0", "id": 1, "result": {}}
