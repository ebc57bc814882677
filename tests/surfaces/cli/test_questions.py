"""`maitred call --interactive`: questions from the schema, on standard error, with the keyboard as input."""

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.harness import faulty, write_settings
from tests.surfaces.cli.rig import Run, runner

from maitred.errors import ConfigError
from maitred.surfaces.cli.questions import ask_arguments

Type = Callable[[str], None]

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "$defs": {"Mode": {"enum": ["fast", "slow", 3]}},
    "properties": {
        "limit": {"type": "integer", "minimum": 1, "default": 10, "description": "How many."},
        "text": {"type": "string", "minLength": 1},
        "mode": {"$ref": "#/$defs/Mode"},
        "deep": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "loud": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["text"],
}


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Type:
    """A function that types the rest of what a user types."""
    return lambda typed: monkeypatch.setattr(sys, "stdin", io.StringIO(typed))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_settings(tmp_path, {"counter": faulty("count")})
    return runner(tmp_path, monkeypatch, capsys)


def test_required_parameters_come_first_and_each_kind_has_its_form(
    keyboard: Type, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text as typed, choices by number or text, yes and no, and JSON for what is nested."""
    keyboard('42\n7\n3\n{"x": 1.5}\nyes\nhello\n')

    found = ask_arguments(SCHEMA, {})

    assert found == {"text": "42", "limit": 7, "mode": 3, "deep": {"x": 1.5}, "loud": True, "note": "hello"}
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.index("text (string; required)") < said.err.index("limit (integer; Enter means 10)")
    assert "  How many.\n" in said.err
    assert "  1. fast\n  2. slow\n  3. 3\n" in said.err
    assert "deep (object, as JSON; optional, Enter leaves it out)" in said.err
    assert "loud (true or false; " in said.err
    assert "note (string; Enter means null)" in said.err


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"enum": ["a", "b"]}, "²\nb", "b"),
        ({"type": ["string", "null"]}, "12345", "12345"),
        ({"anyOf": [{"$ref": "#/$defs/loop"}]}, "7", 7),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "12", "12"),
        ({"anyOf": 7}, "7", 7),
        ({"type": "array"}, f"{'[' * 20_000}\n[]", []),
    ],
)
def test_no_schema_and_no_answer_breaks_a_question(
    keyboard: Type, schema: dict[str, Any], typed: str, value: object
) -> None:
    """What fits no choice is asked again, and a text that may be null is a text."""
    keyboard(f"{typed}\n")
    loop = {"$defs": {"loop": {"anyOf": [{"$ref": "#/$defs/loop"}]}}}

    assert ask_arguments({**loop, "properties": {"x": schema}, "required": ["x"]}, {}) == {"x": value}


def test_what_is_not_typed_is_left_out_and_what_is_given_is_not_asked(keyboard: Type) -> None:
    """The end of the input is nothing typed."""
    keyboard("\nfast\n")

    assert ask_arguments(SCHEMA, {"text": "x"}) == {"text": "x", "mode": "fast"}


def test_a_wrong_answer_is_asked_again_before_the_next_question(
    keyboard: Type, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason, by the schema."""
    keyboard("a\n0\nmany\n5\n9\nslow\n")

    assert ask_arguments(SCHEMA, {}) == {"text": "a", "limit": 5, "mode": "slow"}
    said = capsys.readouterr().err
    assert "limit: 0 is less than the minimum of 1" in said
    assert 'limit: "many" is not of type "integer"' in said
    assert "mode: 9 is not one of" in said


@pytest.mark.parametrize(
    ("typed", "says"), [("", "which is required"), ("\n" * 9, "no answer for 'text' fits")]
)
def test_without_a_required_answer_nothing_goes_on(keyboard: Type, typed: str, says: str) -> None:
    """A script that types too little ends, and does not wait."""
    keyboard(typed)

    with pytest.raises(ConfigError, match=says):
        ask_arguments(SCHEMA, {})


def test_a_tool_that_may_change_things_is_called_after_a_yes(run: Run, keyboard: Type) -> None:
    """Standard output has the answer alone; without a yes nothing is called, and the exit code is 1."""
    keyboard("2\n40\ny\n")
    done = run("call", "counter__add", "-i")
    assert done.fine == "42\n"
    assert "Calls counter__add with" in done.err
    assert "It may change or destroy things. Call it?" in done.err

    keyboard("2\n40\n\n")
    refused = run("call", "counter__add", "-i")
    assert (refused.code, refused.out) == (1, "")
    assert "Nothing was called." in refused.err

    keyboard("40\n")
    assert run("call", "counter__add", "a=2", "-i", "-y").fine == "42\n"


def test_doctor_checks_the_tools_that_a_project_needs(run: Run, tmp_path: Path) -> None:
    """Exit code 1, and each that is missing or cannot be called is named. Source: issue 22."""
    assert "ok    required: counter__add" in run("doctor", "--require", "counter__add,counter__echo").fine

    write_settings(tmp_path, {"counter": faulty("count"), "gone": faulty("exit-at-start")})
    done = run("doctor", "counter", "--require", "counter__ad, counter__pid", "--require", "gone__x")

    assert done.code == 1
    assert (
        "fault required: counter__ad: There is no tool named 'counter__ad'. Did you mean counter__add"
        in done.out
    )
    assert "ok    required: counter__pid" in done.out
    assert "fault required: gone__x" in done.out


def test_doctor_asks_for_the_required_tools_alone(run: Run, tmp_path: Path) -> None:
    """A fault of another server is shown, and does not fail the check. Source: docs/cli.md."""
    write_settings(tmp_path, {"counter": faulty("count"), "gone": faulty("exit-at-start")})

    assert "fault gone" in run("doctor", "--require", "counter__add").fine
    assert run("doctor").code == 1


def test_a_mistyped_argument_is_named_before_the_server_passes_over_it(run: Run) -> None:
    """The call goes on: a schema may allow more than it lists."""
    done = run("call", "counter__add", "a=2", "b=40", "bb=1")

    assert done.out == "42\n"
    assert "warning: the tool has no argument 'bb'" in done.err


def test_doctor_gives_programs_the_same(run: Run) -> None:
    """One object for each tool."""
    done = run("doctor", "--json", "--require", "counter__add,counter__nope")

    assert done.code == 1
    assert '"name": "counter__add",\n      "ok": true,\n      "reason": ""' in done.out
    assert '"name": "counter__nope",\n      "ok": false' in done.out
