"""Who hears of what happens to servers: those who list again, and those who read a single resource."""

from pathlib import Path

import pytest
from tests.gateway.rig import Upstream, call, opened, settings_of, until

from maitred.backends import supervision
from maitred.errors import ServerUnavailableError
from maitred.gateway.events import GUIDE, OVERVIEW, SERVERS, TOOLS, Events, Origin
from maitred.model.access import LOCAL_USER
from maitred.model.servers import State

pytestmark = pytest.mark.anyio

WHOLE = [OVERVIEW, SERVERS, TOOLS, GUIDE]


class Ear:
    """Keeps what it was told, in its order."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def lists(self) -> None:
        self.heard.append("lists")

    def resource(self, uri: str, origin: Origin | None = None) -> None:
        self.heard.append(uri)

    def taken(self) -> list[str]:
        """What was told since it was last taken."""
        heard, self.heard = self.heard, []
        return heard


class Rig:
    """Events without any servers; `refused` is what the test says."""

    def __init__(self) -> None:
        self.refused: frozenset[str] = frozenset()
        self.events = Events()
        self.events.compare(lambda: self.refused)
        self.ears = Ear(), Ear()
        for ear in self.ears:
            self.events.listen(lists=ear.lists, resource=ear.resource, visibility=lambda: None)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_change_of_lists_is_told_to_everybody_with_what_describes_the_whole(rig: Rig) -> None:
    """Clients list again; whoever subscribed to the overview reads it again."""
    rig.events.lists_changed()

    assert [ear.taken() for ear in rig.ears] == [["lists", *WHOLE]] * 2


def test_a_server_that_starts_or_stops_concerns_only_those_who_look_at_it(rig: Rig) -> None:
    """Its state is on the page of servers and on its own; no list has changed."""
    rig.events.health_changed("a b/ü", "")

    assert rig.ears[0].taken() == [SERVERS, "maitred://server/a%20b%2F%C3%BC"]


def test_a_server_that_is_refused_or_tried_again_takes_its_tools_with_it(rig: Rig) -> None:
    """Lists change when the breaker opens, and when it closes; not by another failure in between."""
    heard = []
    for refused in ({"s"}, {"s"}, {"s", "t"}, {"t"}, set()):
        rig.refused = frozenset(refused)
        rig.events.health_changed("s", "")
        heard.append(rig.ears[0].taken())

    of_it = "maitred://server/s"
    opened_or_closed, neither = ["lists", *WHOLE, of_it], [SERVERS, of_it]
    assert heard == [opened_or_closed, neither, opened_or_closed, opened_or_closed, opened_or_closed]


def test_a_resource_that_was_updated_is_told_by_both_of_its_names(rig: Rig) -> None:
    """A client may have subscribed to ours, or to the one that the server uses."""
    rig.events.updated("my wiki", "note:///1", "")

    assert rig.ears[0].taken() == ["maitred://resource/my%20wiki/note:///1", "note:///1"]


async def test_a_catalog_that_changed_is_told_and_one_that_did_not_is_not(tmp_path: Path) -> None:
    """A listing that finds what was known is no news."""
    upstream = Upstream("s", {"a": "Do."})
    async with opened(settings_of(tmp_path, "s"), upstream) as gateway:
        ear = Ear()
        gateway.listen(lists=ear.lists, resource=ear.resource)
        await gateway.sync(viewer=LOCAL_USER)
        assert ear.taken() == []
        upstream.tools["b"] = "Do."
        await gateway.sync(viewer=LOCAL_USER)
        assert ear.taken() == ["lists", *WHOLE]


async def test_listeners_hear_when_a_server_is_given_up_and_when_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tools leave the menu and come back, although nothing in the catalog changed."""
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.01)
    settings = settings_of(tmp_path, "s")
    async with opened(settings, Upstream("s", {"a": "Do."})):
        pass
    moody = Upstream("s", {"a": "Do."})
    moody.well = False
    async with opened(settings, moody) as gateway:
        ear = Ear()
        gateway.listen(lists=ear.lists, resource=ear.resource)
        seen: list[int] = []
        gateway.listen(
            lists=lambda: seen.append(len(gateway.visible_tools(LOCAL_USER))), resource=lambda *_: None
        )
        for _ in range(3):
            with pytest.raises(ServerUnavailableError):
                await call(gateway, "s__a")
        await until(gateway, lambda: seen == [0, 1])

        told = ear.taken()
        assert told.count("lists") == 2
        assert {"maitred://server/s", SERVERS} <= set(told)
        moody.well = True
        await call(gateway, "s__a")
        [status] = gateway.servers(LOCAL_USER)
        assert status.health.state is State.READY
