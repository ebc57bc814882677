"""Servers whose lists of tools are odd, endless, missing or moving."""

from pathlib import Path

import anyio
import pytest
from tests.backends.rig import SOON_S, eventually
from tests.faults.house import faulty, open_house

from maitred.errors import ArgumentsError
from maitred.model.access import LOCAL_USER
from maitred.model.servers import State

pytestmark = pytest.mark.anyio


async def test_a_list_that_repeats_itself_is_read_once_and_said_so(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("page-loop")}) as house:
        assert house.tools() == ["echo"]
        assert any("pages never end" in note for note in house.status().notes)
        assert await house.text("s__echo", text="hello") == "hello"


async def test_a_list_without_end_is_cut_at_the_configured_number_of_pages_and_said_so(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path, {"s": faulty("endless-pages")}, limits={"max_pages": 20}) as house:
        assert 20 <= len(house.tools()) <= 21
        assert any("pages never end" in note for note in house.status().notes)


async def test_a_list_of_too_many_tools_is_cut_and_the_setting_is_named(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("huge-line")}, limits={"max_tools": 100}) as house:
        assert len(house.tools()) == 100
        assert any("limits.max_tools" in note for note in house.status().notes)


async def test_a_list_of_three_megabytes_in_one_line_is_read(tmp_path: Path) -> None:
    """Source: notes/real-servers.md, `tooluniverse`."""
    async with open_house(tmp_path, {"s": faulty("huge-line")}) as house:
        assert len(house.tools()) == 2001
        assert house.status().notes == ()


async def test_a_name_that_is_listed_twice_is_published_once_and_said_so(tmp_path: Path) -> None:
    """Source: notes/real-servers.md, `metabase-ai`."""
    async with open_house(tmp_path, {"s": faulty("duplicate-names")}) as house:
        assert sorted(house.tools()) == ["echo", "same"]
        assert any("'same' is listed twice" in note for note in house.status().notes)
        assert await house.text("s__same", first="x") == '{"first": "x"}'
        with pytest.raises(ArgumentsError):
            await house.call("s__same", second=1)


async def test_a_server_that_declares_tools_and_knows_no_list_is_reported_with_its_error(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path, {"s": faulty("capability-lies"), "t": faulty("count")}) as house:
        assert house.tools() == []
        assert "-32601" in house.status().error
        assert house.tools("t") == ["echo", "add", "pid"] or sorted(house.tools("t")) == [
            "add",
            "echo",
            "pid",
        ]


async def test_a_list_that_never_comes_is_given_up_and_its_own_setting_is_named(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("hang-in-list", list_timeout_s=0.3)}) as house:
        told = house.status().error
        assert "tools/list within 0.3 s" in told
        assert "list_timeout_s" in told
        assert "taken effect" not in told, "to list has no effect"


async def test_tools_that_come_and_go_are_noticed_without_a_restart(tmp_path: Path) -> None:
    """Source: issue "Foundation", Backends: list_changed refreshes the catalog."""
    async with open_house(tmp_path, {"s": faulty("changing-tools")}) as house:
        await house.call("s__add_tool", name="pear")
        with anyio.fail_after(SOON_S):
            await house.changed(lambda: "pear" in house.tools())
        assert await house.text("s__pear") == "called pear"
        found = await house.gateway.search(["pear"], viewer=LOCAL_USER)
        assert "s__pear" in [result.tool.name for result in found.results]
        await house.call("s__remove_tool", name="pear")
        with anyio.fail_after(SOON_S):
            await house.changed(lambda: "pear" not in house.tools())
        assert house.status().health.starts == 1


async def test_a_list_that_was_different_after_a_restart_is_noticed_at_the_first_call(tmp_path: Path) -> None:
    """Servers are upgraded while nobody looks; their start is the time to look."""
    log = tmp_path / "mode"
    log.write_text("count")
    code = (
        "import pathlib, sys, runpy; mode = pathlib.Path(sys.argv[1]).read_text();"
        "sys.argv = [sys.argv[2], mode]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    entry = faulty("count")
    entry["args"] = ["-I", "-S", "-c", code, str(log), entry["args"][2]]
    async with open_house(tmp_path, {"s": entry}) as house:
        assert sorted(house.tools()) == ["add", "echo", "pid"]
    log.write_text("env")
    async with open_house(tmp_path, {"s": entry}) as house:
        assert sorted(house.tools()) == ["add", "echo", "pid"]
        assert await house.text("s__echo", text="hello") == "hello"
        with anyio.fail_after(SOON_S):
            await house.changed(lambda: sorted(house.tools()) == ["echo", "show_env"])


async def test_a_server_that_announces_a_change_at_every_listing_is_not_listed_for_ever(
    tmp_path: Path,
) -> None:
    """Each listing would cause the next, and the server would never be idle. Source: maitred."""
    loud = (
        "import runpy, sys; server = runpy.run_path(sys.argv[1]); one = server['Server']();"
        "plain = one.on['tools/list'];"
        "one.on['tools/list'] = lambda message: (one.notify('tools/list_changed'), plain(message))[1];"
        "one.run()"
    )
    entry = faulty("count", idle_stop_s=0.5)
    entry["args"] = ["-I", "-S", "-c", loud, entry["args"][2]]
    async with open_house(tmp_path, {"s": entry}) as house:
        assert await house.text("s__echo", text="hello") == "hello"
        await eventually(lambda: house.status().health.state == State.IDLE)
