"""`maitred add` and `add-json`: what is written, and what a first try says."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.harness import faulty
from tests.surfaces.cli.rig import Run, runner, write

from maitred.config.load import load


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(tmp_path, {"maitred.yaml": "servers: {}\n"})
    return runner(tmp_path, monkeypatch, capsys)


def server(folder: Path, name: str) -> Any:
    return load(folder / "maitred.yaml").servers[name]


def test_a_server_that_works_says_what_it_has(run: Run) -> None:
    """At once, in one command. Source: issue 22."""
    entry = faulty("count")

    said = run("add", "counter", "--", entry["command"], *entry["args"]).fine

    assert "Added 'counter' to" in said
    assert "It works: 3 tools, " in said


def test_a_server_that_does_not_work_stays_and_says_why(run: Run, tmp_path: Path) -> None:
    """Exit code 1, its last words, advice, and how to take it out. Source: issue 22."""
    entry = faulty("exit-at-start")

    done = run("add", "quitter", "--", entry["command"], *entry["args"])

    assert done.code == 1
    assert "It does not work yet: " in done.err
    assert "    | RuntimeError: API_KEY is not set" in done.err
    assert "advice: " in done.err
    assert "`maitred doctor quitter` tries it again, `maitred remove quitter` takes it out." in done.err
    assert server(tmp_path, "quitter").command == entry["command"]


def test_hints_are_commands_that_a_shell_takes(run: Run) -> None:
    """Whatever the name; a server that said nothing is not said to have an output."""
    done = run("add", "my clock", "--", sys.executable, "-c", "raise SystemExit(3)")

    assert "`maitred doctor 'my clock'` tries it again, `maitred remove 'my clock'` takes it out." in done.err
    assert "advice: it wrote nothing; " in done.err
    assert "`maitred doctor 'b c'` tries it." in run("add", "b c", "--no-try", "--", "x").fine


def test_a_fault_of_the_command_line_is_not_one_of_the_file(run: Run, tmp_path: Path) -> None:
    """Nothing was written, so no line of the file can have it."""
    said = run("add", "bad", "--url", "ftp://example.com").refused

    assert "the server 'bad': 1 fault" in said
    assert "line" not in said
    assert (tmp_path / "maitred.yaml").read_text() == "servers: {}\n"


def test_another_server_of_a_name_has_no_tools_of_the_one_before(run: Run) -> None:
    """Though it never answered. One that only changed its definition keeps them, and that is said."""
    entry = faulty("count")
    run("add", "a", "--", entry["command"], *entry["args"]).fine  # noqa: B018  # it fails if the command does
    assert run("add", "a", "--replace", "--", "no-such-program").code == 1
    changed = run("list").fine
    run("remove", "a").fine  # noqa: B018
    assert run("add", "a", "--", "no-such-program").code == 1

    assert "1 server, 3 tools" in changed
    assert "its tools are those from before its definition changed" in changed
    assert "1 server, 0 tools" in run("list").fine


def test_programs_get_what_came_of_the_try(run: Run) -> None:
    """As JSON, with the same exit codes."""
    done = run("add", "gone", "--json", "--", "no-such-program-of-maitred")

    found = json.loads(done.out)
    assert done.code == 1
    assert (found["name"], found["trial"]["ok"]) == ("gone", False)
    assert "is not on PATH" in found["trial"]["error"]


@pytest.mark.parametrize(
    ("url", "transport"),
    [
        ("https://a.example/sse", "sse"),
        ("https://a.example/sse/", "sse"),
        ("https://a.example/sse?team=1", "sse"),
        ("https://a.example/sse/mcp", "http"),
        ("https://a.example/mcp", "http"),
    ],
)
def test_an_address_that_ends_in_sse_is_one_of_the_older_transport(
    run: Run, tmp_path: Path, url: str, transport: str
) -> None:
    """As pages of servers write it. Source: issue 22."""
    run("add", "a", "--no-try", "--url", url).fine  # noqa: B018  # it fails if the command does

    assert server(tmp_path, "a").transport == transport


def test_a_command_line_in_one_word_is_refused(run: Run) -> None:
    """It could never work."""
    assert "`maitred add x -- npx -y foo`" in run("add", "x", "npx -y foo").refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"command": "p", "args": ["-a"], "env": {"A": 1, "B": true}}',
            {"args": ["-a"], "env": {"A": "1", "B": "true"}},
        ),
        ('{"mcpServers": {"other": {"type": "stdio", "command": "p"}}}', {}),
        ('{"servers": {"a": {"command": "p"}, "b": {"command": "q"}}}', {}),
        ('{"a": {"command": "p",}} // a comment', {}),
        ('{"command": ["p", "-a"]}', {"args": ["-a"]}),
        ('{"command": "p", "env": {"KEY": "${input:api-key}"}}', {"env": {"KEY": "${API_KEY}"}}),
        ('{"command": "p", "alwaysAllow": ["x"], "disabled": true}', {"enabled": False}),
    ],
)
def test_json_of_a_program_is_taken_as_pages_print_it(
    run: Run, tmp_path: Path, text: str, expected: dict[str, Any]
) -> None:
    """With the name of the client's key around it or not. Source: issue 22."""
    run("add-json", "a", text, "--no-try").fine  # noqa: B018  # it fails if the command does

    spec = server(tmp_path, "a")
    found = {"args": list(spec.args), "env": dict(spec.env), "enabled": spec.enabled}
    assert spec.command == "p"
    assert found == {"args": [], "env": {}, "enabled": True} | expected


@pytest.mark.parametrize(
    ("text", "transport"),
    [
        ('{"url": "https://a.example/mcp"}', "http"),
        ('{"type": "http", "url": "https://a.example/mcp"}', "http"),
        ('{"type": "streamable-http", "url": "https://a.example/mcp"}', "http"),
        ('{"type": "streamableHttp", "url": "https://a.example/mcp"}', "http"),
        ('{"type": "sse", "url": "https://a.example/x"}', "sse"),
        ('{"serverUrl": "https://a.example/sse", "headers": {"A": "b"}}', "sse"),
    ],
)
def test_json_of_an_address_has_the_transport_that_clients_mean(
    run: Run, tmp_path: Path, text: str, transport: str
) -> None:
    """By their names for it, or by the address."""
    run("add-json", "a", text, "--no-try").fine  # noqa: B018  # it fails if the command does

    assert server(tmp_path, "a").transport == transport


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"comand": "p"}', "comand: is not a known key; did you mean `command`?"),
        ('{"command": "p", "timeout": 5}', "timeout: clients mean different things by it"),
        ('{"type": "htp", "url": "https://a.example"}', "'htp' is not a transport"),
        ('{"mcpServers": {"b": {"command": "p"}, "c": {"command": "q"}}}', "has the servers 'b', 'c'"),
        ('{"mcpServers": {}}', "has no server"),
        ("{", "it is not valid json"),
        ('{"command": ["p"], "args": "--flag"}', "args"),
        ('{"url": "https://a.example", "httpUrl": "https://b.example"}', "has two keys that mean `url`"),
        ("[1]", "must be an object"),
        ('{"command": "maitred", "args": ["serve"]}', "this is maitred itself"),
    ],
)
def test_json_that_cannot_be_used_is_refused_and_nothing_is_written(
    run: Run, tmp_path: Path, text: str, says: str
) -> None:
    """With the reason. Source: issue 22."""
    assert says in run("add-json", "a", text).refused
    assert load(tmp_path / "maitred.yaml").servers == {}


def test_json_is_read_from_standard_input_too_and_tried(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's text need not be quoted for the shell."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(faulty("count"))))

    assert "It works: 3 tools, " in run("add-json", "counter", "-").fine
