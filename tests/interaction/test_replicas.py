"""What clients notice of one gateway, they notice of three behind a proxy that takes turns: nothing differs.

These are tests of other modules, run once more in both eras. `MAITRED_TEST_REPLICAS=3` runs all tests of this
folder that reach a gateway over HTTP in this way.
"""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.interaction.harness import Front, HttpGateway
from tests.interaction.test_asking import (  # noqa: F401  # fixtures, and tests that run here once more
    make_config,
    test_a_change_of_roots_reaches_the_servers_that_asked_for_them,
    test_prompts_and_resources_may_ask_too,
    test_questions_inside_chains_go_to_the_client_of_the_chain,
    test_several_questions_at_once_are_all_answered,
    test_what_a_server_asks_reaches_the_client_and_its_answer_the_server,
    web_server,
)
from tests.support.postgres import Postgres
from tests.support.replicas import replica_config, serving_replicas

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

PHRASES = ("ask the user a question", "look something up", "choose a name")


@pytest.fixture(scope="module")
def three(config: Path, postgres: Postgres) -> Iterator[list[HttpGateway]]:
    """The gateway as clients see it, and then each of the three."""
    with serving_replicas(replica_config(config, postgres)) as (gateway, each):
        yield [gateway, *each]


@pytest.fixture(scope="module", params=["legacy", "auto"])
def front(request: pytest.FixtureRequest, config: Path, three: list[HttpGateway]) -> Front:
    """The proxy, in both eras."""
    return Front(transport="http", mode=request.param, config=config, gateway=three[0])


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_search_has_the_same_answer_at_each_gateway(three: list[HttpGateway], phrase: str) -> None:
    """The same tools in the same order with the same lines."""
    answers = [
        httpx2.get(f"{one.url.removesuffix('/mcp')}/api/v1/tools/search", params={"q": phrase}, timeout=60)
        for one in three[1:]
    ]
    assert answers[0].status_code == 200, answers[0].text
    assert answers[0].json()["results"]
    assert len({answer.text for answer in answers}) == 1
