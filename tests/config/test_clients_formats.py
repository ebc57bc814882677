"""`maitred.config.clients`: what the format of each client becomes in `maitred.yaml`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import TIME, Look, only, put

from maitred.config.interpolate import resolve


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("darwin", "Library/Application Support/Code/User/mcp.json"),
        ("darwin", "Library/Application Support/Code - Insiders/User/mcp.json"),
        ("win32", "AppData/Roaming/Code/User/mcp.json"),
        ("linux", ".config/Code/User/mcp.json"),
        ("linux", ".config/Code/User/profiles/-7a3f/mcp.json"),
    ],
)
def test_the_user_file_of_vs_code_is_found(home: Path, look: Look, platform: str, place: str) -> None:
    put(home / place, {"servers": {"time": {"type": "stdio", **TIME}}})
    assert only(look(platform)).entry == TIME


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("darwin", ".config/zed/settings.json"),
        ("linux", ".config/zed/settings.json"),
        ("win32", "AppData/Roaming/Zed/settings.json"),
    ],
)
@pytest.mark.parametrize(
    "server",
    [
        {"source": "custom", "command": "uvx", "args": ["mcp-server-time"], "env": {}, "enabled": True},
        {"command": {"path": "uvx", "args": ["mcp-server-time"], "env": None}, "settings": {}},
    ],
)
def test_both_forms_of_zed_are_read(home: Path, look: Look, platform: str, place: str, server: Any) -> None:
    put(home / place, "// Zed settings\n" + json.dumps({"context_servers": {"time": server}})[:-1] + ",\n}")
    found = only(look(platform))
    assert (found.client, found.entry, found.notes) == ("zed", TIME, ())


def test_a_server_that_an_extension_of_zed_brings_is_left_out(home: Path, look: Look) -> None:
    put(home / ".config/zed/settings.json", {"context_servers": {"pg": {"settings": {"url": "x"}}}})
    (problem,) = look().problems
    assert (problem.name, "extension" in problem.reason) == ("pg", True)


def test_claude_code_has_servers_of_the_user_and_of_each_project(home: Path, cwd: Path, look: Look) -> None:
    local = {"type": "stdio", "command": "node", "args": ["./server.js"], "env": {}}
    content = {
        "numStartups": 3,
        "mcpServers": {"time": {"type": "stdio", **TIME, "env": {}}},
        "projects": {
            "/projects/app": {"mcpServers": {"app": local, "off": TIME}, "disabledMcpServers": ["off"]},
            "/projects/empty": {"mcpServers": {}, "allowedTools": []},
            "/projects/none": None,
        },
    }
    put(home / ".claude.json", content)
    put(cwd / ".mcp.json", {"mcpServers": {"shared": {"type": "http", "url": "https://example.com/mcp"}}})
    found = {one.name: one for one in look().found}
    assert found["time"].entry == TIME
    assert found["app"].entry == {"command": "node", "args": ["./server.js"], "cwd": "/projects/app"}
    assert found["off"].entry == {**TIME, "enabled": False}
    assert found["shared"].entry == {"url": "https://example.com/mcp"}
    assert [one.is_shared for one in found.values()] == [False, False, False, True]
    assert "others may have written" in found["shared"].notes[0]


def test_claude_code_fills_in_variables_unless_the_server_does_so_itself(cwd: Path, look: Look) -> None:
    server = {
        "command": "${BIN:-npx}",
        "args": ["mcp-remote", "${URL}", "--header", "Authorization:${AUTH}", "cost $$5 $HOME"],
        "env": {"AUTH": "Bearer ${TOKEN}", "HOST": "${HOST}", "ROOT": "${CLAUDE_PROJECT_DIR:-.}/data"},
    }
    put(cwd / ".mcp.json", {"mcpServers": {"remote": server}})
    entry = only(look()).entry
    environ = {"URL": "https://u", "TOKEN": "t", "HOST": "h", "AUTH": "never", "HOME": "/h"}
    assert resolve(entry["command"], environ) == "npx"
    assert [resolve(item, environ) for item in entry["args"]] == [
        "mcp-remote", "https://u", "--header", "Authorization:${AUTH}", "cost $$5 $HOME",
    ]  # fmt: skip
    assert {key: resolve(value, environ) for key, value in entry["env"].items()} == {
        "AUTH": "Bearer t", "HOST": "h", "ROOT": f"{cwd}/data",
    }  # fmt: skip


@pytest.mark.parametrize("place", ["Claude/claude_desktop_config.json", "zed/settings.json"])
def test_clients_that_fill_in_nothing_keep_their_dollar_signs(home: Path, look: Look, place: str) -> None:
    args = ["${A}", "$$", "$B", "a$", "$${C}"]
    key = "context_servers" if "zed" in place else "mcpServers"
    put(home / ".config" / place, {key: {"x": {"command": "x", "args": args, "env": {"P": "pa$$${word}"}}}})
    entry = only(look()).entry
    assert [resolve(item, {"A": "no"}) for item in entry["args"]] == args
    assert resolve(entry["env"]["P"], {}) == "pa$$${word}"


def test_cursor_has_a_user_file_and_a_project_file(home: Path, cwd: Path, look: Look) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"a": {"url": "https://example.com/sse"}}})
    server = {
        "type": "stdio",
        "command": "${workspaceFolder}/run",
        "args": ["${userHome}${pathSeparator}x", "${workspaceFolderBasename}", "${env:KEY}"],
        "envFile": "${workspaceFolder}/.env",
    }
    put(cwd / ".cursor/mcp.json", {"mcpServers": {"b": server}})
    first, second = look().found
    assert first.entry == {"url": "https://example.com/sse", "transport": "sse"}
    assert second.entry == {"command": f"{cwd}/run", "args": [f"{home}/x", "project", "${env:KEY:-}"]}
    assert "not taken over: `envFile`" in second.notes


def test_keys_of_another_transport_keep_no_server_from_being_imported(home: Path, look: Look) -> None:
    """Clients accept such entries, which `maitred.yaml` may not have. Source: docs/import.md."""
    servers = {
        "address": {
            "type": "http", "url": "https://example.com/mcp", "args": ["x"], "env": {"A": "b"}, "timeout": 7,
            "disabled": False,
        },
        "program": {"type": "stdio", "command": "run", "headers": {"A": "b"}, "timeout": 7, "disabled": True},
    }  # fmt: skip
    put(home / ".cursor/mcp.json", {"mcpServers": servers})
    address, program = look().found
    assert address.entry == {"url": "https://example.com/mcp"}
    assert address.notes == ("not taken over: `args`, `env`, `timeout`",)
    assert program.entry == {"command": "run", "enabled": False}
    assert "not taken over: `headers`, `timeout`" in program.notes


def test_what_vs_code_would_ask_becomes_a_variable_with_a_note(home: Path, cwd: Path, look: Look) -> None:
    content = """{
      // asked once
      "inputs": [
        {"type": "promptString", "id": "api-key", "description": "Key", "password": true},
        {"type": "promptString", "id": "2nd.host", "description": "Host", "default": "example.com"},
      ],
      "servers": {
        "x": {
          "type": "http", "url": "https://${input:2nd.host}/mcp",
          "headers": {"Authorization": "Bearer ${input:api-key}", "X": null},
        },
      }
    }"""
    put(cwd / ".vscode/mcp.json", content)
    found = only(look())
    assert found.entry == {
        "url": "https://${_2ND_HOST:-example.com}/mcp",
        "headers": {"Authorization": "Bearer ${API_KEY}"},
    }
    assert "asks for 'api-key' in vscode; set the variable API_KEY instead" in found.notes


def test_an_editor_variable_without_a_meaning_here_is_kept_and_noted(home: Path, look: Look) -> None:
    args = ["${workspaceFolder}", "${command:pick}"]
    put(home / ".config/Code/User/mcp.json", {"servers": {"x": {"command": "x", "args": args}}})
    found = only(look())
    assert found.entry["args"] == ["${workspaceFolder}", "$${command:pick}"]  # no command of ours
    assert [note.split(" ")[0] for note in found.notes] == args


def test_the_old_settings_of_vs_code_are_read_in_both_spellings(home: Path, cwd: Path, look: Look) -> None:
    put(home / ".config/Code/User/settings.json", {"mcp": {"servers": {"a": TIME}}, "editor.fontSize": 12})
    put(cwd / ".vscode/settings.json", {"mcp.servers": {"b": TIME}})
    assert [one.name for one in look().found] == ["a", "b"]


def test_codex_is_read_with_its_variables_and_headers(home: Path, look: Look) -> None:
    content = """
model = "x"
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs", "$${X}"]
env = { MODE = "1" }
env_vars = ["TOKEN", { name = "REGION", source = "local" }]
startup_timeout_sec = 20
[mcp_servers.figma]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Key" = "KEY" }
enabled = false
"""
    put(home / ".codex/config.toml", content)
    docs, figma = look().found
    assert docs.entry == {
        "command": "npx",
        "args": ["-y", "docs", "$$$${X}"],
        "env": {"MODE": "1", "TOKEN": "${TOKEN:-}", "REGION": "${REGION:-}"},
        "start_timeout_s": 20,
    }
    assert figma.entry == {
        "url": "https://mcp.example.com/mcp",
        "headers": {"X-Region": "eu", "X-Key": "${KEY}", "Authorization": "Bearer ${FIGMA_TOKEN}"},
        "enabled": False,
    }
    put(home / "codex/config.toml", '[mcp_servers.a]\ncommand = "a"\n')
    assert only(look(environ={"CODEX_HOME": str(home / "codex")})).name == "a"


def test_gemini_says_that_it_also_tries_sse_and_knows_bare_variables(home: Path, look: Look) -> None:
    servers = {
        "sse": {"url": "https://example.com/events", "trust": True},
        "http": {"httpUrl": "https://example.com/mcp", "headers": {"K": "$API_KEY"}, "timeout": 5000},
        "typed": {"url": "https://example.com/mcp", "type": "http"},
        "local": {"command": "x", "args": ["$HOME/x", "pa$word"], "env": {"K": "${API_KEY}"}, "cwd": "./srv"},
        "off": TIME,
    }
    put(home / ".gemini/settings.json", {"mcpServers": servers, "mcp": {"excluded": ["off"]}})
    servers_found = look(environ={"HOME": str(home)}).found
    found = {one.name: one.entry for one in servers_found}
    assert found["sse"] == {"url": "https://example.com/events"}
    assert "set `transport: sse`" in servers_found[0].notes[0]
    assert found["http"] == {
        "url": "https://example.com/mcp",
        "headers": {"K": "${API_KEY:-}"},
        "call_timeout_s": 5,
    }
    assert found["typed"] == {"url": "https://example.com/mcp"}
    assert found["local"]["args"] == ["${HOME:-}/x", "pa$word"]
    assert found["off"]["enabled"] is False


def test_windsurf_has_its_own_name_for_the_url(home: Path, look: Look) -> None:
    server = {"serverUrl": "https://example.com/mcp", "headers": {"K": "${env:KEY}"}, "disabled": True}
    put(home / ".codeium/windsurf/mcp_config.json", {"mcpServers": {"w": server}})
    found = only(look())
    headers = {"K": "${env:KEY:-}"}
    assert found.entry == {"url": "https://example.com/mcp", "headers": headers, "enabled": False}
    assert "switched off in windsurf, and so here" in found.notes


def test_numbers_and_truth_values_become_text_and_any_name_is_kept(home: Path, look: Look) -> None:
    server = {"command": "x", "args": [3, 1.5, True], "env": {"PORT": 80, "DEBUG": False, "NO": None}}
    put(home / ".cursor/mcp.json", {"mcpServers": {"Ünï: [#1] 'x' \U0001f600": server}})
    found = only(look())
    assert found.name == "Ünï: [#1] 'x' \U0001f600"
    assert found.entry == {
        "command": "x",
        "args": ["3", "1.5", "true"],
        "env": {"PORT": "80", "DEBUG": "false"},
    }


def test_a_path_inside_the_project_is_run_from_there(cwd: Path, look: Look) -> None:
    put(cwd / "build/index.js", "")
    servers = {
        "file": {"command": "node", "args": ["build/index.js"]},
        "package": {"command": "npx", "args": ["@scope/package"]},
        "folder": {"command": "x", "cwd": "sub"},
    }
    put(cwd / ".mcp.json", {"mcpServers": servers})
    found = {one.name: one.entry.get("cwd") for one in look().found}
    assert found == {"file": str(cwd), "package": None, "folder": str(cwd / "sub")}
