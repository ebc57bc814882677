"""How a client's program starts: what it loads, which words it takes, and what it says where it cannot."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import pytest
from tests.daemon.gateways import LEGACY, MODERN, Json, request
from tests.daemon.home import WAIT_S, Home, at_home
from tests.interaction.harness import cli, faulty

from maitred.config.load import parse
from maitred.config.settings import Settings
from maitred.errors import DaemonError
from maitred.model.access import ClientStart
from maitred.surfaces.daemon import client_entry as entry
from maitred.surfaces.daemon.control import gateways, stop_gateways
from maitred.surfaces.daemon.discovery import EndpointQuery, found_now
from maitred.surfaces.daemon.environment import OF_POSTGRES, EnvironmentMatch, runs_here, start_of
from maitred.surfaces.daemon.handshake import HERE, PLACE, GatewayConnection, decode_line, values
from maitred.surfaces.daemon.session_replay import Replay
from maitred.surfaces.daemon.sockets import EndpointLock, address_of
from maitred.wiring.transports import MAKERS, SLOW_MODULES

_INTERRUPTIBLE = (
    "import runpy, signal;"
    "signal.signal(signal.SIGINT, signal.default_int_handler);"  # a shell's background job ignores it
    "runpy.run_module('maitred', run_name='__main__')"
)
HEAVY = (
    "anyio",
    "asyncio",
    "mcp",
    "numpy",
    "pydantic",
    "pydantic_core",
    "rich",
    "ruamel",
    "structlog",
    "typer",
)

NEEDED_LATER = (
    "alembic",
    "cryptography",
    "fastapi",
    "httpx2",
    "jinja2",
    "mcp",
    "mcp_types",
    "numpy",
    "sqlalchemy",
)


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Home]:
    async with at_home(tmp_path) as made:
        yield made


def test_a_clients_program_loads_nothing_that_is_slow() -> None:
    """It is started by each client, and what it needs is started once."""
    code = "import sys, maitred.__main__; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & set(HEAVY) == set()


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("mode", ["menu", "all"])
def test_the_first_lists_are_answered_before_the_sdk_is_imported(tmp_path: Path, mode: str, era: str) -> None:
    """Nor what else is slow and needed later: a client waits for its first list."""
    config = tmp_path / "maitred.yaml"
    places = {"servers": {"counter": faulty("count")}, "catalog": {"path": str(tmp_path / "c.db")}}
    config.write_text(json.dumps(places | {"disclosure": {"mode": mode}}))
    assert cli(config, "list").returncode == 0  # from now on the server is known
    methods = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
    asked: list[Json] = []
    if era == "handshake":
        asked += [request(1, "initialize", **LEGACY), {"method": "notifications/initialized"}]
        asked += [request(number, method) for number, method in enumerate(methods, 2)]
    else:
        asked += [request(1, "server/discover", _meta=MODERN)]
        asked += [request(number, method, _meta=MODERN) for number, method in enumerate(methods, 2)]
    code = (
        "import maitred.surfaces.cli.serve as serve; serve._WARM_AFTER_S = 600.0;"  # on a slow machine too
        " from maitred.__main__ import main; raise SystemExit(main())"
    )
    command = [sys.executable, "-X", "importtime", "-c", code, "serve", "--no-daemon"]
    with subprocess.Popen(
        [*command, "--config", str(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.writelines(json.dumps({"jsonrpc": "2.0"} | message) + "\n" for message in asked)
        process.stdin.flush()
        answers: list[Json] = []
        imported = set()
        while len(answers) <= len(methods):
            line = process.stdout.readline()
            assert line, "it ended before it answered"
            if line.startswith("{"):
                answers.append(json.loads(line))
            imported.add(line.rpartition("|")[2].strip().partition(".")[0])
        process.stdin.close()
    assert [answer["id"] for answer in answers if "result" in answer] == [1, 2, 3, 4, 5]
    assert "maitred" in imported
    assert imported & set(NEEDED_LATER) == set()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("serve", ("", "")),
        ("serve --config a.yaml", ("a.yaml", "")),
        ("serve -c a.yaml --transport stdio", ("a.yaml", "")),
        ("serve --transport=stdio --config=a.yaml", ("a.yaml", "")),
        ("serve --profile review", ("", "review")),
        ("serve --profile=review -c a.yaml", ("a.yaml", "review")),
        ("serve --profile", None),
        ("serve --transport http", None),
        ("serve --no-daemon", None),
        ("serve --help", None),
        ("serve --config", None),
        ("serve -c=a.yaml", None),
        ("-v serve", None),
        ("list", None),
        ("", None),
    ],
)
def test_only_the_usual_words_are_taken_before_the_command_line(
    words: str, found: tuple[str, str] | None
) -> None:
    """Whatever else is there is left to it."""
    assert entry._options_of(words.split()) == found


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["servers: {a: {comand: x}}\n", "catalog: {path: /dev/null/c.db}\n"])
async def test_a_configuration_that_cannot_be_served_is_told_as_without_sharing(
    home: Home, text: str
) -> None:
    """The same words on standard error, the same code, and nothing on standard output."""
    home.config.write_text(text)
    with anyio.fail_after(WAIT_S):
        shared, alone = [
            await anyio.run_process(home.command(*options), stdin=subprocess.DEVNULL, check=False)
            for options in ((), ("--no-daemon",))
        ]
    assert (shared.returncode, shared.stdout) == (2, b"")
    assert shared.stderr == alone.stderr
    assert shared.stderr.startswith(b"error: ")
    assert home.seats() == []


@pytest.mark.anyio
async def test_a_gateway_by_hand_is_refused_where_one_runs(home: Home) -> None:
    """There is one for those who have the same environment."""
    home.write({"counter": faulty("count")})
    async with home.client():
        done = cli(home.config, "serve", "--transport", "daemon")
    assert done.returncode == 2
    assert "serves this configuration already" in done.stderr


def test_a_gateway_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds its place; another one is not started beside it."""
    monkeypatch.setattr("maitred.surfaces.daemon.discovery._ANSWER_S", 0.05)
    held = EndpointLock(address_of(tmp_path / "maitred.yaml"), "daemon")
    try:
        with held.listen(), pytest.raises(DaemonError, match=rf"process {held.seat.pid()}\) does not answer"):
            found_now(EndpointQuery(address_of(tmp_path / "maitred.yaml"), {}))
    finally:
        held.leave()


def test_a_gateway_to_which_many_come_at_once_is_waited_for(tmp_path: Path) -> None:
    """The system turns away who comes while others stand there; that is no sign that the gateway ends."""
    with socket.socket(socket.AF_UNIX) as listening, ExitStack() as crowd:
        listening.bind(str(tmp_path / "s"))
        listening.listen(0)
        with suppress(BlockingIOError):
            while True:
                one = crowd.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(str(tmp_path / "s"))
        talks: list[GatewayConnection] = []
        coming = threading.Thread(target=lambda: talks.append(GatewayConnection(tmp_path / "s", WAIT_S)))
        coming.start()
        crowd.enter_context(listening.accept()[0])
        coming.join(WAIT_S)
        [talk] = talks  # else it gave up
        assert talk.path == tmp_path / "s"
        talk.close()


def test_a_folder_that_cannot_be_made_is_told_once_and_who_looks_for_gateways_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client's program serves alone then, and `maitred status` and `stop` say why they cannot."""
    config = tmp_path / "maitred.yaml"
    config.write_text("servers: {}\n")
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.devnull)
    monkeypatch.setattr(entry, "end_when_told", lambda: None)
    assert entry.serve_command(["serve", "--config", str(config)], {}) is None
    assert capsys.readouterr().err == ""
    assert entry.serve_shared(config) is None
    assert capsys.readouterr().err.startswith("no gateway is shared: ")
    for ask in (lambda: gateways(config, ""), lambda: stop_gateways(config, "", all_of_them=True)):
        with pytest.raises(DaemonError, match="cannot be looked for"):
            ask()


@pytest.mark.parametrize(
    ("option", "line"), [(["--json"], "[]"), ([], "No gateway serves this configuration now.")]
)
def test_the_status_is_watched_until_somebody_interrupts_it(
    option: list[str], line: str, tmp_path: Path
) -> None:
    """Also where nobody sits before it: a line each time; it ends well."""
    command = [
        sys.executable,
        "-c",
        _INTERRUPTIBLE,
        "status",
        "--watch",
        *option,
        "-c",
        str(tmp_path / "a.yaml"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == [line, line]
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0


def test_a_request_that_no_gateway_has_read_is_sent_to_the_next_whatever_it_is() -> None:
    """Once: when that one has read it and ends, it may have been carried out."""
    replay = Replay()
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool"}}\n'
    number = replay.sent(line)
    assert number == 1
    replay.unsent(number)
    assert list(replay.lost(())) == []
    assert list(replay.again()) == [(1, line)]
    assert len(list(replay.lost(()))) == 1
    assert list(replay.again()) == []


# --- what may differ --------------------------------------------------------------------------------------


def settings(text: str) -> Settings:
    return parse(Path("/x/maitred.yaml"), text)


@pytest.mark.parametrize(
    "text",
    [
        "servers: {a: {command: x, env: {A: '${TOKEN}'}}}",
        "servers: {a: {command: x, args: ['--key=${env:TOKEN}']}}",
        "servers: {a: {url: 'http://x', headers: {K: 'Bearer ${NONE:-${TOKEN}}'}}}",
        "search: {embedder_key: '${TOKEN}'}\nservers: {}",
        "use_cases: {key: '$${not} ${TOKEN}'}\nservers: {}",
    ],
)
def test_a_variable_matters_wherever_the_configuration_refers_to_it(text: str) -> None:
    own = values({"TOKEN": "a", "TERM": "a"})
    other = values({"TOKEN": "b", "TERM": "b"})
    assert EnvironmentMatch(own).differing(other, settings(text)) == ["TOKEN"]
    assert EnvironmentMatch(own).differing(values({"TERM": "b"}), settings(text)) == ["TOKEN"]
    assert EnvironmentMatch(own).differing(other, settings("servers: {}")) == []


def test_a_locale_matters_if_both_have_one_and_they_differ() -> None:
    """A desktop application often has none, and shares the gateway of a terminal."""
    found = settings("servers: {a: {command: x}}")
    for name in ("LANG", "LANGUAGE", "LC_ALL"):
        own, other = values({name: "de_DE.UTF-8"}), values({name: "C"})
        assert EnvironmentMatch(own).differing(other, found) == [name]
        assert EnvironmentMatch(own).differing(values({}), found) == []
        assert EnvironmentMatch(values({})).differing(other, found) == []


def test_keys_of_models_matter_where_the_gateway_asks_one() -> None:
    """Servers do not see them unless the configuration refers to them."""
    own, other = values({"OPENAI_API_KEY": "a"}), values({"OPENAI_API_KEY": "b"})
    for text in ("search: {embedder: openai}", "servers: {a: {command: x, env: {K: '${OPENAI_API_KEY}'}}}"):
        assert EnvironmentMatch(own).differing(other, settings(text)) == ["OPENAI_API_KEY"]
    assert EnvironmentMatch(own).differing(other, settings("servers: {a: {command: x}}")) == []


def _folder_of_programs(parent: Path, name: str, *programs: str) -> str:
    folder = parent / name
    folder.mkdir()
    for program in programs:
        (folder / program).write_text(f"#!/bin/sh\n# {name}\n")
        (folder / program).chmod(0o755)
    return str(folder)


def test_a_path_matters_if_a_server_would_run_another_program(tmp_path: Path) -> None:
    """Not in another order, nor with folders that change nothing: so a desktop application shares."""
    one = _folder_of_programs(tmp_path, "one", "python", "x")
    two = _folder_of_programs(tmp_path, "two", "python")
    terminal, turned, desktop = f"{one}:{two}", f"{two}:{one}", str(tmp_path)

    def differing(own: str, other: str, servers: str) -> Sequence[str]:
        found = EnvironmentMatch(values({"PATH": own}), {"PATH": own})
        return found.differing(values({"PATH": other}), settings(f"servers: {servers}"), other)

    assert differing(terminal, turned, "{a: {command: x}}") == []
    assert differing(terminal, desktop, "{a: {command: x}, b: {command: python}}") == []
    assert differing(terminal, turned, "{a: {command: /bin/x}, b: {url: 'http://x'}}") == []
    assert differing(terminal, turned, "{a: {command: x}, b: {command: python}}") == ["PATH"]
    assert differing(terminal, turned, "{a: {command: x, env: {PATH: '/a:${PATH}'}}}") == ["PATH"]
    assert differing(terminal, turned, "{a: {command: python, env: {PATH: /a}}}") == []


def test_programs_are_found_on_the_path_of_each_client_that_came(tmp_path: Path) -> None:
    """The first client may be a desktop application, whose PATH has few folders."""
    one, two = _folder_of_programs(tmp_path, "one", "x"), _folder_of_programs(tmp_path, "two", "x", "y")
    environ = {"PATH": one}
    found = EnvironmentMatch(values(environ), environ)
    servers = settings("servers: {a: {command: x}, b: {command: y}, c: {command: z}}")
    assert found.extend(f"bin:{two}::{one}", servers) == ["b"]
    assert environ["PATH"] == f"{one}:{two}"
    assert not found.extend(f"{two}:{one}", servers)
    assert environ["PATH"] == f"{one}:{two}"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"client": "a", "folder": "/work/../srv/p/"}, ClientStart(client="a", folder="/srv/p")),
        ({"client": "a", "folder": "/"}, ClientStart(client="a")),
        ({"client": "a", "folder": str(Path.home())}, ClientStart(client="a")),
        ({"client": "a", "folder": "relative"}, ClientStart(client="a")),
        ({"folder": "/a\0b"}, ClientStart()),
        ({"folder": "/a\udc80b"}, ClientStart()),
        ([], ClientStart()),
    ],
)
def test_a_folder_that_is_no_projects_is_none(said: object, expected: ClientStart) -> None:
    assert start_of({"start": said}) == expected


def test_variables_of_postgresql_matter_only_with_a_catalog_there() -> None:
    """Its driver takes from them what the address leaves open."""
    own, other = values({"PGPASSWORD": "a"}), values({"PGPASSWORD": "b"})
    there = settings("catalog: {url: 'postgresql://db/maitred'}")
    assert EnvironmentMatch(own).differing(other, there) == ["PGPASSWORD"]
    assert EnvironmentMatch(own).differing(other, settings("servers: {}")) == []


def test_variables_of_other_programs_of_postgresql_separate_no_clients() -> None:
    """The driver does not read them, whatever their first letters are."""
    names = ("PGDATA", "PG_COLOR", "PGDATABASE_OF_TESTS", "PGADMIN_SETUP_EMAIL", "PGAPPNAME")
    own, other = (values(dict.fromkeys(names, value)) for value in ("a", "b"))
    there = settings("catalog: {url: 'postgresql://db/maitred'}")
    assert EnvironmentMatch(own).differing(other, there) == []


def test_all_variables_that_the_driver_reads_matter() -> None:
    """As the installed library lists them, except those that the gateway itself sets for each connection."""
    driver = pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")
    read = {option.envvar.decode() for option in driver.pq.Conninfo.get_defaults() if option.envvar}
    assert read - OF_POSTGRES <= {"PGAPPNAME", "PGCONNECT_TIMEOUT"}
    assert "PGHOST" in read


@pytest.mark.parametrize(
    ("entry", "matters"),
    [
        ("{command: x}", False),
        ("{command: /bin/x, args: [/data, --flag]}", False),
        ("{command: x, args: [.]}", True),
        ("{command: x, args: [../data]}", True),
        ("{command: bin/x}", True),
        ("{command: x, cwd: data}", True),
        ("{command: bin/x, cwd: /data}", False),
        ("{command: x, env: {A: '${file:token}'}}", True),
        ("{command: x, env: {A: '${file:~/token}'}}", False),
        ("{url: 'http://x'}", False),
    ],
)
def test_the_folder_matters_where_a_server_is_started_by_it(entry: str, *, matters: bool) -> None:
    """Else clients in different folders share."""
    found = settings(f"servers: {{a: {entry}}}")
    assert runs_here(found) is matters
    own, other = values(), {**values(), HERE: "other"}
    assert EnvironmentMatch(own).differing(other, found) == ([HERE] if matters else [])


@pytest.mark.parametrize("line", [b"", b"no", b"\xff", b"[]", b'{"maitred": 1}', b"[" * 200_000], ids=len)
def test_a_first_line_that_is_none_of_ours_is_empty(line: bytes) -> None:
    """Whatever it is: a fault would be logged, with what else was sent."""
    assert decode_line(line) == {}


def test_values_are_told_as_digests_and_a_token_not_at_all() -> None:
    told = values({"SECRET": "swordfish", "MAITRED_AS_TOKEN": "swordfish"})
    assert "swordfish" not in str(told)
    assert "MAITRED_AS_TOKEN" not in told
    assert told["SECRET"] == values({"SECRET": "swordfish"})["SECRET"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell")
def test_who_may_less_by_the_system_is_in_another_place() -> None:
    """So a program in a sandbox without namespaces shares no gateway that was started outside."""
    code = "from maitred.surfaces.daemon.handshake import PLACE, values; print(values()[PLACE])"
    limit = "import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); "  # no new privileges
    told = [
        subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        ).stdout.strip()
        for text in (code, limit + code)
    ]
    assert told[0] == values()[PLACE] != told[1]


def test_what_imports_the_sdk_is_named_for_every_transport_but_that_of_saved_chains() -> None:
    """A thread imports it; a transport that names nothing would import it on the event loop."""
    assert SLOW_MODULES.keys() == MAKERS.keys() - {"chain"}
