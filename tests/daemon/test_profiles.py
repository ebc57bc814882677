"""Clients with different profiles at one shared gateway: each sees and calls its own part alone."""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.daemon.home import WAIT_S, Home, Stateless, at_home
from tests.daemon.visitors import Place, Visitor, place_of, stateless
from tests.faults.client import Client
from tests.gateway.rig import Upstream, opened, settings_of

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Disclosure
from maitred.meta_tools.menu import META_TOOLS
from maitred.model.access import LOCAL_USER, Scope
from maitred.model.profiles import Profile

pytestmark = pytest.mark.anyio

PROFILES = {"notes": Profile(servers=("notes",)), "mail": Profile(servers=("mail",), mode="menu")}
SHARED = Path(__file__).parents[1] / "support" / "share_server.py"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Before two servers; without a profile, all tools are listed."""
    settings = settings_of(tmp_path, "notes", "mail", disclosure=Disclosure(mode="all"), profiles=PROFILES)
    notes = Upstream("notes", {"read": "Reads a note."}, resources={"notes://all": "x"})
    mail = Upstream("mail", {"send": "Sends a mail."}, resources={"mail://all": "x"})
    async with opened(settings, notes, mail) as gateway, place_of(gateway) as made:
        yield made


class Guest:
    """A client of one era."""

    def __init__(self, visitor: Visitor, *, is_stateless: bool) -> None:
        self.visitor = visitor
        self._is_stateless = is_stateless

    async def ask(self, method: str, **params: Any) -> Mapping[str, Any]:
        answer = await self.visitor.ask(method, **(stateless(**params) if self._is_stateless else params))
        found: Mapping[str, Any] = answer.get("result", answer)
        return found

    async def tools(self) -> set[str]:
        return {one["name"] for one in (await self.ask("tools/list"))["tools"]}

    async def resources(self) -> str:
        return json.dumps(await self.ask("resources/list"))

    async def call(self, tool: str, **arguments: Any) -> str:
        return json.dumps(await self.ask("tools/call", name=tool, arguments=arguments))


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_two_clients_at_one_gateway_have_what_their_profiles_have(place: Place, era: str) -> None:
    """In lists, resources, searches, calls and chains; a third without a profile has all of it."""
    async with (
        place.client(profile="notes") as one,
        place.client(profile="mail") as two,
        place.client() as three,
    ):
        guests = [Guest(each, is_stateless=era == "stateless") for each in (one, two, three)]
        if era == "handshake":
            for guest in guests:
                await guest.visitor.shake_hands()
        notes, mail, free = guests
        listed = [await guest.tools() for guest in guests]
        resources = [await guest.resources() for guest in guests]
        own = [await notes.call("notes__read", path="/"), await mail.call("mail__send", path="/")]
        other = [await notes.call("mail__send", path="/"), await mail.call("notes__read", path="/")]
        through = await mail.call("call_tool", name="notes__read", arguments={"path": "/"})
        chain = await mail.call(
            "call_tool_chain", code="return await call_tool('notes__read', {'path': '/'})"
        )
        found = await mail.call("search_tools", phrases=["read a note"])
        again = [await free.call("mail__send", path="/"), await free.call("notes__read", path="/")]

    assert listed[0] == {"notes__read"}
    assert listed[1] <= META_TOOLS.keys()
    assert listed[2] == {"notes__read", "mail__send"}
    assert ["notes://all" in one for one in resources] == [True, False, True]
    assert ["mail://all" in one for one in resources] == [False, True, True]
    assert "notes/read" in own[0]
    assert "mail/send" in own[1]
    assert "'mail__send' is not in the profile 'notes'" in other[0]
    assert "'notes__read' is not in the profile 'mail'" in other[1]
    assert "'notes__read' is not in the profile 'mail'" in through
    assert "'notes__read' is not in the profile 'mail'" in chain
    assert "outside the profile 'mail'" in found
    assert "notes__" not in found
    assert "mail/send" in again[0]
    assert "notes/read" in again[1]


async def test_a_token_with_a_scope_and_a_profile_has_what_both_have(place: Place) -> None:
    scope = Scope(servers=frozenset({"notes"}))
    request = TokenRequest(name="ci", role="agent", scope=scope)
    token = (await place.gateway.make_token(request, LOCAL_USER)).token
    async with (
        place.client(token=token, profile="notes") as inside,
        place.client(token=token, profile="mail") as outside,
    ):
        for visitor in (inside, outside):
            await visitor.shake_hands()
        assert await inside.tools() == {"notes__read"}
        refused = json.dumps(await outside.ask("tools/call", name="mail__send", arguments={"path": "/"}))

    assert "no access to the server 'mail'" in refused


async def test_a_client_with_a_name_that_is_no_profile_is_refused(place: Place) -> None:
    """With the nearest: to be served without it would be more than its user chose."""
    async with place.visitor() as visitor:
        answer = await visitor.hello(profile="nots")

    assert answer["maitred"] == "refused"
    assert "There is no profile named 'nots'. Did you mean notes?" in answer["why"]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with at_home(tmp_path) as made:
        yield made


async def tools_of(client: Client) -> set[str]:
    await client.send("tools/list")
    return {tool["name"] for tool in (await client.answer())["result"]["tools"]}


async def test_programs_that_clients_start_share_a_gateway_with_a_profile_each(home: Home) -> None:
    """By the command line of their entries: one gateway in the background, and one alone, in both eras."""
    entry = {"command": sys.executable, "args": ["-I", "-S", str(SHARED), "state"], "era": "handshake"}
    profiles = {"one": {"servers": ["one"]}, "two": {"tools": ["two/where"]}}
    home.write({"one": entry, "two": entry}, disclosure={"mode": "all"}, profiles=profiles)
    first = await home.started("--profile", "one")
    second = await home.started_as(Stateless, "--profile=two")
    lists = [await tools_of(first), await tools_of(second)]
    await second.send("tools/call", name="one__where", arguments={})
    refused = json.dumps(await second.answer())
    gateways = home.daemons()
    alone = await home.started("--no-daemon", "--profile", "two")
    lists.append(await tools_of(alone))
    with anyio.fail_after(WAIT_S):
        wrong = [
            await anyio.run_process(home.command("--profile", "tow", *more), input=b"", check=False)
            for more in ((), ("--transport", "http"))
        ]

    assert all(name.startswith("one__") for name in lists[0])
    assert "one__where" in lists[0]
    assert lists[1:] == [{"two__where"}, {"two__where"}]
    assert "'one__where' is not in the profile 'two'" in refused
    assert len(gateways) == 1
    assert [one.returncode for one in wrong] == [2, 2]
    assert b"There is no profile named 'tow'. Did you mean two?" in wrong[0].stderr
    assert b"/mcp?profile=tow" in wrong[1].stderr
