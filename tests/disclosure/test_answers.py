"""The texts of answers: what was found, what is missing and why, and what to do next."""

from typing import Any

from tests.catalog.makers import one

from maitred.catalog.token_count import count_tokens
from maitred.disclosure.answers import FoundTool, InfoAnswer, SearchAnswer, ServerStatus
from maitred.model.servers import Health, ServerFacts, ServerSpec

_, TOOL = one()


def answer(*lines: str, **fields: Any) -> SearchAnswer:
    fields.setdefault("phrases", ["weather"])
    fields.setdefault("bands", {"weather": "strong"} if lines else {"weather": "none"})
    return SearchAnswer(results=[FoundTool(tool=TOOL, line=line) for line in lines], **fields)


def test_results_are_lines_with_the_next_step() -> None:
    """One search, then one call. Source: DESIGN 5, menu."""
    assert answer("a()", "b()").text == "a() [strong]\nb() [strong]\nNext: call_tool(name, arguments)."


def test_without_results_the_answer_says_so_and_what_to_try() -> None:
    """An agent is never left with an empty answer."""
    assert answer().text.splitlines() == [
        "Nothing relevant for 'weather'.",
        "Try other words, one capability per phrase, or list_tools_meta to look around.",
    ]


def test_what_is_withheld_or_not_known_yet_is_told_with_its_reason() -> None:
    """Nothing is silently missing. Source: DESIGN 5, rule 1."""
    text = answer("a()", withheld={"bank": (3, "disabled")}, unread={"slow": "still starting"}).text

    assert "Withheld: 3 on bank (disabled)" in text
    assert "Not searched: slow (still starting)" in text


def test_when_nothing_is_relevant_the_nearest_are_marked_as_weak() -> None:
    """Silence would hide that there is something near; five lines would pass for an answer."""
    lines = [f"t{number}()" for number in range(5)]
    weak = [FoundTool(tool=TOOL, line=line, band="weak") for line in lines]
    text = SearchAnswer(phrases=["weather"], results=weak, bands={"weather": "weak"}).text

    assert text.splitlines() == [
        "Nothing relevant for 'weather'; the nearest, weak:",
        "t0() [weak]",
        "t1() [weak]",
        "t2() [weak]",
        "Try other words, one capability per phrase, or list_tools_meta to look around.",
    ]


def test_the_phrase_that_nothing_serves_is_named_among_others() -> None:
    """With several phrases at once, the agent sees which of them to say anew."""
    bands = {"weather": "strong", "moon": "none"}
    text = answer("a()", phrases=["weather", "moon"], bands=bands).text

    assert text.splitlines()[:2] == ["a() [strong]", "Nothing relevant for 'moon'."]


def test_the_same_tool_elsewhere_stands_beside_it() -> None:
    """Doubles cost a name each, not a line."""
    twin = FoundTool(tool=TOOL, line="a__x()", also=["b__x", "c__x"])
    text = SearchAnswer(phrases=["x"], results=[twin], bands={"x": "strong"}).text

    assert text.startswith("a__x() (also: b__x, c__x) [strong]\n")


def test_what_search_had_to_do_without_is_said() -> None:
    """An answer by words alone is not mistaken for one by meaning."""
    assert "(semantic: warming 37 %)" in answer("a()", note="semantic: warming 37 %").text


def test_results_beyond_the_budget_are_counted_not_shown() -> None:
    """Rule 3: packed without splitting, and it says how to get the rest."""
    text = answer(*[f"tool_{number}({'word ' * 60})" for number in range(60)]).text

    assert count_tokens([text])[0] <= 1_600
    assert "more; ask for fewer phrases at once)" in text


def test_many_servers_that_are_down_do_not_flood_the_answer() -> None:
    """Two hundred servers without network must not cost more than the results. Source: DESIGN 5, rule 3."""
    why = "failed 3 times, tried again in 30 s: " + "the name of its host cannot be resolved " * 4
    down = {f"server-{number}": (2, why) for number in range(200)}

    text = answer("a()", withheld=down, unread={f"other-{number}": why for number in range(200)}).text

    assert count_tokens([text])[0] <= 1_600
    assert "a()" in text


def test_why_tools_are_withheld_ends_with_a_whole_clause() -> None:
    """And says what a person can do, as far as it can."""
    why = "is new since its server was approved, and waits for a person, who sees it with `maitred approvals`"
    assert f"Withheld: 3 on web ({why})\n" in answer("a()", withheld={"web": (3, why)}).text
    long = f"{why}, {'as it was before, ' * 20}"
    [line] = [
        one for one in answer("a()", withheld={"web": (3, long)}).text.splitlines() if one.startswith("With")
    ]
    assert line.endswith("as it was before …)")
    [line] = [
        one
        for one in answer("a()", unread={"web": "unreachable " * 30}).text.splitlines()
        if one.startswith("Not")
    ]
    assert line.endswith("unreachable …)")


def test_details_that_do_not_fit_are_named() -> None:
    """The next question can be asked without guessing."""
    text = InfoAnswer(tools=[TOOL], texts=["one"], left_out=["b", "c"], problems=["no such tool 'x'"]).text

    assert text == "one\n\nno such tool 'x'\n\nLeft out for size, ask again for: b, c"


def test_what_programs_get_of_a_server_holds_no_secret() -> None:
    """Values of the environment and of headers stay with the operator."""
    spec = ServerSpec(
        name="s", command="run", env={"TOKEN": "secret-1"}, headers={"Authorization": "secret-2"}
    )
    status = ServerStatus(spec=spec, health=Health(), facts=ServerFacts(), tools=0, cost_tokens=0)

    assert "secret" not in str(status.to_json())


def test_corrected_words_are_said_behind_the_results() -> None:
    """An agent sees what was searched for, and can ask again in other words."""
    lines = answer("a()", corrections={"gihtub": "github", "isue": "issue"}).text.splitlines()
    many = answer("a()", corrections={f"worb{n}": f"word{n}" for n in range(9)}).text

    assert lines[1] == "(searched for 'github' (not 'gihtub'), 'issue' (not 'isue'))"
    assert "'word4' (not 'worb4') and 4 more)" in many
