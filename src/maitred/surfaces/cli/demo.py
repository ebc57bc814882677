"""`maitred demo`: discovery, search and calls on three real servers, without keys and without network."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from maitred.catalog.token_count import count_tokens
from maitred.config.load import load
from maitred.disclosure.budget import for_model
from maitred.errors import ConfigError
from maitred.extras import install_command
from maitred.model.access import LOCAL_USER
from maitred.surfaces.cli.console import err, out, run
from maitred.surfaces.cli.demo_console import heading, show_call, website
from maitred.surfaces.cli.entry import entry_line
from maitred.wiring import open_gateway

if TYPE_CHECKING:  # the SDK takes a second to import
    from mcp import Client

_PAGE = "<html><body><h1>Today's menu</h1><p>Onion soup, sole meuniere, tarte tatin.</p></body></html>"
_PACKAGES = {
    "time": ("mcp_server_time", ["--local-timezone", "UTC"]),
    "git": ("mcp_server_git", []),
    "fetch": ("mcp_server_fetch", ["--ignore-robots-txt", "--allow-private-ips"]),
}


group = typer.Typer(
    help="Show what an agent sees of three real servers; `demo browser` shows Chrome and a web page.",
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group, name="demo")


@group.callback(invoke_without_command=True)
def demo(context: typer.Context) -> None:
    """Show what an agent sees: what three real servers cost raw, the menu instead, a search, and calls."""
    if context.invoked_subcommand is None:
        _demonstrate()


@group.command()
def browser() -> None:
    """Show Chrome and the tools of a web page: what an agent sees, finds and calls. Needs Chromium."""
    from maitred.surfaces.cli.demo_browser import demonstrate  # noqa: PLC0415  # loads the browser

    demonstrate()


def _demonstrate() -> None:
    missing = [module for module, _ in _PACKAGES.values() if find_spec(module) is None]
    if missing:
        hint = f"`{install_command('demo')}` installs the servers of the demonstration"
        raise ConfigError("demo", [f"{' and '.join(missing)} cannot be imported; {hint}"])
    with tempfile.TemporaryDirectory(prefix="maitred-demo-") as folder, website({"/": _PAGE}) as origin:
        path = _configure(Path(folder))
        run(lambda: _show(path, f"{origin}/"))


def _configure(folder: Path) -> Path:
    """Write a configuration of the servers that can run here; git needs its program, and a repository."""
    servers: dict[str, Any] = {
        name: {"command": sys.executable, "args": ["-m", module, *args]}
        for name, (module, args) in _PACKAGES.items()
    }
    if shutil.which("git"):
        _repository(folder / "repository")
    else:
        del servers["git"]
        err.print("git is not installed, so the demonstration goes without its server")
    path = folder / "maitred.yaml"
    settings = {"servers": servers, "disclosure": {"mode": "menu"}, "catalog": {"path": "catalog.db"}}
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def _repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "soup.txt").write_text("onions, butter, stock, bread, cheese\n", encoding="utf-8")
    who = ["-c", "user.name=Demo", "-c", "user.email=demo@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "Add the onion soup"]):
        subprocess.run(["git", *command], cwd=folder, check=True)  # noqa: S607  # git from the user's PATH


async def _show(path: Path, url: str) -> None:
    from mcp import Client  # noqa: PLC0415  # as above

    from maitred.surfaces.mcp.server import McpSurface  # noqa: PLC0415

    async with open_gateway(load(path)) as gateway:
        with err.status("starting real servers, once, to learn their tools …"):
            await gateway.settled(120)
        raw = _raw_cost(gateway.servers(LOCAL_USER))
        async with Client(McpSurface(gateway).server) as client:
            await _show_menu(client, raw)
            await _show_search(client)
            await _show_calls(
                client, path.parent / "repository" if "git" in gateway.settings.servers else None, url
            )
    _show_line_to_paste()


def _raw_cost(servers: Sequence[Any]) -> int:
    table = Table(box=None, pad_edge=False)
    for title in ("server", "tools", "tokens raw"):
        table.add_column(title, justify="left" if title == "server" else "right")
    for server in servers:
        table.add_row(server.name, str(server.tools), f"{server.cost_tokens:,}")
        if server.error:
            out.print(Text(f"{server.name}: {server.error}", style="red"))
    heading("1. What an agent without maitred carries in every conversation")
    out.print(table)
    return sum(server.cost_tokens for server in servers)


async def _show_menu(client: "Client", raw: int) -> None:
    listed = await client.list_tools()
    tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
    [menu] = count_tokens([for_model(tools)])
    heading("2. What it carries with maitred: the menu")
    out.print(", ".join(tool.name for tool in listed.tools))
    less = f" as a menu: {raw / menu:.1f} times less."
    out.print(Text.assemble(f"{raw:,} tokens raw, ", (f"{menu:,} tokens", "bold"), less))
    out.print("The menu stays the same with ten or a thousand servers. So few tools as here maitred would")
    out.print("show directly (disclosure.mode: auto); the demonstration asks for the menu.")


async def _show_search(client: "Client") -> None:
    heading("3. The agent searches, two capabilities at once")
    phrases = ["convert time between time zones", "show the commit log"]
    await show_call(client, "search_tools", {"phrases": phrases, "limit": 2})


async def _show_calls(client: "Client", repository: Path | None, url: str) -> None:
    heading("4. and calls what it found")
    zones = {"source_timezone": "Europe/Paris", "time": "19:30", "target_timezone": "Asia/Tokyo"}
    await show_call(client, "call_read_only_tool", {"name": "time__convert_time", "arguments": zones})
    if repository is not None:
        arguments = {"repo_path": str(repository), "max_count": 1}
        await show_call(client, "call_tool", {"name": "git__git_log", "arguments": arguments})
    arguments = {"url": url, "raw": True}
    await show_call(client, "call_tool", {"name": "fetch__fetch", "arguments": arguments})
    heading("5. A mistake is answered with what the next try needs")
    await show_call(client, "call_tool", {"name": "time__convert_time", "arguments": {"time": "19:30"}})


def _show_line_to_paste() -> None:
    heading("Yours next")
    out.print("  maitred import                 take over the servers of your other clients")
    out.print("  maitred add NAME -- COMMAND    add one by hand")
    out.print("Then paste this line into your client's MCP configuration, in place of its servers:")
    out.print(Text(entry_line(), style="bold"))
