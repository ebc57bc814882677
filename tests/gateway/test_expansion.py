"""Categories as tools: what they save, what stays callable, and what each kind of client sees of them."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import anyio
import pytest
from tests.gateway.rig import until
from tests.support import corpus
from tests.support.viewers import agent

from maitred.backends.model_context import ModelContext, ToolDefinition
from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.errors import CursorError
from maitred.gateway import Gateway
from maitred.meta_tools.menu import META_TOOLS, with_categories
from maitred.model.access import LOCAL, Viewer, ViewerEra
from maitred.model.categories import Category, ToolChoice
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall, ToolKey
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0


def viewer_of(era: ViewerEra, connection: str) -> Viewer:
    return agent(LOCAL, era=era, connection=connection if era == "handshake" else "")


OLD = agent(LOCAL, era="handshake", connection="1")
OTHER = agent(LOCAL, era="handshake", connection="2")
NEW = agent(LOCAL)
SCHEMA = {"type": "object", "properties": {"user_id": {"type": "string"}}, "required": ["user_id"]}


async def echo(arguments: Mapping[str, Any]) -> str:
    return json.dumps(dict(arguments))


def made(name: str, description: str = "", schema: Any = None) -> ToolDefinition:
    about = description or f"{name.replace('_', ' ').capitalize()} of the team."
    return ToolDefinition(name=name, description=about, execute=echo, input_schema=schema or SCHEMA)


def team(categories: Mapping[str, Sequence[str]], *others: str) -> ModelContext:
    context = ModelContext()
    for name, tools in categories.items():
        context.register_category(name, f"All about {name}.", [made(tool) for tool in tools])
    for name in others:
        context.register_tool(made(name))
    return context


def recorded(count: int, held: int) -> ModelContext:
    """So many tools of the sizes of real ones, in categories that hold so many."""
    listed = [one for record in corpus.generate(seed=7, servers=5, tools=260) for one in record["tools"]]
    fine = [one for one in listed if isinstance(one.get("inputSchema"), dict)]
    some = fine[:: len(fine) // count][:count]
    tools = [
        made(f"tool_{n:02}", one.get("description") or "", one["inputSchema"]) for n, one in enumerate(some)
    ]
    context = ModelContext()
    for start in range(0, count, held):
        context.register_category(
            f"area{start // held}",
            "Look after users, their roles and what they may do.",
            tools[start : start + held],
        )
    return context


@asynccontextmanager
async def opened(folder: Path, context: ModelContext, **fields: Any) -> AsyncIterator[Gateway]:
    fields.setdefault("disclosure", Disclosure(mode="categories", break_even_tokens=0))
    fields.setdefault("catalog", Catalog(path=str(folder / "c.db")))
    rules = fields.pop("visibility_of", {})
    chosen = Settings(
        source=folder / "maitred.yaml",
        servers={"page": ServerSpec(name="page", transport="memory", visibility=rules)},
        **fields,
    )
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(chosen, in_process={"page": context.server()}) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def call(gateway: Gateway, name: str, viewer: Viewer, **arguments: Any) -> dict[str, Any]:
    return await gateway.call(ToolCall(name=name, arguments=arguments), viewer=viewer)


def text_of(answer: Mapping[str, Any]) -> str:
    [block] = answer["content"]
    return str(block["text"])


async def names(gateway: Gateway, viewer: Viewer) -> list[str]:
    """Categories and tools of the list."""
    mode, tools, _ = await gateway.listing(viewer)
    own = [d["name"] for d in gateway.category_definitions(viewer)] if mode == "categories" else []
    return [*own, *(tool.name for tool in tools)]


async def cost(gateway: Gateway, viewer: Viewer) -> int:
    """The o200k tokens of a list: of tools by the catalog, of our own definitions as a model reads them."""
    mode, tools, _ = await gateway.listing(viewer)
    own = with_categories(gateway, viewer) if mode == "categories" else []
    texts = [json.dumps({k: v for k, v in one.items() if k != "_meta"}, separators=(",", ":")) for one in own]
    return sum(tool.cost_tokens for tool in tools) + sum(count_tokens(texts))


# --- what it saves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_of_fifty_tools_a_client_pays_for_the_category_that_it_uses(
    tmp_path: Path, era: ViewerEra
) -> None:
    """None used: 90 % saved; one used, its answer and what the list gains counted: 80 %. Source: issue 6."""
    async with opened(tmp_path, recorded(50, held=5)) as gateway:
        before = sum(tool.cost_tokens for tool in gateway.snapshot.tools)
        none = await cost(gateway, viewer_of(era, "none"))
        used = []
        for number in range(10):
            viewer = viewer_of(era, str(number))
            answer = await call(gateway, f"page__area{number}_tools", viewer)
            assert len(answer["tools"]) == 5
            used.append(await cost(gateway, viewer) + sum(count_tokens([text_of(answer)])))

    saved = [f"{1 - paid / before:.1%}" for paid in (none, mean(used), max(used))]
    print(f"{era}: {before} tokens; saved with none, one, the dearest: {', '.join(saved)}")  # noqa: T201
    assert 1 - none / before >= 0.90
    assert 1 - mean(used) / before >= 0.80


async def test_ten_tools_that_are_all_used_cost_what_they_cost_without_categories(tmp_path: Path) -> None:
    """Below the break-even the list is that of mode `all`: nothing is lost. Source: design document 000."""
    context = team(
        {"user": ["add", "drop", "find", "rename", "list"], "role": ["give", "take"]}, "a", "b", "c"
    )
    async with opened(tmp_path, context, disclosure=Disclosure(mode="categories")) as gateway:
        mode, tools, _ = await gateway.listing(OLD)
        paid = await cost(gateway, OLD)

        assert (mode, len(tools)) == ("all", 10)
        assert paid == sum(tool.cost_tokens for tool in gateway.snapshot.tools)
        assert await names(gateway, NEW) == [tool.name for tool in tools]


# --- what is listed ---------------------------------------------------------------------------------------


async def test_a_category_is_one_entry_that_says_how_many_tools_it_holds(tmp_path: Path) -> None:
    """`isCategory` and `toolCount` for clients that know them, words for the others. Source: issue 6."""
    async with opened(tmp_path, team({"admin": ["create_user", "delete_user"]}, "hello")) as gateway:
        assert gateway.category_definitions(OLD) == [
            {
                "name": "page__admin_tools",
                "description": "List 2 tools: All about admin.",
                "inputSchema": {"type": "object", "properties": {}},
                "annotations": {"readOnlyHint": True, "openWorldHint": False},
                "_meta": {"isCategory": True, "toolCount": 2},
            }
        ]
        assert await names(gateway, OLD) == ["page__admin_tools", "page__hello"]


async def test_a_category_of_a_single_tool_is_listed_as_that_tool(tmp_path: Path) -> None:
    """Opening it would cost a call and save nothing. Source: maitred."""
    async with opened(tmp_path, team({"admin": ["create_user"], "role": ["give", "take"]})) as gateway:
        assert await names(gateway, OLD) == ["page__role_tools", "page__create_user"]


async def test_tools_without_a_category_of_their_server_stand_in_those_of_the_catalog(tmp_path: Path) -> None:
    """What a person chose goes before what the server declares, too. Source: maitred."""
    chosen = {
        ToolKey(server="page", name=name): ToolChoice(category="security")
        for name in ("hello", "give", "bye")
    }
    context = team({"role": ["give", "take", "show"]}, "hello", "bye")
    async with opened(tmp_path, context, tools=chosen) as gateway:
        await gateway.settled(SOON_S)
        shown = {d["name"]: d["_meta"]["toolCount"] for d in gateway.category_definitions(OLD)}

    assert shown == {"page__role_tools": 2, "security_tools": 3}


async def test_no_category_is_published_by_the_name_of_a_tool_of_ours(tmp_path: Path) -> None:
    """A category `search` must not hide the search; it opens by another name. Source: maitred."""
    chosen = {
        ToolKey(server="page", name=name): ToolChoice(category=category)
        for category in ("search", *META_TOOLS)
        for name in (f"{category}_one", f"{category}_two")
    }
    categories = {name: Category(name=name) for name in ("search", *META_TOOLS)}
    context = team({}, *(key.name for key in chosen))
    async with opened(tmp_path, context, tools=chosen, categories=categories) as gateway:
        found = [definition["name"] for definition in gateway.category_definitions(OLD)]
        answers = [await call(gateway, name, OLD) for name in found]

    assert len(found) == len(categories)
    assert set(found) & set(META_TOOLS) == set()
    assert sorted(tool["name"] for answer in answers for tool in answer["tools"]) == sorted(
        f"page__{key.name}" for key in chosen
    )


# --- opening and collapsing -------------------------------------------------------------------------------


async def test_an_open_category_stands_in_the_list_of_the_connection_that_opened_it(tmp_path: Path) -> None:
    """Until it collapses it; other connections and the stateless era see no change. Source: issue 6."""
    async with opened(tmp_path, team({"admin": ["create_user", "delete_user"]}, "hello")) as gateway:
        closed = ["page__admin_tools", "page__hello"]
        answer = await call(gateway, "page__admin_tools", OLD)
        after = await names(gateway, OLD)
        others = [await names(gateway, viewer) for viewer in (OTHER, NEW)]
        told = await call(gateway, "page__admin_tools", OLD, collapse=True)

        assert after == ["page__admin_tools", "page__create_user", "page__delete_user", "page__hello"]
        assert others == [closed, closed]
        assert await names(gateway, OLD) == closed
        assert text_of(answer).splitlines() == [
            "Now in your list: create_user, delete_user.",
            "Missing? Call again.",
        ]
        assert [tool["name"] for tool in answer["tools"]] == ["page__create_user", "page__delete_user"]
        assert answer["tools"][0]["inputSchema"] == SCHEMA
        assert text_of(told) == (
            "page__admin_tools is collapsed; its 2 tools can be called by name all the same."
        )


async def test_a_client_that_asks_again_gets_the_signatures(tmp_path: Path) -> None:
    """By name where it has read its list, else with call_tool; collapsing begins anew. Source: maitred."""
    signatures = [
        "page__create_user(user_id: str) - Create user of the team.",
        "page__delete_user(user_id: str) - Delete user of the team.",
    ]
    async with opened(tmp_path, team({"admin": ["create_user", "delete_user"]})) as gateway:
        first = await call(gateway, "page__admin_tools", OLD)
        await names(gateway, OLD)
        again = await call(gateway, "page__admin_tools", OLD)
        await call(gateway, "page__admin_tools", OLD, collapse=True)
        anew = await call(gateway, "page__admin_tools", OLD)
        unread = await call(gateway, "page__admin_tools", OLD)

    assert text_of(first) == text_of(anew)
    assert text_of(again).splitlines() == ["2 tools in page__admin_tools; call them by name:", *signatures]
    assert text_of(unread).splitlines()[0] == "2 tools in page__admin_tools; call them with call_tool:"
    assert text_of(unread).splitlines()[1:] == signatures


async def test_where_several_categories_are_open_an_answer_says_how_to_collapse(tmp_path: Path) -> None:
    """With one there is nothing to make room for. Source: docs/categories.md."""
    groups = {area: [f"{verb}_{area}" for verb in ("add", "find")] for area in ("admin", "role")}
    async with opened(tmp_path, team(groups)) as gateway:
        one, two = [text_of(await call(gateway, f"page__{area}_tools", OLD)) for area in groups]

    assert "collapse" not in one
    assert two.splitlines()[1] == 'Missing? Call again. {"collapse": true} removes them.'


async def test_a_client_that_never_reads_its_list_again_gets_signatures_at_once(tmp_path: Path) -> None:
    """From its second question on; when it reads the list after all, names suffice again. Source: maitred."""
    groups = {area: [f"{verb}_{area}" for verb in ("add", "find")] for area in ("admin", "role", "team")}
    async with opened(tmp_path, team(groups)) as gateway:
        await names(gateway, OLD)
        asked = ["admin", "role", "role", "team"]
        answers = [text_of(await call(gateway, f"page__{area}_tools", OLD)) for area in asked]
        await names(gateway, OLD)
        await call(gateway, "page__team_tools", OLD, collapse=True)
        answers.append(text_of(await call(gateway, "page__team_tools", OLD)))
        other = text_of(await call(gateway, "page__admin_tools", OTHER))

    has_signatures = ["(user_id: str)" in answer for answer in answers]
    assert has_signatures == [False, False, True, True, False]
    assert "call them with call_tool" in answers[3]
    assert "(user_id: str)" not in other


async def test_tools_of_several_servers_are_named_with_their_server_once(tmp_path: Path) -> None:
    """Names without a server could be of either. Source: maitred."""
    tools = {"page": ["find_user", "drop_user"], "desk": ["find_user", "add_user"]}
    chosen = {
        ToolKey(server=server, name=name): ToolChoice(category="security")
        for server, own in tools.items()
        for name in own
    }
    settings = Settings(
        source=tmp_path / "maitred.yaml",
        servers={name: ServerSpec(name=name, transport="memory") for name in tools},
        disclosure=Disclosure(mode="categories", break_even_tokens=0),
        catalog=Catalog(path=str(tmp_path / "c.db")),
        tools=chosen,
    )
    servers = {name: team({}, *own).server() for name, own in tools.items()}
    async with open_gateway(settings, in_process=servers) as gateway:
        assert await gateway.settled(SOON_S)
        answer = text_of(await call(gateway, "security_tools", OLD))

    listed = "desk: add_user, find_user, page: drop_user, find_user"
    assert answer.splitlines()[0] == f"Now in your list: {listed}."


async def test_a_list_of_categories_has_the_meta_tools_that_its_hidden_tools_need(tmp_path: Path) -> None:
    """Search from more than a page on; what calls them, while any are hidden. Source: docs/categories.md."""
    few = team({"admin": ["create_user", "delete_user"]})
    many = team({f"area{n}": [f"tool_{n}_{m}" for m in range(17)] for n in range(3)})
    async with opened(tmp_path, few) as gateway:
        closed = [definition["name"] for definition in with_categories(gateway, OLD)]
        await call(gateway, "page__admin_tools", OLD)
        all_open = [definition["name"] for definition in with_categories(gateway, OLD)]
    other = tmp_path / "many"
    other.mkdir()
    async with opened(other, many) as gateway:
        [search, *others] = with_categories(gateway, NEW)

    assert closed == ["call_tool", "page__admin_tools"]
    assert all_open == ["page__admin_tools"]
    assert search["name"] == "search_tools"
    assert list(search["inputSchema"]["properties"]) == ["phrases"]
    assert others[0]["name"] == "call_tool"


async def test_a_connection_that_has_ended_leaves_nothing_open(tmp_path: Path) -> None:
    """Another one may get its number. Source: maitred."""
    async with opened(tmp_path, team({"admin": ["create_user", "delete_user"]})) as gateway:
        await call(gateway, "page__admin_tools", OLD)
        gateway.forget(OLD, "ann")
        assert await names(gateway, OLD) == ["page__admin_tools"]


async def test_a_stateless_client_is_told_to_use_call_tool_and_its_list_stays(tmp_path: Path) -> None:
    """In 2026-07-28 no call may change a list. Source: MCP specification."""
    async with opened(tmp_path, team({"admin": ["create_user", "delete_user"]})) as gateway:
        before = await names(gateway, NEW)
        answer = await call(gateway, "page__admin_tools", NEW)
        assert await names(gateway, NEW) == before
        assert text_of(answer).startswith("2 tools in page__admin_tools; call them with call_tool:\n")
        assert "list of tools" not in text_of(answer)
        assert text_of(await call(gateway, "page__create_user", NEW, user_id="7")) == '{"user_id": "7"}'


async def test_a_long_category_comes_in_pages_and_opens_page_by_page(tmp_path: Path) -> None:
    """No answer and no list is flooded; the last page makes it whole. Source: DESIGN 5, rule 3."""
    tools = [f"tool_{number:03}" for number in range(120)]
    async with opened(tmp_path, team({"many": tools})) as gateway:
        cursor, seen, sizes = "", list[str](), []
        while True:
            answer = await call(gateway, "page__many_tools", OLD, cursor=cursor)
            assert sum(count_tokens([text_of(answer)])) <= 4_000
            seen += [tool["name"] for tool in answer["tools"]]
            sizes.append(len(gateway.listed(OLD)))
            _, more, cursor = text_of(answer).partition(" more: page__many_tools with cursor '")
            if not more:
                break
            cursor = cursor.split("'")[0]
        with pytest.raises(CursorError):
            await call(gateway, "page__many_tools", OLD, cursor="nowhere")
        for behind_the_end in ("999:x", f"0:{seen[-1]}"):
            assert (await call(gateway, "page__many_tools", OLD, cursor=behind_the_end))["tools"] == []

    assert seen == [f"page__{tool}" for tool in tools]
    assert sizes == [50, 100, 120]


async def test_a_tool_that_joins_an_open_category_is_listed_with_it(tmp_path: Path) -> None:
    """What is open is the category, not the tools that it had then. Source: maitred."""
    context = team({"admin": ["create_user", "delete_user"]})
    async with opened(tmp_path, context) as gateway:
        await call(gateway, "page__admin_tools", OLD)
        context.unregister_tool("admin")
        context.register_category("admin", "Users.", [made(n) for n in ("create_user", "find_user")])
        await until(gateway, lambda: "page__find_user" in gateway.snapshot.by_name)
        assert await names(gateway, OLD) == ["page__admin_tools", "page__create_user", "page__find_user"]


async def test_a_tool_that_makes_no_sense_now_is_neither_counted_nor_opened(tmp_path: Path) -> None:
    """It joins an open category when it does; stateless lists, which cannot change, hold it: issue 6."""
    rules = {
        "facts": {"users": 0},
        "on_success": {"create_user": {"users": {"add": 1}}},
        "visible_when": {"delete_user": "users > 0"},
    }
    context = team({"admin": ["create_user", "delete_user", "find_user"]})
    async with opened(tmp_path, context, visibility_of=rules) as gateway:
        held = {v.era: len(gateway._lists.categories(v)[0].tools) for v in (OLD, NEW)}
        answer = await call(gateway, "page__admin_tools", OLD)
        before = await names(gateway, OLD)
        stateless = text_of(await call(gateway, "page__admin_tools", NEW))
        await call(gateway, "page__create_user", OLD, user_id="1")

        assert held == {"handshake": 2, "stateless": 3}
        assert "page__delete_user" not in text_of(answer)
        assert "page__delete_user" not in before
        assert "page__delete_user(user_id: str) - Delete user of the team. [not available now" in stateless
        assert "page__delete_user" in await names(gateway, OLD)


async def test_lists_are_announced_when_something_was_opened_and_not_when_nothing_was(tmp_path: Path) -> None:
    """Opening twice is one change; what the stateless era does is none. Source: maitred."""
    async with opened(tmp_path, team({"admin": ["create_user", "delete_user"]})) as gateway:
        heard: list[str] = []
        gateway.listen(
            lists=lambda: None, resource=lambda *_: None, visibility=lambda: heard.append("changed")
        )
        await call(gateway, "page__admin_tools", NEW)
        await call(gateway, "page__admin_tools", OLD, collapse=True)
        assert heard == []
        for _ in range(2):
            await call(gateway, "page__admin_tools", OLD)
        await call(gateway, "page__admin_tools", OLD, collapse=True)
        assert heard == ["changed"] * 2


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_opened_every_tool_stays_callable_and_nothing_is_listed_twice(
    tmp_path: Path, seed: int
) -> None:
    """In any order of opening and collapsing, by anybody. Source: issue 6."""
    groups = {f"area{n}": [f"tool_{n}_{m}" for m in range(n + 1)] for n in range(4)}
    random = Random(seed)
    async with opened(tmp_path, team(groups, "hello")) as gateway:
        everything = {tool.name for tool in gateway.snapshot.tools}
        for step in range(200):
            viewer = random.choice([OLD, OTHER, NEW])
            area = random.choice(gateway._lists.categories(viewer)).name
            await call(gateway, area, viewer, collapse=random.random() < 0.5)
            listed = await names(gateway, viewer)
            held = {t.name for group in gateway._lists.categories(viewer) for t in group.tools}
            assert len(listed) == len(set(listed))
            assert everything <= {*listed, *held}
            if step % 50 == 0:
                for name in everything:
                    assert not (await call(gateway, name, viewer, user_id="1"))["isError"]


async def test_two_categories_whose_tools_would_have_one_name_are_both_there(tmp_path: Path) -> None:
    """An operator may name one `crew` and another `crew_tools`; no tool may get lost by it."""
    tools = ["a", "b", "c", "d"]
    chosen = {
        ToolKey(server="page", name=name): ToolChoice(category="crew" if name in "ab" else "crew_tools")
        for name in tools
    }
    own = {name: Category(name=name) for name in ("crew", "crew_tools")}
    async with opened(tmp_path, team({}, *tools), tools=chosen, categories=own) as gateway:
        await gateway.settled(SOON_S)
        for group in gateway._lists.categories(OLD):
            await call(gateway, group.name, OLD)
        listed = await names(gateway, OLD)

    assert {f"page__{name}" for name in tools} <= set(listed)


async def test_where_no_categories_are_listed_a_tool_is_meant_by_its_raw_name(tmp_path: Path) -> None:
    """Though there is a category whose tool would have that name."""
    chosen = {ToolKey(server="page", name="role_tools"): ToolChoice(category="role")}
    own = {"role": Category(name="role")}
    context = team({}, "role_tools")
    async with opened(
        tmp_path, context, disclosure=Disclosure(mode="menu"), tools=chosen, categories=own
    ) as gateway:
        await gateway.settled(SOON_S)
        answer = await call(gateway, "role_tools", NEW, user_id="1")

    assert text_of(answer) == '{"user_id": "1"}'
