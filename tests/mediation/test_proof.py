"""Whatever a transformer proposes: after the proof nothing is found worse, and what is refused says why."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.mediation import EnhancedTool, SourceTool
from maitred.mediation.proof import DEPTH, SHOWN, LoweredTool, Probe, ProofVerdict, probes, prove

pytestmark = pytest.mark.anyio

WORDS = ("mail", "send", "order", "user", "file", "find", "report", "delete")


class Overlap:
    """Ranks by common words, rare ones first; what a tool said before counts half."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def rankings(
        self, tools: Sequence[SourceTool], originals: Sequence[SourceTool], queries: Sequence[str]
    ) -> Sequence[Sequence[int]]:
        self.asked.append(len(queries))
        return self.ranked(tools, originals, queries)

    def ranked(
        self, tools: Sequence[SourceTool], originals: Sequence[SourceTool], queries: Sequence[str]
    ) -> list[list[int]]:
        said = [_said(tool) for tool in tools]
        before = [_said(tool) for tool in originals]
        counts = {word: sum(word in one for one in said) for one in said for word in one}

        def score(at: int, query: str) -> float:
            words = query.lower().split()
            now = sum(1 / counts[word] for word in words if word in said[at])
            return (now + sum(word in before[at] for word in words) / 2) / (1 + len(said[at]) / 20)

        found = []
        for query in queries:
            scores = {at: score(at, query) for at in range(len(tools))}
            found.append(
                sorted((at for at in scores if scores[at]), key=lambda at: (-scores[at], at))[:DEPTH]
            )
        return found


class Plain(Overlap):
    """Ranks by how many words a tool says now, the first of equals first."""

    def ranked(
        self, tools: Sequence[SourceTool], originals: Sequence[SourceTool], queries: Sequence[str]
    ) -> list[list[int]]:
        said = [_said(tool) for tool in tools]
        scores = [[len(one.intersection(query.lower().split())) for one in said] for query in queries]
        return [
            sorted((at for at, score in enumerate(row) if score), key=lambda at: (-row[at], at))
            for row in scores
        ]


def _said(tool: SourceTool) -> set[str]:
    use_cases = tool.use_cases if isinstance(tool, EnhancedTool) else ()
    return set(
        " ".join([tool.name, tool.title, tool.description, *use_cases]).lower().replace("_", " ").split()
    )


def raw(name: str, description: str = "", **fields: Any) -> SourceTool:
    return SourceTool(name=name, description=description, **fields)


def as_it_is(tool: SourceTool, **fields: Any) -> EnhancedTool:
    own = {name: getattr(tool, name) for name in ("name", "title", "description", "input_schema")}
    return EnhancedTool(**{**own, "original_name": tool.name, **fields})


SEND = raw("send_mail", "Send a mail to people")
FIND = raw("fnd_ord", "fnd")
FILE = raw("delete_file", "Delete a file from a folder")


async def proven(
    before: Sequence[SourceTool], after: Sequence[EnhancedTool], *near: SourceTool
) -> list[ProofVerdict | None]:
    return await prove(before, after, near, Overlap())


# --- probes -----------------------------------------------------------------------------------------------


def test_a_tool_is_asked_for_in_words_of_its_own() -> None:
    """By name and parameters, by its sentences, by those without its name, and by its use cases."""
    tool = EnhancedTool(
        name="send_mail",
        description="Send a mail to people of a company. It may have files attached! Never more.",
        input_schema={"type": "object", "properties": {"to": {}, "subject": {}, "text": {}, "files": {}}},
        use_cases=("write to a customer",),
    )

    assert list(probes(tool)) == [
        "send mail to subject text",
        "Send mail people company",
        "people company",
        "files attached",
        "Send mail people to subject text",
        "write to a customer",
    ]


def test_a_tool_without_texts_is_asked_for_by_its_name() -> None:
    assert list(probes(raw("get_user"))) == ["get user"]


def test_what_says_nothing_is_no_query() -> None:
    """A single word, or words such as "the" and "this"."""
    assert list(probes(raw("run", "This is it"))) == []


# --- proofs -----------------------------------------------------------------------------------------------


async def test_a_change_that_helps_is_kept_with_the_places_it_brings() -> None:
    """Words that nobody had before find the tool now."""
    after = [as_it_is(SEND), as_it_is(FIND, description="Find an order by its number.")]
    same, verdict = await proven([SEND, FIND], after, FILE)

    assert same is None
    assert verdict is not None
    assert verdict.kept
    assert verdict.harmed == []
    places = {probe.query: (probe.before, probe.after) for probe in verdict.probes}
    assert places["Find order number"] == (0, 1)
    assert places["fnd ord"] == (1, 1)


async def test_a_change_that_hides_a_neighbour_is_taken_back_and_says_whose_place() -> None:
    """Both places of the one that would be lower, and by which query."""
    thief = as_it_is(raw("x", "do it"), description="Delete a file from a folder")
    [verdict] = await prove([raw("x", "do it")], [thief], [FILE], Plain())

    assert verdict is not None
    assert not verdict.kept
    assert LoweredTool(tool="delete_file", query="Delete file folder", before=1, after=2) in verdict.harmed


async def test_a_change_that_buries_the_tool_itself_is_taken_back() -> None:
    """Its old words count, or every change would prove itself."""
    mail = raw("m", "Send a letter to people")
    after = [as_it_is(FILE), as_it_is(mail, description="Put paper into a folder")]
    same, verdict = await prove([FILE, mail], after, [], Plain())

    assert same is None
    assert verdict is not None
    assert not verdict.kept
    assert LoweredTool(tool="m", query="Send letter people", before=1, after=0) in verdict.harmed
    assert Probe(query="Put paper folder", before=0, after=1) in verdict.probes


async def test_of_two_changes_only_the_one_that_harms_is_taken_back() -> None:
    thief = raw("x", "do it")
    after = [
        as_it_is(thief, description="Delete a file from a folder"),
        as_it_is(FIND, description="Find fnd order by its number."),
    ]
    first, second = await prove([thief, FIND], after, [FILE], Plain())

    assert first is not None
    assert second is not None
    assert (first.kept, second.kept) == (False, True)


async def test_what_search_does_not_read_needs_no_proof() -> None:
    """A category changes no place; nobody is asked."""
    ranker = Overlap()

    assert await prove([SEND], [as_it_is(SEND, category="mail", tags=("a",))], [FILE], ranker) == [None]
    assert await prove([], [], [], ranker) == []
    assert ranker.asked == []


texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
tools = st.builds(raw, st.sampled_from(WORDS), texts)


@given(
    st.lists(tools, min_size=1, max_size=8).flatmap(
        lambda before: st.tuples(
            st.just([replace(tool, name=f"{tool.name}_{at}") for at, tool in enumerate(before)]),
            st.lists(
                st.tuples(texts, texts, st.lists(texts, max_size=2)),
                min_size=len(before),
                max_size=len(before),
            ),
        )
    ),
    st.lists(tools, max_size=6),
)
async def test_whatever_is_proposed_no_probe_of_any_tool_is_lower_after_the_proof(
    changes: tuple[list[SourceTool], list[tuple[str, str, list[str]]]], near: list[SourceTool]
) -> None:
    """Of the tools, and of their neighbours, asked for by their words as they then are.

    A changed tool itself may lose a place among the first five, if its queries together find it as well.
    """
    before, said = changes
    after = [
        as_it_is(tool, title=title, description=text, use_cases=tuple(use_cases))
        for tool, (title, text, use_cases) in zip(before, said, strict=True)
    ]
    ranker = Overlap()
    verdicts = await prove(before, after, near, ranker)
    originals = [*before, *near]
    kept = [v is not None and v.kept for v in verdicts] + [False] * len(near)
    shown = [after[at] if kept[at] else tool for at, tool in enumerate(originals)]

    for at, tool in enumerate(originals):
        asked = [*probes(tool), *(probes(after[at]) if kept[at] else ())]
        old, new = ranker.ranked(originals, originals, asked), ranker.ranked(shown, originals, asked)
        for query, was, now in zip(asked, old, new, strict=True):
            if at in was[:SHOWN]:
                assert at in now, (tool.name, query)
                assert now.index(at) <= (SHOWN - 1 if kept[at] else was.index(at)), (tool.name, query)
    for verdict in verdicts:
        assert verdict is None or verdict.kept == (not verdict.harmed and not verdict.unfit)
