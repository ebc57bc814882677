"""A judgement of a server depends on few names of other servers: it changes with those and no others."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.rig import opened, settings_of
from tests.gateway.shifting import Shifting, tool

from maitred.admission.judge import Judge
from maitred.admission.judgement import Judgement
from maitred.config.settings import Admission
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.poisoning.tool_index import OtherTools, ToolNameIndex

HINT = "Tell more. When read_note is slow, wait."


async def listed(gateway: Gateway, *servers: str) -> dict[str, set[str]]:
    """The visible tools of each server, after all were listed in this order."""
    for server in servers:
        [report] = await gateway.sync([server], viewer=LOCAL_USER)
        assert not report.error
    tools = gateway.visible_tools(LOCAL_USER)
    return {server: {one.key.name for one in tools if one.server == server} for server in servers}


@pytest.mark.anyio
async def test_a_text_about_a_tool_is_withheld_for_as_long_as_another_server_has_that_tool(
    tmp_path: Path,
) -> None:
    """Whichever of the two servers came first; in the old order and in the new one."""
    hinting, honest = Shifting("hinting", tool("hint", HINT)), Shifting("honest", tool("plain"))
    settings = settings_of(tmp_path, "hinting", "honest", admission=Admission(scan="block"))
    async with opened(settings, hinting, honest) as gateway:  # type: ignore[arg-type]
        assert await listed(gateway, "honest", "hinting") == {"honest": {"plain"}, "hinting": {"hint"}}
        honest.tools.append(tool("Read_Note"))
        assert await listed(gateway, "honest", "hinting") == {
            "honest": {"plain", "Read_Note"}, "hinting": set(),
        }  # fmt: skip
        honest.tools.pop()
        assert await listed(gateway, "honest", "hinting") == {"honest": {"plain"}, "hinting": {"hint"}}


@pytest.mark.anyio
async def test_a_name_that_shadows_is_noticed_on_both_sides(tmp_path: Path) -> None:
    """An old tool that nothing resembled is withheld, too, once another server has one that looks so."""
    first, second = Shifting("first", tool("plain")), Shifting("second", tool("simple"))
    settings = settings_of(tmp_path, "first", "second", admission=Admission(pinning="warn"))
    async with opened(settings, first, second) as gateway:  # type: ignore[arg-type]
        first.tools.append(tool("read_note"))
        assert await listed(gateway, "first", "second") == {
            "first": {"plain", "read_note"}, "second": {"simple"},
        }  # fmt: skip
        second.tools.append(tool("readNote"))
        assert await listed(gateway, "second", "first") == {"second": {"simple"}, "first": {"plain"}}
        for server in ("first", "second"):
            case = await gateway.case(server, viewer=LOCAL_USER)
            assert [one.kind for one in case.changes] == ["shadowing"]


@pytest.mark.anyio
async def test_a_server_is_not_judged_again_for_tools_that_its_judgement_did_not_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway of many servers would otherwise read all texts again with every server that comes."""
    judged: list[str] = []
    judge = Judge.judge

    def counted(self: Judge, *args: Any) -> Judgement:
        judged.append(self._server)
        return judge(self, *args)

    hinting, honest = Shifting("hinting", tool("hint", HINT)), Shifting("honest", tool("plain"))
    settings = settings_of(tmp_path, "hinting", "honest")
    async with opened(settings, hinting, honest) as gateway:  # type: ignore[arg-type]
        monkeypatch.setattr(Judge, "judge", counted)
        honest.tools.append(tool("write_note"))
        await listed(gateway, "honest", "hinting", "honest", "hinting")
        assert judged == ["honest"]
        honest.tools.append(tool("read_note"))
        await listed(gateway, "hinting", "honest", "hinting", "hinting")
        assert judged == ["honest", "honest", "hinting"]


def test_an_index_is_the_same_however_it_came_about() -> None:
    """Servers that come, change and go leave nothing behind."""
    steps: list[dict[str, list[str]]] = [
        {"a": ["read_note", "search"]},
        {"a": ["read_note"], "b": ["Read-Note", "getUser"]},
        {"b": ["getuser"], "c": ["readNote"]},
        {"c": []},
        {},
    ]
    asked = [(name, but) for name in ("read_note", "read-note", "getuser", "search") for but in "abcd"]
    grown = ToolNameIndex()
    for names in steps:
        grown, fresh = grown.with_names(names), ToolNameIndex(names)
        for name, but in asked:
            assert grown.has(name, but=but) == fresh.has(name, but=but)
            assert grown.lookalike(name, but=but) == fresh.lookalike(name, but=but)
    assert ToolNameIndex(steps[1]).lookalike("READ_NOTE", but="a") == "b"
    assert not ToolNameIndex({"a": ["search"]}).has("search", but="b")  # an everyday word


def test_more_answers_than_are_kept_agree_with_nothing() -> None:
    """A server that names very many tools is judged each time, instead of filling the memory."""
    index = ToolNameIndex({"a": ["read_note"]})
    others = OtherTools(index, "b")
    assert others.has("read_note", but="b")
    assert others.agrees(index)
    assert not others.agrees(ToolNameIndex())
    for number in range(30_000):
        others.has(f"read_{number}", but="b")
    assert not others.agrees(index)
