"""Commands that a running gateway carries out for the process that a person started."""

import io
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from structlog.testing import capture_logs
from tests.interaction.harness import faulty
from tests.support.waiting import eventually

from maitred.backends.process import STARTED_AGAIN
from maitred.config.load import load
from maitred.errors import DaemonError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.surfaces.cli import logs, server_logs
from maitred.surfaces.cli.app import main
from maitred.surfaces.cli.hosting import CommandHost
from maitred.surfaces.cli.server_logs import added_lines
from maitred.surfaces.daemon import command_client
from maitred.surfaces.daemon.command_client import run_in_gateway
from maitred.surfaces.daemon.handshake import decode_line, encode_line, values
from maitred.surfaces.daemon.serve import answering
from maitred.surfaces.daemon.server import SocketServer
from maitred.surfaces.daemon.sockets import Address, EndpointLock, Kind, address_of
from maitred.surfaces.mcp.lazy_surface import LazySurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

GROWING = str(Path(__file__).parents[1] / "support" / "growing_server.py")
FILED = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    names = open(sys.argv[1]).read().split()
    made = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "filed", "version": "1"}}
    if said["method"] == "tools/list":
        made = {"tools": [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in names]}
        print("password=hunter2-hunter2 was used", *names, file=sys.stderr, flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": made}), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended, and what it printed; `code` is `None` if no gateway ran it."""

    code: int | None
    out: str
    err: str


class Folder:
    """A configuration, and its commands: `alone` in a process of their own, `asked` of a running gateway."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "maitred.yaml"
        self.names = folder / "names"
        self.names.write_text("one two")
        self.environ: dict[str, str] = {}
        self.write()

    def write(self, **sections: Any) -> None:
        servers = {
            "grow": {"command": sys.executable, "args": ["-I", "-S", GROWING]},
            "bad": faulty("exit-at-start"),
            "filed": {
                "command": sys.executable,
                "args": ["-I", "-S", "-c", FILED, str(self.names)],
                "env": {"PASSWORD": "hunter2-hunter2"},
            },
        }
        document = {"servers": servers, "catalog": {"path": "catalog.db"}, **sections}
        self.path.write_text(json.dumps(document), encoding="utf-8")

    async def alone(self, *words: str, stdin: str = "") -> Done:
        def run() -> int:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", ["maitred", *self._with_config(words)])
                patch.setattr(logs, "set_up_logging", lambda **_: None)
                for name, value in self.environ.items():
                    patch.setenv(name, value)
                with pytest.raises(SystemExit) as ended:
                    main()
            return int(ended.value.code or 0)

        return await self._captured(run, stdin)

    async def asked(self, *words: str, stdin: str = "", config: str = "") -> Done:
        line = self._with_config(words, config)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environ.items():
                patch.setenv(name, value)
            return await self._captured(lambda: run_in_gateway(line, dict(os.environ)), stdin)

    def _with_config(self, words: Sequence[str], config: str = "") -> list[str]:
        before = words[0] in ("-v", "-q")
        at = 1 + before + (words[before] in ("calls", "tokens"))
        return [*words[:at], "--config", config or str(self.path), *words[at:]]

    @staticmethod
    async def _captured(run: Callable[[], int | None], stdin: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        streams = redirect_stdout(out), redirect_stderr(err)
        with streams[0], streams[1], capture_logs(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            code = await to_thread.run_sync(run)
        return Done(code=code, out=out.getvalue(), err=err.getvalue())


@dataclass(frozen=True, kw_only=True)
class Running:
    gateway: Gateway
    door: SocketServer


@asynccontextmanager
async def running(folder: Folder, kind: Kind = "daemon") -> AsyncIterator[Running]:
    """A gateway in this process that listens for commands, as one in the background does."""
    settings = load(folder.path)
    held, stop = EndpointLock(address_of(folder.path), kind), anyio.Event()
    try:
        with capture_logs():
            async with open_gateway(settings, asks_models=False) as gateway:
                assert await gateway.settled(120)
                host, surface = CommandHost(gateway, settings), LazySurface(gateway)
                async with answering(held, gateway, kind, surface, stop, run_command=host.run) as door:
                    yield Running(gateway=gateway, door=door)
    finally:
        held.leave()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


READING: Sequence[Sequence[str]] = [
    ("search", "make a report", "say a text"),
    ("search", "make a report", "--json"),
    ("search", "report", "--server", "grow", "--limit", "1"),
    ("search", "report", "--detail", "some"),
    ("info", "grow__echo", "filed__one"),
    ("info", "grow__echo", "--full", "--json"),
    ("info", "grow__ecco"),
    ("list",),
    ("menu",),
    ("menu", "category/nothing"),
    ("menu", "server/grow", "--json"),
    ("categories", "--tags"),
    ("categories", "--of", "grow__echo", "--json"),
    ("tools",),
    ("profiles",),
    ("stats",),
    ("tiers", "--all", "--json"),
    ("approvals", "--all"),
    ("explain", "grow", "--json"),
    ("explain", "nowhere"),
    ("calls", "list"),
    ("calls", "list", "-qj"),
    ("approvals", "--quiet", "--all"),
    ("-q", "search", "make a report"),
    ("call", "grow__echo", "text=\x1b[31m\u202eabc"),
    ("call", "grow__echo", "text=hello", "--json"),
    ("call", "grow__echo", "--read-only"),
    ("call", "grow__nothing"),
    ("call", "grow__echo", "text"),
    ("call", "grow__echo", "--args", '{"text": 5}'),
]


async def test_a_command_prints_the_same_whichever_process_runs_it(folder: Folder) -> None:
    """Byte for byte: answers, JSON, messages of errors, escapes, and the exit code."""
    async with running(folder):
        for words in READING:
            asked, alone = await folder.asked(*words), await folder.alone(*words)
            assert asked == alone, words
            assert asked.out + asked.err, words
        given = '{"text": "from a pipe"}'
        asked = await folder.asked("call", "grow__echo", "--args", "-", stdin=given)
        assert asked == await folder.alone("call", "grow__echo", "--args", "-", stdin=given)
        assert "from a pipe" in asked.out
        for words in [("approvals", "-q"), ("-q", "calls", "list")]:
            assert await folder.asked(*words) == Done(code=0, out="", err=""), words
        assert "ran this command" in (await folder.asked("search", "make a report", "-vn1")).err
        for words in [("search",), ("search", "x", "--no-such-option"), ("call", "--help"), ("list", "-jh")]:
            assert (
                await folder.asked(*words)
            ).code is None  # the parser's own messages are the process's own


@pytest.mark.parametrize("role", ["viewer", "agent", "operator"])
async def test_the_bearer_of_a_token_may_do_the_same_in_both(folder: Folder, role: str) -> None:
    made = await folder.alone("tokens", "create", "ann", "--role", role, "--server", "grow")
    folder.environ["MAITRED_AS_TOKEN"] = made.out.split()[0]
    async with running(folder):
        for words in [
            ("list", "--json"),
            ("search", "report"),
            ("call", "grow__echo", "text=a"),
            ("call", "filed__one"),
            ("approve", "bad", "--yes"),
            ("stats",),
            ("approvals",),
        ]:
            asked, alone = await folder.asked(*words), await folder.alone(*words)
            assert (asked.code, asked.err) == (alone.code, alone.err), words
            if "--json" not in words:
                assert asked.out == alone.out, words
        folder.environ["MAITRED_AS_TOKEN"] = "mtd_of_no_one"
        asked = await folder.asked("list")
        assert asked.code is None  # the gateway refuses the token, and the command itself says so
        assert (await folder.alone("list")).code == 2


async def test_a_chain_is_read_from_the_folder_of_the_person_or_from_the_input(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from the gateway's own folder; and a server keeps its state after it."""
    theirs = folder.path.with_name("theirs")
    theirs.mkdir()
    (theirs / "two.py").write_text('await call_tool("grow__change", {})\nreturn "done"')
    monkeypatch.setattr(command_client, "working_folder", lambda: str(theirs))
    async with running(folder) as there:
        asked = await folder.asked("chain", "run", "two.py")
        assert asked.code == 0, asked.err + asked.out
        await eventually(lambda: "grow__report_1" in there.gateway.snapshot.by_name)
        code = 'return await call_tool("grow__echo", {"text": "a"})'
        asked = await folder.asked("chain", "run", "-", "--json", stdin=code)
        assert json.loads(asked.out)["result"] is not None
        assert (await folder.asked("chain", "run", "gone.py")).err == (
            await folder.alone("chain", "run", "gone.py")
        ).err


async def test_a_server_keeps_its_state_between_two_commands(folder: Folder) -> None:
    """And the audit trail names the caller as it does for a command of its own."""
    async with running(folder) as there:
        for _ in range(2):
            assert (await folder.asked("call", "grow__change")).code == 0
        await eventually(lambda: "grow__report_2" in there.gateway.snapshot.by_name)
        assert (await folder.alone("call", "grow__change")).code == 0
        lines = json.loads((await folder.alone("audit", "--json", "--tool", "change")).out)
    keys = ("who", "client", "surface", "action", "server", "tool", "outcome")
    assert len(lines) == 3
    assert len({tuple(line.get(key) for key in keys) for line in lines}) == 1


@pytest.mark.parametrize(("kind", "takes"), [("http", True), ("stdio", False)])
async def test_a_gateway_over_http_takes_commands_and_that_of_one_client_none(
    folder: Folder, kind: Kind, takes: bool
) -> None:
    async with running(folder, kind):
        asked = await folder.asked("call", "grow__echo", "text=a")
        assert (asked.code == 0) is takes
        assert ("a" in asked.out) is takes


async def test_a_registered_server_waits_for_approval_in_the_next_command(folder: Folder) -> None:
    """What another process wrote into the catalog is known at once."""
    manifest = folder.path.with_name("clock.yaml")
    manifest.write_text(json.dumps({"name": "clock", "command": "python3", "args": [GROWING]}))
    async with running(folder):
        registered = await folder.alone("register", str(manifest))
        assert registered.code == 0, registered.err + registered.out
        assert "clock" in (await folder.asked("approvals")).out
        assert (await folder.asked("reject", "clock")).code == 0
        assert await folder.asked("approvals", "--all") == await folder.alone("approvals", "--all")


async def test_the_next_command_knows_what_was_just_written_into_the_configuration(folder: Folder) -> None:
    async with running(folder):
        assert (await folder.asked("disable", "grow__echo")).code == 0
        refused = await folder.asked("call", "grow__echo", "text=a")
        assert refused.code == 2
        assert "switched off by the operator" in refused.err
        assert refused == await folder.alone("call", "grow__echo", "text=a")
        folder.path.write_text("servers: [", encoding="utf-8")
        assert (await folder.asked("list")).code is None  # the command itself says what is wrong in the file


async def test_a_command_of_another_configuration_folder_or_environment_runs_by_itself(
    folder: Folder,
) -> None:
    """With `-v` it says why, once."""
    other = folder.path.with_name("other.yaml")
    other.write_text(folder.path.read_text())
    async with running(folder):
        asked = await folder.asked("-v", "list", config=str(other))
        assert (asked.code, asked.err.count("\n")) == (None, 1)
        assert f"no gateway serves {other}" in asked.err
        for words in (("restart", "filed"), ("logs", "filed")):
            folder.environ["NODE_EXTRA_CA_CERTS"] = "/elsewhere.pem"
            said = (await folder.alone(*words)).err
            assert "from here: its environment has other values of NODE_EXTRA_CA_CERTS." in said
        del folder.environ["NODE_EXTRA_CA_CERTS"]
        folder.environ["LC_ALL"] = "C.UTF-8"
        folder.environ["HTTPS_PROXY"] = "http://elsewhere"
        asked = await folder.asked("-v", "list")
        assert (asked.code, asked.err.count("\n")) == (None, 1)
        assert "has other values of HTTPS_PROXY" in asked.err
        del folder.environ["HTTPS_PROXY"]
        assert "ran this command" in (await folder.asked("-v", "list")).err


@contextmanager
def stand_in(address: Address, answers: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """A gateway that greets, hears a command, says these words, and is gone; what it heard."""
    held = EndpointLock(address, "daemon")
    listening, heard = held.listen(), list[Mapping[str, Any]]()
    listening.setblocking(True)

    def serve() -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # no command came
            return
        with connection, connection.makefile("rb") as lines:
            heard.append(decode_line(lines.readline()))
            connection.sendall(encode_line({"maitred": "welcome"}))
            heard.append(decode_line(lines.readline()))
            connection.sendall(b"".join(map(encode_line, answers)))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        held.leave()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(60)


async def test_a_command_is_not_run_again_after_its_gateway_died(folder: Folder) -> None:
    """Not even if nothing came back: the words were sent, so it may have had an effect."""
    with (
        stand_in(address_of(folder.path), [{"maitred": "out", "text": "begun\n"}]) as heard,
        pytest.raises(DaemonError, match=r"ended before the command did, which is not run again"),
    ):
        await folder.asked("call", "grow__echo", "text=a")
    assert heard[1]["words"][0] == "call"


async def test_a_command_runs_by_itself_if_the_gateway_says_that_it_did_not_begin(folder: Folder) -> None:
    with stand_in(address_of(folder.path), [{"maitred": "elsewhere", "text": "it asks at the terminal"}]):
        asked = await folder.asked("-v", "approve", "bad")
    assert asked.code is None
    assert "it asks at the terminal" in asked.err


async def test_a_gateway_of_another_version_is_not_asked(folder: Folder) -> None:
    with stand_in(address_of(folder.path)._replace(build="ffffff"), []) as heard:
        asked = await folder.asked("-v", "list")
    assert asked.code is None
    assert "is of another installation or version" in asked.err
    assert heard == []


async def test_a_person_who_leaves_ends_the_command_in_the_gateway(folder: Folder) -> None:
    """Its call is cancelled at the server, and the gateway is idle again."""
    async with running(folder) as there:
        wanted = {"words": ["call", "--config", str(folder.path), "grow__wait"], "config": str(folder.path)}
        seat = address_of(folder.path).seats()[0]
        async with await anyio.connect_unix(seat.socket) as stream:
            await stream.send(encode_line({"maitred": "command", "values": values()}))
            assert decode_line(await stream.receive())["maitred"] == "welcome"
            await stream.send(encode_line({"maitred": "run", **wanted}))
            await eventually(lambda: _calls(there.gateway) == 1)
        await eventually(lambda: _calls(there.gateway) == 0)
        with anyio.fail_after(60):
            await there.door.idle(0.01)


def _calls(gateway: Gateway) -> int:
    return sum(status.health.in_flight for status in gateway.watched_servers(LOCAL_USER))


async def test_a_failed_server_is_tried_again_only_by_a_command_that_needs_it(folder: Folder) -> None:
    """Other commands say why it failed, from the catalog."""
    log = folder.path.with_name("starts")
    script = f"open({str(log)!r}, 'a').write('x'); raise SystemExit('API_KEY is not set')"
    document = json.loads(folder.path.read_text())
    document["servers"]["bad"] = {"command": sys.executable, "args": ["-I", "-S", "-c", script]}
    folder.path.write_text(json.dumps(document))
    assert "API_KEY is not set" in (await folder.alone("list")).out
    tried = len(log.read_text())
    for words in [("list",), ("search", "report"), ("menu",), ("call", "grow__echo", "text=a")]:
        await folder.alone(*words)
    assert "API_KEY is not set" in (await folder.alone("list")).out
    assert len(log.read_text()) == tried
    refused = await folder.alone("call", "bad__tool")
    assert "API_KEY is not set" in refused.err
    assert len(log.read_text()) > tried
    without = await folder.alone("logs", "bad")
    assert without.code == 1
    assert "API_KEY is not set" in without.err
    assert "maitred doctor bad" in without.err


async def test_servers_are_restarted_and_listed_again(folder: Folder) -> None:
    async with running(folder) as there:
        await folder.asked("call", "grow__change")
        await eventually(lambda: "grow__report_1" in there.gateway.snapshot.by_name)
        restarted = await folder.asked("restart", "grow")
        assert (restarted.code, restarted.out) == (
            0,
            "grow: restarted, 4 tools; 1 added (grow__report_0), 1 removed (grow__report_1).\n",
        )
        folder.names.write_text("two three")
        refreshed = await folder.asked("refresh", "filed", "--json")
        [one] = json.loads(refreshed.out)["servers"]
        assert (one["added"], one["removed"]) == (["filed__three"], ["filed__one"])
        failed = await folder.asked("refresh", "bad", "filed")
        assert failed.code == 1
        assert "bad: cannot be listed" in failed.out
        assert "filed: listed, 2 tools; none changed." in failed.out
        assert "'grow'" in (await folder.asked("restart", "grwo")).err
        trail = json.loads((await folder.alone("audit", "--json")).out)
        assert [line["server"] for line in trail if line["action"] == "server.restart"] == ["grow"]
    alone = await folder.alone("restart", "grow")
    assert alone.code == 1
    assert "none of its servers runs" in alone.err
    assert "filed: listed" in (await folder.alone("refresh", "filed")).out


async def test_what_a_server_writes_is_shown_and_followed_without_its_secrets(folder: Folder) -> None:
    async with running(folder):
        shown = await folder.asked("logs", "filed", "-n", "1")
        assert shown.out == "password=*** was used one two\n"
        lines = json.loads((await folder.asked("logs", "filed", "--json")).out)["lines"]
        assert lines[-1] == "password=*** was used one two"
        assert (
            "no server 'fild'. Did you mean 'filed'? `maitred list`"
            in (await folder.asked("logs", "fild")).err
        )
        assert "grow has written nothing" in (await folder.asked("logs", "grow")).err
        folder.names.write_text("three")
        seat = address_of(folder.path).seats()[0]
        words = ["logs", "--config", str(folder.path), "filed", "-f", "-n", "0"]
        async with await anyio.connect_unix(seat.socket) as stream:
            await stream.send(encode_line({"maitred": "command", "values": values()}))
            await stream.receive()
            await stream.send(encode_line({"maitred": "run", "words": words, "config": str(folder.path)}))
            seen = b""
            with anyio.fail_after(120):
                while b"was used three" not in seen:
                    await folder.asked("refresh", "filed")
                    with anyio.move_on_after(0.5):
                        seen += await stream.receive()
    own = await folder.alone("logs")
    assert own.code == 0
    assert "No gateway in the background has written" in own.err

    async def nothing_more(_: Path, __: int) -> AsyncIterator[str]:
        lines: tuple[str, ...] = ()
        for line in lines:
            yield line

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_logs, "_appended", nothing_more)
        followed = await folder.alone("logs", "-f")
    assert followed.err == "No gateway runs in the background now: the lines of the next one follow.\n"


async def test_no_line_is_lost_when_a_server_is_started_again(folder: Folder) -> None:
    """What it wrote right before a restart is followed, and what it wrote before a crash is still there."""
    async with running(folder) as there:
        seat = address_of(folder.path).seats()[0]
        words = ["logs", "--config", str(folder.path), "filed", "-f", "-n", "1"]
        async with await anyio.connect_unix(seat.socket) as stream:
            await stream.send(encode_line({"maitred": "command", "values": values()}))
            await stream.receive()
            await stream.send(encode_line({"maitred": "run", "words": words, "config": str(folder.path)}))
            seen = ""
            with anyio.fail_after(120):
                while "was used" not in seen:  # only what is written from here on is counted
                    seen += (await stream.receive()).decode()
                for number in range(3):
                    folder.names.write_text(f"m{number}")
                    await folder.asked("refresh", "filed")
                    folder.names.write_text(f"n{number}")
                    await folder.asked("restart", "filed")
                    while f"was used n{number}" not in seen:
                        seen += (await stream.receive()).decode()
        kept = [word for word in seen.replace('\\n"', " ").split() if word[0] in "mn" and word[1:].isdigit()]
        assert list(dict.fromkeys(kept)) == ["m0", "n0", "m1", "n1", "m2", "n2"]

        folder.names.write_text("before")
        await folder.asked("refresh", "filed")
        pid = there.gateway.watched_server("filed", LOCAL_USER).health.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: there.gateway.watched_server("filed", LOCAL_USER).health.pid != pid)
        folder.names.write_text("after")
        await folder.asked("refresh", "filed")
        lines = (await folder.asked("logs", "filed")).out.splitlines()
        at = max(number for number, line in enumerate(lines) if line == STARTED_AGAIN)
        assert lines[at - 1].endswith("used before")
        assert lines[-1].endswith("used after")


async def test_following_ends_when_the_reader_of_its_output_does(folder: Folder) -> None:
    """As in `maitred logs SERVER -f | head -1`, though the server writes nothing more."""
    async with running(folder):
        words = [sys.executable, "-m", "maitred", "logs", "--config", str(folder.path), "filed", "-f"]
        reader, writer = os.pipe()
        with anyio.fail_after(120):
            async with await anyio.open_process(words, stdout=writer, stderr=None) as process:
                os.close(writer)
                assert b"was used" in await to_thread.run_sync(os.read, reader, 1_000)
                os.close(reader)
                assert await process.wait() == 1


def test_only_lines_that_came_since_are_followed() -> None:
    """The last lines of a stream overlap; the last one may have been unfinished."""
    assert added_lines([], ["a"]) == ["a"]
    assert added_lines(["a", "b"], ["a", "b"]) == []
    assert added_lines(["a", "b"], ["b", "c", "d"]) == ["c", "d"]
    assert added_lines(["t", "t"], ["t", "t", "t"]) == ["t"]
    assert added_lines(["a", "begu"], ["a", "begun", "c"]) == ["begun", "c"]
    assert added_lines(["a"], ["x", "y"]) == ["x", "y"]
