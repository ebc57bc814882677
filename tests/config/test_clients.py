"""`maitred.config.clients`: where servers are found, and how those of several clients are put together."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.config.homes import TIME, Look, only, put

from maitred.config.clients.discovery import ClientServer, discover, is_maitred
from maitred.config.clients.table import CLIENT_IDS
from maitred.config.edit import add_servers
from maitred.config.interpolate import resolve
from maitred.config.load import load
from maitred.errors import ConfigError


@pytest.mark.parametrize(
    ("client", "platform", "environ", "place"),
    [
        ("claude-desktop", "darwin", {}, "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {}, "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {"APPDATA": "{home}/Roam"}, "Roam/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            "win32",
            {},
            "AppData/Local/Packages/Claude_pzs8/LocalCache/Roaming/Claude/claude_desktop_config.json",
        ),
        ("claude-desktop", "linux", {}, ".config/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", {"XDG_CONFIG_HOME": "{home}/c"}, "c/Claude/claude_desktop_config.json"),
        ("claude-code", "linux", {}, ".claude.json"),
        ("claude-code", "linux", {"CLAUDE_CONFIG_DIR": "{home}/cc"}, "cc/.claude.json"),
        ("cursor", "darwin", {}, ".cursor/mcp.json"),
        ("gemini", "linux", {}, ".gemini/settings.json"),
        ("gemini", "linux", {"GEMINI_CLI_HOME": "{home}/g"}, "g/.gemini/settings.json"),
        ("windsurf", "linux", {}, ".codeium/windsurf/mcp_config.json"),
        ("windsurf", "linux", {}, ".codeium/mcp_config.json"),
    ],
)
def test_the_servers_of_a_client_are_found_where_it_keeps_them(
    home: Path, look: Look, client: str, platform: str, environ: dict[str, str], place: str
) -> None:
    path = put(home / place, {"mcpServers": {"time": TIME}, "theme": "dark"})
    environ = {key: value.format(home=home) for key, value in environ.items()}
    assert only(look(platform, environ)) == ClientServer(client=client, path=path, name="time", entry=TIME)


@pytest.mark.parametrize(
    "server",
    [
        {"command": "maitred", "args": ["serve"]},
        {"command": "/home/me/.venv/bin/maitred", "args": []},
        {"command": "C:\\tools\\maitred.exe"},
        {"command": "python3", "args": ["-m", "maitred", "serve"]},
        {"command": "uvx", "args": ["maitred@latest", "serve"]},
        {"command": "uv", "args": ["run", "--with", "maitred[demo]", "maitred", "serve"]},
        {"command": "cmd", "args": ["/c", "maitred", "serve"]},
        {"url": "http://127.0.0.1:8420/mcp"},
    ],
)
def test_maitred_itself_is_left_out(home: Path, look: Look, server: Any) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"gate": server, "time": TIME}})
    discovery = look()
    assert [one.name for one in discovery.found] == ["time"]
    assert [(problem.name, problem.reason) for problem in discovery.problems] == [
        ("gate", "this is maitred itself")
    ]


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "args": ["maitred"]},
        {"command": "uv", "args": ["--directory", "/src/maitred", "run", "x"]},
    ],
)
def test_a_server_that_only_mentions_maitred_is_kept(home: Path, look: Look, server: Any) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"other": server}})
    assert only(look()).entry == server


def test_the_same_server_in_several_clients_is_found_once(home: Path, cwd: Path, look: Look) -> None:
    put(home / ".config/Claude/claude_desktop_config.json", {"mcpServers": {"time": TIME}})
    put(home / ".cursor/mcp.json", {"mcpServers": {"time": {**TIME, "type": "stdio", "disabled": True}}})
    put(cwd / ".mcp.json", {"mcpServers": {"time": TIME}})
    found = only(look())
    assert found.clients == ("claude-desktop", "claude-code", "cursor")
    assert (found.entry, found.is_shared) == (TIME, False)


def test_different_servers_of_one_name_are_told_apart_by_client_then_by_number(
    home: Path, look: Look
) -> None:
    def git(folder: str) -> dict[str, Any]:
        return {"command": "git-server", "args": [folder]}

    put(home / ".config/Claude/claude_desktop_config.json", {"mcpServers": {"git": git("a")}})
    projects = {f"/p/{folder}": {"mcpServers": {"git": git(folder)}} for folder in "bcda"}
    put(home / ".claude.json", {"projects": projects})
    put(home / ".cursor/mcp.json", {"mcpServers": {"git-claude-code": TIME, "git": git("e")}})
    found = {one.name: one.entry["args"][0] for one in look().found}
    assert found.pop("git-claude-code") == "mcp-server-time"
    assert found == {"git": "a", "git-2": "b", "git-3": "c", "git-4": "d", "git-cursor": "e"}
    assert look() == look()


def test_only_the_clients_that_are_asked_for_are_looked_at(home: Path, look: Look) -> None:
    put(home / ".claude.json", {"mcpServers": {"time": {"command": "other"}}})
    put(home / ".cursor/mcp.json", {"mcpServers": {"time": TIME}})
    discovery = look(clients=["cursor"])
    assert (only(discovery).name, only(discovery).entry) == ("time", TIME)
    assert all(".cursor" in str(path) for path in discovery.looked_at)
    with pytest.raises(ConfigError, match="'curser' is not a known client; did you mean 'cursor'"):
        look(clients=["curser"])


def test_every_client_is_looked_at_and_a_missing_file_is_no_problem(look: Look) -> None:
    discovery = look()
    assert (discovery.found, discovery.problems) == ((), ())
    assert len(discovery.looked_at) == len(set(discovery.looked_at))
    assert {client for client in CLIENT_IDS if look(clients=[client]).looked_at} == set(CLIENT_IDS)


def test_the_home_folder_as_working_directory_is_looked_at_once(home: Path) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"time": TIME}})
    found = only(discover(home=home, cwd=home, environ={}, platform="linux"))
    assert (found.name, found.is_shared) == ("time", False)


def test_files_that_cannot_be_read_are_problems_and_the_others_are_still_found(
    home: Path, look: Look
) -> None:
    put(home / ".cursor/mcp.json", '{\n "mcpServers": {"a" 1}\n}')
    put(home / ".codex/config.toml", "[mcp_servers\n")
    put(home / ".gemini/settings.json", {"mcpServers": ["a"]})
    put(home / ".config/zed/settings.json", "[1]")
    put(home / ".codeium/mcp_config.json", '{"a":' * 5000)
    (home / ".codeium/windsurf/mcp_config.json").mkdir(parents=True)
    (home / ".claude.json").write_bytes(b'{"mcpServers": {"\xff": 1}}')
    put(home / ".config/Code/User/mcp.json", "")
    put(
        home / ".config/Claude/claude_desktop_config.json",
        "\ufeff" + json.dumps({"mcpServers": {"time": TIME}}),
    )
    discovery = look()
    assert [one.name for one in discovery.found] == ["time"]
    reasons = {problem.client: problem.reason for problem in discovery.problems}
    assert "line 2" in reasons["cursor"]
    assert "toml" in reasons["codex"]
    assert reasons["gemini"] == "`mcpServers` must be an object"
    assert reasons["zed"] == "its top level must be an object"
    assert len(discovery.problems) == 7


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ({"args": ["x"]}, "has neither a command nor a URL"),
        ({"command": "x", "args": "-y x"}, "`args` must be a list"),
        ({"command": ["x"], "args": "-y x"}, "`args` must be a list"),
        ({"command": "x", "args": [["y"]]}, "a value that must be text is not text"),
        ({"command": "x", "env": {"A=B": "c"}}, "env.A=B: is not a name"),
        ({"type": "ws", "url": "https://example.com"}, "'ws' is not a transport"),
        ({"url": "unix:///tmp/s"}, "must start with http"),
        ({"command": "x", "args": ["\0"]}, "holds NUL"),
        ({"command": "x", "args": ["\ud83d"]}, "half of a surrogate pair"),
        ("npx", "the server must be an object"),
    ],
)
def test_a_server_that_cannot_be_used_is_left_out(home: Path, look: Look, server: Any, reason: str) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"bad": server, "time": TIME}})
    discovery = look()
    assert [one.name for one in discovery.found] == ["time"]
    assert (discovery.problems[0].name, reason in discovery.problems[0].reason) == ("bad", True)


KEYS = [
    "command",
    "args",
    "env",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "type",
    "cwd",
    "enabled",
    "disabled",
]
TEXTS = [
    "env_vars",
    "http_headers",
    "stdio",
    "sse",
    "http",
    "${input:a}",
    "$X",
    "$${Y}",
    "https://e.com/sse",
    "./x",
]
WORDS = st.sampled_from(
    "command args env url httpUrl serverUrl headers type cwd enabled disabled env_vars http_headers stdio sse"  # noqa: SIM905
    " http ${input:a} $X $${Y} https://example.com/sse ./x".split()
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=10,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(servers=st.dictionaries(st.text(max_size=4), st.dictionaries(WORDS, VALUES) | VALUES, max_size=3))
def test_whatever_stands_in_a_file_all_that_is_found_can_be_added(
    home: Path, look: Look, servers: Any
) -> None:
    put(home / ".claude.json", {"mcpServers": servers})
    put(home / ".gemini/settings.json", {"mcpServers": servers})
    put(home / ".config/zed/settings.json", {"context_servers": servers})
    found = look().found
    target = home / "maitred.yaml"
    target.unlink(missing_ok=True)
    add_servers(target, {one.name: one.entry for one in found})
    assert set(load(target).servers) == {one.name for one in found}


@pytest.mark.parametrize(
    ("kind", "transport"), [({}, "sse"), ({"type": "http"}, None), ({"type": "remote"}, "sse")]
)
def test_a_transport_that_is_written_is_not_guessed_by_the_address(
    home: Path, look: Look, kind: dict[str, str], transport: str | None
) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"far": {**kind, "url": "https://example.com/sse"}}})
    assert only(look()).entry.get("transport") == transport


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("packages/${env:PKG}", "packages/blue"),
        ("./packages", "packages"),
        ("${workspaceFolder}/a", "a"),
    ],
)
def test_a_folder_of_a_project_is_found_also_by_a_reference(
    home: Path, tmp_path: Path, cwd: str, folder: str
) -> None:
    project = tmp_path / "my ${x} project"
    put(project / ".cursor/mcp.json", {"mcpServers": {"own": {"command": "./run", "cwd": cwd}}})
    found = only(discover(home=home, cwd=project, environ={"PKG": "blue"}, platform="linux"))
    assert Path(resolve(found.entry["cwd"], {"PKG": "blue"})) == project / folder


def test_looking_changes_nothing(home: Path, cwd: Path, look: Look) -> None:
    put(home / ".claude.json", {"mcpServers": {"time": TIME}})
    put(cwd / ".mcp.json", "{")

    def state() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for root in (home, cwd) for path in root.rglob("*")}

    before = state()
    look()
    assert state() == before


@pytest.mark.parametrize(
    ("name", "entry", "is_ours"),
    [
        ("maitred", {"url": "http://127.0.0.1:9000/mcp"}, True),
        ("team", {"url": "http://localhost:8420/mcp"}, True),
        ("mine", {"url": "http://localhost:8420/sse"}, False),
        ("mine", {"url": "http://localhost:8420/"}, False),
        ("maitred", {"url": "https://tools.example.com/mcp"}, False),
        ("gate", {"command": "/opt/maitred", "args": ["serve", "--profile", "work"]}, True),
        ("gate", {"command": "C:\\bin\\maitred.exe"}, True),
        ("chrome", {"command": "maitred", "args": ["browser", "serve"]}, False),
        ("gate", {"command": "python", "args": ["-I", "-m", "maitred", "serve"]}, True),
        ("chrome", {"command": "python", "args": ["-m", "maitred", "browser", "serve"]}, False),
        (
            "gate",
            {"command": "uv", "args": ["tool", "run", "--from", "/w/maitred-1.whl", "maitred", "serve"]},
            True,
        ),
        ("gate", {"command": "uvx", "args": ["maitred@0.1.0", "serve"]}, True),
        ("gate", {"command": "sh", "args": ["-c", "exec maitred serve"]}, True),
        ("chrome", {"command": "uvx", "args": ["maitred", "browser", "serve"]}, False),
        ("other", {"command": "uv", "args": ["run", "--with", "maitred", "other"]}, False),
        ("x", {"command": "podman", "args": ["run", "-i", "--rm", "localhost/maitred:3", "serve"]}, True),
        (
            "x",
            {"command": "docker", "args": ["run", "-i", "registry.example.com/team/maitred@sha256:ab"]},
            True,
        ),
        ("x", {"command": "docker", "args": ["run", "-i", "maitred", "browser", "serve"]}, False),
        ("x", {"command": "docker", "args": ["run", "-i", "--name", "maitred", "mcp/time", "--utc"]}, False),
        ("x", {"command": "docker", "args": ["run", "-v", "/srv/maitred:/data", "mcp/files"]}, False),
    ],
)
def test_this_gateway_is_known_at_another_port_and_in_a_container(
    name: str, entry: Any, is_ours: bool
) -> None:
    """And neither is a server that only is beside it, nor its own browser server (docs/browser.md)."""
    assert is_maitred(entry, name) is is_ours
