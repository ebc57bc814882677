"""The table of all commands: the module that has each, its group in `maitred --help`, and a line about it.

A new command is one entry. The line is here, and not read from the module, so that `--help` imports none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Group = Literal["Set up", "Servers", "Tools", "Serve", "Decide", "Look", "Measure"]

MEASURE: Final[Group] = "Measure"
"""The group for people who work on maitred, or write servers; only `maitred help --all` lists it."""

GROUPS: Final[tuple[Group, ...]] = ("Set up", "Servers", "Tools", "Serve", "Decide", "Look", MEASURE)
"""In the order in which `--help` has them."""


SHOW_ALL: Final = "maitred.help.all"
"""The key in the `meta` of a context that has every group listed."""


@dataclass(frozen=True, kw_only=True)
class CommandEntry:
    """One command; `about` has at most 62 characters, so that it stays on one line of 80."""

    group: Group
    module: str
    about: str


def _entry(group: Group, module: str, about: str) -> CommandEntry:
    return CommandEntry(group=group, module=module, about=about)


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "demo": _entry("Set up", "demo", "Show the main job on three real servers."),
    "import": _entry("Set up", "imports", "Copy the servers that other clients here use."),
    "connect": _entry("Set up", "connect", "Put this gateway into the files of clients."),
    "disconnect": _entry("Set up", "connect", "Give the files of clients back as they were."),
    "entry": _entry("Set up", "entry", "Print the entry for a client's file."),
    "edit": _entry("Set up", "edit", "Edit the configuration in your editor, and check it."),
    "config": _entry("Set up", "config", "Say which configuration is used, and check it."),
    "doctor": _entry("Set up", "doctor", "Start every server once, and say what is wrong."),
    "completion": _entry("Set up", "completion", "Print the script that completes commands in your shell."),
    "docs": _entry("Set up", "docs", "Print a page of the documentation, or the list of pages."),
    "service": _entry("Set up", "service", "Run the gateway as a service of your own."),
    "upgrade": _entry("Set up", "upgrade", "Say how this installation is replaced by a newer one."),
    "help": _entry("Set up", "help", "Explain a command; `help --all` lists all of them."),
    "add": _entry("Servers", "servers", "Add a server, and try it."),
    "add-json": _entry("Servers", "servers", "Add a server from an entry as clients write it."),
    "find": _entry("Servers", "find", "Find servers in a registry."),
    "secret": _entry("Servers", "secrets", "Keep secrets in the keyring, list and remove them."),
    "remove": _entry("Servers", "servers", "Remove a server from the configuration."),
    "list": _entry("Servers", "servers", "List the servers with their tools and tokens."),
    "disable": _entry("Servers", "switches", "Switch servers or tools off for all clients."),
    "enable": _entry("Servers", "switches", "Switch servers or tools on again."),
    "restart": _entry("Servers", "server_control", "End servers that run and start them again."),
    "refresh": _entry("Servers", "server_control", "Ask servers for their tools again; say what changed."),
    "login": _entry("Servers", "login", "Log in to a server in your browser."),
    "logout": _entry("Servers", "login", "Delete the login to a server, here and there."),
    "browser": _entry("Servers", "browser", "Chrome as an MCP server, and where pages dial in."),
    "search": _entry("Tools", "tools", "Find tools by what they do."),
    "info": _entry("Tools", "tools", "Describe tools."),
    "call": _entry("Tools", "tools", "Call a tool; `-i` asks for its arguments."),
    "menu": _entry("Tools", "menu", "Print a page of the menu as agents read it."),
    "chain": _entry("Tools", "chains", "Run a program that calls tools."),
    "chains": _entry("Tools", "chains", "List, save and remove chains that are tools."),
    "tools": _entry("Tools", "choices", "Show what you decided about single tools; change it."),
    "categories": _entry("Tools", "menu", "Show the categories of tools; move tools."),
    "profiles": _entry("Tools", "profiles", "List the profiles with their tools and tokens."),
    "mediate": _entry("Tools", "mediate", "Show how mediation changes tools; decide about it."),
    "serve": _entry("Serve", "serve", "Serve all configured servers to MCP clients as one."),
    "ui": _entry("Serve", "ui", "Open the web interface."),
    "status": _entry("Serve", "status", "Show the gateways that run now, with their servers."),
    "stop": _entry("Serve", "status", "End the gateway in the background."),
    "approvals": _entry("Decide", "admission", "Show what waits for your decision."),
    "explain": _entry("Decide", "admission", "Show why a server is in its state."),
    "approve": _entry("Decide", "admission", "Approve a server, or changes of what it publishes."),
    "reject": _entry("Decide", "admission", "Reject a server, or changes of what it publishes."),
    "calls": _entry("Decide", "held_calls", "Show and decide about calls that wait for a person."),
    "register": _entry("Decide", "admission", "Register servers by their manifests."),
    "unregister": _entry("Decide", "admission", "Withdraw a server that a manifest registered."),
    "suspend": _entry("Decide", "admission", "Take a server out of use, or refuse a principal."),
    "resume": _entry("Decide", "admission", "Take a suspended server or principal back."),
    "allow": _entry("Decide", "allow", "Show and change what registers without an approval."),
    "tokens": _entry("Decide", "tokens", "Make access tokens, list them, revoke them."),
    "logs": _entry("Look", "server_logs", "Show what a server or the gateway wrote; -f goes on."),
    "stats": _entry("Look", "stats", "Show calls, tokens and tiers of the last days."),
    "tiers": _entry("Look", "stats", "Show the tools by tier, with score and figures."),
    "audit": _entry("Look", "audit", "Show who did what, verify it, export it."),
    "scan": _entry(MEASURE, "scan", "Scan what a server publishes, for authors and for CI."),
    "eval": _entry(MEASURE, "eval", "Measure search, categories, mediation and the scan."),
    "budget": _entry(MEASURE, "stats", "Measure every answer of the menu against its limit."),
    "schema": _entry(MEASURE, "admission", "Print the JSON Schema of manifests."),
}
