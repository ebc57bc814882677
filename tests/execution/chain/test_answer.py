"""What a caller is told of a chain: the result within its size, the whole kept, a fault with its line."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.calls.outline import compact
from maitred.calls.results import HEADER_TOKENS
from maitred.chains.account import CallReceipt, ChainRun
from maitred.chains.answer import ChainAnswer, answer, check_answer
from maitred.chains.base import ChainFault, ChainOutcome
from maitred.disclosure.budget import estimate

CODE = "import github\nissues = await github.search(q=1)\nreturn issues"
ROWS = [{"id": n, "name": f"row {n}", "note": "some words " * 5} for n in range(600)]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=40), inner, max_size=12),
    max_leaves=40,
)


def receipt(tool: str = "a__b", *, error: str = "", cached: bool = False, tokens: int = 100) -> CallReceipt:
    """A call that took 5 ms."""
    return CallReceipt(
        tool=tool, started_ms=0.0, ms=5.2, ok=not error, cached=cached, bytes=400, tokens=tokens, error=error
    )


class Shelf:
    """Keeps results as the gateway does; nothing above its size."""

    def __init__(self, most: int = 10_000_000) -> None:
        self._most = most
        self.kept: list[str] = []

    def __call__(self, result: dict[str, Any]) -> str:
        [block] = result["content"]
        self.kept.append(block["text"])
        return f"r{len(self.kept)}" if len(block["text"]) <= self._most else ""


def told(
    value: Any = None,
    *calls: CallReceipt,
    fault: ChainFault | None = None,
    logs: str = "",
    size: int = 20_000,
    shelf: Shelf | None = None,
    code: str = CODE,
) -> ChainAnswer:
    """What is told of a chain that took 412 ms."""
    outcome = ChainOutcome(value=value, fault=fault, logs=logs)
    run = ChainRun(chain_id="c1", outcome=outcome, calls=calls, ms=412.3)
    return answer(run, code, keep=shelf or Shelf(), estimate=estimate, max_output_size=size)


# --- results ----------------------------------------------------------------------------------------------


def test_a_result_that_fits_is_shown_whole_after_what_was_done() -> None:
    """As text and as structured content, which say the same."""
    made = told({"n": [1, 2]}, receipt(), receipt(cached=True), receipt("c__d"))

    assert made.text == (
        "Chain c1 done in 412 ms: 3 calls, 1 from the cache, 1,200 bytes of results.\n"
        "Calls made:\n- a__b (2 times)\n- c__d\n\n"
        '{"n":[1,2]}'
    )
    result = made.to_result()
    assert "isError" not in result
    assert result["content"][0]["annotations"] == {"audience": ["assistant"], "priority": 0.7}
    assert result["structuredContent"] == {
        "ok": True,
        "result": {"n": [1, 2]},
        "summary": made.summary,
        "truncated": False,
        "full_uri": "",
        "logs": "",
        "calls": [
            {"tool": "a__b", "ms": 5, "cached": False, "bytes": 400, "ok": True},
            {"tool": "a__b", "ms": 5, "cached": True, "bytes": 400, "ok": True},
            {"tool": "c__d", "ms": 5, "cached": False, "bytes": 400, "ok": True},
        ],
        "error": None,
        "tokens": {"returned": estimate(made.text), "kept_out": 300 - estimate(made.text)},
        "chain_id": "c1",
    }


def test_a_text_is_shown_as_it_is() -> None:
    """Without quotes or escapes, since a reader wants to read it."""
    assert told("two\nlines").details == "two\nlines"


def test_what_was_printed_stands_after_the_result() -> None:
    """Without characters that act on a terminal; of much, the end."""
    assert told(1, logs="a\x1b[31m\n").details == "1\n\nPrinted:\na[31m"
    made = told(1, logs="".join(f"line {n}\n" for n in range(900)), size=400)
    assert made.logs.endswith("line 899")
    assert len(made.logs) <= 100


def test_a_program_that_only_prints_is_told_what_a_result_is() -> None:
    """It is the commonest mistake."""
    assert "`print` is only a log" in told(None, logs="42").summary
    assert "log" not in told(None).summary


def test_a_result_that_is_too_long_is_cut_by_its_structure_and_kept_whole() -> None:
    """Told what it is, and where the whole can be read."""
    shelf = Shelf()

    made = told({"items": ROWS}, receipt(tokens=40_000), size=2_000, shelf=shelf)

    assert (made.truncated, made.full_uri) == (True, "maitred://result/r1")
    assert json.loads(shelf.kept[0]) == {"items": ROWS}
    assert made.result["items"][0]["id"] == 0
    assert "more items" in made.result["items"][-1]
    assert "maitred://result/r1" in made.summary
    assert "list of 600 objects: id int, name str" in made.summary
    assert made.to_result()["content"][0]["annotations"]["priority"] == 0.3
    assert made.kept_out_tokens > 38_000


def test_a_result_that_is_too_large_to_keep_is_said_to_be_lost() -> None:
    """No address is given that leads nowhere."""
    made = told(ROWS, size=500, shelf=Shelf(most=10))

    assert (made.truncated, made.full_uri) == (True, "")
    assert "the rest is not kept" in made.summary


def test_tokens_kept_out_are_never_negative() -> None:
    """A chain without calls keeps nothing out."""
    assert told("a long answer").kept_out_tokens == 0


@given(values, st.text(max_size=300), st.integers(0, 600))
@settings(max_examples=100, deadline=None)
def test_no_answer_is_larger_than_asked_for(value: Any, logs: str, size: int) -> None:
    """The text after its summary, and the result as JSON, of which `false` is the longest that is not cut."""
    made = told(value, logs=logs, size=size)

    assert len(made.details) <= size
    assert len(compact(made.result)) <= max(size, len("false"))
    assert estimate(made.summary) <= HEADER_TOKENS
    assert made.truncated or made.result == value


@given(
    st.lists(st.tuples(st.text(max_size=80), st.text(max_size=300)), max_size=100),
    st.text(max_size=3_000),
    st.integers(-5, 9),
    st.integers(-5, 400),
    st.text(max_size=800),
    st.integers(0, 900),
)
@settings(max_examples=100, deadline=None)
def test_no_failure_is_told_at_greater_length(
    calls: list[tuple[str, str]], message: str, line: int, column: int, code: str, size: int
) -> None:
    """However many calls failed, and whatever line the engine names."""
    fault = ChainFault(kind="runtime", message=message, line=line, column=column)

    made = told(None, *(receipt(tool, error=why) for tool, why in calls), fault=fault, size=size, code=code)

    assert len(made.details) <= size
    assert estimate(made.summary) <= HEADER_TOKENS
    assert made.to_result()["isError"] is True


# --- faults -----------------------------------------------------------------------------------------------


def test_a_fault_is_told_with_its_line_a_caret_and_what_to_do() -> None:
    """And that the calls before it were made."""
    fault = ChainFault(kind="runtime", message="a__b failed: rate limit", line=2, column=10)

    made = told(None, receipt(), receipt(error="a__b failed: rate limit"), fault=fault)

    assert made.text == (
        "Chain c1 failed (runtime) after 412 ms: 2 calls, 1 failed, 800 bytes of results."
        " What the calls changed stays changed.\n"
        "Calls made:\n- a__b (2 times): 1 failed: a__b failed: rate limit\n\n"
        "Runtime error in line 2: a__b failed: rate limit\n"
        "    2 | issues = await github.search(q=1)\n"
        "      |          ^\n"
        "Correct that line, or catch the error with try/except."
    )
    assert made.to_json()["error"] == {"kind": "runtime", "message": "a__b failed: rate limit", "line": 2}
    assert made.to_json()["calls"][1]["error"] == "a__b failed: rate limit"
    assert made.to_result()["isError"] is True


def test_of_a_long_line_the_part_around_the_fault_is_quoted() -> None:
    """With the caret below the same character."""
    code = "x" * 500 + "!" + "y" * 500

    lines = told(fault=ChainFault(kind="syntax", message="no", line=1, column=501), code=code).details.split(
        "\n"
    )

    assert lines[1][lines[2].index("^")] == "!"
    assert len(lines[1]) < 200


@pytest.mark.parametrize("line", [0, 99, -1])
def test_a_fault_without_a_line_of_the_source_quotes_none(line: int) -> None:
    """Limits strike anywhere."""
    made = told(fault=ChainFault(kind="timeout", message="Too slow.", line=line))

    assert " | " not in made.details
    assert "timeout_ms" in made.details


def test_results_before_a_failed_call_of_a_list_are_shown() -> None:
    """They may be what was wanted."""
    made = told([{"a": 1}], fault=ChainFault(kind="runtime", message="Call 2 of 2: no"))

    assert made.details.endswith('The results before that:\n[{"a":1}]')
    assert (made.ok, made.result) == (False, [{"a": 1}])


def test_a_check_tells_all_faults_and_that_nothing_was_called() -> None:
    """The first is also what a program reads."""
    faults = [ChainFault(kind="type", message=f"fault {n}", line=n) for n in (1, 2)]

    made = check_answer(faults, CODE, estimate=estimate)

    assert made.summary == "The chain was checked and not run: 2 faults found. No tool was called."
    assert "fault 1\n    1 | import github" in made.details
    assert "fault 2" in made.details
    assert made.to_json()["error"]["message"] == "fault 1"
    assert check_answer([], CODE, estimate=estimate).ok
