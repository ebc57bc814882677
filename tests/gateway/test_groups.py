"""Groups of tools that were proposed, as everything that reads the menu has them: pages, search, lists."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.mediator import asked_about, asking
from tests.gateway.rig import Upstream, opened, settings_of, until
from tests.support.extras import need
from tests.support.openai_server import OpenAiServer, Request, openai_server

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Disclosure, MediationSettings, Settings
from maitred.config.taxonomy import CATEGORIES
from maitred.errors import ConfigError, PathNotFoundError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Scope
from maitred.model.categories import Category, ToolChoice
from maitred.model.tools import ToolCall, ToolKey

pytestmark = pytest.mark.anyio

WIDGETS = ("create_frobnitz", "get_frobnitz", "list_frobnitz")
GROUP = "frobnitz"


def works() -> Upstream:
    """A server with tools about a thing that no category knows, and two others."""
    return Upstream("works", {**dict.fromkeys(WIDGETS, ""), "ping": "Ping a host.", "run_query": "Run SQL."})


def of_works(folder: Path, **fields: Any) -> Settings:
    return settings_of(folder, "works", **fields)


def headings(gateway: Gateway) -> dict[str, str]:
    """Each heading of the menu, and what proposed it."""
    return {line.category.name: line.proposed_by for line in gateway.categories(LOCAL_USER).lines}


async def found_in(gateway: Gateway, category: str) -> set[str]:
    answer = await gateway.search(["frobnitz", "query", "ping"], category=category, viewer=LOCAL_USER)
    return {one.tool.name for one in answer.results}


async def test_a_group_is_a_category_of_the_menu(tmp_path: Path) -> None:
    """It has a line, a page and a place in search, and a mistaken name leads to it."""
    async with opened(of_works(tmp_path), works()) as gateway:
        assert headings(gateway)[GROUP] == "rules"
        text = gateway.browse("categories", viewer=LOCAL_USER).text
        assert "  category/frobnitz: Frobnitz - 3 tools on 1 server" in text
        page = gateway.page(f"category/{GROUP}", viewer=LOCAL_USER)
        assert {one.tool.key.name for one in page.tools} == set(WIDGETS)
        assert await found_in(gateway, GROUP) == {f"works__{name}" for name in WIDGETS}
        tool = gateway.find("works__get_frobnitz", LOCAL_USER)
        assert (await gateway.tool_json(tool, LOCAL_USER))["group"] == {"name": GROUP, "proposed_by": "rules"}
        with pytest.raises(PathNotFoundError, match="Did you mean 'frobnitz'"):
            gateway.page("category/frobnits", viewer=LOCAL_USER)


@pytest.mark.parametrize("mode", ["menu", "all", "auto", "categories"])
async def test_it_is_there_in_every_mode_of_the_list(mode: Any, tmp_path: Path) -> None:
    """In mode `categories`, its tool stands for its tools, and says what it is about."""
    shows = Disclosure(mode=mode, break_even_tokens=0)
    async with opened(of_works(tmp_path, disclosure=shows), works()) as gateway:
        assert GROUP in headings(gateway)
        assert len(gateway.page(f"category/{GROUP}", viewer=LOCAL_USER).tools) == 3
        assert len(await found_in(gateway, GROUP)) == 3
        answer = await gateway.call(ToolCall(name="frobnitz_tools", arguments={}), viewer=LOCAL_USER)
        assert "works__get_frobnitz" in json.dumps(answer)
        if mode == "categories":
            listed = {one["name"]: one for one in gateway.category_definitions(LOCAL_USER)}
            assert listed["frobnitz_tools"]["description"] == (
                "List 3 tools: Tools for frobnitz: create, get, list."
            )


async def test_a_group_outlives_the_process(tmp_path: Path) -> None:
    """It is stored with the catalog: a server that does not start any more leaves it there."""
    settings, server = of_works(tmp_path), works()
    async with opened(settings, server) as gateway:
        before = {tool.key: tool.placement.group for tool in gateway.snapshot.tools}
        assert any(before.values())
    server.well = False
    async with opened(settings, server) as gateway:
        assert {tool.key: tool.placement.group for tool in gateway.snapshot.tools} == before


async def test_an_operator_overrules_a_group(tmp_path: Path) -> None:
    """By a category for a tool, by a category of that name, or by the setting; a running gateway takes it."""
    settings = of_works(tmp_path)
    chosen = {ToolKey(server="works", name=WIDGETS[0]): ToolChoice(category="data")}
    own = Category(name=GROUP, title="Of the house", words=("frobnitz",))
    async with opened(settings, works()) as gateway:
        for other in (
            replace(settings, tools=chosen),
            replace(settings, disclosure=Disclosure(groups="off")),
        ):
            await gateway.configure(other, viewer=LOCAL_USER)
            await until(gateway, lambda: GROUP not in headings(gateway))
            await gateway.configure(settings, viewer=LOCAL_USER)
            await until(gateway, lambda: GROUP in headings(gateway))
        await gateway.configure(replace(settings, categories={GROUP: own}), viewer=LOCAL_USER)
        await until(gateway, lambda: headings(gateway).get(GROUP) == "")


async def test_a_group_gives_nobody_access(tmp_path: Path) -> None:
    """A scope names categories; the tools of a group stay in theirs."""
    async with opened(of_works(tmp_path), works()) as gateway:
        place = gateway.find("works__get_frobnitz", LOCAL_USER).placement
        assert place.category in {category.name for category in CATEGORIES}
        request = TokenRequest(name="eve", role="viewer", scope=Scope(categories=frozenset({GROUP})))
        with pytest.raises(ConfigError, match="frobnitz"):
            await gateway.make_token(request, LOCAL_USER)


@pytest.fixture
def model() -> Iterator[OpenAiServer]:
    need("openai")
    with openai_server() as running:
        yield running


@pytest.mark.usefixtures("llm_packages")
async def test_a_language_model_proposes_groups_with_descriptions(
    model: OpenAiServer, tmp_path: Path
) -> None:
    """Its group goes before that of rules; its description is that of the category tool."""

    def reply(request: Request) -> str:
        names = asked_about(request)
        numbers = [at for at, name in enumerate(names, 1) if name in WIDGETS]
        group = {"name": "widget_store", "description": "Tools for the store of widgets.", "tools": numbers}
        return json.dumps(
            {"tools": {str(at): {"tool": n} for at, n in enumerate(names, 1)}, "groups": [group]}
        )

    model.reply = reply
    mediation = MediationSettings(**asking(model, grouping_threshold=2))
    shows = Disclosure(mode="categories", break_even_tokens=0)
    async with opened(of_works(tmp_path, mediation=mediation, disclosure=shows), works()) as gateway:
        await until(gateway, lambda: headings(gateway).get("widget_store") == "model")
        assert GROUP not in headings(gateway)
        [listed] = [
            one for one in gateway.category_definitions(LOCAL_USER) if one["name"] == "widget_store_tools"
        ]
        assert listed["description"] == "List 3 tools: Tools for the store of widgets."
        assert await found_in(gateway, "widget_store") == {f"works__{name}" for name in WIDGETS}
