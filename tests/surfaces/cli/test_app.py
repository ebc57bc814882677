"""What the command `maitred` itself says, whichever command follows."""

from pathlib import Path

import pytest
from tests.surfaces.cli.rig import Run, runner


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("words", "option", "place"),
    [
        (["-c", "my.yaml", "list"], "-c", "maitred list -c …"),
        (["--verbose", "--config=my.yaml", "search", "time"], "--config", "maitred search --config …"),
        (["--json", "list"], "--json", "maitred list --json …"),
        (["-c", "my.yaml"], "-c", "maitred COMMAND -c …"),
    ],
)
def test_an_option_before_the_command_is_refused_with_its_right_place(
    run: Run, words: list[str], option: str, place: str
) -> None:
    """A user who puts it first, as with other programs, need not search for the reason."""
    expected = f"No such option: {option}; an option of a command goes after the command: `{place}`"

    assert expected in run(*words).refused


@pytest.mark.parametrize("words", [["-vh", "list"], ["--verbose", "--help"], ["--version", "list"]])
def test_options_of_the_program_itself_go_before_the_command(run: Run, words: list[str]) -> None:
    """They are not mistaken for options of a command."""
    assert "maitred" in run(*words).fine
