"""What a program is given of a result, and what it is told of a failure."""

from typing import Any

import pytest
from tests.execution.chain.rig import Tools, run, text

from maitred.calls.cache import mark_cached
from maitred.errors import (
    ArgumentsError,
    MaitredError,
    ServerUnavailableError,
    StoreError,
    ToolNotFoundError,
    ToolWithheldError,
)

pytestmark = pytest.mark.anyio


async def value(answer: dict[str, Any]) -> Any:
    """What a program is given of a result."""
    ran = await run(lambda call: call("a__b", {}), Tools(a__b=answer))
    assert ran.outcome.fault is None, ran.outcome.fault
    return ran.outcome.value


async def failure(answer: dict[str, Any] | MaitredError, arguments: Any = None) -> str:
    """What a program is told when a call fails."""
    ran = await run(lambda call: call("a__b", arguments or {}), Tools(a__b=answer))
    assert ran.outcome.fault is not None
    assert not ran.calls or not ran.calls[0].ok
    return ran.outcome.fault.message


# --- what a result is -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (text('{"a": 1}', structuredContent={"result": [1]}), {"result": [1]}),
        (text('{"a": [1, null]}'), {"a": [1, None]}),
        (text(" [1]"), [1]),
        (text("12"), "12"),
        (text("{not json"), "{not json"),
        (text("{1}", "{2}"), "{1}\n{2}"),
        ({"content": []}, None),
        ({"content": "odd"}, None),
        (
            {"content": [{"type": "image", "data": "QUJDRA==", "mimeType": "image/png"}]},
            {"type": "image", "mimeType": "image/png", "bytes": 4},
        ),
        (
            {
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "resource_link", "uri": "x://y", "name": "n"},
                ]
            },
            ["see", {"type": "resource_link", "uri": "x://y", "name": "n"}],
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "x://y", "text": "words"}}]},
            {"type": "resource", "uri": "x://y", "text": "words"},
        ),
        (mark_cached(text('{"a": 1}')), {"a": 1}),
        ({"structuredContent": {"id": 1 << 80, "x": float("inf")}}, {"id": str(1 << 80), "x": None}),
        (text("[" * 70 + "]" * 70), "[" * 70 + "]" * 70),
    ],
)
async def test_a_program_is_given_plain_values(answer: dict[str, Any], expected: Any) -> None:
    """Structured content as it is, else what the text holds; of what is binary, only what it is."""
    assert await value(answer) == expected


# --- failures ---------------------------------------------------------------------------------------------


async def test_a_tool_that_fails_raises_with_its_text() -> None:
    """The first 2,000 characters, without characters that deceive a reader."""
    assert await failure(text("no \x1b[31msuch\u202e repo", isError=True)) == "a__b failed: no [31msuch repo"
    assert len(await failure(text("x" * 9_000, isError=True))) < 2_100
    assert "did not say why" in await failure({"content": [], "isError": True})


async def test_a_tool_that_asks_the_user_cannot_be_called_in_a_chain() -> None:
    """Nobody is there to answer."""
    assert "asks for input" in await failure({"resultType": "input_required"})


async def test_a_mistake_names_the_tool_its_parameters_and_the_nearest_names() -> None:
    """So that the next try succeeds."""
    wrong = ArgumentsError("a__b", ["x: 1 is not a string"], schema="x: str*")

    assert "x: str*" in await failure(wrong)
    assert "a__bee" in await failure(ToolNotFoundError("a__b", nearest=["a__bee"]))
    assert "a__b" in await failure(ServerUnavailableError("a", "it ended"))


@pytest.mark.parametrize(
    "error",
    [
        StoreError("/var/lib/catalog.db", "disk full"),
        ServerUnavailableError("a", "cannot start '/opt/x y/run.sh': no such file"),
        ToolWithheldError("a__b", "failed: see ~/.cache/log and ./bin/x or C:\\bin/x"),
    ],
    ids=lambda error: error.code,
)
async def test_a_failure_of_ours_tells_no_path_of_this_machine(error: MaitredError) -> None:
    """A program was written by somebody who need not know them."""
    told = await failure(error)

    assert "a__b" in told
    assert not any(part in told for part in ("/var", "/opt", ".cache", "bin/x", "run.sh"))


async def test_results_and_arguments_that_are_not_plain_are_refused() -> None:
    """In either direction; what is refused as an argument is not sent."""
    tangled: list[Any] = []
    tangled.append(tangled)

    assert "result of a__b cannot be given" in await failure({"structuredContent": {"x": 1 << 5_000}})
    assert "arguments of a__b cannot be sent" in await failure({}, {"x": tangled})
