"""All commands at once: groups, help at 80 columns, options, and what the parser refuses."""

import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.interaction.harness import faulty
from tests.surfaces.cli.rig import Run, runner, write

from maitred.surfaces.cli.app import app
from maitred.surfaces.cli.commands import COMMANDS, GROUPS, MEASURE
from maitred.surfaces.cli.console import PlainConsole, make_table

WITHOUT_JSON: Mapping[str, str] = {
    "serve": "serves until it is ended",
    "browser serve": "serves until it is ended",
    "demo": "is a demonstration for people",
    "demo browser": "is a demonstration for people",
    "entry": "prints JSON as it is",
    "schema": "prints JSON as it is",
    "completion": "prints a script",
    "help": "prints the help",
    "edit": "opens an editor",
    "service install": "asks a person; `service status` tells programs what is there",
    "service uninstall": "asks a person; `service status` tells programs what is there",
}
"""Commands without `--json`, and why."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    write(tmp_path, {"maitred.yaml": "servers: {}\n"})
    return runner(tmp_path, monkeypatch, capsys)


@cache
def contexts() -> Mapping[str, Any]:
    """The context of each command by its words, groups too."""

    def below(context: Any) -> Iterator[Any]:
        yield context
        if hasattr(context.command, "list_commands"):
            for name in context.command.list_commands(context):
                inner = context.command.get_command(context, name)
                yield from below(type(context)(inner, info_name=name, parent=context))

    root = typer.Context(typer.main.get_group(app), info_name="maitred")
    return {one.command_path.removeprefix("maitred").strip(): one for one in below(root)}


def leaves() -> Mapping[str, Any]:
    return {
        words: one
        for words, one in contexts().items()
        if not hasattr(one.command, "list_commands") or (one.command.invoke_without_command and words)
    }


def test_the_help_of_every_command_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of the usual width shows each line whole. Source: issue 22."""
    monkeypatch.setenv("COLUMNS", "80")

    wide = {
        words: line
        for words, one in contexts().items()
        for line in one.get_help().splitlines()
        if len(line) > 80
    }

    assert wide == {}


def test_help_lists_each_command_once_in_its_group_and_measuring_ones_on_demand(run: Run) -> None:
    """`maitred --help` names those that it leaves out, and how to see them."""
    usual, every = run("--help").fine, run("help", "--all").fine

    for name, entry in COMMANDS.items():
        line = rf"^  {name} +{re.escape(entry.about)}$"
        assert len(re.findall(line, every, re.MULTILINE)) == 1, name
        assert len(re.findall(line, usual, re.MULTILINE)) == (entry.group != MEASURE), name
        assert "..." not in entry.about
    assert [group for group in GROUPS if f"\n{group}:\n" in usual] == list(GROUPS[:-1])
    assert "`maitred help --all`" in usual


def test_the_page_has_the_commands_under_the_headings_of_help() -> None:
    """docs/cli.md: whoever reads one finds the other."""
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")

    for group in GROUPS:
        section = page.partition(f"\n## {group}\n")[2].partition("\n## ")[0]
        rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `maitred ")]
        named = {name for row in rows for name in re.findall(r"`maitred ([\w-]+)", row)}
        assert named == {name for name, entry in COMMANDS.items() if entry.group == group}


def test_help_explains_a_command_and_one_within_it(run: Run) -> None:
    """As `--help` after them does."""
    assert run("help", "tokens", "create").fine == run("tokens", "create", "--help").fine
    assert "has no command 'x'" in run("help", "list", "x").refused


def test_each_command_has_json_or_is_listed_with_the_reason() -> None:
    """A program can use whatever prints data. Source: issue 22."""
    without = {
        words
        for words, one in leaves().items()
        if not any("--json" in param.opts for param in one.command.params)
    }

    assert without == WITHOUT_JSON.keys()


def test_one_letter_means_one_thing_everywhere() -> None:
    """Whoever knows `-n` of one command knows it of all. Source: issue 22."""
    meanings: defaultdict[str, set[str]] = defaultdict(set)
    for one in contexts().values():
        for param in one.command.get_params(one):
            short = [name for name in param.opts if re.fullmatch("-[A-Za-z]", name)]
            for name in short:
                meanings[name].update(other for other in param.opts if other.startswith("--"))

    assert {letter: names for letter, names in meanings.items() if len(names) > 1} == {}
    assert {"-c", "-j", "-n", "-q", "-s", "-v", "-y"} <= meanings.keys()


def test_every_long_option_that_has_a_letter_has_it_in_each_command() -> None:
    """Only Chrome's own `--profile` and the audit trail's file are something else."""
    lettered = defaultdict(set)
    for words, one in leaves().items():
        for param in one.command.params:
            for name in param.opts:
                if name.startswith("--"):
                    letters = [other for other in param.opts if re.fullmatch("-[A-Za-z]", other)]
                    lettered[name].add((words, *letters))

    for name in ("--json", "--config", "--server", "--limit", "--yes", "--quiet", "--verbose"):
        assert [one for one in lettered[name] if len(one) == 1] == [], name


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("serch x", "No such command 'serch'; did you mean 'search'?"),
        ("tokens lst", "No such command 'lst'; did you mean 'list'?"),
        ("tokens xyzzy", "No such command 'xyzzy'; there is create, list, suspended or revoke"),
        ("search --limt 3 x", "No such option: --limt; did you mean --limit?"),
        ("audit verfy", "'verfy' is not list, verify, export, prune or stream; did you mean 'verify'?"),
        ("add x npx -z foo", "what belongs to the program goes after `--`: `maitred add NAME -- COMMAND …`"),
        ("list -Z", "No such option: -Z; `maitred list --help` lists them"),
        ("remove tme", "there is no server 'tme'; did you mean 'time'?"),
        ("doctor tme", "there is no server 'tme'; did you mean 'time'?"),
    ],
)
def test_what_is_mistyped_is_answered_with_what_was_meant(
    run: Run, tmp_path: Path, words: str, says: str
) -> None:
    """Commands, those within them, options, choices and servers. Source: issue 22."""
    write(tmp_path, {"maitred.yaml": "servers: {time: {command: no-such-program, enabled: false}}\n"})

    assert says in run(*words.split()).refused


def test_quiet_leaves_the_answer_and_the_errors(run: Run) -> None:
    """Before a command or after it; what was done is not said."""
    add = ["add", "a", "--no-try", "--", "program"]
    assert run("add", "-q", *add[1:]).fine == ""
    assert run("-q", "remove", "a").fine == ""
    assert run("config", "path", "--quiet").fine.endswith("maitred.yaml\n")
    assert "there is no server" in run("remove", "a", "-q").refused
    assert "Added" in run(*add).fine


def test_quiet_leaves_what_is_wrong_and_what_was_asked_for(run: Run, tmp_path: Path) -> None:
    """Of `doctor` the faults, of `search` the tools, of `refresh` the failures: no sums, hints or reports."""
    document = {"catalog": {"path": "catalog.db"}, "servers": {"counter": faulty("count")}}
    write(tmp_path, {"maitred.yaml": json.dumps(document)})

    assert run("refresh", "-q").fine == ""
    assert run("config", "check", "-q").fine == ""
    assert "prints one" not in run("docs", "-q").fine
    assert run("doctor", "-q", "--require", "counter__add").fine == ""
    assert "fault required: counter__ad" in run("doctor", "-q", "--require", "counter__ad").out
    [line] = run("search", "-q", "-n", "1", "add numbers").fine.splitlines()
    assert line.startswith("counter__add(")
    assert "Try other words" not in run("search", "-q", "xyzzy qwrtp").fine

    document["servers"] = {"quitter": faulty("exit-at-start")}
    write(tmp_path, {"maitred.yaml": json.dumps(document)})
    assert "quitter: cannot be listed" in run("refresh", "-q").out
    assert run("doctor", "-q").out.startswith("fault quitter: ")


def test_config_path_says_which_file_is_used_and_on_demand_why(run: Run, tmp_path: Path) -> None:
    """A script gets the path alone."""
    file = tmp_path / "maitred.yaml"

    assert run("config", "path").fine == f"{file}\n"
    assert "the variable MAITRED_CONFIG names it; it is there" in run("config", "path", "-v").fine
    assert "--config names it; it is not there yet" in run("config", "path", "-c", "x.yaml", "-v").fine
    assert json.loads(run("config", "path", "-j").fine) == {
        "path": str(file), "exists": True, "reason": "the variable MAITRED_CONFIG names it",
    }  # fmt: skip


def test_config_check_names_each_fault_and_starts_nothing(run: Run, tmp_path: Path) -> None:
    """With its line, for programs too; exit code 1, since it ran and found something wrong."""
    assert "fine, 0 servers" in run("config", "check").fine
    assert json.loads(run("config", "check", "--json").fine)["faults"] == []

    write(tmp_path, {"maitred.yaml": "servers:\n  a: {comand: x}\n"})
    done, for_programs = run("config", "check"), run("config", "check", "--json")
    assert (done.code, for_programs.code) == (1, 1)
    assert "line 2" in done.err
    [fault] = json.loads(for_programs.out)["faults"]
    assert "line 2" in fault
    assert for_programs.err == ""


@pytest.mark.parametrize(
    ("variables", "colors"),
    [({"CLICOLOR_FORCE": "1"}, True), ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False), ({}, False)],
)
def test_colors_follow_the_variables_that_users_set(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: Mapping[str, str],
    *,
    colors: bool,
) -> None:
    """NO_COLOR wins; a pipe has colors only if they are forced. Source: no-color.org, bixense.com."""
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    PlainConsole().print("words", style="red")

    assert ("\x1b[31m" in capsys.readouterr().out) is colors


@pytest.mark.parametrize("columns", ["0", "00", "9" * 5_000, "-1", "x"])
def test_a_width_that_no_terminal_has_is_not_used(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no columns nothing was printed; a number of 5,000 digits was a fault of Python."""
    monkeypatch.setenv("COLUMNS", columns)
    stream = io.StringIO()
    console = PlainConsole(soft_wrap=False)
    console.file = stream
    console.print(make_table("Servers", ["name"], [["clock"]]))
    assert "clock" in stream.getvalue()
