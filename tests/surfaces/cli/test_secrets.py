"""`maitred secret`: kept, listed by name, used by a server, removed; never printed."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.file_keyring import FileKeyring, no_keyring, using
from tests.surfaces.cli.rig import Run, runner, write

SECRET = "quiet-river-18273645"
ECHO = Path(__file__).parents[2] / "support" / "probe_server.py"
CONFIG = f"""\
secrets: {{commands: [{sys.executable}]}}
servers:
  echo:
    command: {sys.executable}
    args: [{ECHO}, --banner, "${{command:{sys.executable} -c 'print(\\"loud-storm-\\" + \\"192837\\")'}}"]
    env: {{TOKEN: "${{keyring:echo/TOKEN}}"}}
  broken:
    command: {sys.executable}
    env: {{API_KEY: "${{command:{sys.executable} -c 'raise SystemExit(\\"not signed in\\")'}}"}}
"""


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[FileKeyring]:
    backend = FileKeyring(tmp_path / "ring.json")
    with using(backend):
        yield backend


@pytest.fixture
def maitred(
    tmp_path: Path, ring: FileKeyring, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    del ring
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(tmp_path, {"maitred.yaml": CONFIG})
    return runner(tmp_path, monkeypatch, capsys)


def test_a_secret_is_kept_from_standard_input_and_used_by_a_server(
    maitred: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server gets it, and whatever it says of it is masked; so is what a command printed."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{SECRET}\n"))
    kept = maitred("secret", "set", "echo/TOKEN").fine
    listed = maitred("secret", "list").fine
    got = json.loads(json.loads(maitred("call", "echo__environment", "--json").fine)["content"][0]["text"])
    tried = maitred("doctor", "--json").out
    removed = maitred("secret", "remove", "echo/TOKEN").fine
    after = maitred("doctor", "echo").out

    assert kept == "Kept echo/TOKEN in the keyring (a file of the tests). `${keyring:echo/TOKEN}` uses it.\n"
    assert "echo/TOKEN  echo" in listed
    assert got["variables"]["TOKEN"] == SECRET
    assert removed == "Removed echo/TOKEN from the keyring. It is still used by echo.\n"
    assert "env.TOKEN: ${keyring:echo/TOKEN} cannot be read: the keyring has no secret 'echo/TOKEN'" in after
    assert "env.API_KEY: ${command:" in tried
    assert "ended with code 1: not signed in" in tried
    assert SECRET not in kept + listed + removed + after + tried
    assert "loud-storm-192837" not in tried  # what the command printed, which the server writes to its log
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "ring.json"]
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]


def test_what_uses_a_secret_is_named_wherever_it_is(
    maitred: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting by its key; a secret that is still used is not removed without a word."""
    text = """
http: {token: "${keyring:web}"}
servers:
  far:
    url: https://example.com/mcp
    auth: {client_id: x, client_secret: "${NONE:-${keyring:far/SECRET}}"}
"""
    write(tmp_path, {"maitred.yaml": text})
    for name in ("web", "far/SECRET"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(SECRET))
        maitred("secret", "set", name).fine  # noqa: B018  # it ran

    users = {"web": ["http.token"], "far/SECRET": ["far"]}
    listed = json.loads(maitred("secret", "list", "--json").fine)["secrets"]
    assert {one["name"]: one["used_by"] for one in listed} == users
    assert "It is still used by http.token." in maitred("secret", "remove", "web").fine


@pytest.mark.parametrize(
    ("words", "typed", "said"),
    [
        pytest.param(["set", "a b"], "x", "is no name of a secret", id="name"),
        pytest.param(["set", "a"], "", "must have 1 to 65,536 characters", id="empty"),
        pytest.param(["set", "a"], "x" * 70_000, "must have 1 to 65,536 characters", id="long"),
        pytest.param(["remove", "a"], "", "no secret 'a'; `maitred secret list` shows the names", id="none"),
    ],
)
def test_what_cannot_be_done_is_said(
    maitred: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], typed: str, said: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert said in maitred("secret", *words).refused
    assert maitred("secret", "list").fine == "There are none. `maitred secret set NAME` keeps one.\n"


def test_without_a_keyring_it_says_what_to_do(maitred: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(SECRET))
    with using(no_keyring()):
        said = maitred("secret", "set", "a").refused
    assert "this machine has no keyring that can be used" in said
    assert SECRET not in said


REFERRING = {
    "${keyring:other/TOKEN}": "refers to a secret that is not for this server",
    "${keyring:TOKEN}": "refers to a secret that is not for this server",
    "${keyring:own/../other}": "refers to what is no name of a secret",
    "${NO:-${keyring:other/TOKEN}}": "refers to a secret that is not for this server",
    "${keyring:own/A:-${keyring:other/TOKEN}}": "refers to a secret that is not for this server",
    "${command:op read op://x/y}": "would run a command to get its value",
    "${keyring:own/A:-${command:id}}": "would run a command to get its value",
    "x${env:command:id}": "would run a command to get its value",
}


@pytest.mark.parametrize("value", REFERRING)
def test_a_manifest_names_no_secret_of_others_and_no_command(
    maitred: Run, tmp_path: Path, value: str
) -> None:
    """Wherever it may have references."""
    for key in ({"env": {"A": value}}, {"args": [value]}, {"cwd": f"/srv/{value.replace('/', '')}"}):
        write(tmp_path, {"m.json": json.dumps({"name": "own", "command": "x", **key})})
        assert "refers to" in (said := maitred("register", "m.json").refused) or "command" in said
    assert REFERRING[value] in maitred("register", "m.json").err or "env" not in key


def test_a_manifest_may_ask_for_a_secret_of_its_own(maitred: Run, tmp_path: Path) -> None:
    """A person decides, who sees its name."""
    manifest = {"name": "own", "command": "x", "env": {"A": "${keyring:own/A}"}}
    write(tmp_path, {"m.json": json.dumps(manifest)})
    said = maitred("register", "m.json").fine
    assert "env.A: would be given the secret own/A of the keyring" in said
    assert "waits for your approval" in said


def test_a_damaged_list_of_names_is_said_and_not_overwritten(maitred: Run, tmp_path: Path) -> None:
    """No keyring could list the other names."""
    names = tmp_path / "state" / "maitred" / "secret-names.json"
    names.parent.mkdir(parents=True)
    names.write_text('["TOKEN", "OTHER"')
    for words in (("secret", "list"), ("secret", "remove", "TOKEN")):
        assert "is damaged; mend it" in maitred(*words).refused
    assert names.read_text() == '["TOKEN", "OTHER"'
