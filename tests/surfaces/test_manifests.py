"""The watched folder: what is in it is registered, what leaves it withdrawn; a lost mount loses nothing."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from maitred.config.settings import Admission, Catalog, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.surfaces.manifest_folder import Manifests, follow_manifests
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0


def manifest(name: str, *args: str) -> str:
    return f"name: {name}\ncommand: {name}-mcp\nargs: {list(args)}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the settings, with two manifests."""
    made = tmp_path / "servers.d"
    made.mkdir()
    (made / "clock.yml").write_text(manifest("clock"))
    (made / "notes.yaml").write_text(manifest("notes"))
    (made / "README.md").write_text("no manifest")
    return made


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Gateway]:
    settings = Settings(
        source=folder.parent / "maitred.yaml",
        catalog=Catalog(path=str(folder.parent / "c.db")),
        admission=Admission(folder="servers.d"),
    )
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings) as gateway:
            yield gateway


async def standing(gateway: Gateway) -> dict[str, str]:
    """The registered servers with their state."""
    return {case.server: case.state for case in await gateway.cases(LOCAL_USER)}


async def test_what_is_in_the_folder_is_registered_and_withdrawn_with_its_file(folder: Path) -> None:
    """It waits for approval like any other, and its source is the file."""
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        await manifests.look()
        found = await standing(gateway)
        case = await gateway.case("clock", viewer=LOCAL_USER)
        (folder / "clock.yml").unlink()
        await manifests.look()
        left = await standing(gateway)

    assert found == {"clock": "pending", "notes": "pending"}
    assert case.source == str(folder / "clock.yml")
    assert case.log[0].who == "folder"
    assert left == {"notes": "pending"}


async def test_a_file_that_went_while_nobody_looked_is_noticed_at_the_next_start(folder: Path) -> None:
    """Since the source is kept; what stayed is not registered twice."""
    async with opened(folder) as gateway:
        await Manifests(gateway).look()
    (folder / "clock.yml").unlink()
    async with opened(folder) as gateway:
        await Manifests(gateway).look()
        left = await gateway.cases(LOCAL_USER)

    assert [case.server for case in left] == ["notes"]
    assert [event.kind for event in left[0].log] == ["registered"]


def lose(folder: Path, how: str) -> None:
    for path in folder.iterdir():
        path.unlink()
    if how != "empty":
        folder.rmdir()
    if how == "a file":
        folder.write_text("")


@pytest.mark.parametrize("lost", ["missing", "empty", "a file"])
async def test_a_folder_that_may_not_be_mounted_withdraws_nothing(folder: Path, lost: str) -> None:
    """Missing, empty or something else: it is told once, and nothing changes."""
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        await manifests.look()
        lose(folder, lost)
        with capture_logs() as logs:
            await manifests.look()
            await manifests.look()
        found = await standing(gateway)

    assert found == {"clock": "pending", "notes": "pending"}
    assert [entry["event"].endswith("nothing is unregistered") for entry in logs] == [True]


async def test_a_faulty_file_leaves_what_was_registered_and_tells_every_fault(folder: Path) -> None:
    """Once; mended, it counts again."""
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        await manifests.look()
        before = (await gateway.case("clock", viewer=LOCAL_USER)).digest
        (folder / "clock.yml").write_text("name: clock\ncommand: bash\nmemroy: 1g\n")
        with capture_logs() as logs:
            await manifests.look()
            await manifests.look()
        kept = (await gateway.case("clock", viewer=LOCAL_USER)).digest
        (folder / "clock.yml").write_text(manifest("clock", "--utc"))
        await manifests.look()
        mended = await gateway.case("clock", viewer=LOCAL_USER)

    faults = [entry["fault"] for entry in logs if "fault" in entry]
    assert any("clock.yml:3: memroy: is not a known key" in fault for fault in faults)
    assert any("clock.yml:2: command: 'bash' runs another program" in fault for fault in faults)
    assert len(faults) == len(set(faults))
    assert kept == before
    assert mended.manifest["args"] == ["--utc"]


async def test_a_renamed_file_stays_registered(folder: Path) -> None:
    """The server is what counts, not what its file is called."""
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        await manifests.look()
        (folder / "clock.yml").rename(folder / "time.yml")
        await manifests.look()
        found = await gateway.case("clock", viewer=LOCAL_USER)

    assert [event.kind for event in found.log] == ["registered"]


async def test_a_file_that_names_another_server_withdraws_the_one_before(folder: Path) -> None:
    """Its manifest is gone."""
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        await manifests.look()
        (folder / "clock.yml").write_text(manifest("watch"))
        await manifests.look()
        found = await standing(gateway)

    assert found.keys() == {"watch", "notes"}


async def test_of_two_files_with_one_server_the_first_counts_until_it_goes(folder: Path) -> None:
    """And the second does not undo it at each look."""
    (folder / "twin.yml").write_text(manifest("clock", "--twin"))
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        with capture_logs() as logs:
            await manifests.look()
        first = await gateway.case("clock", viewer=LOCAL_USER)
        (folder / "clock.yml").unlink()
        await manifests.look()
        second = await gateway.case("clock", viewer=LOCAL_USER)

    assert "two manifests are of one server" in {entry["event"] for entry in logs}
    assert "args" not in first.manifest
    assert second.manifest["args"] == ["--twin"]


async def test_what_came_from_elsewhere_stays(folder: Path) -> None:
    """Only what came from the folder leaves with it."""
    async with opened(folder) as gateway:
        text = manifest("tracker")
        await gateway.register_server(text, source="http", viewer=LOCAL_USER)
        await Manifests(gateway).look()
        found = await standing(gateway)

    assert found.keys() == {"clock", "notes", "tracker"}


async def test_a_server_that_somebody_withdrew_does_not_come_back_by_itself(folder: Path) -> None:
    """Until its file changes."""
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        await manifests.look()
        await gateway.decide("clock", "withdraw", viewer=LOCAL_USER)
        await manifests.look()
        found = await standing(gateway)

    assert found.keys() == {"notes"}


async def test_the_files_are_looked_at_again_by_another_policy(folder: Path) -> None:
    """What waited is approved if the new policy trusts it."""
    async with opened(folder) as gateway:
        manifests = Manifests(gateway)
        await manifests.look()
        trusting = Admission(folder="servers.d", trusted_commands=("clock-mcp",))
        await gateway.configure(replace(gateway.settings, admission=trusting), viewer=LOCAL_USER)
        await manifests.look()
        found = await standing(gateway)

    assert found == {"clock": "approved", "notes": "pending"}


async def test_changes_are_followed_while_the_gateway_runs(folder: Path) -> None:
    """A new file, and its going, without anybody asking; also in a folder that the settings name later."""
    async with opened(folder) as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: follow_manifests(gateway, look_s=0.05))
        await until(gateway, lambda found: found.keys() == {"clock", "notes"})
        (folder / "watch.yml").write_text(manifest("watch"))
        await until(gateway, lambda found: "watch" in found)
        (folder / "watch.yml").unlink()
        await until(gateway, lambda found: "watch" not in found)
        other = folder.with_name("other.d")
        other.mkdir()
        (other / "tracker.yml").write_text(manifest("tracker"))
        moved = replace(gateway.settings.admission, folder=str(other))
        await gateway.configure(replace(gateway.settings, admission=moved), viewer=LOCAL_USER)
        await until(gateway, lambda found: "tracker" in found)
        tasks.cancel_scope.cancel()


async def until(gateway: Gateway, fits: Callable[[dict[str, str]], bool]) -> None:
    """Wait until the registered servers are as they should be."""
    while not fits(await standing(gateway)):  # noqa: ASYNC110  # whoever watches a folder tells nobody
        await anyio.sleep(0.01)
