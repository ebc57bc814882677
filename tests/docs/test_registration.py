"""The page on registration is true: its manifests register, its commands print what it shows."""

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.support import replay_server
from tests.support.jails import isolation, require_jail
from tests.support.real_servers import require
from tests.surfaces.cli.rig import Run, runner, write
from tests.surfaces.http.seen_as import As

from maitred.admission.manifest import fits, manifest_schema
from maitred.config.load import load, parse
from maitred.surfaces.http.app import api
from maitred.wiring import open_gateway

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "registration.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples" / "manifests").glob("*.yml"))
SOON_S = 120.0
BARE = f"catalog: {{path: c.db}}\nisolation: {{jail: {isolation().jail}}}\n"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(PAGE) if kind == language]


TIME, TRUSTING, SCRIPT, BROKEN, POLICY, FOLDER = blocks("yaml")
BY_POLICY, BY_PERSON, UNSEEN, REFUSED, CHANGE = blocks("console")
(BY_HTTP,) = blocks("sh")


# --- what it says ---------------------------------------------------------------------------------------


def test_the_table_of_keys_is_the_schema() -> None:
    """Every key, in its order, with what it is for and what it means."""
    schema = manifest_schema()["properties"]
    rows = [
        f"| `{key}` | {', '.join(fits().get(key, ())) or 'all'} | {own['description']} |"
        for key, own in schema.items()
    ]

    assert "\n".join(rows) in PAGE


def test_the_published_schema_is_the_one_that_is_printed() -> None:
    """An editor that uses the file agrees with `maitred register`."""
    published = json.loads((DOCS / "manifest.schema.json").read_text(encoding="utf-8"))

    assert published == manifest_schema()


def test_the_layers_of_the_table_are_those_that_look(maitred: Run) -> None:
    """In their order, the last being a person."""
    told = re.findall(r"^\| (\d) (\w+) \|", PAGE, re.MULTILINE)
    [found] = json.loads(maitred("register", "--check", "--json", "time.yml").fine)
    names = [*(layer["layer"] for layer in found["layers"]), "approval"]

    assert told == [(str(number), name) for number, name in enumerate(names, start=1)]


def test_every_example_can_be_registered_under_the_policy_of_the_page(maitred: Run, tmp_path: Path) -> None:
    """None is refused, and the two that the page speaks of are approved at once."""
    write(tmp_path, {"maitred.yaml": POLICY})
    done = maitred("register", "--check", "--json", *map(str, EXAMPLES))
    outcomes = {Path(one["file"]).stem: one["outcome"] for one in json.loads(done.fine)}

    assert len(outcomes) == len(EXAMPLES) >= 11
    assert {name for name, outcome in outcomes.items() if outcome == "approved"} == {"my-analyzer", "time"}
    assert set(outcomes.values()) == {"approved", "needs approval"}


# --- what it shows --------------------------------------------------------------------------------------


@pytest.fixture
def maitred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands in a folder with the manifests of the page, and nothing in the configuration."""
    own = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    write(tmp_path, {"maitred.yaml": BARE, "time.yml": TIME, "broken.yml": BROKEN})
    return runner(tmp_path, monkeypatch, capsys)


def prints(maitred: Run, console: str, *, code: int = 0) -> None:
    """Each command of an example prints the lines below it; `…` is anything."""
    commands = re.findall(r"^\$ maitred (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert commands
    for command, shown in commands:
        done = maitred(*shlex.split(command))
        assert done.code == (2 if shown.startswith("error:") else code), done.err
        pattern = ".*".join(re.escape(part.strip("\n")) for part in shown.split("…"))
        assert re.search(pattern, done.out + done.err, re.DOTALL), f"{command} printed:\n{done.out}{done.err}"


def test_the_way_from_a_file_to_a_call_by_policy(maitred: Run, tmp_path: Path) -> None:
    """Registered, approved by the policy, started, found and called; then withdrawn."""
    require("time")
    write(tmp_path, {"maitred.yaml": BARE + TRUSTING})
    prints(maitred, BY_POLICY)


def test_a_person_approves_what_the_page_shows(maitred: Run) -> None:
    """The same manifest without the policy."""
    prints(maitred, BY_PERSON)


def test_all_faults_of_the_broken_file_are_told(maitred: Run) -> None:
    """As on the page, with exit code 2."""
    prints(maitred, REFUSED, code=2)


def install(folder: Path, *tools: Mapping[str, Any]) -> None:
    """Put a server of notes with some tools into a folder as the program `notes-mcp`, in one file alone."""
    record: dict[str, Any] = {"server": "notes", "protocolVersion": "2025-11-25", "tools": tools}
    record["serverInfo"] = {"name": "notes", "version": "1"}
    code = Path(replay_server.__file__).read_text(encoding="utf-8")
    head = f"#!{sys.executable} -IS\nRECORD = r'''\n{json.dumps(record)}\n'''\n"
    program = folder / "notes-mcp"
    program.write_text(f"{head}import sys\nsys.argv[1:] = [__file__, 'notes']\n{code}", encoding="utf-8")
    program.chmod(0o755)


def test_a_script_is_seen_when_it_is_granted(maitred: Run, tmp_path: Path) -> None:
    """With the manifest of the page it answers; without its grant it is told what to grant."""
    require_jail()
    folder = tmp_path / "notes"
    folder.mkdir()
    install(folder, {"name": "find", "description": "Find notes.", "inputSchema": takes("text")})
    (folder / "notes-mcp").rename(folder / "server.py")
    granted = SCRIPT.replace("/srv/notes", str(folder))
    write(tmp_path, {"notes.yml": granted.partition("filesystem:")[0]})
    maitred("register", "notes.yml")
    maitred("approve", "notes", "--yes")
    prints(maitred, UNSEEN.replace("/srv/notes", str(folder)), code=1)

    write(tmp_path, {"notes.yml": granted})
    maitred("register", "notes.yml")
    maitred("approve", "notes", "--yes")
    assert "notes: 1 tool," in maitred("doctor", "notes").fine


def takes(*names: str) -> Mapping[str, Any]:
    return {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": names}


def test_a_change_is_shown_and_withheld_until_it_is_approved(
    maitred: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the page: the changed tool and the new one; the rest goes on."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    write(tmp_path, {"notes.yml": "name: notes\ncommand: notes-mcp\n"})
    find = {"name": "find", "description": "Find notes.", "inputSchema": takes("text")}
    add = {"name": "add", "description": "Add a note.", "inputSchema": takes("text")}
    install(tmp_path, find, add)
    maitred("register", "notes.yml")
    maitred("approve", "notes", "--yes")
    maitred("doctor", "notes")
    wider = {**find, "description": "Find notes in a folder.", "inputSchema": takes("text", "folder")}
    install(tmp_path, wider, add, {"name": "send", "description": "Send.", "inputSchema": takes("to")})
    maitred("doctor", "notes")

    prints(maitred, CHANGE)
    maitred("call", "notes__find", "text=tea", "folder=all")
    assert "1 tool," not in maitred("doctor", "notes").fine


def test_the_way_from_a_file_to_a_call_by_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The requests of the page, in their order, with the digest of the answer before."""
    require("time")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"maitred.yaml": BARE, "time.yml": TIME})

    answers = anyio.run(played, tmp_path)

    assert [status for status, _ in answers] == [202, 200, 200, 200, 200, 200]
    assert answers[1][1]["cases"][0]["server"] == "time"
    assert answers[2][1]["state"] == "approved"
    assert "time__convert_time" in [found["name"] for found in answers[3][1]["results"]]
    assert '"timezone": "UTC"' in answers[4][1]["content"][0]["text"]
    assert answers[5][1]["state"] == "withdrawn"


async def played(folder: Path) -> list[tuple[int, Any]]:
    """The answers to the requests of the page."""
    answers: list[tuple[int, Any]] = []
    with anyio.fail_after(SOON_S):
        async with open_gateway(load(folder / "maitred.yaml")) as gateway:
            transport = httpx2.ASGITransport(app=As(api(gateway)))
            async with httpx2.AsyncClient(transport=transport) as http:
                for line in BY_HTTP.splitlines():
                    digest = answers[1][1]["cases"][0]["digest"] if len(answers) > 1 else ""
                    method, url, body = curl(line.replace("DIGEST", digest))
                    answer = await http.request(method, url, **body)
                    answers.append((answer.status_code, answer.json()))
                    await gateway.settled(SOON_S)
    return answers


def curl(line: str) -> tuple[str, str, dict[str, Any]]:
    """What a line of curl asks for."""
    words: Iterator[str] = iter(shlex.split(line)[1:])
    method, url, body = "GET", "", dict[str, Any]()
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "--json":
            body = {"json": json.loads(next(words))}
        elif word == "--data-binary":
            body["content"] = Path(next(words).removeprefix("@")).read_bytes()
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            body["headers"] = {name: value}
        else:
            url = word
    return method, url, body


def test_the_setting_of_the_folder_is_one() -> None:
    """It can be pasted."""
    assert parse(Path("maitred.yaml"), FOLDER).admission.folder == "servers.d"
