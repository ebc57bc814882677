"""The written queries hold what their page says, and search finds what people of six languages ask for."""

from collections import Counter

import pytest
from tests.support.written_queries import KINDS, read_lines, wanted_tools, written

from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools, keys, raw_tools
from maitred.evaluation.metrics import mean
from maitred.evaluation.runner import ask, measures

pytestmark = pytest.mark.anyio

_LANGUAGES = {"ja", "de", "es", "zh", "fr", "pt"}
_MOST_OF_A_SERVER = 20


def test_the_set_is_whole() -> None:
    """Each tool has a plain, a vague and a foreign query; no query stands twice; parts share no server."""
    lines = read_lines()
    assert len({line["id"] for line in lines}) == len(lines)
    assert len({(line["query"].lower(), *sorted(line["relevant"])) for line in lines}) > len(lines) - 20
    kinds = Counter(line["kind"] for line in lines)
    assert (kinds["plain"], kinds["vague"], kinds["foreign"]) == (1_500, 1_500, 1_500)
    assert set(kinds) == set(KINDS)
    assert {line["language"] for line in lines if line["kind"] == "foreign"} == _LANGUAGES
    assert all(bool(line["relevant"]) == (line["kind"] != "none") for line in lines)
    parts = [
        {one.partition("/")[0] for line in lines if line["split"] == split for one in line["relevant"]}
        for split in ("train", "held")
    ]
    assert not parts[0] & parts[1]
    plain = Counter(
        one.partition("/")[0] for line in lines if line["kind"] == "plain" for one in line["relevant"][:1]
    )
    assert max(plain.values()) <= _MOST_OF_A_SERVER


@pytest.mark.timeout(300)
async def test_wishes_in_six_languages_find_their_tool() -> None:
    """Of servers that are held back, among 1,500 tools: four of five within the first five."""
    tools = wanted_tools()
    if tools is None:
        pytest.skip(
            "the recorded definitions of real servers are not at hand; test_foreign.py has tools of ours"
        )
    async with gateway_with_tools(raw_tools(tools), Search()) as gateway:
        results = await ask(gateway, keys(tools), written("foreign", "held"), limit=5)
    assert mean([measures(one, [5])["hit@5"] for one in results]) >= 0.8
