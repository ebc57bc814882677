"""What a client puts in the place of a variable that is not set: a server starts here as it does there."""

from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import Look, only, put

from maitred.config.interpolate import resolve

KEY = {"KEY": "k"}
EDITORS = {
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
}


def argument(home: Path, look: Look, place: str, key: str, text: str) -> tuple[str, tuple[str, ...]]:
    """What becomes of an argument of a server, and the notes on it."""
    entry: dict[str, Any] = {"command": "x", "args": [text]}
    put(home / place, {key: {"s": entry}})
    found = only(look())
    return found.entry["args"][0], found.notes


@pytest.mark.parametrize("client", EDITORS)
@pytest.mark.parametrize("text", ["${env:KEY}", "a=${env:KEY};"])
def test_an_editor_puts_nothing_in_its_place(home: Path, look: Look, client: str, text: str) -> None:
    """As Cursor, VS Code and Windsurf do. Source: docs/import.md, variables that are not set."""
    taken, notes = argument(home, look, *EDITORS[client], text)

    assert resolve(taken, KEY) == text.replace("${env:KEY}", "k")
    assert resolve(taken, {}) == text.replace("${env:KEY}", "")
    assert f"KEY is not set now; {client} puts nothing in its place, and so does maitred" in notes


@pytest.mark.parametrize("client", EDITORS)
def test_what_an_editor_does_not_know_it_passes_on(home: Path, look: Look, client: str) -> None:
    """Without `env:` it is text; a variable of that name is taken all the same where there is one."""
    taken, _ = argument(home, look, *EDITORS[client], "${KEY}")

    assert (resolve(taken, KEY), resolve(taken, {})) == ("k", "${KEY}")


@pytest.mark.parametrize("text", ["${KEY}", "Bearer ${KEY}"])
def test_claude_code_passes_on_what_is_not_set(home: Path, look: Look, text: str) -> None:
    """It warns, and so does a note."""
    taken, notes = argument(home, look, ".claude.json", "mcpServers", text)

    assert resolve(taken, KEY) == text.replace("${KEY}", "k")
    assert resolve(taken, {}) == text
    assert "KEY is not set now; claude-code passes on ${KEY} unchanged, and so does maitred" in notes


@pytest.mark.parametrize("text", ["${KEY}", "$KEY"])
def test_gemini_puts_nothing_in_its_place(home: Path, look: Look, text: str) -> None:
    """With braces or without."""
    taken, _ = argument(home, look, ".gemini/settings.json", "mcpServers", text)

    assert (resolve(taken, KEY), resolve(taken, {})) == ("k", "")


def test_a_default_of_the_client_stays(home: Path, look: Look) -> None:
    """There is nothing to say of it."""
    taken, notes = argument(home, look, ".claude.json", "mcpServers", "${KEY:-d}")

    assert (resolve(taken, KEY), resolve(taken, {}), notes) == ("k", "d", ())


def test_a_variable_that_is_set_needs_no_note(home: Path, look: Look) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"s": {"command": "x", "args": ["${env:KEY}"]}}})

    assert only(look(environ=KEY)).notes == ()


def test_what_vs_code_asks_for_has_no_default(home: Path, look: Look) -> None:
    """Nobody asks here, so it has to be set."""
    taken, _ = argument(home, look, *EDITORS["vscode"], "${input:key}")

    assert taken == "${KEY}"


@pytest.mark.parametrize(
    ("place", "content", "limits"),
    [
        (
            ".codex/config.toml",
            '[mcp_servers.s]\ncommand = "x"\nstartup_timeout_sec = 20\ntool_timeout_sec = 90.5\n',
            {"start_timeout_s": 20, "call_timeout_s": 90.5},
        ),
        (
            ".codex/config.toml",
            '[mcp_servers.s]\nurl = "https://example.com/mcp"\nstartup_timeout_ms = 1500\n',
            {"start_timeout_s": 1.5},
        ),
        (
            ".gemini/settings.json",
            {"mcpServers": {"s": {"command": "x", "timeout": 5000}}},
            {"call_timeout_s": 5},
        ),
        (".claude.json", {"mcpServers": {"s": {"command": "x", "timeout": 2500}}}, {"call_timeout_s": 2.5}),
        (
            ".config/zed/settings.json",
            {"context_servers": {"s": {"command": "x", "timeout": 45}}},
            {"call_timeout_s": 45},
        ),
    ],
    ids=["codex", "codex-ms", "gemini", "claude-code", "zed"],
)
def test_limits_of_time_are_taken_over(
    home: Path, look: Look, place: str, content: Any, limits: dict[str, float]
) -> None:
    """A slow server is given as long as before."""
    put(home / place, content)

    found = only(look())

    assert {key: value for key, value in found.entry.items() if key.endswith("_s")} == limits
    assert found.notes == ()


@pytest.mark.parametrize("limit", [0, -1, "soon", True, 1e400, 10**400, 999])
def test_a_limit_that_the_client_would_not_take_is_named(home: Path, look: Look, limit: Any) -> None:
    """Claude Code ignores what is less than a second."""
    put(home / ".claude.json", {"mcpServers": {"s": {"command": "x", "timeout": limit}}})

    found = only(look())

    assert "call_timeout_s" not in found.entry
    assert found.notes == ("not taken over: `timeout`",)
