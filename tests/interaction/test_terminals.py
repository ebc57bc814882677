"""What servers write reaches a terminal as text: it is never obeyed, and nothing in it is hidden."""

import json
import os
import pty
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interaction.deceiving_server import ORDERS
from tests.interaction.harness import Json, cli, serving, write_settings
from tests.support import prefork

SERVER = Path(__file__).with_name("deceiving_server.py")
COLORS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[12]K|\x1b\[[0-9]*[AG]")
"""What the commands themselves may say to a terminal: colors, and the line of a spinner."""
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\U000e0000-\U000e007f]"
)


def deceiving(*words: str) -> Json:
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVER), *words], "era": "handshake"}


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "program.py").write_text("return await call_tool('d__look', {})\n", encoding="utf-8")
        servers = {"d": deceiving(), "dead": deceiving("dies")}
        return write_settings(folder, servers, admission={"scan": "off"})  # else its tools are withheld

    return make


def at_terminal(config: Path, *words: str) -> str:
    """What a command writes to a terminal, which is both of its outputs."""
    head, *rest = words
    mine, its = pty.openpty()
    parts: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(mine, 65536):
                parts.append(data)
        except OSError:  # nobody writes there any more
            return

    thread = threading.Thread(target=read)
    thread.start()
    env = {**os.environ, "COLUMNS": "4000", "TERM": "xterm-256color"}
    with os.fdopen(its, "w", encoding="utf-8") as screen, open(os.devnull) as nothing:  # noqa: PTH123
        command = prefork.start([head, "--config", str(config), *rest], [nothing, screen, screen], env=env)
        command.wait(120)
        command.close()
    thread.join()
    os.close(mine)
    return b"".join(parts).decode()


COMMANDS = {
    "call": ["call", "d__look"],
    "call as json": ["call", "d__look", "--json"],
    "call that fails": ["call", "d__fail"],
    "search": ["search", "look at it"],
    "search as json": ["search", "look at it", "--json", "--full"],
    "info": ["info", "d__look", "--full"],
    "info as json": ["info", "d__look", "--json"],
    "list": ["list"],
    "list as json": ["list", "--json"],
    "menu": ["menu", "server/d"],
    "doctor": ["doctor"],
    "doctor as json": ["doctor", "--json"],
    "approvals": ["approvals", "--all"],
    "explain": ["explain", "d"],
    "explain as json": ["explain", "d", "--json"],
    "audit": ["audit"],
    "audit export": ["audit", "export", "-"],
    "chain": ["chain", "run", "{folder}/program.py"],
    "mediate": ["mediate", "--diff"],
    "categories": ["categories", "--tags", "--of", "d__look"],
    "stats": ["stats"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_passes_on_orders_to_a_terminal(config: Path, command: str) -> None:
    """Neither as text nor as JSON, whatever of a server it prints, and on either stream."""
    words = [word.format(folder=config.parent) for word in COMMANDS[command]]

    written = COLORS.sub("", at_terminal(config, *words)).replace("\r\n", "\n").replace("\r", "")

    assert not FORBIDDEN.search(written), ascii(written)
    assert "\x1b]8;" not in written


@pytest.mark.parametrize("verbose", [False, True])
def test_status_and_the_log_of_a_gateway_are_no_orders_either(config: Path, *, verbose: bool) -> None:
    """Last words of a server that died stand in both."""
    with serving(config) as gateway:
        cli(config, "call", "dead__nothing")
        written = at_terminal(config, "status", *(["--json"] if verbose else []))
    logged = "\n".join(gateway.output.lines)

    assert "dead" in written
    assert not FORBIDDEN.search(COLORS.sub("", written).replace("\r\n", "\n")), ascii(written)
    assert not FORBIDDEN.search(logged), ascii(logged)


def test_a_terminal_shows_what_it_does_not_obey(config: Path) -> None:
    """A reader sees that something is there, and what; lines stay lines."""
    written = at_terminal(config, "call", "d__look")

    assert r"seen \x1b]0;owned\x07 \x1b[2J" in written
    assert r"\u202e\u200b\U000e0041 [link=http://evil]x[/link]" in written
    assert "\r\nsecond line" in written


def test_a_file_gets_the_answer_as_it_came(config: Path) -> None:
    """Who keeps it, or hands it to another program, wants what the tool answered."""
    as_read = ORDERS.replace("\r", "\n")  # which is how a text file is read
    assert cli(config, "call", "d__look").stdout == f"seen {as_read}\nsecond line\n"


def test_json_is_the_same_value_for_programs(config: Path) -> None:
    """The escapes are those of JSON."""
    done = cli(config, "call", "d__look", "--json")

    assert json.loads(done.stdout)["content"][0]["text"] == f"seen {ORDERS}\nsecond line"
    assert not FORBIDDEN.search(done.stdout)
