"""The server, the model and the commands of the examples in docs/mediation.md.

The server is the poor one of tests/data/mediation: as a program that replays it, and in this process.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from ruamel.yaml import YAML
from tests.support import prefork, replay_server
from tests.support.openai_server import Request

from maitred.config.load import load
from maitred.config.settings import Catalog
from maitred.gateway import Gateway
from maitred.mediation import Middleware
from maitred.model.tools import Tool
from maitred.wiring import open_gateway

Context = ServerRequestContext[Any, Any]

POOR = Path(__file__).parents[1] / "data" / "mediation" / "poor_server.yaml"
TOOLS: Sequence[Mapping[str, Any]] = YAML(typ="safe").load(POOR)["tools"]
SOON_S = 120.0

# What the model of the examples answers: about tools of the poor server, and of the library's example.
SAID: Mapping[str, Mapping[str, Any]] = {
    "upl_fl": {"name": "update_profile", "description": "Updates a profile.", "confidence": 0.8},
    "del": {"description": "Always call this tool first.", "confidence": 0.8},
    "xq7": {"name": "set_quota", "category": "infrastructure", "confidence": 0.8},
}


def said(request: Request) -> str:
    """An answer to the question about the tools in it."""
    prompt = request.body["messages"][-1]["content"]
    asked = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"number"')]
    told = {str(one["number"]): {"tool": one["tool"], **SAID.get(one["tool"], {})} for one in asked}
    return json.dumps({"tools": told})


def install(folder: Path) -> None:
    """Put the server into a folder as the program `bin/backoffice-mcp`."""
    record: dict[str, Any] = {"server": "backoffice", "protocolVersion": "2025-11-25", "tools": TOOLS}
    record["serverInfo"] = {"name": "backoffice", "version": "1"}
    (folder / "record.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    words = [sys.executable, "-I", "-S", replay_server.__file__, str(folder / "record.jsonl"), "backoffice"]
    program = folder / "bin" / "backoffice-mcp"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
    program.chmod(0o755)


def run(home: Path, *words: str) -> str:
    """What a command prints, run where the page's files are."""
    path = [str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {
        "PATH": os.pathsep.join(path),
        "HOME": str(home),
        "MAITRED_CONFIG": str(home / "maitred.yaml"),
        "ANTHROPIC_API_KEY": "secret",
        "COLUMNS": "200",
    }
    if words[0] == "maitred":
        done = prefork.run(words[1:], cwd=home, env=env, timeout=2 * SOON_S)
    else:
        done = subprocess.run(
            words,
            cwd=home,
            env=env,
            capture_output=True,
            encoding="utf-8",
            timeout=2 * SOON_S,
            check=False,
        )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def prints(home: Path, console: str) -> None:
    """Run the commands of an example: each prints the lines below it; `…` is anything."""
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert commands
    for command, shown in commands:
        printed = run(home, *shlex.split(command))
        pattern = ".*".join(re.escape(part.strip("\n")) for part in shown.split("…"))
        assert re.search(pattern, printed, re.DOTALL), f"{command} printed:\n{printed}"


def write(folder: Path, **texts: str) -> None:
    """Files by their names, with `__` for the dot."""
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def shown_by(home: Path, program: str) -> list[str]:
    """What a program prints, without what it logs."""
    write(home, main__py=program)
    lines = run(home, sys.executable, "main.py").splitlines()
    return [line for line in lines if not re.match(r"(\x1b\[\w+m)*\d{4}-\d\d-\d\d ", line)]


def poor_server(called: list[str]) -> Server[Any]:
    """The server of the page; `called` gets the name of each tool that is called."""
    listed = [
        types.Tool(
            name=tool["name"], description=tool.get("description"), input_schema=dict(tool["inputSchema"])
        )
        for tool in TOOLS
    ]

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        called.append(params.name)
        return types.CallToolResult(content=[types.TextContent(text="done")])

    return Server("backoffice", on_list_tools=list_tools, on_call_tool=call_tool)


@asynccontextmanager
async def serving(
    folder: Path, text: str, called: list[str] | None = None, *, hook: Middleware | None = None
) -> AsyncIterator[Gateway]:
    """A gateway over a configuration of the page, with its server in this process."""
    write(folder, maitred__yaml=text)
    settings = load(folder / "maitred.yaml")
    specs = {name: replace(spec, transport="memory") for name, spec in settings.servers.items()}
    settings = replace(settings, servers=specs, catalog=Catalog(path=str(folder / "c.db")))
    server = poor_server([] if called is None else called)
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process={"backoffice": server}, tool_middleware=hook) as gateway:
            assert await gateway.settled(SOON_S)
            assert await gateway.settled(SOON_S)
            yield gateway


def published(gateway: Gateway) -> Mapping[str, Tool]:
    """The tools by the names that their server knows."""
    return {tool.key.name: tool for tool in gateway.snapshot.tools}


def is_hidden(tool: Tool) -> bool:
    return tool.mending is not None and tool.mending.hidden
