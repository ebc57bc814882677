"""What an operator decides about single tools: switched off, pinned, moved; in effect and in the file."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.lowlevel import Server
from tests.gateway.rig import SOON_S, Upstream, call, opened, settings_of
from tests.gateway.test_registering import MANIFEST, known, ready, trusting
from tests.support.viewers import agent

from maitred.config.edit_choices import ToolChange
from maitred.config.load import load
from maitred.config.settings import Disclosure, Settings
from maitred.errors import ConfigError, NotAllowedError, ToolNotFoundError, ToolWithheldError
from maitred.gateway import Gateway, TrialText
from maitred.model.access import LOCAL_USER, Grant, Scope, Viewer
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolCall, ToolKey
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

TOOLS = {
    "refund": "Pays money back to a customer.",
    "invoice": "Writes an invoice for a customer.",
    "weather": "Says how warm it is in a town.",
}
REFUND = ToolKey(server="shop", name="refund")
OFF = ToolChange(enabled=False)
ON = ToolChange(enabled=True)
WHY = "is switched off by the operator"
SCRIPTED = Path(__file__).parents[1] / "surfaces" / "web" / "scripted_server.py"


def without(settings: Settings, *names: str) -> Settings:
    """The settings with tools of the shop switched off."""
    tools = {ToolKey(server="shop", name=name): ToolChoice(enabled=False) for name in names}
    return replace(settings, tools=tools)


# --- in effect --------------------------------------------------------------------------------------------


async def test_an_agent_finds_a_tool_that_is_switched_off_nowhere(tmp_path: Path) -> None:
    """Not in a search, a list or a page; a search says that there is one, and why it is not shown."""
    settings = settings_of(tmp_path, "shop", disclosure=Disclosure(mode="all"))
    viewer = agent("ann")
    async with opened(settings, Upstream("shop", TOOLS)) as gateway:
        phrases = ["pay money back to a customer"]
        before = await gateway.search(phrases, viewer=viewer)
        assert before.results[0].tool.key == REFUND

        await gateway.configure(without(settings, "refund"), viewer=LOCAL_USER)

        found = await gateway.search(phrases, viewer=viewer)
        assert REFUND not in {one.tool.key for one in found.results}
        assert found.withheld["shop"] == (1, "switched off by the operator in the configuration")
        assert "refund" not in found.text
        assert "switched off" in found.text
        for text in (
            gateway.hot(viewer).text,
            gateway.browse("server/shop", viewer=viewer).text,
            *(
                gateway.browse(f"category/{line.category.name}", viewer=viewer).text
                for line in gateway.categories(viewer).lines
            ),
        ):
            assert "refund" not in text
        _, listed, _ = await gateway.listing(viewer)
        assert {tool.key.name for tool in listed} == {"invoice", "weather"}
        assert {tool.key.name for tool in gateway.visible_tools(viewer)} == {"invoice", "weather"}
        assert "not now: is switched off" in (await gateway.info(["shop__refund"], viewer=viewer)).text

        await gateway.configure(settings, viewer=LOCAL_USER)
        again = await gateway.search(phrases, viewer=viewer)
        assert again.results[0].tool.key == REFUND


async def test_a_tool_that_is_switched_off_is_not_called(tmp_path: Path) -> None:
    """Neither by its full name, nor by its own, nor in a chain; whoever asks gets the reason."""
    settings = without(settings_of(tmp_path, "shop"), "refund")
    async with opened(settings, Upstream("shop", TOOLS)) as gateway:
        for viewer in (agent("ann"), LOCAL_USER):
            for name in ("shop__refund", "refund"):
                asked = ToolCall(name=name, arguments={"path": "/"})
                with pytest.raises(ToolWithheldError, match=WHY):
                    await gateway.call(asked, viewer=viewer)
        program = 'return await call_tool("shop__refund", {"path": "/"})'
        answer = await gateway.run_chain(program, viewer=agent("ann"))
        assert not answer.ok
        assert "switched off" in answer.text
        assert (await call(gateway, "shop__invoice"))["content"][0]["text"] == "shop/invoice"


async def test_a_wrong_name_is_not_answered_with_a_tool_that_is_switched_off(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "shop")
    async with opened(settings, Upstream("shop", TOOLS)) as gateway:
        await gateway.warm()
        wrong = ToolCall(name="shop__refnud", arguments={})
        with pytest.raises(ToolNotFoundError, match="shop__refund"):
            await gateway.call(wrong, viewer=agent("ann"))
        await gateway.configure(without(settings, "refund"), viewer=LOCAL_USER)
        with pytest.raises(ToolNotFoundError) as refused:
            await gateway.call(wrong, viewer=agent("ann"))
        assert "shop__refund" not in str(refused.value)


async def test_a_search_on_trial_says_that_a_tool_is_switched_off(tmp_path: Path) -> None:
    """The reasons name it as withheld, for a viewer of a part of the catalog too."""
    settings = without(settings_of(tmp_path, "shop", "bank"), "refund")
    part = Grant(principal="bo", role="admin", scope=Scope(servers=frozenset({"shop"})))
    async with opened(settings, Upstream("shop", TOOLS), Upstream("bank", TOOLS)) as gateway:
        for viewer in (LOCAL_USER, Viewer(grant=part)):
            made = await gateway.explain_search(
                ["pay money back"], expected="shop__refund", server="shop", viewer=viewer
            )
            [phrase] = made.phrases
            assert phrase.expected
            assert phrase.expected.fate == "withheld"
            assert WHY in phrase.expected_why
            assert [(one.server, one.names) for one in phrase.withheld] == [("shop", ["shop__refund"])]


class Gated(Upstream):
    """A server that starts only when its gate is open, and counts its calls."""

    def __init__(self, name: str) -> None:
        super().__init__(name, TOOLS)
        self.begun, self.gate = anyio.Event(), anyio.Event()
        self.calls = 0

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        self.begun.set()
        await self.gate.wait()
        yield

    async def _call(self, context: Any, params: Any) -> Any:
        self.calls += 1
        return await super()._call(context, params)


async def test_a_call_that_waits_for_its_server_does_not_reach_a_tool_that_is_switched_off(
    tmp_path: Path,
) -> None:
    """The call was allowed when it came; the server gets it no more."""
    settings = settings_of(tmp_path, "shop")
    async with opened(settings, Upstream("shop", TOOLS)):
        pass  # the catalog knows the tools from here on
    slow = Gated("shop")
    with anyio.fail_after(SOON_S):
        async with (
            open_gateway(settings, in_process={"shop": slow.sdk()}) as gateway,
            anyio.create_task_group() as tasks,
        ):

            async def ask() -> None:
                with pytest.raises(ToolWithheldError, match=WHY):
                    await call(gateway, "shop__refund")

            tasks.start_soon(ask)
            await slow.begun.wait()
            await gateway.configure(without(settings, "refund"), viewer=LOCAL_USER)
            slow.gate.set()
    assert slow.calls == 0


# --- in the file ------------------------------------------------------------------------------------------


def configuration(folder: Path, more: str = "") -> Path:
    """A file with remarks, for a program that offers the tools."""
    script = folder / "shop.json"
    listed = [{"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in TOOLS.items()]
    script.write_text(json.dumps({"tools": listed}))
    args = json.dumps(["-I", "-S", str(SCRIPTED), str(script)])
    path = folder / "maitred.yaml"
    path.write_text(
        "# my shop\nservers:\n"
        f"  shop:  # sells\n    command: {json.dumps(sys.executable)}\n    args: {args}\n"
        f"catalog:\n  path: {json.dumps(str(folder / 'c.db'))}\n{more}"
    )
    return path


@asynccontextmanager
async def over(path: Path) -> AsyncIterator[Gateway]:
    with anyio.fail_after(SOON_S):
        async with open_gateway(load(path)) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def test_a_tool_is_switched_off_and_on_again_in_the_file(tmp_path: Path) -> None:
    """At once; remarks and the rest of the file stay, and nothing is left of it in the end."""
    path = configuration(tmp_path)
    before = path.read_text()
    async with over(path) as gateway:
        assert await gateway.change_tool("shop__refund", OFF, LOCAL_USER) == path
        assert path.read_text().startswith(before)
        assert load(path).tools == {REFUND: ToolChoice(enabled=False)}
        with pytest.raises(ToolWithheldError, match=WHY):
            await call(gateway, "shop__refund")
        assert [tool.key for tool in gateway.switched_off_tools(LOCAL_USER)] == [REFUND]

        await gateway.change_tool("shop__refund", ON, LOCAL_USER)
        assert load(path).tools == {}
        assert [line for line in before.splitlines() if "#" in line] == [
            line for line in path.read_text().splitlines() if "#" in line
        ]
        assert not (await call(gateway, "shop__refund")).get("isError")
        assert gateway.switched_off_tools(LOCAL_USER) == []


async def test_a_tool_is_pinned_and_moved_beside_other_choices(tmp_path: Path) -> None:
    """Each decision leaves the others, and the remarks behind them."""
    path = configuration(
        tmp_path, "tools:\n  shop:\n    # careful\n    refund:\n      cache_s: 5  # s\n      category: ai\n"
    )
    async with over(path) as gateway:
        assert "shop__refund" not in gateway.hot(LOCAL_USER).text.partition("\n")[0]
        await gateway.change_tool("shop__refund", ToolChange(pinned=True, category="data"), LOCAL_USER)
        assert gateway.hot(LOCAL_USER).pinned == 1
        assert gateway.tool("shop", "refund", LOCAL_USER).placement.category == "data"
        assert "      cache_s: 5  # s\n      category: data\n" in path.read_text()
        assert gateway.tool_choices(agent("ann"))[REFUND].pinned

        await gateway.change_tool("shop__refund", ToolChange(pinned=False, category=""), LOCAL_USER)
        assert gateway.hot(LOCAL_USER).pinned == 0
        assert gateway.tool("shop", "refund", LOCAL_USER).placement.by == "rules"
        assert path.read_text().endswith("    # careful\n    refund:\n      cache_s: 5  # s\n")


async def test_only_who_may_configure_decides_about_tools(tmp_path: Path) -> None:
    """A refusal changes nothing; the audit trail has both, the refusal and what was done."""
    path = configuration(tmp_path)
    before = path.read_bytes()
    scope = Scope(servers=frozenset({"shop"}))
    grants = [
        *(Grant(principal="x", role=role) for role in ("viewer", "agent", "operator")),
        Grant(principal="part", role="admin", scope=scope),
        Grant(principal="reader", role="admin", scope=Scope(read_only=True)),
    ]
    async with over(path) as gateway:
        for grant in grants:
            with pytest.raises(NotAllowedError):
                await gateway.change_tool("shop__refund", OFF, Viewer(grant=grant))
            with pytest.raises(NotAllowedError):
                gateway.switched_off_tools(Viewer(grant=grant))
        assert path.read_bytes() == before

        await gateway.change_tool("shop__refund", OFF, LOCAL_USER)
        lines = (await gateway.audit_lines(LOCAL_USER)).lines
    [done] = [line for line in lines if line["action"] == "tool.change"]
    assert (done["server"], done["tool"], done["outcome"]) == ("shop", "refund", "ok")
    assert len([line for line in lines if line["outcome"] == "not_allowed"]) >= len(grants)


async def test_a_viewer_of_a_part_gets_no_choices_of_another_part(tmp_path: Path) -> None:
    settings = without(settings_of(tmp_path, "shop", "bank"), "refund")
    part = Grant(principal="bo", role="agent", scope=Scope(servers=frozenset({"bank"})))
    async with opened(settings, Upstream("shop", TOOLS), Upstream("bank", TOOLS)) as gateway:
        assert gateway.tool_choices(Viewer(grant=part)) == {}
        assert set(gateway.tool_choices(agent("ann"))) == {REFUND}


async def test_a_file_of_a_client_is_not_written(tmp_path: Path) -> None:
    own = configuration(tmp_path)
    path = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": list(load(own).servers["shop"].args)}
    path.write_text(json.dumps({"mcpServers": {"shop": entry}, "catalog": {"path": str(tmp_path / "d.db")}}))
    before = path.read_bytes()
    async with over(path) as gateway:
        with pytest.raises(ConfigError, match="client's file, which cannot hold choices for tools"):
            await gateway.change_tool("shop__refund", OFF, LOCAL_USER)
        assert not (await call(gateway, "shop__refund")).get("isError")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("more", "change", "says"),
    [
        ("limmits: {}\n", OFF, "limmits"),
        ("", ToolChange(category="dada"), "'dada' is no category"),
        ("tools:\n  shop:\n    weather: &w {pinned: true}\n    refund: *w\n", OFF, "layout does not allow"),
        ("", ToolChange(), "nothing to change"),
    ],
    ids=["fault in the file", "unknown category", "layout", "nothing"],
)
async def test_what_cannot_be_written_changes_nothing(
    tmp_path: Path, more: str, change: ToolChange, says: str
) -> None:
    """The message says why; the file and what agents see stay as they were."""
    path = configuration(tmp_path)
    async with over(path) as gateway:
        path.write_text(path.read_text() + more)  # by an editor, after the start
        before = path.read_bytes()
        settings = gateway.settings
        with pytest.raises(ConfigError, match=says):
            await gateway.change_tool("shop__refund", change, LOCAL_USER)
        assert path.read_bytes() == before
        assert gateway.settings is settings
        assert not (await call(gateway, "shop__refund")).get("isError")


async def test_a_tool_of_a_registered_server_is_left_to_overrides(tmp_path: Path) -> None:
    """The configuration does not name its server; the message says where its tools are hidden."""
    with anyio.fail_after(4 * SOON_S):
        async with ready(trusting(tmp_path)) as gateway:
            await gateway.register_server(MANIFEST, source="team.yml", viewer=LOCAL_USER)
            await known(gateway)
            [name] = [one.name for one in gateway.visible_tools(LOCAL_USER) if one.key.name == "find_user"]
            with pytest.raises(ConfigError, match="is registered by a manifest; `hide`"):
                await gateway.change_tool(name, OFF, LOCAL_USER)


async def test_an_unknown_tool_is_refused(tmp_path: Path) -> None:
    path = configuration(tmp_path)
    async with over(path) as gateway:
        with pytest.raises(ToolNotFoundError):
            await gateway.change_tool("shop__nothing", OFF, LOCAL_USER)


async def test_several_people_at_once_lose_nothing(tmp_path: Path) -> None:
    """Through two gateways of one file, and with texts for a tool at the same moment."""
    path = configuration(tmp_path)
    async with over(path) as one, over(path) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(one.change_tool, "shop__refund", OFF, LOCAL_USER)
        tasks.start_soon(one.change_tool, "shop__refund", ToolChange(category="data"), LOCAL_USER)
        tasks.start_soon(other.change_tool, "shop__invoice", ToolChange(pinned=True), LOCAL_USER)
        tasks.start_soon(other.change_tool, "shop__weather", OFF, LOCAL_USER)
        text = TrialText(tool="shop__weather", description="Says how cold it is.")
        tasks.start_soon(one.keep_text, text, LOCAL_USER)
    settings = load(path)
    assert {key.name: choice for key, choice in settings.tools.items()} == {
        "refund": ToolChoice(enabled=False, category="data"),
        "invoice": ToolChoice(pinned=True),
        "weather": ToolChoice(enabled=False),
    }
    assert settings.mediation.overrides == "overrides.yaml"
    assert "Says how cold it is." in (tmp_path / "overrides.yaml").read_text()
    assert path.read_text().startswith("# my shop\nservers:\n  shop:  # sells\n")
