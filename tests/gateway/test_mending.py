"""Mended tools in the gateway: shown better, called as before, and as they were when it is switched off."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.rig import Upstream, opened, settings_of, until

from maitred.config.settings import MediationSettings, Settings
from maitred.errors import ConfigError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp.resources import OwnResources

pytestmark = pytest.mark.anyio

ABOUT = "maitred://server/poor"
POOR = {"gt_usr": "gets user", "del_ord": "", "weather": "Tell the weather of a place."}
OVERRIDES = """\
overrides:
  poor:
    gt_usr: {rename: get_user, description: Get a user by the path of the record.}
    del_*: {hide: true}
"""


def poor(folder: Path, **mediation: object) -> Settings:
    return settings_of(folder, "poor", mediation=MediationSettings(**mediation))  # type: ignore[arg-type]


def described(gateway: Gateway) -> dict[str, str]:
    return {tool.name: tool.description for tool in gateway.visible_tools(LOCAL_USER)}


async def test_without_a_wish_tools_are_shown_as_their_server_has_them(tmp_path: Path) -> None:
    """Mediation is for those who ask for it."""
    async with opened(poor(tmp_path), Upstream("poor", POOR)) as gateway:
        assert described(gateway) == {f"poor__{name}": text for name, text in POOR.items()}


async def test_rules_write_out_what_a_tool_does_and_what_is_good_stays(tmp_path: Path) -> None:
    """Under the same name, so that nothing that knew the tool breaks."""
    async with opened(poor(tmp_path, auto_enhance=True), Upstream("poor", POOR)) as gateway:
        shown = described(gateway)
        call = ToolCall(name="poor__del_ord", arguments={"path": "/"})
        result = await gateway.call(call, viewer=LOCAL_USER)

    assert "order" in shown["poor__del_ord"].lower()
    assert "user" in shown["poor__gt_usr"].lower()
    assert shown["poor__weather"] == POOR["weather"]
    assert result["content"][0]["text"] == "poor/del_ord"


async def test_an_override_renames_and_hides(tmp_path: Path) -> None:
    """The server is called by the name it knows; the old name still means the tool; hidden says why."""
    (tmp_path / "overrides.yaml").write_text(OVERRIDES)
    settings = poor(tmp_path, overrides="overrides.yaml")
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        for name in ("poor__get_user", "gt_usr", "poor__gt_usr"):
            call = ToolCall(name=name, arguments={"path": "/"})
            result = await gateway.call(call, viewer=LOCAL_USER)
            assert result["content"][0]["text"] == "poor/gt_usr"
        with pytest.raises(ToolWithheldError, match="hidden by an override"):
            await gateway.call(ToolCall(name="poor__del_ord", arguments={"path": "/"}), viewer=LOCAL_USER)
        assert set(described(gateway)) == {"poor__get_user", "poor__weather"}


async def test_what_the_server_says_is_kept_and_comes_back(tmp_path: Path) -> None:
    """When the operator changes his mind, while the gateway runs and for the next."""
    settings = poor(tmp_path, auto_enhance=True)
    server = Upstream("poor", POOR)
    async with opened(settings, server) as gateway:
        mended = described(gateway)
        plain = {f"poor__{name}": text for name, text in POOR.items()}
        assert mended != plain
        await gateway.configure(replace(settings, mediation=MediationSettings()), viewer=LOCAL_USER)
        await until(gateway, lambda: described(gateway) == plain)
    async with opened(settings, server) as gateway:
        await until(gateway, lambda: described(gateway) == mended)


async def test_a_file_with_faults_is_refused_with_all_of_them(tmp_path: Path) -> None:
    """Before anything is started."""
    (tmp_path / "overrides.yaml").write_text("overrides:\n  poor:\n    a: {renam: x}\n    b: {hide: maybe}\n")
    with pytest.raises(ConfigError) as caught:
        async with opened(poor(tmp_path, overrides="overrides.yaml"), Upstream("poor", POOR)):
            pass
    assert len(caught.value.faults) == 2


async def test_a_tool_that_an_override_hides_stands_on_no_page(tmp_path: Path) -> None:
    """Neither of its server nor of its category, nor in the index; by its name one reads why not."""
    (tmp_path / "overrides.yaml").write_text(OVERRIDES)
    settings = poor(tmp_path, overrides="overrides.yaml")
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        place = gateway.find("del_ord", LOCAL_USER).placement.category
        pages = [
            gateway.browse("server/poor", viewer=LOCAL_USER).text,
            gateway.browse("tools", viewer=LOCAL_USER).text,
            gateway.index(LOCAL_USER),
        ]
        about = await OwnResources(gateway).read(ABOUT, LOCAL_USER)
        pages += [about.text] if about else []
        counted = [status.tools for status in gateway.servers(LOCAL_USER)]
        if place in {tool.placement.category for tool in gateway.visible_tools(LOCAL_USER)}:
            pages.append(gateway.browse(f"category/{place}", viewer=LOCAL_USER).text)
        told = (await gateway.info(["poor__del_ord"], viewer=LOCAL_USER)).text
        why = (await gateway.tool_json(gateway.find("del_ord", LOCAL_USER), LOCAL_USER))["withheld"]

    assert not [page for page in pages if "del_ord" in page]
    assert counted == [2]
    assert "2 tools on 1 server" in pages[2]
    assert why == "is hidden by an override of the operator"
    assert f"not now: {why}" in told
