"""The embedders that can be chosen instead of the bundled one."""

import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from tests.support.openai_server import LETTERS, OpenAiServer, free_port, openai_server

from maitred.config.interpolate import resolver
from maitred.config.settings import Search
from maitred.errors import ConfigError
from maitred.extras import install_command
from maitred.search import embedders, static_embedder
from maitred.search.base import ToolDocument
from maitred.search.embedders import (
    MINILM_PACKAGES,
    EmbedError,
    MiniLmEmbedder,
    OpenAiEmbedder,
    make_embedder,
)

KEY = "sk-very-secret-key"
DOCUMENTS = [
    ToolDocument(name="create_pull_request", description="Open a new pull request in a repository."),
    ToolDocument(
        name="get_forecast", title="Weather", description="How the weather will be in the next days."
    ),
    ToolDocument(name="send_message", description="Post a message to a channel or a person."),
]


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with openai_server() as running:
        yield running


def _openai(url: str, *, key: str = "${THE_KEY}") -> OpenAiEmbedder:
    settings = Search(embedder="openai", embedder_model="letters", embedder_url=url, embedder_key=key)
    embedder = make_embedder(settings, resolver({"THE_KEY": KEY}))
    assert isinstance(embedder, OpenAiEmbedder)
    return embedder


def test_an_endpoint_gives_each_text_its_own_vector_of_length_1(server: OpenAiServer) -> None:
    """A query lies nearest to the tool of its words, though the endpoint answers in another order."""
    with closing(_openai(server.url)) as embedder:
        tools = embedder.documents(DOCUMENTS)
        queries = embedder.queries(["weather forecast days", "pull request create", "send a message"])

    assert tools.dtype == queries.dtype == np.float32
    assert tools.shape == (3, len(LETTERS))
    assert np.linalg.norm(tools, axis=1) == pytest.approx(1)
    assert (queries @ tools.T).argmax(axis=1).tolist() == [1, 0, 2]
    assert {request.credentials for request in server.requests} == {f"Bearer {KEY}"}
    assert not embedder.is_quick


def test_many_tools_are_sent_in_batches(server: OpenAiServer) -> None:
    """Endpoints limit how much one request may hold; the rows come back as one table in order."""
    documents = [ToolDocument(name=chr(97 + n % 26), description="") for n in range(150)]

    with closing(_openai(server.url)) as embedder:
        rows = embedder.documents(documents)

    assert rows.argmax(axis=1).tolist() == [n % 26 for n in range(150)]
    assert [len(request.body["input"]) for request in server.requests] == [64, 64, 22]


def test_a_blank_text_has_no_direction_and_breaks_nothing(server: OpenAiServer) -> None:
    """Endpoints refuse empty texts with an error for the whole batch, so none is sent."""
    with closing(_openai(server.url)) as embedder:
        rows = embedder.queries(["abc", "", " \n"])
        nothing = embedder.queries([])

    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([1, 0, 0])
    assert all(text.strip() for text in server.requests[0].body["input"])
    assert len(nothing) == 0


def test_a_long_text_is_cut(server: OpenAiServer) -> None:
    """A tool with pages of description does not fail the batch."""
    with closing(_openai(server.url)) as embedder:
        embedder.queries(["word " * 10_000])

    assert len(server.requests[0].body["input"][0]) <= 8_000


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("failing", "answered with HTTP 500"),
        ("garbage", "gave an answer that cannot be read"),
        ("empty", "gave an answer that cannot be read"),
        ("short", "gave an answer that cannot be read"),
        ("ragged", "gave an answer that cannot be read"),
        ("nan", "answered with something else than vectors"),
    ],
)
def test_a_bad_answer_is_an_error_in_plain_words(server: OpenAiServer, behaviour: str, reason: str) -> None:
    """Search goes on without vectors and can say why; the key is not in it, though the endpoint quotes it."""
    server.behaviour = behaviour

    with closing(_openai(server.url)) as embedder, pytest.raises(EmbedError, match=reason) as caught:
        embedder.documents(DOCUMENTS)

    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_an_endpoint_that_is_not_there_is_said() -> None:
    """A wrong port is not taken for a bad answer."""
    with (
        closing(_openai(f"http://127.0.0.1:{free_port()}/v1")) as embedder,
        pytest.raises(EmbedError, match=r"cannot be reached \(ConnectError\)"),
    ):
        embedder.queries(["weather"])


def test_a_slow_endpoint_is_given_up(server: OpenAiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query does not wait for ever, and the endpoint sees the connection closed."""
    monkeypatch.setattr(embedders, "_QUERIES_S", 0.2)
    server.behaviour = "slow"

    with closing(_openai(server.url)) as embedder, pytest.raises(EmbedError, match=r"within 0\.2 s"):
        embedder.queries(["weather"])

    assert server.hung_up.wait(120)


def test_an_endpoint_of_ones_own_needs_no_key_and_works_again_after_closing(server: OpenAiServer) -> None:
    """Models on this machine have none."""
    with closing(_openai(f"{server.url}/", key="")) as embedder:
        embedder.queries(["weather"])
        embedder.close()
        embedder.queries(["weather"])

    assert [(request.path, request.credentials) for request in server.requests] == [
        ("/v1/embeddings", "")
    ] * 2


def test_vectors_of_another_host_are_kept_apart() -> None:
    """The same model name elsewhere may mean other weights; the name holds no credentials."""
    here, there = _openai("http://127.0.0.1:8080/v1"), _openai("https://user:pass@models.example/v1")

    assert here.model == "letters@127.0.0.1:8080"
    assert there.model == "letters@models.example"


def _faults(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make_embedder(Search(**settings), resolver({"KEY": KEY}))
    return str(caught.value)


def test_an_endpoint_without_model_or_key_is_refused_at_the_start() -> None:
    """The operator learns of both at once."""
    text = _faults(embedder="openai")

    assert "search.embedder_model: is empty" in text
    assert "search.embedder_key: is empty" in text


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The default install has no onnxruntime."""
    for package in MINILM_PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)

    text = _faults(embedder="minilm")

    assert "search.embedder: minilm needs the package onnxruntime and" in text
    assert f"`{install_command('minilm')}` installs it" in text


def test_no_embedder_can_be_chosen() -> None:
    """Search is then lexical alone."""
    assert make_embedder(Search(embedder="none"), resolver({})) is None


@pytest.mark.skipif(not static_embedder.WEIGHTS.exists(), reason="the bundled weights have not been made")
def test_the_bundled_embedder_is_the_default() -> None:
    """Nothing needs to be configured for search by meaning."""
    embedder = make_embedder(Search(), resolver({}))

    assert isinstance(embedder, static_embedder.StaticEmbedder)
    assert embedder.is_quick


@pytest.fixture(scope="module")
def minilm() -> MiniLmEmbedder:
    """The transformer, loaded once."""
    if not all(find_spec(package) for package in MINILM_PACKAGES):
        pytest.skip("the extra `minilm` is not installed")
    embedder = make_embedder(Search(embedder="minilm"), resolver({}))
    assert isinstance(embedder, MiniLmEmbedder)
    return embedder


def test_minilm_finds_a_tool_by_meaning(minilm: MiniLmEmbedder) -> None:
    """No word of these queries stands in the tool that they mean."""
    tools = minilm.documents(DOCUMENTS)
    queries = minilm.queries(
        ["will it rain tomorrow?", "propose my code changes for merging", "tell Bob hello"]
    )

    assert tools.dtype == np.float32
    assert tools.shape == (3, 384)
    assert np.linalg.norm(tools, axis=1) == pytest.approx(1)
    assert (queries @ tools.T).argmax(axis=1).tolist() == [1, 0, 2]
    assert not minilm.is_quick
    assert minilm.model == "all-minilm-l6-v2-int8/1.0.0"


def test_minilm_gives_a_text_the_same_vector_in_any_company(minilm: MiniLmEmbedder) -> None:
    """Batches are sorted and padded inside; neither shows, but for the rounding of 8-bit arithmetic."""
    texts = [f"tool number {n} " + "reads a file of the project " * (n % 5) for n in range(20)]

    together = minilm.queries(texts)

    alone = np.concatenate([minilm.queries([text]) for text in texts])
    assert (together * alone).sum(axis=1).min() > 0.97
    assert (together @ alone.T).argmax(axis=1).tolist() == list(range(20))


def test_minilm_takes_blank_long_and_no_texts(minilm: MiniLmEmbedder) -> None:
    """A blank text has no direction; a long one counts with its beginning."""
    rows = minilm.queries(["", "weather " * 5_000, "weather " * 4_000, "天気予報 \x00 🌦"])

    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([0, 1, 1, 1])
    assert float(rows[1] @ rows[2]) == pytest.approx(1, abs=0.01)
    assert minilm.documents([]).shape == (0, 384)


def test_minilm_may_be_used_by_several_threads_from_the_start(minilm: MiniLmEmbedder) -> None:
    """Search calls it in worker threads; the weights are loaded once, and nobody gets another's vector."""
    del minilm  # it says whether the extra is there
    embedder = MiniLmEmbedder()
    texts = ["weather forecast", "pull request", "send mail", "read a file"]

    with ThreadPoolExecutor(4) as pool:
        rows = np.concatenate(list(pool.map(lambda text: embedder.queries([text]), texts)))

    assert rows == pytest.approx(embedder.queries(texts), abs=0.1)
