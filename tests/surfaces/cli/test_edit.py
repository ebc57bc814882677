"""`maitred edit`: an editor changes a copy, and the file is replaced only by one that is right."""

import io
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli.rig import Run, runner, write

RIGHT = "# mine\nservers: {}\n"
EDITOR = """\
import pathlib, sys
copy = pathlib.Path(sys.argv[-1])
steps = pathlib.Path("steps")
first, *rest = steps.read_text().split("|")
steps.write_text("|".join(rest))
if first.startswith("exit "):
    sys.exit(int(first.split()[1]))
if first.startswith("meanwhile "):
    pathlib.Path("maitred.yaml").write_text(first.removeprefix("meanwhile "))
    first = "servers: {}  # new"
copy.write_text(first)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    write(tmp_path, {"maitred.yaml": RIGHT, "editor.py": EDITOR})
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} -I -S editor.py")
    return runner(tmp_path, monkeypatch, capsys)


def left(folder: Path) -> list[Path]:
    """The copies beside the file."""
    return list(folder.glob("maitred.edit.*.yaml"))


def test_what_is_right_replaces_the_file(run: Run, tmp_path: Path) -> None:
    """With its rights; no copy is left."""
    (tmp_path / "maitred.yaml").chmod(0o640)
    write(tmp_path, {"steps": "servers: {a: {command: x}}\n"})

    said = run("edit").fine

    assert "fine, 1 server." in said
    assert (tmp_path / "maitred.yaml").read_text() == "servers: {a: {command: x}}\n"
    assert (tmp_path / "maitred.yaml").stat().st_mode & 0o777 == 0o640
    assert left(tmp_path) == []


def test_a_fault_is_named_and_edited_again(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the user wants; the file is not touched meanwhile."""
    write(tmp_path, {"steps": "servers: {a: {comand: x}}|servers: {a: {command: x}}"})
    at_a_terminal(monkeypatch, "y\n")

    done = run("edit")

    assert done.code == 0
    assert "did you mean `command`?" in done.err
    assert (tmp_path / "maitred.yaml").read_text() == "servers: {a: {command: x}}"


@pytest.mark.parametrize("typed", ["n\n", None])
def test_a_user_who_gives_up_finds_the_changes_beside_the_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str | None
) -> None:
    """The same where there is no terminal to ask at."""
    write(tmp_path, {"steps": "servers: {a: {comand: x}}"})
    if typed:
        at_a_terminal(monkeypatch, typed)

    done = run("edit")

    [copy] = left(tmp_path)
    assert done.code == (1 if typed else 2)
    assert f"your changes are in {copy}" in done.err
    assert ": 1 fault\n" in done.err
    assert copy.read_text() == "servers: {a: {comand: x}}"
    assert (tmp_path / "maitred.yaml").read_text() == RIGHT


def test_a_file_that_another_program_changed_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    """Both texts are there afterwards."""
    write(tmp_path, {"steps": "meanwhile servers: {b: {command: y}}"})

    assert "another program changed the file meanwhile; your changes are in" in run("edit").refused
    assert (tmp_path / "maitred.yaml").read_text() == "servers: {b: {command: y}}"
    assert len(left(tmp_path)) == 1


def test_nothing_is_written_where_nothing_changed_or_the_editor_failed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that cannot be run is an error that names the variables."""
    write(tmp_path, {"steps": f"{RIGHT}|exit 3"})

    assert "Nothing was changed." in run("edit").fine
    said = run("edit").refused
    assert "ended with code 3" in said
    assert "your changes" not in said
    assert left(tmp_path) == []
    monkeypatch.setenv("VISUAL", "no-such-editor")
    assert "set VISUAL or EDITOR" in run("edit").refused
    assert (tmp_path / "maitred.yaml").read_text() == RIGHT


def test_a_missing_file_is_made(run: Run, tmp_path: Path) -> None:
    """A new user may begin with the editor."""
    write(tmp_path, {"steps": "servers: {a: {command: x}}"})

    run("edit", "-c", "new/maitred.yaml").fine  # noqa: B018  # it fails if the command does

    assert (tmp_path / "new" / "maitred.yaml").read_text() == "servers: {a: {command: x}}"


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    keyboard = io.StringIO(typed)
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", keyboard)


@pytest.mark.parametrize(
    ("editor", "fault"),
    [
        ("'x", "EDITOR is no command: a quote"),
        ("rm", "the editor removed the copy"),
        ("sh -c 'rm $0; exit 3'", "removed the copy"),
    ],
)
def test_an_editor_that_cannot_edit_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: str, fault: str
) -> None:
    """No copy is left, and none is promised."""
    monkeypatch.setenv("EDITOR", editor)
    done = run("edit")
    assert done.code == 2
    assert fault in done.err
    assert "your changes are in" not in done.err
    assert left(tmp_path) == []
    assert (tmp_path / "maitred.yaml").read_text() == RIGHT


def test_a_blank_editor_is_none(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one counts, and no part of the configuration is run as a command."""
    monkeypatch.setenv("VISUAL", " ")
    write(tmp_path, {"steps": "servers: {a: {command: x}}\n"})
    assert "fine, 1 server." in run("edit").fine


def test_a_new_file_of_json_begins_as_json(run: Run, tmp_path: Path) -> None:
    """What is there at first is right, so a person who changes nothing has no fault."""
    looks = "import pathlib, sys; pathlib.Path('seen').write_text(pathlib.Path(sys.argv[-1]).read_text())"
    write(tmp_path, {"editor.py": looks, "steps": ""})

    assert "Nothing was changed" in run("edit", "-c", "new.json").fine
    assert (tmp_path / "seen").read_text() == '{\n  "servers": {}\n}\n'
