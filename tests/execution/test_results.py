"""A result that is too long: its beginning within the limit, and the whole of it in pages, for its caller."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.calls.results import ResultStore, Shortener, result_uri
from maitred.disclosure.budget import estimate
from maitred.errors import NotFoundError, ResultNotFoundError

LIMIT = 1000
ROWS = [{"id": n, "name": f"row {n}", "note": "some words " * 5} for n in range(600)]
LETTER = "".join(f"This is line {n} of a long letter.\n" for n in range(2000))
IMAGE = {"type": "image", "data": "QUJD" * 20_000, "mimeType": "image/png"}


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def texts(*parts: str, **rest: Any) -> dict[str, Any]:
    """A result of text blocks."""
    return {"content": [{"type": "text", "text": part} for part in parts], **rest}


def store(clock: Clock | None = None, max_bytes: int = 10_000_000) -> ResultStore:
    """A store that keeps for ten minutes."""
    return ResultStore(ttl_s=600, max_bytes=max_bytes, clock=clock or Clock())


def shorten(result: dict[str, Any], limit: int = LIMIT) -> tuple[dict[str, Any], ResultStore]:
    """A shortened result and the store that keeps the whole."""
    kept = store()
    return Shortener(kept, estimate=estimate, limit_tokens=limit).shorten("ann", result), kept


def text_of(result: dict[str, Any]) -> str:
    """The text block of a shortened result, within its budgets."""
    text: str = result["content"][0]["text"]
    assert estimate(text) <= LIMIT
    assert estimate(text.split("\n\n", maxsplit=1)[0]) <= 500
    return text


def whole(kept: ResultStore, answer: dict[str, Any], size_chars: int = 20_000) -> str:
    """All pages of the result that an answer names."""
    uri = next(w for w in answer["content"][0]["text"].rsplit("\n\n", 1)[-1].split() if "maitred://" in w)
    result_id, _, cursor = uri.removeprefix("maitred://result/").partition("?cursor=")
    pages = [kept.page("ann", result_id, cursor, size_chars=size_chars)]
    while pages[-1].next_cursor:
        pages.append(kept.page("ann", result_id, pages[-1].next_cursor, size_chars))
    assert all(len(page.text) <= size_chars for page in pages)
    assert pages[0].total_chars == sum(len(page.text) for page in pages)
    return "".join(page.text for page in pages)


# --- shortening -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        {"content": []},
        texts("short"),
        texts("x " * 900, isError=True),
        texts('{"a":1}', structuredContent={"a": 1}),
        texts("words " * 600, structuredContent={"result": "words " * 600}),
        {"content": [IMAGE, {"type": "text", "text": "a picture"}]},
    ],
    ids=["empty", "short", "near the limit", "structured", "said twice", "picture"],
)
def test_a_result_that_fits_is_passed_on_itself(result: dict[str, Any]) -> None:
    """The same object; pictures do not count, and what is said twice counts once."""
    assert shorten(result)[0] is result


def test_a_long_text_is_summarised_begun_and_can_be_read_on() -> None:
    """Header, details, and how to go on; the whole is the text as it was."""
    answer, kept = shorten(texts(LETTER, _meta={"trace": "7"}))

    text = text_of(answer)
    header, details, footer = text.split("\n\n")
    assert "plain text, 2,000 lines" in header
    assert details.startswith("This is line 0 of a long letter.\nThis is line 1 of")
    assert footer.startswith("Whole result: maitred://result/")
    assert "kept for 10 minutes" in footer
    assert f"{len(LETTER):,} characters" in footer
    assert answer["content"][0]["annotations"] == {"audience": ["assistant"], "priority": 0.3}
    assert answer["_meta"] == {"trace": "7"}
    assert whole(kept, answer) == LETTER


@pytest.mark.parametrize(
    "letter", ["\U00010000", "\U0001f600", "\u1780", "\ud800", "\u4e00", "\xe9"], ids=ascii
)
def test_a_text_of_rare_letters_is_over_the_limit_with_fewer_of_them(letter: str) -> None:
    """A letter may take four tokens; a text of a few hundred is then no small one."""
    shortest = next(many for many in range(1, LIMIT + 2) if estimate(letter * many) > LIMIT)

    answer, kept = shorten(texts(letter * shortest))

    assert estimate(text_of(answer)) <= LIMIT
    assert whole(kept, answer) == letter * shortest


def test_a_text_that_is_json_is_cut_by_its_structure() -> None:
    """Counts, keys and whole first items instead of the first characters."""
    answer, kept = shorten(texts(json.dumps({"rows": ROWS, "next": "b"}, indent=2)))

    header, details, _ = text_of(answer).split("\n\n")
    assert "object with 2 keys: rows (list of 600 objects: id int, name str, note str), next str" in header
    shown = json.loads(details)
    assert shown["next"] == "b"
    assert shown["rows"][0] == ROWS[0]
    assert shown["rows"][-1] == f"…+{601 - len(shown['rows'])} more items"
    assert json.loads(whole(kept, answer)) == {"rows": ROWS, "next": "b"}


@pytest.mark.parametrize(
    "result",
    [
        texts(json.dumps(ROWS), structuredContent={"result": ROWS}),
        texts(*map(json.dumps, ROWS), structuredContent={"result": ROWS}),
        texts("See the data.", structuredContent={"result": ROWS}),
    ],
    ids=["one text", "a text for each item", "other text"],
)
def test_structured_content_goes_into_the_text_once(result: dict[str, Any]) -> None:
    """A cut form would not fit the tool's output schema, so it is no structured content any more."""
    answer, _ = shorten(result)

    text = text_of(answer)
    assert "structuredContent" not in answer
    assert text.count("list of 600 objects") == 1
    assert "more items" in text


def test_pictures_stay_as_they_are_and_in_order() -> None:
    """The client shows them; only the texts are too long."""
    sound = {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    long = {"type": "text", "text": LETTER}

    answer, kept = shorten({"content": [IMAGE, long, link, sound], "isError": True})

    assert answer["content"][1:] == [IMAGE, link, sound]
    assert answer["isError"] is True
    assert "1 image, 1 resource link, 1 audio" in text_of(answer)
    assert json.loads(whole(kept, answer))["content"] == [IMAGE, long, link, sound]


def test_embedded_resources_count_and_are_summarised() -> None:
    """A file is cut like a text; of binary data only its size is told."""
    file = {"uri": "file:///letter.txt", "text": LETTER}
    binary = {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "QUJD" * 9000}

    answer, _ = shorten({"content": [{"type": "resource", "resource": one} for one in (file, binary)]})

    text = text_of(answer)
    assert len(answer["content"]) == 1
    assert "resource file:///letter.txt: plain text, 2,000 lines" in text
    assert "This is line 3 of a long letter." in text
    assert "36,000 characters of base64" in text
    assert "QUJDQUJD" not in text


def test_thousands_of_links_do_not_slip_past_the_limit() -> None:
    """The first are kept, the others are counted."""
    links = [{"type": "resource_link", "uri": f"file:///{n}", "name": str(n)} for n in range(3000)]

    answer, _ = shorten({"content": links})

    kept = answer["content"][1:]
    assert kept == links[: len(kept)]
    assert f"{3000 - len(kept):,} blocks" in text_of(answer)
    assert sum(estimate(json.dumps(block)) for block in answer["content"]) <= 1.5 * LIMIT


def test_a_result_too_large_to_keep_says_that_the_rest_is_lost() -> None:
    """No address is given that nobody could read."""
    shortener = Shortener(store(max_bytes=1000), estimate=estimate, limit_tokens=LIMIT)

    text = text_of(shortener.shorten("ann", texts(LETTER)))

    assert "The rest is lost: it is more than the 1,000 bytes that are kept." in text.split("\n\n")[0]
    assert "maitred://" not in text


def test_a_limit_that_could_say_nothing_is_refused() -> None:
    """Header and address need room."""
    with pytest.raises(ValueError, match="399"):
        Shortener(store(), estimate=estimate, limit_tokens=399)


@pytest.mark.parametrize(
    "result",
    [
        {"content": None, "structuredContent": ["\ud800"] * 900},
        {"content": "x" * 9000},
        {"content": [5, None, "y" * 9000, {"type": "text"}, {"type": "text", "text": 7}]},
        {"content": [{"type": "resource", "resource": "z" * 9000}]},
        texts('{"a": "\\ud800' + "b" * 9000 + '"}'),
        texts("[" * 9000 + "]" * 9000),
        texts("\n\n" * 9000),
    ],
    ids=["half characters", "no list", "odd blocks", "odd resource", "escaped half", "deep", "blank"],
)
def test_an_answer_that_breaks_the_protocol_is_shortened_all_the_same(result: dict[str, Any]) -> None:
    """A server's mistakes are relayed, not raised."""
    answer, kept = shorten(result)

    text_of(answer)
    assert whole(kept, answer)


long_texts = st.tuples(st.text(min_size=1, max_size=30), st.integers(1, 300)).map(lambda x: x[0] * x[1])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | long_texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=30), inner, max_size=12),
    max_leaves=30,
)
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": long_texts | values.map(json.dumps)}),
    st.just({"type": "image", "data": "QUJD", "mimeType": "image/png"}),
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": st.text(max_size=40)}),
    st.fixed_dictionaries({
        "type": st.just("resource"),
        "resource": st.fixed_dictionaries({"uri": st.text(max_size=80)}, optional={"text": long_texts}),
    }),
)  # fmt: skip
results = st.fixed_dictionaries(
    {"content": st.lists(blocks, max_size=12)},
    optional={"structuredContent": values, "isError": st.booleans(), "_meta": st.just({"a": 1})},
)


@given(results, st.integers(400, LIMIT), st.integers(1, 3000))
@settings(max_examples=150, deadline=None)
def test_any_result_is_within_the_limit_and_can_be_read_whole(
    result: dict[str, Any], limit: int, size_chars: int
) -> None:
    """Texts, JSON, media and links in any mixture; the pages joined are what was kept."""
    answer, kept = shorten(result, limit)

    if answer is result:
        counted = [block["text"] for block in result["content"] if block["type"] == "text"]
        assert sum(map(estimate, counted)) <= limit or "structuredContent" in result
        return
    assert estimate(text_of(answer)) <= limit
    said = whole(kept, answer, max(size_chars, 100))
    only = len(result["content"]) == 1 and said == result["content"][0].get("text")
    assert only or json.loads(said) == result


# --- keeping ----------------------------------------------------------------------------------------------


def test_pages_end_at_lines_and_the_last_names_no_next() -> None:
    """A page break inside a line would split what belongs together."""
    kept = store()
    result_id = kept.keep("ann", texts(LETTER))

    first = kept.page("ann", result_id, size_chars=1000)
    second = kept.page("ann", result_id, first.next_cursor, size_chars=1_000_000)

    assert first.text.endswith(".\n")
    assert 900 <= len(first.text) <= 1000
    assert second.text.startswith("This is line")
    assert second.next_cursor == ""
    assert first.mime_type == "text/plain"
    assert first.text + second.text == LETTER


def test_pages_of_characters_of_several_bytes_are_whole() -> None:
    """No page begins or ends inside a character, a half one included."""
    text = "aé天😀\ud83d" * 50
    kept = store()
    result_id = kept.keep("ann", texts(text))

    pages = [kept.page("ann", result_id, size_chars=7)]
    while pages[-1].next_cursor:
        pages.append(kept.page("ann", result_id, pages[-1].next_cursor, 7))

    assert "".join(page.text for page in pages) == text
    assert {len(page.text) for page in pages[:-1]} == {7}


def test_a_result_of_several_blocks_is_kept_as_json() -> None:
    """Nothing of it is lost, its pictures included."""
    kept = store()
    result = {"content": [IMAGE, {"type": "text", "text": "a"}]}

    page = kept.page("ann", kept.keep("ann", result), size_chars=10**6)

    assert page.mime_type == "application/json"
    assert json.loads(page.text) == result
    assert page.text.startswith('{\n  "content"')


def test_a_result_expires() -> None:
    """After its time to live it is gone, and the error says what to do."""
    clock = Clock()
    kept = store(clock)
    result_id = kept.keep("ann", texts("a"))

    clock.now = 599
    assert kept.page("ann", result_id).text == "a"
    clock.now = 600
    with pytest.raises(NotFoundError, match="Call the tool again") as caught:
        kept.page("ann", result_id)
    assert caught.value.code == "result_not_found"


def test_a_result_is_read_by_its_principal_only() -> None:
    """For anyone else it does not exist."""
    kept = store()
    result_id = kept.keep("ann", texts("secret"))

    with pytest.raises(ResultNotFoundError) as foreign:
        kept.page("bob", result_id)
    with pytest.raises(ResultNotFoundError) as unknown:
        kept.page("bob", "unknown")
    assert str(foreign.value).replace(result_id, "unknown") == str(unknown.value)


@pytest.mark.parametrize("cursor", ["x", "-1", "99", "2", "²", "9" * 5000])
def test_a_cursor_that_was_never_given_finds_nothing(cursor: str) -> None:
    """Outside the text, inside a character, or no number at all."""
    kept = store()
    result_id = kept.keep("ann", texts("a😀b"))

    with pytest.raises(ResultNotFoundError):
        kept.page("ann", result_id, cursor)


def test_the_oldest_results_make_room() -> None:
    """Memory is bounded, whatever the calls bring."""
    kept = store(max_bytes=1000)
    ids = [kept.keep("ann", texts(str(n) * 400)) for n in range(3)]

    with pytest.raises(ResultNotFoundError):
        kept.page("ann", ids[0])
    assert [kept.page("ann", one).text[0] for one in ids[1:]] == ["1", "2"]
    assert kept.keep("ann", texts("x" * 1001)) == ""
    assert kept.page("ann", ids[2]).text[0] == "2"


def test_ids_cannot_be_guessed_and_addresses_are_read_back() -> None:
    """An id is all that stands between a result and whoever shares a principal."""
    kept = store()
    ids = {kept.keep("ann", texts("a")) for _ in range(100)}

    assert len(ids) == 100
    assert all(len(one) == 16 for one in ids)
    for one in ids:
        assert result_uri(one) == f"maitred://result/{one}"
        assert result_uri(one, "20000") == f"maitred://result/{one}?cursor=20000"
