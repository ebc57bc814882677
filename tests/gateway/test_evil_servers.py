"""Servers that change what was approved: each part, by a character or wholly, told of or silently."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from tests.gateway.evil import Evil, raw
from tests.gateway.evil_changes import INSTRUCTIONS, PARTS, POWER, put_on
from tests.gateway.rig import call, opened, settings_of, until
from tests.gateway.shifting import Shifting

from maitred.config.settings import Admission, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio

Parts = set[tuple[str, str]]


def settings(folder: Path, pinning: str = "quarantine", **section: object) -> Settings:
    """Settings for an evil server beside an honest one."""
    admission = Admission(pinning=pinning, **section)  # type: ignore[arg-type]
    return settings_of(folder, "evil", "honest", admission=admission)


def withheld(gateway: Gateway) -> Parts:
    """What of the evil server nobody may use, as the catalog has it."""
    found = {("tool", t.key.name) for t in gateway.snapshot.by_server.get("evil", ()) if t.withheld}
    return found | {(o.key.kind, o.key.key) for o in gateway.snapshot.offers if o.withheld}


# --- each part --------------------------------------------------------------------------------------------


@dataclass
class Pulled:
    """What was withheld, after the server did this and that with all parts at once."""

    told: Parts = field(default_factory=set)
    listed: Parts = field(default_factory=set)
    shown: Parts = field(default_factory=set)
    back: Parts = field(default_factory=set)
    restarted: Parts = field(default_factory=set)
    approved: Parts = field(default_factory=set)
    warned: Parts = field(default_factory=set)


@pytest.fixture(scope="module")
def pulled() -> Iterator[Pulled]:
    """All changes at once, of a part each, which is as good as one after the other and much quicker."""
    with TemporaryDirectory() as folder:
        yield anyio.run(_pull, Path(folder))


async def _pull(folder: Path) -> Pulled:
    found, evil, honest = Pulled(), Evil("evil"), Shifting("honest")
    put_on(evil, changed=False)
    async with opened(settings(folder), evil, honest) as gateway:  # type: ignore[arg-type]
        assert withheld(gateway) == set()
        put_on(evil, changed=True)
        await evil.announce()
        await until(gateway, lambda: withheld(gateway) != set())
        found.told = withheld(gateway)
        found.listed = {("tool", t.key.name) for t in gateway.visible_tools(LOCAL_USER) if t.server == "evil"}
        case = await gateway.case("evil", viewer=LOCAL_USER)
        found.shown = {(c.part.kind, c.part.name) for c in case.changes}
        await call(gateway, "evil__steady")
        await call(gateway, "honest__read_note")
        put_on(evil, changed=False)
        await gateway.sync(["evil"], viewer=LOCAL_USER)
        found.back = withheld(gateway)
    put_on(evil, changed=True)
    async with opened(settings(folder), evil, honest) as gateway:  # type: ignore[arg-type]
        await call(gateway, "evil__steady")
        await until(gateway, lambda: withheld(gateway) != set())
        found.restarted = withheld(gateway)
        await gateway.decide("evil", "approve", viewer=LOCAL_USER)
        found.approved = withheld(gateway)
    other = folder / "warned"
    other.mkdir()
    put_on(evil, changed=False)
    async with opened(settings(other, "warn", scan="off"), evil, honest) as gateway:  # type: ignore[arg-type]
        put_on(evil, changed=True)
        await gateway.sync(["evil"], viewer=LOCAL_USER)
        found.warned = withheld(gateway)
    return found


@pytest.mark.parametrize("threat", PARTS)
def test_a_changed_part_is_withheld_until_somebody_approves_it(pulled: Pulled, threat: str) -> None:
    """Told of or found at the next start, and shown; back as it was it needs nobody. Source: issue 7."""
    part = PARTS[threat]
    assert part in pulled.told
    assert part not in pulled.listed
    assert part in pulled.shown
    assert part in pulled.restarted
    assert part not in pulled.back | pulled.approved


@pytest.mark.parametrize("threat", PARTS)
def test_more_power_is_withheld_whatever_the_policy_says(pulled: Pulled, threat: str) -> None:
    """And nothing else is where the policy only warns: ordinary updates reword descriptions."""
    assert (PARTS[threat] in pulled.warned) == POWER[threat]


def test_exactly_what_changed_is_withheld(pulled: Pulled) -> None:
    """The rest of the server goes on."""
    assert pulled.told == pulled.restarted == pulled.shown == set(PARTS.values())
    assert pulled.listed == {("tool", "steady")}


@pytest.mark.parametrize("threat", INSTRUCTIONS)
async def test_changed_instructions_are_withheld(tmp_path: Path, threat: str) -> None:
    """They hold from one start to the next, so they are looked at with each."""
    before, after = INSTRUCTIONS[threat]
    evil, honest = Evil("evil", raw("steady"), says=before), Shifting("honest")
    async with opened(settings(tmp_path), evil, honest) as gateway:  # type: ignore[arg-type]
        assert gateway.snapshot.servers["evil"].facts.instructions == before
    evil.instructions = after
    async with opened(settings(tmp_path), evil, honest) as gateway:  # type: ignore[arg-type]
        await gateway.sync(["evil"], viewer=LOCAL_USER)
        assert gateway.snapshot.servers["evil"].facts.instructions == ""
        assert [t.key.name for t in gateway.visible_tools(LOCAL_USER) if t.server == "evil"] == ["steady"]


async def test_a_server_that_is_another_one_at_each_look_fills_no_log(tmp_path: Path) -> None:
    """What nobody decided on is kept once; its tool is there whenever it is as it was approved."""
    evil, honest = Evil("evil"), Shifting("honest")
    evil.pages = lambda number: [[raw("steady"), raw("flips", f"Version {number if number % 3 else 0}.")]]
    evil.listings = 2
    seen = []
    async with opened(settings(tmp_path), evil, honest) as gateway:  # type: ignore[arg-type]
        for _ in range(9):
            await gateway.sync(["evil"], viewer=LOCAL_USER)
            seen.append(withheld(gateway) == set())
        case = await gateway.case("evil", viewer=LOCAL_USER)
        await call(gateway, "evil__steady")
    assert seen == [False, False, True] * 3
    assert len(case.log) < 6
