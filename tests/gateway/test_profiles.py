"""What a profile selects, what its lists show, and what becomes of it when the configuration changes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.rig import Upstream, opened, settings_of
from tests.support.viewers import agent

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Disclosure, Settings
from maitred.errors import ConfigError, NotAllowedError, ProfileNotFoundError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Grant, Scope, Viewer, may
from maitred.model.categories import Category, ToolChoice
from maitred.model.profiles import Profile
from maitred.model.tools import ToolCall, ToolKey

pytestmark = pytest.mark.anyio

FILES = {"read_note": "Reads a note.", "write_note": "Writes a note.", "delete_note": "Deletes a note."}
MAIL = {"send": "Sends a mail.", "list_mails": "Lists mails."}
CHOICES = {
    ("files", "read_note"): ToolChoice(category="archive", tags=("language:python",)),
    ("files", "write_note"): ToolChoice(category="files_text"),
    ("files", "delete_note"): ToolChoice(category="files_text"),
    ("mail", "send"): ToolChoice(category="communication", tags=("function:send",)),
    ("mail", "list_mails"): ToolChoice(category="communication"),
}
NAMES = {
    *("files__read_note", "files__write_note", "files__delete_note"),
    *("mail__send", "mail__list_mails"),
}


def settings(folder: Path, profiles: Mapping[str, Profile], mode: str = "all") -> Settings:
    return settings_of(
        folder,
        "files",
        "mail",
        "empty",
        disclosure=Disclosure(mode=mode),  # type: ignore[arg-type]
        categories={"archive": Category(name="archive", parent="files_text")},
        tools={ToolKey(server=server, name=tool): choice for (server, tool), choice in CHOICES.items()},
        profiles=profiles,
    )


def upstreams() -> list[Upstream]:
    return [
        Upstream("files", FILES, resources={"files://all": "x"}, prompts=["sum_up"]),
        Upstream("mail", MAIL, resources={"mail://all": "x"}),
        Upstream("empty", resources={"empty://all": "x"}),
    ]


def names(gateway: Gateway, viewer: Viewer) -> set[str]:
    return {tool.name for tool in gateway.visible_tools(viewer)}


SELECTIONS: Mapping[str, tuple[Profile, set[str], set[str]]] = {
    "nothing set": (Profile(), NAMES, {"files", "mail", "empty"}),
    "servers": (Profile(servers=("mail", "empty")), {"mail__send", "mail__list_mails"}, {"mail", "empty"}),
    "a category with those below": (
        Profile(categories=("files_text",)),
        {"files__read_note", "files__write_note", "files__delete_note"},
        {"files"},
    ),
    "patterns of raw names": (
        Profile(tools=("files/*_note", "mail/send"), exclude=("*/delete_*",)),
        {"files__read_note", "files__write_note", "mail__send"},
        {"files", "mail"},
    ),
    "patterns of published names": (
        Profile(tools=("mail__*",)),
        {"mail__send", "mail__list_mails"},
        {"mail"},
    ),
    "any of the tags": (
        Profile(tags=("language:python", "function:send")),
        {"files__read_note", "mail__send"},
        {"files", "mail"},
    ),
    "every limit": (
        Profile(servers=("files", "mail"), categories=("archive", "communication"), tools=("*/*_note",)),
        {"files__read_note"},
        {"files"},
    ),
    "all but a server": (
        Profile(exclude=("mail/*",)),
        {n for n in NAMES if "files" in n},
        {"files", "empty"},
    ),
}


async def test_a_profile_selects_tools_and_their_servers(tmp_path: Path) -> None:
    """A tool has to be within every limit; a server is there with its resources if one of its tools is."""
    profiles = {name: profile for name, (profile, _, _) in SELECTIONS.items()}
    found = {}
    async with opened(settings(tmp_path, profiles), *upstreams()) as gateway:
        for name in SELECTIONS:
            viewer = gateway.within_profile(name, agent("ann"))
            offers = {offer.server for offer in gateway.offers_of("resource", viewer)}
            found[name] = names(gateway, viewer), offers
            assert offers == set(gateway.server_names(viewer)), name
        assert names(gateway, agent("ann")) == NAMES

    assert found == {name: (tools, servers) for name, (_, tools, servers) in SELECTIONS.items()}


async def test_only_tools_that_read_are_in_a_profile_that_says_so(tmp_path: Path) -> None:
    reading = Upstream("files", FILES)
    async with opened(
        settings(tmp_path, {"r": Profile(read_only=True)}), *upstreams()[1:], reading
    ) as gateway:
        assert names(gateway, gateway.within_profile("r", LOCAL_USER)) == set()


async def test_a_profile_narrows_what_a_grant_allows_and_never_more(tmp_path: Path) -> None:
    """The scope of a token still holds; two profiles are both to be met."""
    profiles = {"both": Profile(servers=("files", "mail")), "notes": Profile(tools=("*/*_note",))}
    async with opened(settings(tmp_path, profiles), *upstreams()) as gateway:
        mail = Viewer(grant=Grant(principal="ann", role="agent", scope=Scope(servers=frozenset({"mail"}))))
        inside = gateway.within_profile("both", mail)
        assert names(gateway, inside) == {"mail__send", "mail__list_mails"}
        with pytest.raises(NotAllowedError, match="no access to the server 'files'"):
            await gateway.call(ToolCall(name="files__read_note", arguments={"path": "/"}), viewer=inside)
        assert names(gateway, gateway.within_profile("notes", inside)) == set()


async def test_what_is_not_in_a_profile_is_refused_with_the_reason(tmp_path: Path) -> None:
    """A call by name, in a chain, and a search, which counts what it leaves out; without, all is as ever."""
    async with opened(settings(tmp_path, {"notes": Profile(servers=("files",))}), *upstreams()) as gateway:
        viewer = gateway.within_profile("notes", LOCAL_USER)
        why = "'mail__send' is not in the profile 'notes'"
        with pytest.raises(NotAllowedError, match=why):
            await gateway.call(ToolCall(name="mail__send", arguments={"path": "/"}), viewer=viewer)
        chain = await gateway.run_chain("return await call_tool('mail__send', {'path': '/'})", viewer=viewer)
        module = await gateway.run_chain("import mail\nreturn await mail.send(path='/')", viewer=viewer)
        own = await gateway.run_chain(
            "return await call_tool('files__read_note', {'path': '/'})", viewer=viewer
        )
        answer = await gateway.search(["send a mail"], viewer=viewer)
        free = await gateway.call(ToolCall(name="mail__send", arguments={"path": "/"}), viewer=LOCAL_USER)

    assert not chain.ok
    assert why in chain.text
    assert not module.ok
    assert own.ok
    assert {one.tool.server for one in answer.results} <= {"files"}
    assert answer.withheld["other servers"][1] == "outside the profile 'notes'"
    assert not free.get("isError")


async def test_the_list_of_a_profile_has_a_mode_of_its_own(tmp_path: Path) -> None:
    """What it says itself; and with `auto` the tools of the profile are counted, not all tools."""
    profiles = {
        "all": Profile(servers=("files",), mode="all"),
        "menu": Profile(servers=("files",), mode="menu"),
        "small": Profile(tools=("mail/send",), mode="auto"),
        "large": Profile(mode="auto"),
        "grouped": Profile(mode="categories"),
        "silent": Profile(servers=("files",)),
    }
    made = settings(tmp_path, profiles, "menu")
    async with opened(made, *upstreams()) as gateway:
        cost = sum(tool.cost_tokens for tool in gateway.snapshot.tools)
        wanted = Disclosure(mode="menu", break_even_tokens=cost)
        await gateway.configure(replace(made, disclosure=wanted), viewer=LOCAL_USER)
        shown = {}
        for name in profiles:
            mode, tools, _ = await gateway.listing(gateway.within_profile(name, agent("ann")))
            shown[name] = mode, len(tools)
        without = (await gateway.listing(agent("ann")))[0]

    assert without == "menu"
    assert shown == {
        "all": ("all", 3),
        "menu": ("menu", 0),
        "small": ("all", 1),
        "large": ("menu", 0),
        "grouped": ("categories", 1),  # a category of one tool is that tool
        "silent": ("menu", 0),
    }


async def test_a_profile_that_changes_or_goes_counts_at_once(tmp_path: Path) -> None:
    """For who has it already; without it, there is nothing, and a call says why."""
    made = settings(tmp_path, {"notes": Profile(servers=("files",))})
    heard: list[bool] = []
    async with opened(made, *upstreams()) as gateway:
        viewer = gateway.within_profile("notes", agent("ann"))
        gateway.listen(lists=lambda: heard.append(True), resource=lambda *_: None)
        assert "files__read_note" in names(gateway, viewer)

        await gateway.configure(
            replace(made, profiles={"notes": Profile(servers=("mail",))}), viewer=LOCAL_USER
        )
        assert names(gateway, viewer) == {"mail__send", "mail__list_mails"}
        assert heard

        await gateway.configure(replace(made, profiles={}), viewer=LOCAL_USER)
        assert names(gateway, viewer) == set()
        assert gateway.server_names(viewer) == []
        with pytest.raises(NotAllowedError, match=r"profile 'notes' .* is not in the configuration any more"):
            await gateway.call(ToolCall(name="mail__send", arguments={"path": "/"}), viewer=viewer)


async def test_a_name_that_is_no_profile_is_refused_with_the_nearest(tmp_path: Path) -> None:
    async with opened(settings(tmp_path, {"notes": Profile()}), *upstreams()) as gateway:
        with pytest.raises(ProfileNotFoundError, match="Did you mean notes"):
            gateway.within_profile("nots", LOCAL_USER)
        with pytest.raises(ProfileNotFoundError, match="The configuration has notes"):
            gateway.within_profile("x", LOCAL_USER)
        assert gateway.within_profile("", LOCAL_USER) == LOCAL_USER


async def test_each_profile_says_what_is_in_it_and_what_matches_nothing(tmp_path: Path) -> None:
    """A mistyped server would be missed otherwise; who has a scope is not told of the others."""
    wrong = Profile(servers=("files", "fils"), tools=("files/*", "files/raed_*"), exclude=("mail__x",))
    async with opened(settings(tmp_path, {"wrong": wrong}), *upstreams()) as gateway:
        [found] = gateway.profiles(LOCAL_USER)
        part = Viewer(grant=Grant(principal="ann", role="agent", scope=Scope(servers=frozenset({"mail"}))))
        [seen] = gateway.profiles(part)

    assert (found.tools, list(found.servers), found.mode) == (3, ["files"], "all")
    assert found.cost_tokens > 0
    assert list(found.unmatched) == ["fils", "files/raed_*", "mail__x"]
    assert (seen.tools, list(seen.unmatched)) == (0, [])


async def test_a_token_with_a_profile_has_that_part_alone(tmp_path: Path) -> None:
    """Whatever its bearer asks for; and it has none of the abilities that concern the whole gateway."""
    made = settings(tmp_path, {"notes": Profile(servers=("files",)), "mail": Profile(servers=("mail",))})
    async with opened(made, *upstreams()) as gateway:
        scope = Scope(profiles=("notes",))
        token = await gateway.make_token(TokenRequest(name="ci", role="admin", scope=scope), LOCAL_USER)
        grant = await gateway.grant_of(token.token)
        assert isinstance(grant, Grant)
        viewer = Viewer(grant=grant)
        assert names(gateway, viewer) == {"files__read_note", "files__write_note", "files__delete_note"}
        assert names(gateway, gateway.within_profile("mail", viewer)) == set()
        assert not may(grant, "configure")
        with pytest.raises(NotAllowedError, match="a part of the catalog only"):
            await gateway.access_tokens(viewer)
        wrong = TokenRequest(name="ci", role="agent", scope=Scope(profiles=("nots",)))
        with pytest.raises(ConfigError, match="there is no profile 'nots'; did you mean 'notes'"):
            await gateway.make_token(wrong, LOCAL_USER)
