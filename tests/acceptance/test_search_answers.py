"""What a search costs an agent and whether it can call from the answer, over all tools of a corpus.

Source: issue "Search", Done when 3.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench.queries import make_queries
from tests.support import corpus

from maitred.backends.listing import read_tools
from maitred.catalog.snapshot import Snapshot
from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Search
from maitred.disclosure.answers import SearchAnswer
from maitred.disclosure.signature import escape_unprintable, parameters
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.evaluation.metrics import percentile
from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio

QUERIES = 500
MEDIAN_TOKENS, P95_TOKENS = 300, 600
CALL_READY = 0.95


def records(kind: str, folder: Path) -> Sequence[corpus.Record]:
    if kind == "generated":
        return corpus.stand_in()
    path = corpus.recorded()
    if path is None:
        pytest.skip(
            "the recorded definitions of real servers are not at hand; the generated corpus stands in"
        )
    return corpus.read(path)


def call_ready(snapshot: Snapshot, answer: SearchAnswer) -> list[bool]:
    """For each result whether its line names every required parameter with its type."""
    found = []
    for result in answer.results:
        needed = [n for n, _, is_needed in parameters(snapshot.schema(result.tool.input_hash)) if is_needed]
        found.append(
            all(re.search(rf"[(,]\s?{re.escape(escape_unprintable(n))}: ", result.line) for n in needed)
        )
    return found


@pytest.mark.timeout(1200)
@pytest.mark.processor_s(300, "thousands of tools are searched")
@pytest.mark.parametrize("kind", ["generated", "recorded"])
async def test_answers_are_small_and_can_be_called_from(kind: str, tmp_path: Path) -> None:
    """Five results: 300 tokens in the median, 600 at p95, and 95 % of the lines can be called from."""
    known = records(kind, tmp_path)
    tools = [tool for entry in known for tool in read_tools(entry["server"], entry["tools"])[0]]
    texts: list[str] = []
    ready: list[bool] = []
    async with gateway_with_tools(tools, Search()) as gateway:
        await gateway.warm(wholly=True)
        for query in make_queries(known, QUERIES):
            answer = await gateway.search([query], limit=5, viewer=LOCAL_USER)
            texts.append(answer.text)
            ready += call_ready(gateway.snapshot, answer)
    counts = count_tokens(texts)
    median, p95, share = percentile(counts, 0.5), percentile(counts, 0.95), sum(ready) / len(ready)
    told = (
        f"{kind}: {median} tokens in the median, {p95} at p95, {share:.1%} of {len(ready)} lines call-ready"
    )
    print(told)  # noqa: T201  # the figures for the closing note
    assert median <= MEDIAN_TOKENS
    assert p95 <= P95_TOKENS
    assert share >= CALL_READY
