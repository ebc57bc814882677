"""Search as the gateway uses it: vectors that come late, break or are kept; nothing of it stops an answer."""

import gc
import resource
import sqlite3
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import numpy as np
import pytest
from tests.backends.rig import eventually
from tests.catalog.makers import open_store, raw, snapshot_of
from tests.support.cpu import cpu_within

from maitred.catalog.snapshot import Snapshot
from maitred.search.base import Candidate, Embedder, ToolDocument, Vectors
from maitred.search.engine import SearchEngine
from maitred.search.fusion import clauses
from maitred.search.index import HybridIndex
from maitred.search.rerank import RerankStage
from maitred.search.results import Filter
from maitred.search.static_embedder import StaticEmbedder
from maitred.search.vector_store import SqlVectors
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

MAIL = raw("mail", "send_letter", description="Deliver a letter to somebody.")
TAXI = raw("taxi", "order_ride", description="Book a car that brings people home.")
TOOLS = snapshot_of([MAIL, TAXI, *(raw("other", f"thing_{n}", description="Something.") for n in range(60))])
ONLY = Filter(visible=frozenset({"mail", "taxi", "other"}))
MEANT = {"letter": 0, "mail": 0, "post": 0, "car": 1, "cab": 1, "ride": 1}
SOON_S = 120.0


class Meaning:
    """An embedder that knows two meanings. It may be told to wait, or to break."""

    is_quick = True
    model = "meaning"

    def __init__(self, *, quick: bool = True) -> None:
        self.is_quick = quick
        self.embedded = 0
        self.broken = ""
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        assert self.may_go_on.wait(SOON_S)
        self.embedded += len(documents)
        return self._vectors([document.text for document in documents])

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._vectors(texts)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        if self.broken:
            raise ConnectionError(self.broken)
        vectors = np.zeros((len(texts), 8), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.lower().replace(".", " ").replace("_", " ").split():
                vector[MEANT.get(word, 7)] += 1 if word in MEANT else 0.01
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return vectors


def engine(embedder: Embedder | None, cache: SqlVectors | None = None) -> SearchEngine:
    return SearchEngine(make_embedder=lambda: embedder, cache=cache)


async def names(search: SearchEngine, phrase: str, snapshot: Snapshot = TOOLS) -> tuple[list[str], str]:
    await search.update(snapshot)
    found, note = await search.search([phrase], ONLY, 5)
    return [hit.tool.name for hit in found.hits], note


async def test_a_tool_is_found_by_what_it_means() -> None:
    """No word of the query stands in the tool."""
    async with engine(Meaning()) as search:
        await search.update(TOOLS)
        await search.settled()
        assert (await names(search, "cab"))[0][0] == "taxi__order_ride"
        assert await names(search, "post") == (["mail__send_letter"], "")


async def test_a_slow_embedder_is_not_waited_for() -> None:
    """Search answers by words meanwhile and says how far the rest is. Source: issue "Search", Engine."""
    slow = Meaning(quick=False)
    slow.may_go_on.clear()
    async with engine(slow) as search:
        with anyio.fail_after(SOON_S):
            await search.update(TOOLS)
            await eventually(lambda: search.semantics.model == slow.model)
            assert await names(search, "letter") == (["mail__send_letter"], "semantic: warming 0 %")
            assert (await names(search, "cab"))[0] == []
            slow.may_go_on.set()
            await search.settled()
            assert await names(search, "cab") == (["taxi__order_ride"], "")


async def test_an_embedder_that_cannot_be_made_leaves_words_and_a_reason() -> None:
    """Whoever reads the answer knows why meaning does not count."""

    def refuse() -> Embedder:
        raise OSError("the weights are missing")

    async with SearchEngine(make_embedder=refuse) as search:
        await search.update(TOOLS)
        await search.settled()
        reason = "semantic search is off: the weights are missing"
        assert await names(search, "letter") == (["mail__send_letter"], reason)
        assert search.semantics.why == "the weights are missing"


async def test_an_embedder_that_dies_leaves_words_and_a_reason() -> None:
    """It worked at the start and is gone at the next query. Source: issue "Search", Done when 4."""
    embedder = Meaning()
    async with engine(embedder) as search:
        await search.update(TOOLS)
        await search.settled()
        embedder.broken = "connection refused"
        assert await names(search, "a letter") == (
            ["mail__send_letter"],
            "semantic search is off: connection refused",
        )


async def catalog(folder: Path) -> Path:
    async with open_store(folder / "c.db"):
        return folder / "c.db"


async def warm(cache: SqlVectors, embedder: Meaning) -> str:
    """Start, wait for all vectors, search once; why vectors could not be kept."""
    async with engine(embedder, cache) as search:
        await search.update(TOOLS)
        await search.settled()
        assert (await names(search, "cab"))[0] == ["taxi__order_ride"]
        return search.semantics.not_kept


async def test_vectors_are_made_once_and_only_for_what_changed(tmp_path: Path) -> None:
    """The next start reads them; a changed tool alone is embedded anew."""
    cache = SqlVectors(SqliteDatabase(await catalog(tmp_path)))
    first, second, third = Meaning(), Meaning(), Meaning()
    assert await warm(cache, first) == ""
    assert await warm(cache, second) == ""
    assert (first.embedded, second.embedded) == (62, 0)

    async with engine(third, cache) as search:
        await search.update(TOOLS)
        changed = snapshot_of([MAIL, raw("taxi", "order_ride", description="A ride.")], generation=9)
        await search.update(changed)
        await search.settled()
        assert third.embedded == 1


def overwrite(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE vectors SET body = randomblob(16)", ""),
        ("UPDATE vectors SET body = x'00'", ""),
        ("DROP TABLE vectors", "no such table: vectors"),
    ],
)
async def test_damaged_vectors_are_made_anew(tmp_path: Path, damage: str, told: str) -> None:
    """Random bytes, cut bytes, no table: search is as good as before. Source: issue "Search", Done when 4."""
    path = await catalog(tmp_path)
    await warm(SqlVectors(SqliteDatabase(path)), Meaning())
    overwrite(path, damage)
    embedder = Meaning()

    assert await warm(SqlVectors(SqliteDatabase(path)), embedder) == told
    assert embedder.embedded == 62


async def test_a_full_disk_stops_no_search(tmp_path: Path) -> None:
    """The vectors are not kept, the reason can be read, search works. Source: issue "Search", Done when 4."""
    path = await catalog(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, limits[1]))
    try:
        told = await warm(SqlVectors(SqliteDatabase(path)), Meaning())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert told == "it may not grow any more"


class Reversed:
    """A reranker that turns the order around, or takes for ever."""

    def __init__(self, wait: Callable[[], object] | None = None) -> None:
        self._wait = wait

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Sequence[int]:
        if self._wait:
            await anyio.sleep_forever()
        return list(reversed(range(len(candidates))))


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_reranker_orders_hits_in_doubt_and_is_not_waited_for(hangs: bool) -> None:
    """Within its time its order counts; beyond it the order without it, and a word on why."""
    twins = snapshot_of([raw("mail", f"send_letter_{n}", description="Send a letter.") for n in range(3)])
    stage = RerankStage(Reversed(wait=print if hangs else None), timeout_s=0.1)
    async with SearchEngine(reranker=stage) as search:
        order, note = await names(search, "send a parcel or letter abroad tomorrow", twins)

    given = [f"mail__send_letter_{n}" for n in range(3)]
    assert order == (given if hangs else given[::-1])
    assert ("no answer" in note) is hangs


async def test_what_a_reranker_needs_is_loaded_with_the_index() -> None:
    """Before the first search, and not before anybody needs the index: a start costs nothing."""
    loading = anyio.Event()

    async def load() -> None:
        loading.set()

    with anyio.fail_after(60):
        async with SearchEngine(reranker=RerankStage(Reversed(), timeout_s=60, load=load)) as search:
            await anyio.wait_all_tasks_blocked()
            assert not loading.is_set()
            await search.update(snapshot_of([MAIL]))
            await loading.wait()


async def test_a_reranker_that_cannot_be_loaded_is_asked_all_the_same() -> None:
    """Its own answer says what is wrong, and no search ends with an error."""
    twins = snapshot_of([raw("mail", f"send_letter_{n}", description="Send a letter.") for n in range(3)])

    async def load() -> None:
        raise ImportError

    async with SearchEngine(reranker=RerankStage(Reversed(), timeout_s=60, load=load)) as search:
        order, note = await names(search, "send a parcel or letter abroad tomorrow", twins)

    assert order == [f"mail__send_letter_{n}" for n in (2, 1, 0)]
    assert note == ""


async def test_an_answer_is_kept_until_the_catalog_changes() -> None:
    """A new generation is searched anew, so that no tool stays hidden behind an old answer."""
    async with engine(None) as search:
        assert (await names(search, "letter"))[0] == ["mail__send_letter"]
        more = snapshot_of([MAIL, raw("other", "read_letter", description="Read a letter.")], generation=5)
        assert set((await names(search, "letter", more))[0]) == {"mail__send_letter", "other__read_letter"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("天気予報を調べる", "tenki__get_tenki"),
        ("明日の天気", "tenki__get_tenki"),
        ("创建一个新的仓库", "zh__create_repo"),
        ("GitHubのリポジトリを作成", "zh__create_repo"),
        ("погода на завтра", "pogoda__forecast"),
        ("prévision météo", "meteo__prevision"),
    ],
)
async def test_queries_that_are_not_english_find_their_tools(query: str, expected: str) -> None:
    """By their words where the model does not know them. Source: issue "Search", Quality."""
    tools = snapshot_of(
        [
            *(raw("other", f"thing_{n}", description=f"Something of kind {n}.") for n in range(60)),
            raw("tenki", "get_tenki", description="指定した都市の天気予報を取得します。"),
            raw("zh", "create_repo", description="在GitHub上创建一个新的仓库。"),
            raw("pogoda", "forecast", description="Показывает погоду в городе на завтра."),
            raw("meteo", "prevision", description="Donne la prévision météo pour une ville."),
        ]
    )
    every = Filter(visible=frozenset({"other", "tenki", "zh", "pogoda", "meteo"}))
    async with SearchEngine(make_embedder=StaticEmbedder) as search:
        await search.update(tools)
        await search.settled()
        found, _ = await search.search([query], every, 5)
    assert found.hits[0].tool.name == expected
    assert found.bands[query] in ("strong", "fair")


async def test_vectors_of_tools_that_are_gone_are_dropped(tmp_path: Path) -> None:
    """The cache follows the catalog; it does not grow with its history."""
    path = await catalog(tmp_path)
    async with engine(Meaning(), SqlVectors(SqliteDatabase(path))) as search:
        for generation in range(5):
            about = f"Version {generation} of a letter."
            await search.update(snapshot_of([raw("mail", "send", description=about)], generation=generation))
            await search.settled()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (1,)
    connection.close()


async def test_what_was_embedded_before_a_failure_is_kept(tmp_path: Path) -> None:
    """A slow embedder that breaks off, or a gateway that ends, does not begin anew at the next start."""

    class Breaking(Meaning):
        def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
            if self.embedded >= 60:
                raise ConnectionError("gone")
            return super().documents(documents)

    path = await catalog(tmp_path)
    async with engine(Breaking(quick=False), SqlVectors(SqliteDatabase(path))) as search:
        many = [raw("other", f"t{n}", description=f"Letter {n}.") for n in range(100)]
        await search.update(snapshot_of(many))
        await search.settled()
        assert search.semantics.why == "gone"
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (64,)
    connection.close()


async def test_a_vector_that_comes_after_its_tool_changed_is_passed_over() -> None:
    """Also when the index was made anew meanwhile and the row belongs to another tool."""
    index = HybridIndex()
    index.update(snapshot_of([raw("other", f"a{n}") for n in range(5_000)], generation=1))
    late = index.pending()
    for generation in (2, 3):
        index.update(
            snapshot_of([raw("other", f"b{n}_{generation}") for n in range(5_000)], generation=generation)
        )
    index.keep(late, np.ones((len(late), 4), np.float32))

    assert index.missing == 5_000


async def test_a_phrase_that_an_embedder_cannot_read_spoils_no_other() -> None:
    """One bad text is searched by words; the next query goes by meaning again."""

    class Picky(Meaning):
        def queries(self, texts: Sequence[str]) -> Vectors:
            if "bad" in texts[0]:
                raise ValueError("400: bad text")
            return super().queries(texts)

    async with engine(Picky()) as search:
        await search.update(TOOLS)
        await search.settled()
        assert (await names(search, "bad letter"))[0] == ["mail__send_letter"]
        assert await names(search, "cab") == (["taxi__order_ride"], "")


async def test_an_answer_names_no_path_of_the_machine() -> None:
    """The reason is for the agent's reader; where files lie is for the log and `doctor`."""

    def refuse() -> Embedder:
        raise OSError("cannot read /home/somebody/secret/static.npz: gone")

    async with SearchEngine(make_embedder=refuse) as search:
        await search.update(TOOLS)
        await search.settled()
        _, note = await names(search, "letter")
    assert note == "semantic search is off: cannot read …: gone"
    assert "/home/somebody" in search.semantics.why


@pytest.mark.alone
def test_a_phrase_of_dots_is_cut_quickly() -> None:
    """A pattern that looks back at every mark would take minutes, in which nobody is served."""
    with cpu_within(1):
        assert clauses("." * 100_000 + "x") == []


async def test_a_tool_that_must_not_be_shown_is_told_of_also_when_found_by_meaning() -> None:
    """It takes no place, and the answer can say that it was withheld."""
    async with engine(Meaning()) as search:
        await search.update(TOOLS)
        await search.settled()
        found, _ = await search.search(["cab"], Filter(visible=frozenset({"mail", "other"})), 5)
    assert "taxi__order_ride" not in [hit.tool.name for hit in found.hits]
    assert [tool.name for tool in found.withheld] == ["taxi__order_ride"]


@pytest.mark.usefixtures("earlier_objects_kept")
def test_an_index_whose_tools_change_again_and_again_does_not_grow() -> None:
    """Rows of former tools are given up after a while, with their vectors. Source: issue "Lean", Memory."""
    index = HybridIndex()
    generation = 0

    def change(times: int) -> int:
        nonlocal generation
        for _ in range(times):
            generation += 1
            text = f"Report {' '.join(str(generation))}."  # a new text of old words, which are kept
            tools = [raw("s", "echo"), raw("s", "report", description=text)]
            index.update(snapshot_of(tools, generation=generation))
            pending = index.pending()
            index.keep(pending, np.full((len(pending), 256), 1 / 16, np.float32))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        change(600)  # rows are given up about every 550 changes
        before = [change(50) for _ in range(12)]
        after = [change(50) for _ in range(12)]
    finally:
        tracemalloc.stop()

    assert max(after) - max(before) < 200_000, (before, after)
