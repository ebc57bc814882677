"""What the formats of nine more clients become in `maitred.yaml`. Source: docs/import.md."""

from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import TIME, Look, only, put

GOOSE = """\
extensions:
  developer: {type: builtin, enabled: true}
  time:
    type: stdio
    name: time
    description: The clock
    cmd: uvx
    args: [mcp-server-time]
    envs: {}
    env_keys: []
    timeout: 120
    enabled: true
  far: {type: streamable_http, uri: "https://example.com/mcp", headers: {K: "$V"}, enabled: false}
"""
CONTINUE = """\
name: mine
version: 1.0.0
schema: v1
mcpServers:
  - name: time
    command: uvx
    args: [mcp-server-time]
    env: {KEY: "${{ secrets.API_KEY }}", COST: "$5"}
    connectionTimeout: 20000
  - name: far
    type: streamable-http
    url: https://example.com/mcp
    requestOptions: {headers: {X: "y"}}
    apiKey: ${{ secrets.FAR }}
"""
PLACES = [
    ("cline", "linux", ".cline/data/settings/cline_mcp_settings.json", "mcpServers"),
    (
        "cline",
        "darwin",
        "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings"
        "/cline_mcp_settings.json",
        "mcpServers",
    ),
    (
        "roo",
        "win32",
        "AppData/Roaming/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        "mcpServers",
    ),
    ("opencode", "linux", ".config/opencode/opencode.json", "mcp"),
    ("opencode", "darwin", ".config/opencode/opencode.jsonc", "mcp"),
    ("copilot", "linux", ".copilot/mcp-config.json", "mcpServers"),
    ("kiro", "win32", ".kiro/settings/mcp.json", "mcpServers"),
    ("lmstudio", "linux", ".lmstudio/mcp.json", "mcpServers"),
    ("lmstudio", "linux", ".cache/lm-studio/mcp.json", "mcpServers"),
    ("amazon-q", "darwin", ".aws/amazonq/mcp.json", "mcpServers"),
    ("continue", "linux", ".continue/mcpServers/one.json", "mcpServers"),
]


@pytest.mark.parametrize(("client", "platform", "place", "key"), PLACES)
def test_the_servers_are_found_where_the_client_keeps_them(
    home: Path, look: Look, client: str, platform: str, place: str, key: str
) -> None:
    put(home / place, {key: {"time": TIME}})
    found = only(look(platform))
    assert (found.client, found.entry) == (client, TIME)


@pytest.mark.parametrize(
    ("place", "key"),
    [
        (".roo/mcp.json", "mcpServers"),
        ("opencode.json", "mcp"),
        (".github/mcp.json", "mcpServers"),
        (".kiro/settings/mcp.json", "mcpServers"),
        (".amazonq/mcp.json", "mcpServers"),
    ],
)
def test_the_files_of_a_project_are_shared(cwd: Path, look: Look, place: str, key: str) -> None:
    put(cwd / place, {key: {"time": TIME}})
    assert only(look()).is_shared


@pytest.mark.parametrize(
    "place", [".config/goose/config.yaml", "AppData/Roaming/Block/goose/config/config.yaml"]
)
def test_goose_has_its_own_words_and_what_is_built_in_is_left_out(home: Path, look: Look, place: str) -> None:
    put(home / place, GOOSE)
    discovery = look("win32" if "AppData" in place else "linux")
    clock, far = discovery.found
    assert clock.entry == {**TIME, "call_timeout_s": 120}
    assert clock.notes == ()
    assert far.entry == {"url": "https://example.com/mcp", "headers": {"K": "$V"}, "enabled": False}
    assert [problem.name for problem in discovery.problems] == ["developer"]


def test_continue_has_a_list_and_keeps_secrets_for_its_user(home: Path, look: Look) -> None:
    put(home / ".continue/config.yaml", CONTINUE)
    clock, far = look().found
    env = {"KEY": "${API_KEY}", "COST": "$5"}
    assert clock.entry == {**TIME, "env": env, "start_timeout_s": 20}
    assert "asks for 'API_KEY' in continue; set the variable API_KEY instead" in clock.notes
    assert far.entry == {
        "url": "https://example.com/mcp",
        "headers": {"X": "y", "Authorization": "Bearer ${FAR}"},
    }


def test_opencode_writes_a_command_as_one_list_and_variables_in_single_braces(home: Path, look: Look) -> None:
    server = {
        "type": "local",
        "command": ["run", "{env:A}", "${B}"],
        "environment": {"K": "{file:~/k}"},
        "enabled": False,
        "timeout": 5000,
    }
    far = {
        "type": "remote",
        "url": "https://example.com/mcp",
        "headers": {"K": "Bearer {env:A}"},
        "oauth": False,
    }
    put(home / ".config/opencode/opencode.jsonc", {"mcp": {"x": server, "far": far}})
    found, other = look(environ={"A": "a"}).found
    assert found.entry == {
        "command": "run",
        "args": ["${A:-}", "$${B}"],
        "env": {"K": "${file:~/k}"},
        "list_timeout_s": 5,
        "enabled": False,
    }
    assert other.entry == {"url": "https://example.com/mcp", "headers": {"K": "Bearer ${A:-}"}}


def test_cline_means_sse_where_no_type_is_given(home: Path, look: Look) -> None:
    servers = {
        "old": {"url": "https://example.com/events", "autoApprove": ["a"], "timeout": 60},
        "new": {"type": "streamableHttp", "url": "https://example.com/mcp"},
        "nested": {"transport": {"type": "stdio", "command": "run", "args": ["${env:A}"]}},
    }
    put(home / ".cline/data/settings/cline_mcp_settings.json", {"mcpServers": servers})
    found = {one.name: one.entry for one in look(environ={"A": "a"}).found}
    assert found == {
        "old": {"url": "https://example.com/events", "transport": "sse", "call_timeout_s": 60},
        "new": {"url": "https://example.com/mcp"},
        "nested": {"command": "run", "args": ["${env:A:-}"]},
    }


@pytest.mark.parametrize(
    ("place", "key"),
    [
        (".codeium/windsurf/mcp_config.json", "disabledTools"),
        (".kiro/settings/mcp.json", "disabledTools"),
        (".gemini/settings.json", "excludeTools"),
    ],
)
def test_tools_that_a_client_hides_are_known(home: Path, look: Look, place: str, key: str) -> None:
    put(home / place, {"mcpServers": {"x": {"command": "x", key: ["b", "a"]}}})
    assert only(look()).hidden_tools == ("b", "a")


def test_of_two_clients_a_tool_is_hidden_if_both_hide_it(home: Path, look: Look) -> None:
    for place, names in (
        (".kiro/settings/mcp.json", ["a", "b"]),
        (".codeium/windsurf/mcp_config.json", ["b"]),
    ):
        put(home / place, {"mcpServers": {"x": {"command": "x", "disabledTools": names}}})
    found = only(look())
    assert found.hidden_tools == ("b",)
    assert list(found.notes) == [
        "switched off in windsurf, kiro, and so here: b",
        "switched off in kiro, not in the others, and so on here: a",
    ]


def test_a_server_that_one_client_has_on_is_on_and_the_remark_says_so(home: Path, look: Look) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"x": {"command": "x"}}})
    for place in (".kiro/settings/mcp.json", ".codeium/windsurf/mcp_config.json"):
        put(home / place, {"mcpServers": {"x": {"command": "x", "disabled": True}}})
    found = only(look())
    assert found.entry == {"command": "x"}
    assert list(found.notes) == ["switched off in windsurf, kiro, not in the others, and so on here"]


@pytest.mark.parametrize("tools", [["*"], ["read", "write"]])
def test_the_only_tools_that_a_client_uses_are_named_in_a_remark(home: Path, look: Look, tools: Any) -> None:
    put(
        home / ".copilot/mcp-config.json",
        {"mcpServers": {"x": {"type": "local", "command": "x", "tools": tools}}},
    )
    found = only(look())
    assert found.entry == {"command": "x"}
    assert [("uses only read, write" in note) for note in found.notes] == ([] if tools == ["*"] else [True])


def test_a_key_that_is_no_text_hides_no_server(home: Path, look: Look) -> None:
    """YAML allows numbers as keys; maitred takes them as text, or says which server it leaves out."""
    text = GOOSE.replace("    envs: {}", "    1: x\n    envs: {2: y}")
    put(home / ".config/goose/config.yaml", text)
    put(home / ".cursor/mcp.json", {"mcpServers": {"other": TIME}})
    found = {one.name: one for one in look().found}
    assert found.keys() >= {"time", "far"}
    assert found["time"].entry["env"] == {"2": "y"}
    assert "not taken over: `1`" in " ".join(found["time"].notes)
