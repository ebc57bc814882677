"""The commands as an operator or a script runs them: what they print, where, and how they exit."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from tests.interaction.harness import Json, cli, faulty, sdk_server, write_settings
from tests.interaction.requirements import requirement

from maitred import __version__
from maitred.config.load import load

RELAY = Path(__file__).with_name("relay_server.py")
CURSOR: Json = {
    "mcpServers": {
        "clock": {"command": "clock-server", "args": ["--utc"], "env": {"ZONE": "UTC"}},
        "notes": {"url": "https://notes.example/mcp"},
    }
}


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    return lambda folder: write_settings(folder, {"counter": faulty("count")})


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A configuration that the test may change; its one server is never started."""
    return write_settings(tmp_path, {"counter": faulty("count")})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of somebody who uses Cursor, and has no configuration of maitred."""
    folder = tmp_path / "home"
    (folder / ".cursor").mkdir(parents=True)
    (folder / ".cursor" / "mcp.json").write_text(json.dumps(CURSOR), encoding="utf-8")
    monkeypatch.setenv("HOME", str(folder))
    return folder


# --- add and remove ---------------------------------------------------------------------------------------


@requirement("add:command")
def test_a_program_is_added_with_its_arguments_and_variables(tmp_path: Path) -> None:
    """The file is made where there is none, and holds what was given. Source: docs/cli.md."""
    path = tmp_path / "new" / "maitred.yaml"
    options = ["--env", "A=1", "--env", "B=x=y", "--cwd", "/srv"]

    said = fine(cli(path, "add", "clock", "--no-try", *options, "--", "clock-server", "--zone", "UTC"))

    spec = load(path).servers["clock"]
    assert (spec.transport, spec.command, spec.args) == ("stdio", "clock-server", ("--zone", "UTC"))
    assert (dict(spec.env), spec.cwd) == ({"A": "1", "B": "x=y"}, "/srv")
    assert f"Added 'clock' to {path}." in said
    assert "`maitred doctor clock`" in said


@requirement("add:url")
def test_an_address_is_added_with_its_headers(own: Path) -> None:
    """A reference stays one in the file, so that the secret does not stand there. Source: docs/cli.md."""
    headers = ["--header", "Authorization=Bearer ${NOTES_KEY}", "--header", "X-Team=a"]

    fine(cli(own, "add", "notes", "--no-try", "--url", "https://notes.example/sse", *headers))

    spec = load(own).servers["notes"]
    assert (spec.transport, spec.url) == ("sse", "https://notes.example/sse")
    assert dict(spec.headers) == {"Authorization": "Bearer ${NOTES_KEY}", "X-Team": "a"}
    assert set(load(own).servers) == {"counter", "notes"}


@requirement("add:replace")
def test_a_server_is_overwritten_only_on_demand(own: Path) -> None:
    """A name that is there is an error, unless `--replace` is given. Source: docs/cli.md."""
    before = own.read_bytes()

    said = refused(cli(own, "add", "counter", "--", "other"))
    assert "servers.counter" in said
    assert "--replace" in said
    assert own.read_bytes() == before

    fine(cli(own, "add", "counter", "--replace", "--no-try", "--", "other"))
    assert load(own).servers["counter"].command == "other"


@requirement("add:faults")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "needs either `command`"),
        (["--url", "https://a.example", "--", "program"], "not both"),
        (["--env", "A", "--", "program"], "'A' must be KEY=VALUE"),
        (["--url", "a.example"], "must start with http"),
    ],
)
def test_a_server_that_could_not_be_used_is_not_added(own: Path, arguments: list[str], says: str) -> None:
    """The fault is named at once, and the file stays as it was. Source: maitred."""
    before = own.read_bytes()

    assert says in refused(cli(own, "add", "fresh", *arguments))
    assert own.read_bytes() == before


@requirement("names:markup")
def test_a_name_with_brackets_is_a_name(own: Path) -> None:
    """Brackets in names and paths are no markup of the terminal. Source: maitred."""
    assert "'[/b]'" in fine(cli(own, "add", "[/b]", "--no-try", "--", "program"))
    assert "'[/b]'" in fine(cli(own, "remove", "[/b]"))


@requirement("remove:name")
def test_a_server_is_removed_and_an_unknown_one_is_answered_with_the_nearest(own: Path) -> None:
    """A typing error is cheap, and changes nothing. Source: docs/cli.md."""
    assert "did you mean 'counter'" in refused(cli(own, "remove", "countr"))
    assert set(load(own).servers) == {"counter"}

    assert f"Removed 'counter' from {own}." in fine(cli(own, "remove", "counter"))
    assert load(own).servers == {}


# --- list, search, info -----------------------------------------------------------------------------------


@requirement("list:servers")
def test_list_shows_servers_with_tools_and_cost(config: Path) -> None:
    """For people a table with a sum below, for programs the same numbers. Source: docs/cli.md."""
    table = fine(cli(config, "list"))
    [counter] = read_json(cli(config, "list", "--json"))["servers"]

    assert (counter["name"], counter["tools"], counter["error"]) == ("counter", 3, "")
    assert counter["tokens"] > 0
    assert "counter" in table
    assert f"3 tools, {counter['tokens']} tokens raw" in table


@requirement("list:missing")
def test_without_a_configuration_the_message_says_how_to_make_one(tmp_path: Path) -> None:
    """The first thing that a new user may see names the next command. Source: docs/cli.md."""
    said = refused(cli(None, "list"))

    assert str(tmp_path / "xdg-config" / "maitred" / "maitred.yaml") in said
    assert "`maitred import` or `maitred add NAME -- COMMAND` makes it" in said


@requirement("search:cli")
def test_search_prints_what_an_agent_would_read(config: Path) -> None:
    """One line a tool, bounded by `--limit`; `--json` names the parts. Source: docs/cli.md."""
    text = fine(cli(config, "search", "add two numbers", "--limit", "1"))
    found = read_json(
        cli(config, "search", "add two numbers", "echo a text", "--server", "counter", "--json")
    )

    assert "counter__add(a: num, b: num)" in text
    assert "counter__pid" not in text
    assert found["phrases"] == ["add two numbers", "echo a text"]
    assert {"name": "counter__add", "server": "counter", "raw_name": "add"}.items() <= found["results"][
        0
    ].items()


@requirement("info:cli")
def test_info_describes_tools_and_full_shows_their_schemas(config: Path) -> None:
    """Schemas cost tokens, so they come on demand. Source: docs/cli.md."""
    brief = fine(cli(config, "info", "counter__add"))
    full = fine(cli(config, "info", "counter__add", "--full"))
    [definition] = read_json(cli(config, "info", "counter__add", "--json"))

    assert brief.startswith("counter__add(a: num, b: num)\n")
    assert re.fullmatch(
        r"server: counter; category: [a-z0-9_]+; may change or destroy", brief.splitlines()[2]
    )
    assert "inputSchema" not in brief
    written, category, *more = full.splitlines()
    assert json.loads(written) == definition
    assert re.fullmatch(r"category: [a-z0-9_]+(, [a-z0-9_:]+)*", category)
    assert more == []
    assert definition["name"] == "counter__add"
    assert definition["inputSchema"]["required"] == ["a", "b"]
    assert definition["inputSchema"]["properties"]["a"] == {"type": "number"}


# --- call -------------------------------------------------------------------------------------------------


@requirement("call:cli")
@pytest.mark.parametrize(
    ("arguments", "stdin", "answer"),
    [
        (["counter__add", "a=2", "b=40"], "", "42"),
        (["counter__echo", "text=42"], "", "42"),
        (["counter__echo", "text=a=b [c]"], "", "a=b [c]"),
        (["counter__add", "--args", '{"a": 1.5, "b": 2}'], "", "3.5"),
        (["counter__add", "--args", "-"], '{"a": 20, "b": 22}', "42"),
        (["counter__add", "b=3", "--args", '{"a": 1, "b": 2}'], "", "4"),
    ],
    ids=["numbers", "text", "signs", "object", "stdin", "both"],
)
def test_call_takes_pairs_or_an_object_and_prints_the_answer(
    config: Path, arguments: list[str], stdin: str, answer: str
) -> None:
    """Pairs are read by the tool's schema, and win over `--args`. Source: docs/cli.md."""
    assert fine(cli(config, "call", *arguments, stdin=stdin)) == f"{answer}\n"


@requirement("call:failed")
def test_a_tool_that_fails_exits_with_one(tmp_path: Path) -> None:
    """Its answer is a result like any other, whole and on standard output. Source: docs/cli.md."""
    config = write_settings(tmp_path, {"relay": sdk_server(RELAY)})

    done = cli(config, "call", "relay__failing")
    as_json = cli(config, "call", "relay__failing", "--json")

    assert done.returncode == as_json.returncode == 1
    assert done.stdout == "the kettle is empty\n[audio audio/wav, 80 characters base64]\n"
    assert json.loads(as_json.stdout)["isError"] is True
    assert json.loads(as_json.stdout)["structuredContent"] == {"x": 0, "reason": "empty"}


@requirement("call:refused")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["counter__ad", "a=1", "b=2"], "Did you mean"),
        (["counter__add", "a=1"], "it was not called"),
        (["counter__add", "a=1", "b=x"], '"x" is not of type "number"'),
        (["counter__add", "a"], "arguments are written KEY=VALUE"),
        (["counter__add", "--args", "{"], "--args"),
        (["counter__add", "--args", "[1]"], "must be a JSON object"),
        (["counter__add", "a=1", "b=2", "--read-only"], "does not mark it read-only"),
    ],
    ids=["name", "missing", "type", "pair", "json", "object", "read-only"],
)
def test_a_call_that_is_not_made_exits_with_two(config: Path, arguments: list[str], says: str) -> None:
    """Standard output stays empty: the message is no answer. Source: docs/cli.md."""
    assert says in refused(cli(config, "call", *arguments))


# --- import -----------------------------------------------------------------------------------------------


@requirement("import:shown")
@pytest.mark.usefixtures("home")
def test_import_asks_nobody_where_there_is_no_terminal(tmp_path: Path) -> None:
    """It shows what there is, says how to go on, and writes nothing. Source: docs/import.md."""
    path = tmp_path / "maitred.yaml"

    said = fine(cli(path, "import", stdin="all\n"))

    assert "clock" in said
    assert "https://notes.example/mcp" in said
    assert "`maitred import --yes` imports all that is new" in said
    assert "Nothing imported." in said
    assert not path.exists()


@requirement("import:all")
def test_import_takes_over_all_that_is_new_and_leaves_the_client_as_it_was(home: Path, own: Path) -> None:
    """`--yes` adds to what is there, and a second time finds nothing new. Source: docs/import.md."""
    assert "Imported clock, notes into" in fine(cli(own, "import", "--yes"))
    assert "Nothing imported." in fine(cli(own, "import", "--yes"))

    servers = load(own).servers
    assert set(servers) == {"counter", "clock", "notes"}
    assert (servers["clock"].args, dict(servers["clock"].env)) == (("--utc",), {"ZONE": "UTC"})
    assert servers["notes"].url == "https://notes.example/mcp"
    assert json.loads((home / ".cursor" / "mcp.json").read_text(encoding="utf-8")) == CURSOR


@requirement("import:named")
@pytest.mark.usefixtures("home")
def test_import_takes_only_the_servers_that_are_named(own: Path) -> None:
    """A name that no client has is an error, and then none is imported. Source: docs/import.md."""
    done = cli(own, "import", "notes", "clok")
    assert done.returncode == 2
    assert "no client has a server 'clok'" in done.stderr
    assert set(load(own).servers) == {"counter"}

    assert "Imported notes into" in fine(cli(own, "import", "notes", "--client", "cursor"))
    assert set(load(own).servers) == {"counter", "notes"}


@requirement("import:json")
def test_import_tells_programs_what_there_is(home: Path, own: Path) -> None:
    """JSON alone only looks. Source: docs/import.md."""
    fine(cli(own, "add", "notes", "--no-try", "--url", "https://notes.example/mcp"))

    found = read_json(cli(own, "import", "--json"))

    by_name = {one["name"]: one for one in found["found"]}
    assert {name: one["configured"] for name, one in by_name.items()} == {"clock": False, "notes": True}
    assert by_name["clock"]["clients"] == ["cursor"]
    assert by_name["clock"]["path"] == str(home / ".cursor" / "mcp.json")
    assert by_name["clock"]["entry"]["command"] == "clock-server"
    assert found["problems"] == []
    assert set(load(own).servers) == {"counter", "notes"}


# --- doctor and the rest ----------------------------------------------------------------------------------


@requirement("doctor:fine")
def test_doctor_exits_with_zero_when_all_is_well(config: Path) -> None:
    """It says what it looked at and what it found. Source: docs/cli.md."""
    said = fine(cli(config, "doctor"))

    assert f"configuration {config}: fine" in said
    assert "counter: 3 tools" in said
    assert "0 with faults" in said


@requirement("doctor:faults")
def test_doctor_says_what_is_wrong_with_each_server_and_what_to_do(tmp_path: Path) -> None:
    """The reason, the last output, advice, and exit code 1. Source: docs/cli.md."""
    gone = {"command": "no-such-program-of-maitred"}
    servers = {"counter": faulty("count"), "gone": gone, "quitter": faulty("exit-at-start")}
    config = write_settings(tmp_path, servers)

    done, as_json = cli(config, "doctor"), cli(config, "doctor", "--json")

    assert done.returncode == as_json.returncode == 1
    assert "ok    counter: 3 tools" in done.stdout
    assert "'no-such-program-of-maitred' is not on PATH; install it or correct `command`" in done.stdout
    assert "        | RuntimeError: API_KEY is not set" in done.stdout
    assert "3 servers started" in done.stdout
    assert "2 with faults" in done.stdout
    assert "server failed" not in done.stderr  # the answer says it
    by_name = {one["name"]: one for one in json.loads(as_json.stdout)["servers"]}
    assert {name: one["ok"] for name, one in by_name.items()} == {
        "counter": True, "gone": False, "quitter": False,
    }  # fmt: skip
    assert "exited with code 1" in by_name["quitter"]["error"]
    assert by_name["quitter"]["last_output"][-1] == "RuntimeError: API_KEY is not set"
    assert "run its command by hand" in by_name["quitter"]["advice"]
    assert by_name["gone"]["advice"]


@requirement("doctor:named")
def test_doctor_looks_at_the_named_servers_only(tmp_path: Path) -> None:
    """An unknown name is an error, and the fault of another server is not in the way. Source: docs/cli.md."""
    config = write_settings(tmp_path, {"counter": faulty("count"), "gone": {"command": "no-such-program"}})

    [found] = read_json(cli(config, "doctor", "counter", "--json"))["servers"]

    assert (found["name"], found["ok"]) == ("counter", True)
    assert "there is no server 'countr'" in refused(cli(config, "doctor", "countr"))


@requirement("cli:version")
def test_version_is_one_line() -> None:
    """It needs no configuration. Source: docs/cli.md."""
    assert fine(cli(None, "--version")) == f"maitred {__version__}\n"


# --- helpers ----------------------------------------------------------------------------------------------


def fine(done: CompletedProcess[str]) -> str:
    """The standard output of a command that must succeed."""
    assert done.returncode == 0, done.stdout + done.stderr[-800:]
    return done.stdout


def read_json(done: CompletedProcess[str]) -> Any:
    """The standard output, which must be JSON and nothing else."""
    return json.loads(fine(done))


def refused(done: CompletedProcess[str]) -> str:
    """What a command says that could not run: on standard error, and no traceback."""
    assert "Traceback" not in done.stderr, done.stderr[-800:]
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert "error: " in done.stderr
    return done.stderr
