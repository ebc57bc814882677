"""The page on visibility is true: its declarations are used, and give what is written below them."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from ruamel.yaml import YAML
from tests.support import deploys_server
from tests.support.debugger_server import DebuggerServer
from tests.support.deploys_server import DeploysServer
from tests.support.viewers import agent

from maitred.config import expressions
from maitred.config.load import load
from maitred.config.settings import Catalog
from maitred.errors import ConfigError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.visibility import declarations
from maitred.visibility.facts import BUILT_IN, MAX_ITEMS, MAX_TEXT, Kind, Value
from maitred.visibility.rules import Compiler, RuleFunction, RuleRegistry
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "visibility.md").read_text(encoding="utf-8")
SOON_S = 120.0
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_WRITTEN = re.compile(r"^\| (`.*?) \|", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(PAGE) if kind == language]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


FIRST, ALL, EVERYTHING, PLUGGED, DEBUGGER = blocks("yaml")
FAULTS, FOUND, REFUSED, NEWS = blocks("")
RULES, PROGRAM = blocks("python")
(PROJECT,) = blocks("toml")
HANDSHAKE = agent("local", connection="1", era="handshake")
MONDAY_NOON, SUNDAY = datetime(2026, 1, 5, 12).astimezone(), datetime(2026, 1, 4, 12).astimezone()


@asynccontextmanager
async def serving(
    folder: Path,
    text: str,
    server: DeploysServer | DebuggerServer,
    given: Mapping[str, RuleFunction] | None = None,
) -> AsyncIterator[Gateway]:
    """A gateway over a configuration of the page, with its server in this process."""
    (folder / "maitred.yaml").write_text(text, encoding="utf-8")
    settings = load(folder / "maitred.yaml")
    specs = {name: replace(spec, transport="memory") for name, spec in settings.servers.items()}
    settings = replace(settings, servers=specs, catalog=Catalog(path=str(folder / "c.db")))
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process={server.name: server.sdk()}, rules=given) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def call(gateway: Gateway, tool: str, **arguments: str) -> dict[str, Any]:
    return await gateway.call(ToolCall(name=f"deploys__{tool}", arguments=arguments), viewer=LOCAL_USER)


def visible(gateway: Gateway) -> set[str]:
    return set(deploys_server.TOOLS) - {key.name for key in gateway._visibility.hidden(LOCAL_USER)}


# --- the first rule ---------------------------------------------------------------------------------------


async def test_the_first_rule_gives_the_answers_that_are_shown(tmp_path: Path) -> None:
    """In a search, to a call too early, and to the call that opens the way."""
    server = DeploysServer()
    async with serving(tmp_path, FIRST, server) as gateway:
        found = await gateway.search(["publish a draft"], viewer=LOCAL_USER)
        with pytest.raises(ToolWithheldError) as refused:
            await call(gateway, "publish")
        begun = await call(gateway, "begin", name="spring")
        counts = [visible(gateway)]
        for tool, arguments in (("upload", {"path": "a"}), ("publish", {})):
            await call(gateway, tool, **arguments)
            counts.append(visible(gateway))

    assert found.text.splitlines()[0] == FOUND.strip()
    assert str(refused.value) == REFUSED.strip()
    assert begun["content"][-1]["text"] == NEWS.strip()
    assert begun["_meta"]["maitred/available"] == NEWS.strip().removeprefix("Now available: ").split(", ")
    everything = set(deploys_server.TOOLS)
    assert counts == [everything - {"begin", "publish"}, everything - {"begin"}, {"begin", "status"}]
    assert server.made == ["begin", "upload", "publish"]


async def test_the_faults_that_are_shown_are_those_of_two_slips_in_the_first_rule(tmp_path: Path) -> None:
    """Both at once, with line and key."""
    slips = FIRST.replace("upload: {files:", "upload: {file:").replace(
        'when: draft != "" &&', 'when: draf != "" &&'
    )
    with pytest.raises(ConfigError) as caught:
        async with serving(tmp_path, slips, DeploysServer()):
            pass

    assert list(caught.value.faults) == FAULTS.splitlines()


async def test_with_visibility_all_every_client_lists_every_tool(tmp_path: Path) -> None:
    """The short form of the page, put below the first rule."""
    for text, hidden in ((FIRST, 6), (FIRST + ALL.splitlines()[-1], 0)):
        async with serving(tmp_path, text, DeploysServer()) as gateway:
            assert len(deploys_server.TOOLS) - len(gateway.listed(HANDSHAKE)) == hidden
            assert len(deploys_server.TOOLS) == len(gateway.listed(LOCAL_USER))
            with pytest.raises(ToolWithheldError):
                await call(gateway, "publish")


# --- facts, effects, rules --------------------------------------------------------------------------------


def read(raw: Mapping[str, Any]) -> list[Any]:
    """The faults of a section."""
    faults: list[Any] = []
    declarations.read(raw, RuleRegistry(), lambda *fault: faults.append(fault))
    return faults


def test_every_fact_in_the_table_can_be_declared() -> None:
    """As it is written there, with the types that it names."""
    written = [row.strip("`") for row in _WRITTEN.findall(section("Facts").partition("| fact |")[0])]

    assert len(written) == 5
    for one in written:
        assert read({"facts": YAML(typ="safe").load(one)}) == []


def test_every_fact_that_is_always_there_is_named_and_the_limits_are_the_real_ones() -> None:
    """A new one cannot be left out, nor a changed figure stay."""
    for name in BUILT_IN:
        assert f"`{name}`" in section("Facts")
    for limit in (MAX_TEXT, MAX_ITEMS, declarations.MAX_FACTS):
        assert f" {limit}" in section("Facts")
    for limit in (
        declarations.MAX_RULES,
        expressions.MAX_SOURCE,
        expressions.MAX_COST,
        expressions.MATCH_COST,
    ):
        assert f" {limit:,}" in section("Rules") or f"\n{limit:,}" in section("Rules")


def test_every_effect_in_the_table_can_be_written() -> None:
    """For a fact of one type or another."""
    rows = _WRITTEN.findall(section("What calls change"))
    written = [span for row in rows for span in _SPAN.findall(row)]
    kinds: tuple[Kind, ...] = ("bool", "int", "str", "list")

    assert len(written) == 12
    for one in written:
        change = one if one.startswith("$") else YAML(typ="safe").load(one)
        faults = [
            read({"facts": {"f": {"type": kind}}, "on_success": {"t": {"f": change}}}) for kind in kinds
        ]
        assert [] in faults, one


async def test_the_server_with_all_kinds_of_effects_follows_its_calls(tmp_path: Path) -> None:
    """Each fact has the value that the call gave it, and the tools come and go with them."""
    server = DeploysServer()
    async with serving(tmp_path, EVERYTHING, server) as gateway:

        def facts() -> Mapping[str, Value]:
            return gateway._visibility._own(LOCAL_USER, "deploys").values

        first = facts()
        await call(gateway, "begin", name="spring")
        begun = facts()
        for path in ("a", "b", "c"):
            await call(gateway, "upload", path=path)
        uploaded = facts()
        await call(gateway, "remove_file", path="c")
        removed = facts()
        await call(gateway, "choose_target", target="eu")
        with pytest.raises(ToolWithheldError, match="it needs a checked draft; call deploys__check"):
            await call(gateway, "publish")
        await call(gateway, "check")
        checked = facts()
        await call(gateway, "publish")

        assert facts() == first
    assert begun == {**first, "draft": "d1", "targets": ("eu", "us")}
    assert uploaded == {**begun, "files": 3, "last": "c"}
    assert removed == {**begun, "files": 2, "last": "b"}
    assert checked == {**removed, "target": "eu", "checked": True, "question": ""}
    assert server.made[-2:] == ["check", "publish"]


def test_every_expression_of_the_language_is_understood() -> None:
    """Those that are no rule by themselves, compared with themselves."""
    _, listed, texts, *_ = [line for line in section("Rules").splitlines() if line.startswith("- ")]
    whole = [span for span in _SPAN.findall(f"{listed} {texts}") if not span.isalnum() and span != "endsWith"]
    compiler = Compiler({"targets": "list", "draft": "str", "files": "int"})

    assert len(whole) == 7
    for one in whole:
        assert any(compiler.compile(text)[0] for text in (one, f"{one} == {one}")), one
    assert compiler.compile("files")[0] is None


# --- rules in Python --------------------------------------------------------------------------------------


def functions() -> Mapping[str, RuleFunction]:
    """What the module of the page defines."""
    names: dict[str, Any] = {}
    exec(RULES, names)
    return {"office_hours": names["office_hours"]}


async def asked_at(gateway: Gateway, now: datetime) -> str:
    """What a call of `publish` is answered at a time: the reason, or its server's refusal."""
    gateway._visibility._now = lambda: now
    try:
        return str((await call(gateway, "publish"))["structuredContent"])
    except ToolWithheldError as error:
        return str(error)


async def test_a_rule_of_a_program_is_used_by_its_gateway(tmp_path: Path) -> None:
    """Its answer is the reason."""
    async with serving(tmp_path, PLUGGED, DeploysServer(), functions()) as gateway:
        assert await asked_at(gateway, MONDAY_NOON) == "{'refused': 'there is no draft'}"
        assert (await asked_at(gateway, SUNDAY)).endswith(
            "it is used on weekdays from 9 to 17, and it is 12 o'clock"
        )


def install(folder: Path) -> None:
    """What an installer makes of the project of the page, in a folder for packages."""
    project = tomllib.loads(PROJECT)["project"]
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    lines = [
        line for group, made in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in made.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    (folder / "our_rules.py").write_text(RULES)


async def test_a_rule_of_an_installed_package_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one of the same name from a program goes before it."""
    install(tmp_path / "packages")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    async with serving(tmp_path, PLUGGED, DeploysServer()) as gateway:
        assert "o'clock" in await asked_at(gateway, SUNDAY)
        assert "refused" in await asked_at(gateway, MONDAY_NOON)
    async with serving(tmp_path, PLUGGED, DeploysServer(), {"office_hours": lambda *_: True}) as gateway:
        assert "refused" in await asked_at(gateway, SUNDAY)


async def test_a_rule_that_no_package_has_is_a_fault(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=r"publish\.rule: there is no rule 'office_hours'"):
        async with serving(tmp_path, PLUGGED, DeploysServer()):
            pass


def test_the_program_runs_as_it_stands(tmp_path: Path) -> None:
    """With the server as a program beside it."""
    text = PLUGGED.replace(
        "command: deploys-mcp", f"command: {sys.executable}\n    args: [{deploys_server.__file__}]"
    )
    for name, content in {"maitred.yaml": text, "our_rules.py": RULES, "program.py": PROGRAM}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=2 * SOON_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "deploys__publish() - Publish the draft." in done.stdout


# --- the whole example ------------------------------------------------------------------------------------


async def test_the_debugger_in_short_leads_the_way_to_a_step(tmp_path: Path) -> None:
    """Each call that the answer names makes the next one possible, and then the step is made."""
    server = DebuggerServer()
    async with serving(tmp_path, DEBUGGER, server) as gateway:
        step = ToolCall(name="debugger__debugger_step_over", arguments={})
        with pytest.raises(ToolWithheldError) as refused:
            await gateway.call(step, viewer=LOCAL_USER)
        why = str(refused.value).partition("now: ")[2]
        for name in why.partition("call ")[2].split(", then "):
            await gateway.call(ToolCall(name=name, arguments={}), viewer=LOCAL_USER)
        answer = await gateway.call(step, viewer=LOCAL_USER)

    assert why in " ".join(PAGE.split())
    assert not answer["isError"]
    assert server.made[-1] == "debugger_step_over"
