"""The embedder that ships: its vectors, and what it does with odd texts and damaged files."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cpu import cpu_within

from maitred.search.base import ToolDocument
from maitred.search.static_embedder import SEGMENTS, WEIGHTS, StaticEmbedder, Tokeniser, segments

EMBEDDER = StaticEmbedder()
BRANCH = ToolDocument(
    name="create_branch",
    server="git",
    description="Creates a branch. It starts at the current commit unless another base is given.",
    parameters=(("branch_name", "How to call it"), ("base_branch", "Where it starts")),
)
VOCABULARY = [
    *("list", "pull", "request", "##s", "##ing", "git", "hub", "github"),
    *("s3", "bucket", "pr", "cafe", "5", "%"),
]
WEATHER = ToolDocument(
    name="get_forecast", server="weather", description="Tells the weather of the coming days."
)


def test_vectors_are_rows_of_length_1() -> None:
    """Cosines are plain products. Source: DESIGN 4, the embedder protocol."""
    for vectors in (EMBEDDER.documents([BRANCH, WEATHER]), EMBEDDER.queries(["start a new branch", "rain"])):
        assert vectors.shape == (2, 256)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_nothing_to_embed_gives_no_rows() -> None:
    assert EMBEDDER.documents([]).shape == (0, 256)
    assert EMBEDDER.queries([]).shape == (0, 256)


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("start working on something separately from the main line of development", BRANCH),
        ("will it rain tomorrow", WEATHER),
        ("do I need an umbrella in Paris?", WEATHER),
    ],
)
def test_a_query_lies_near_the_tool_that_serves_it(query: str, right: ToolDocument) -> None:
    """No word is shared with the tool. Source: DESIGN 4, why there is an embedder."""
    wrong = WEATHER if right is BRANCH else BRANCH
    near, far = EMBEDDER.documents([right, wrong]) @ EMBEDDER.queries([query])[0]
    assert near > far + 0.05


def test_the_same_text_gives_the_same_vector_alone_and_in_company() -> None:
    """Vectors are kept by content. Source: DESIGN 4, vectors are made once."""
    many = [BRANCH, WEATHER] * 300
    together = EMBEDDER.documents(many)
    assert np.allclose(together[-2:], EMBEDDER.documents([BRANCH, WEATHER]), atol=1e-6)
    assert np.array_equal(together, StaticEmbedder().documents(many))
    queries = EMBEDDER.queries(["will it rain"] * 600)
    assert np.allclose(queries, EMBEDDER.queries(["will it rain"]), atol=1e-6)


@pytest.mark.parametrize("text", ["", "   ", "?!…", "天気予報を教えて", "погода", "الطقس", "\x00\ud800", "🌦️"])
def test_a_text_of_no_known_piece_is_a_row_of_zeros(text: str) -> None:
    """Other scripts are left to the lexical search. Source: model card, languages."""
    assert not EMBEDDER.queries([text]).any()
    assert not EMBEDDER.documents([ToolDocument(name=text, description=text)]).any()


def test_accents_do_not_matter() -> None:
    plain, accented = EMBEDDER.queries(["resume of a cafe", "résumé of a café"])
    assert np.allclose(plain, accented)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_gives_a_row_of_length_1_or_0(name: str, description: str) -> None:
    tool = ToolDocument(name=name, description=description, parameters=((description, name),), server=name)
    rows = np.concatenate([EMBEDDER.documents([tool]), EMBEDDER.queries([name])])
    lengths = np.linalg.norm(rows, axis=1)
    assert np.all(np.isclose(lengths, 1, atol=1e-4) | (lengths == 0))


@pytest.mark.alone
@pytest.mark.parametrize("text", ["weather " * 200_000, "x" * 1_000_000, "a.b" * 300_000, "Ab1" * 300_000])
def test_a_huge_text_costs_no_more_than_what_counts_of_it(text: str) -> None:
    with cpu_within(5):
        assert EMBEDDER.queries([text]).shape == (1, 256)
        assert EMBEDDER.documents([ToolDocument(name=text, description=text)]).shape == (1, 256)


def test_a_tool_is_five_segments() -> None:
    name, first, rest, parameters, server = segments(BRANCH)
    assert (name, first, server) == ("create_branch", "Creates a branch.", "git")
    assert rest == "It starts at the current commit unless another base is given."
    assert parameters == "branch_name base_branch"
    assert len(segments(BRANCH)) == SEGMENTS
    titled = ToolDocument(name="x", title="Make a branch", description="One line\nthen another")
    assert segments(titled)[:3] == ("x Make a branch", "One line", "then another")


@pytest.mark.parametrize(
    "other",
    [
        replace(BRANCH, name="render_video"),
        replace(BRANCH, title="render video"),
        replace(BRANCH, description=BRANCH.description.replace("Creates a branch", "Renders a video")),
        replace(BRANCH, description=BRANCH.description.replace("current commit", "colour palette")),
        replace(BRANCH, parameters=(("video_codec", ""),)),
        replace(BRANCH, server="cinema"),
    ],
    ids=["name", "title", "first sentence", "rest", "parameters", "server"],
)
def test_each_segment_moves_the_vector(other: ToolDocument) -> None:
    """Source: DESIGN 4, a tool is embedded by segments with learned weights."""
    before, after = EMBEDDER.documents([BRANCH, other])
    assert before @ after < 0.9999


def test_a_segment_that_is_longer_weighs_no_more() -> None:
    """Each segment has length 1 before it is weighed. Source: model card, how a tool is read."""
    short, long = (ToolDocument(name="get_forecast", description="Weather. " + "Rain. " * n) for n in (1, 12))
    first, second = EMBEDDER.documents([short, long])
    assert first @ second > 0.999


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("listPullRequests", ["list", "pull", "request", "##s"]),
        ("GitHub", ["github"]),
        ("list_prs", ["list", "pr", "##s"]),
        ("S3 bucket", ["s3", "bucket"]),
        ("café", ["cafe"]),
        ("listing 5%", ["list", "##ing", "5", "%"]),
        ("zzz", []),
        ("日本 list", ["list"]),
    ],
)
def test_words_are_cut_into_the_longest_pieces(text: str, pieces: list[str]) -> None:
    found = Tokeniser(VOCABULARY).ids(text, 99)
    assert [VOCABULARY[number] for number in found] == pieces
    assert Tokeniser(VOCABULARY).ids(text, 1) == found[:1]


def test_the_model_is_named_by_its_content() -> None:
    assert EMBEDDER.model.startswith("static-en-1-")
    assert EMBEDDER.model == StaticEmbedder().model
    assert EMBEDDER.is_quick


def test_weights_are_read_at_the_first_use_and_once(tmp_path: Path) -> None:
    file = tmp_path / "weights.npz"
    embedder = StaticEmbedder(file)
    file.write_bytes(WEIGHTS.read_bytes())
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: embedder.queries(["rain"]), range(32)))
    file.unlink()
    assert embedder.model == EMBEDDER.model
    assert all(np.array_equal(one, found[0]) for one in found)


def test_missing_weights_say_which_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"missing.*nowhere\.npz"):
        StaticEmbedder(tmp_path / "nowhere.npz").queries(["x"])


def _with(tmp_path: Path, **changed: np.ndarray | None) -> Path:
    with np.load(WEIGHTS) as file:
        arrays = {name: changed.get(name, file[name]) for name in file.files}
    path = tmp_path / "changed.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.mark.parametrize(
    "changed",
    [
        {"vectors": np.zeros((3, 256), np.int8)},
        {"vectors": None},
        {"vocabulary": np.frombuffer("é".encode(), np.uint8)},
        {"query_weights": np.zeros(2, np.float16)},
        {"segment_weights": np.zeros(4, np.float32)},
    ],
)
def test_weights_of_another_shape_are_refused(tmp_path: Path, changed: dict[str, np.ndarray | None]) -> None:
    with pytest.raises(ValueError, match="damaged"):
        _ = StaticEmbedder(_with(tmp_path, **changed)).model


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """The caller goes on without vectors and says why. Source: DESIGN 4, an embedder may fail."""
    whole = WEIGHTS.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for number, data in enumerate([b"", b"not an archive", whole[: len(whole) // 2], bytes(flipped)]):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"damaged.*Install maitred again"):
            StaticEmbedder(path).documents([BRANCH])


@pytest.mark.alone
def test_it_is_quick() -> None:
    """Loose bounds; the benchmark has the figures. Source: DESIGN 4, indexing 10,000 tools in seconds."""
    fresh = StaticEmbedder()
    with cpu_within(2):
        _ = fresh.model
    with cpu_within(4):
        fresh.documents([BRANCH, WEATHER] * 1_000)
    with cpu_within(1):
        for _ in range(200):
            fresh.queries(["start a new branch from the last release"])
