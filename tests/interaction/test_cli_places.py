"""Commands in odd surroundings: the plainest locale, names in any letters, no home."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.harness import WAIT_S, faulty
from tests.interaction.requirements import requirement

from maitred.config.paths import default_path, state_folder
from maitred.errors import ConfigError

PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0"}
ASCII = {"PYTHONIOENCODING": "ascii:strict"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def maitred(
    folder: Path, arguments: Sequence[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in an interpreter of its own, whose locale it is that counts."""
    return subprocess.run(
        [sys.executable, "-m", "maitred", *arguments],
        env={**os.environ, "PYTHONWARNDEFAULTENCODING": "0", **environment},
        cwd=folder,
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )


def introduced(folder: Path, *options: str, env: dict[str, str]) -> dict[str, Any]:
    """What a gateway says of itself to a client that asks it something else, too."""
    with subprocess.Popen(
        [sys.executable, "-m", "maitred", "serve", "-c", *options],
        env={**os.environ, **env},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (INITIALIZE, {"jsonrpc": "2.0", "id": 2, "method": "ping"}):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if message is INITIALIZE:
                first: dict[str, Any] = answer["result"]
        process.stdin.close()
        process.wait(WAIT_S)
    assert answer["id"] == 2
    return first


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One with a configuration below a folder with a name in other letters, and a server with one."""
    (tmp_path / "größe").mkdir()
    settings = {"servers": {"grün": faulty("slow-start", "0")}}
    (tmp_path / "größe" / "m.yaml").write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")
    return tmp_path


@requirement("places:letters")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list",), "grün"),
        (("list", "--json"), '"name": "grün"'),
        (("search", "tool echo"), "echo(text: str)"),
        (("call", "grün.echo", "text=süß"), "süß"),
        (("add", "blau", "--no-try", "--", "prög"), "größe/m.yaml"),
        (("remove", "grn"), "did you mean 'grün'?"),
        (("status",), "größe/m.yaml"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_names_in_any_letters_work_in_the_plainest_locale(
    folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    """As under `cron` and in small containers; what is printed is UTF-8."""
    name, *rest = arguments
    done = maitred(folder, [name, "-c", "größe/m.yaml", *rest], PLAIN)

    text = (done.stdout + done.stderr).decode()
    assert "Traceback" not in text
    assert said in text


@requirement("places:serve")
@pytest.mark.parametrize("how", [[], ["--no-daemon"]], ids=["shared", "alone"])
def test_a_gateway_serves_in_the_plainest_locale(folder: Path, how: list[str]) -> None:
    """A client may start it with any environment."""
    answer = introduced(folder, "größe/m.yaml", *how, env=PLAIN)
    stopped = maitred(folder, ["stop", "-c", "größe/m.yaml"], PLAIN)

    assert "grün" in answer["instructions"]
    assert (b"Stopped" in stopped.stdout) == (not how)


@requirement("places:output")
def test_what_an_output_cannot_hold_is_printed_as_escapes(folder: Path) -> None:
    """A pipe that takes ASCII alone gets all there is to say."""
    done = maitred(folder, ["list", "-c", "größe/m.yaml"], ASCII)

    assert done.returncode == 0, done.stderr
    assert rb"gr\xfcn" in done.stdout


@requirement("places:bytes")
def test_a_file_whose_name_is_no_text_can_be_used(folder: Path) -> None:
    """On Linux a name may be any bytes; they are printed as they are."""
    odd = os.fsencode(folder) + b"/odd\xff"
    Path(os.fsdecode(odd)).mkdir()
    path = odd + b"/m.yaml"
    Path(os.fsdecode(path)).write_bytes((folder / "größe" / "m.yaml").read_bytes())

    listed = maitred(folder, ["list", "-c", os.fsdecode(path)], {})
    missing = maitred(folder, ["list", "-c", os.fsdecode(odd + b"/none.yaml")], {})

    served = introduced(folder, os.fsdecode(path), "--no-daemon", env={})

    assert "grün" in served["instructions"]
    assert listed.returncode == 0, listed.stderr
    assert b"odd\xff/none.yaml" in missing.stderr


@requirement("places:home")
@pytest.mark.parametrize("given", ["", "relative"], ids=["empty", "relative"])
def test_a_home_that_is_no_folder_counts_as_none(tmp_path: Path, given: str) -> None:
    """The account's own is taken, and not the root of the file system."""
    program = (
        "from maitred.__main__ import prepare; from maitred.config.paths import default_path, state_folder;"
        " prepare(); print(default_path(), state_folder())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": given, "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert done.stdout.split() == [
        str(home / ".config" / "maitred" / "maitred.yaml"),
        str(home / ".local" / "state" / "maitred"),
    ]


def test_an_account_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a container that runs under any number."""

    def nobody(_: int) -> pwd.struct_passwd:
        raise KeyError

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)

    for place in (default_path, state_folder):
        with pytest.raises(ConfigError, match="set HOME"):
            place()


def test_no_folder_or_file_is_made_that_others_may_look_into(tmp_path: Path) -> None:
    """Also those above our own, by which it could be put away and replaced, and whatever the umask allows.

    Source: issue "What broke", 9.
    """
    home = tmp_path / "home"
    home.mkdir()
    places = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "MAITRED_CONFIG")
    env = {name: text for name, text in os.environ.items() if name not in places} | {"HOME": str(home)}
    server = faulty("count")
    for arguments in (["add", "probe", "--", server["command"], *server["args"]], ["search", "count"]):
        command = [sys.executable, "-m", "maitred", *arguments]
        done = subprocess.run(
            command, env=env, cwd=tmp_path, umask=0, capture_output=True, timeout=WAIT_S, check=False
        )
        assert done.returncode == 0, done.stderr

    made = {str(one.relative_to(home)): one.stat().st_mode & 0o777 for one in home.rglob("*")}
    assert {".config/maitred/maitred.yaml", ".local/state/maitred"} <= made.keys()
    assert {name: oct(mode) for name, mode in made.items() if mode & 0o077} == {}
