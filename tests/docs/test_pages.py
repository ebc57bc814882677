"""The pages are true: examples run, and everything a user can name is described."""

import importlib
import json
import os
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.support import prefork

from maitred import errors
from maitred.catalog.token_count import count_tokens
from maitred.config.load import parse
from maitred.disclosure.budget import for_model
from maitred.meta_tools.menu import definitions
from maitred.surfaces.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^\s*from (maitred[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")


def _blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


@cache
def _commands() -> dict[str, set[str]]:
    """Every command with its long options; one that has commands of its own has the options of all."""
    group = typer.main.get_group(app)
    context = typer.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {
        name: {o for one in _within(command) for p in one.params for o in p.opts if o.startswith("--")}
        for name, command in commands.items()
        if command is not None
    }


def _within(command: Any) -> list[Any]:
    """A command and those that it has."""
    return [command, *getattr(command, "commands", {}).values()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    """A reader who follows a relative link finds a page."""
    targets = [target for target in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_that_a_program_shown_imports_is_there(page: Path) -> None:
    """A Python example that a reader copies finds its modules and names."""
    for text in _blocks(page, "python"):
        for module, names in _IMPORT.findall(text):
            there = importlib.import_module(module)
            assert {name for name in re.findall(r"\w+", names) if not hasattr(there, name)} == set(), module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_configuration_shown_is_accepted(page: Path) -> None:
    """YAML examples with servers and JSON examples with mcpServers can be pasted into a file."""
    for text in _blocks(page, "yaml"):
        if "servers:" in text:
            settings = parse(Path("maitred.yaml"), text)
            assert settings.servers or not re.search(r"^servers:", text, re.MULTILINE)
    for text in _blocks(page, "json"):
        if "mcpServers" in text:
            assert parse(Path("mcp.json"), text).servers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_shown_exists_with_its_options(page: Path) -> None:
    """What a page tells to type is a command of this version."""
    commands = _commands()
    lines = [
        line[2:] for text in _blocks(page, "console") for line in text.splitlines() if line.startswith("$ ")
    ]
    for line in lines:
        words = shlex.split(line)
        if "maitred" not in words:
            continue
        name, *rest = words[words.index("maitred") + 1 :]
        ours = rest[: rest.index("--")] if "--" in rest else rest
        assert name in commands, line
        assert {word.partition("=")[0] for word in ours if word.startswith("--")} <= commands[name], line


def test_the_round_of_commands_prints_what_the_page_says(tmp_path: Path) -> None:
    """docs/cli.md: each command of the example succeeds and prints the lines shown (… is anything)."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COLUMNS": "200",
        "PYTHONWARNDEFAULTENCODING": "0",
    }
    [block] = _blocks(ROOT / "docs" / "cli.md", "console")
    command, shown = "", ""
    for line in [*block.splitlines(), "$ end"]:
        if not line.startswith("$ "):
            shown += line + "\n"
            continue
        if command:
            program, *arguments = shlex.split(command)
            assert program == "maitred"
            done = prefork.run(arguments, env=environment, cwd=tmp_path, timeout=120)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            for expected in shown.splitlines():
                pattern = ".*".join(re.escape(part) for part in expected.split("…"))
                assert re.search(pattern, done.stdout, re.DOTALL), f"{command} printed:\n{done.stdout}"
        command, shown = line[2:], ""


def test_every_command_and_option_is_described() -> None:
    """docs/cli.md or the page it points to names each command, and each option but the common ones."""
    text = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("cli.md", "import.md"))
    for name, options in _commands().items():
        assert f"maitred {name}" in text
        missing = {o for o in options - {"--help"} if f"`{o}" not in text and f" {o}" not in text}
        assert missing == set(), name


def test_every_meta_tool_is_described() -> None:
    """docs/tools.md and the README name each tool of the menu, with each of its parameters."""
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for definition in definitions():
        parameters = definition["inputSchema"]["properties"]
        required = definition["inputSchema"].get("required", [])
        signature = ", ".join(p if p in required else f"{p}?" for p in parameters)
        assert f"`{definition['name']}({signature.replace('arguments?', 'arguments')})`" in page
        assert f"`{definition['name']}`" in readme


def test_the_readme_gives_the_price_of_the_menu() -> None:
    """To the next hundred tokens, as the demonstration prints it."""
    [said] = re.findall(r"about (\d+) tokens", (ROOT / "README.md").read_text(encoding="utf-8"))

    assert int(said) == round(count_tokens([for_model(definitions())])[0], -2)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_entry_for_a_client_can_be_pasted(page: Path) -> None:
    """It has a full path, since clients expand no `~`, and keeps the menu loaded."""
    for text in _blocks(page, "json"):
        if '"maitred"' in text and "mcpServers" in text:
            entry = json.loads(text)["mcpServers"]["maitred"]
            assert Path(entry["command"]).is_absolute()
            assert entry["alwaysLoad"] is True


def test_every_error_code_is_described() -> None:
    """docs/troubleshooting.md names the code of each error that is raised on purpose."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    kinds = [errors.MaitredError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    codes = {kind.code for kind in kinds if kind.__module__ == "maitred.errors"}
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_the_menu_in_the_example_answers_matches_its_json() -> None:
    """The definitions of the menu are plain JSON, so that pages and clients show the same."""
    assert json.loads(json.dumps(definitions())) == [dict(definition) for definition in definitions()]
