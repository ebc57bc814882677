"""Tools that the results of a server bring: dropped, unless the operator allows them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.gateway.rig import until
from tests.support.viewers import agent

from maitred.backends.listing import TOOLS_KEY
from maitred.backends.model_context import ModelContext, ToolDefinition
from maitred.catalog.result_tools import MOST_TOOLS, ResultToolStore
from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL, LOCAL_USER, Viewer
from maitred.model.servers import ServerSpec
from maitred.model.tools import RawTool, ToolCall, ToolKey
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
OLD = agent(LOCAL, era="handshake", connection="1")
NEW = agent(LOCAL)
ANY = {"type": "object"}


class Page:
    """A server whose tool `open` brings what is in `brings`; it knows those tools, but does not list them."""

    def __init__(self, *names: str) -> None:
        self.brings: list[Any] = [{"name": n, "description": f"Do {n}.", "inputSchema": ANY} for n in names]
        self.context = ModelContext()
        self.listed = ("open", "also", "more")
        for name in self.listed:
            self.context.register_tool(ToolDefinition(name=name, description=f"{name}.", execute=self.open))

    async def open(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "opened"}], "tools": self.brings}


@asynccontextmanager
async def opened(folder: Path, page: Page, *, allowed: bool, mode: Any = "all") -> AsyncIterator[Gateway]:
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"page": ServerSpec(name="page", transport="memory", result_tools=allowed)},
        disclosure=Disclosure(mode=mode, break_even_tokens=0),
        catalog=Catalog(path=str(folder / "c.db")),
    )
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(settings, in_process={"page": page.context.server()}) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def call(gateway: Gateway, name: str, viewer: Viewer = NEW) -> dict[str, Any]:
    return await gateway.call(ToolCall(name=name, arguments={}), viewer=viewer)


async def test_without_leave_of_the_operator_the_field_is_taken_out(tmp_path: Path) -> None:
    """Neither client nor catalog sees them; the rest of the answer does not change. Source: issue 6."""
    async with opened(tmp_path, Page("new"), allowed=False) as gateway:
        answer = await call(gateway, "page__open")
        assert answer["content"] == [{"type": "text", "text": "opened"}]
        assert "tools" not in answer
        assert TOOLS_KEY not in answer.get("_meta", {})
        assert "page__new" not in gateway.snapshot.by_name


async def test_with_leave_they_are_known_as_if_they_had_been_listed(tmp_path: Path) -> None:
    """The answer names them as they are published; they can be found, and stay when lists change."""
    page = Page("new")
    async with opened(tmp_path, page, allowed=True) as gateway:
        answer = await call(gateway, "page__open")
        assert [tool["name"] for tool in answer["tools"]] == ["page__new"]
        assert answer["_meta"][TOOLS_KEY] == answer["tools"]
        assert gateway.snapshot.by_name["page__new"].description == "Do new."
        found = await gateway.search(["do new"], viewer=LOCAL_USER)
        assert "page__new" in [result.tool.name for result in found.results]
        page.context.unregister_tool("more")
        await until(gateway, lambda: "page__more" not in gateway.snapshot.by_name)
        assert "page__new" in gateway.snapshot.by_name


async def test_behind_categories_they_stand_in_the_list_of_who_was_given_them(tmp_path: Path) -> None:
    """Its connection need not open their category first; others find it closed. Source: issue 6."""
    page = Page("form_0", "form_1")
    for one in page.brings:
        one["_meta"] = {"category": "forms"}
    async with opened(tmp_path, page, allowed=True, mode="categories") as gateway:
        await call(gateway, "page__open", OLD)

        listed = {v.era: {tool.name for tool in gateway.listed(v)} for v in (OLD, NEW)}
        assert {"page__form_0", "page__form_1"} <= listed["handshake"]
        assert not listed["stateless"] & {"page__form_0", "page__form_1"}
        assert "page__forms_tools" in [group.name for group in gateway._lists.categories(NEW)]


async def test_what_a_result_brings_is_cleaned_like_a_list_and_cannot_replace_what_is_listed(
    tmp_path: Path,
) -> None:
    """Entries without a name are left out, deceiving characters too. Source: DESIGN 5, rule 4."""
    page = Page("good")
    page.brings[0]["description"] = "Do\u202e good."
    page.brings += [{"inputSchema": ANY}, 7, {"name": "also", "description": "mine now", "inputSchema": ANY}]
    async with opened(tmp_path, page, allowed=True) as gateway:
        answer = await call(gateway, "page__open")
        assert [tool["name"] for tool in answer["tools"]] == ["page__good", "page__also"]
        assert gateway.snapshot.by_name["page__good"].description == "Do good."
        assert gateway.snapshot.by_name["page__also"].description == "also."


async def test_what_is_no_list_of_tools_is_taken_out(tmp_path: Path) -> None:
    """A server may write anything there. Source: DESIGN 5, rule 6."""
    page = Page()
    page.brings = "none"  # type: ignore[assignment]
    async with opened(tmp_path, page, allowed=True) as gateway:
        answer = await call(gateway, "page__open")
        assert (answer["content"][0]["text"], "tools" in answer) == ("opened", False)


def test_there_is_a_limit_to_what_results_bring() -> None:
    """In number and in size; what was taken before stays. Source: DESIGN 5, rule 6."""
    brought = ResultToolStore()
    many = [{"name": f"t{n}", "inputSchema": ANY} for n in range(MOST_TOOLS)]
    assert brought.take("s", many) == ([ToolKey(server="s", name=f"t{n}") for n in range(MOST_TOOLS)], True)
    assert brought.take("s", [{"name": "late"}]) == ([], False)
    assert brought.take("s", many[:1]) == ([ToolKey(server="s", name="t0")], False)
    assert brought.take("other", [{"name": "big", "description": "x" * 2_000_000}]) == ([], False)
    brought.forget("s")
    listed = [RawTool(key=ToolKey(server="s", name="own"))]
    assert brought.beside("s", listed) == listed


async def test_the_same_tools_that_two_results_bring_at_once_are_in_both_answers(tmp_path: Path) -> None:
    """The second waits until they are known; it is not enough that they are about to be."""
    async with opened(tmp_path, Page("new"), allowed=True) as gateway:
        brought = []

        async def ask() -> None:
            brought.append([tool["name"] for tool in (await call(gateway, "page__open"))["tools"]])

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)

    assert brought == [["page__new"]] * 5


async def test_who_takes_the_leave_back_is_rid_of_what_was_brought(tmp_path: Path) -> None:
    """At once, without a restart of the server."""
    async with opened(tmp_path, Page("new"), allowed=True) as gateway:
        await call(gateway, "page__open")
        assert "page__new" in gateway.snapshot.by_name
        spec = replace(gateway.settings.servers["page"], result_tools=False)
        await gateway.configure(replace(gateway.settings, servers={"page": spec}), viewer=LOCAL_USER)
        await until(gateway, lambda: "page__new" not in gateway.snapshot.by_name)
