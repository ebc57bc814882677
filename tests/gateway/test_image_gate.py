"""What an image turned out to be is compared with what was approved, by the log that all processes share."""

from pathlib import Path

import pytest
from tests.catalog.makers import open_store

from maitred.admission.gatekeeper import event
from maitred.admission.image_gate import ImageGate
from maitred.admission.registry import Registry
from maitred.model.approvals import Binding, image_with_identity
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio
NAME = "docker.io/acme/tool:1"
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
BOUND = Binding(manifest="m", image=NAME)


@pytest.fixture
async def registry(tmp_path: Path) -> Registry:
    async with open_store(tmp_path / "c.db"):
        return Registry(SqliteDatabase(tmp_path / "c.db"))


async def happen(registry: Registry, *kinds: str) -> None:
    for kind in kinds:
        log = await registry.log("tool")
        assert await registry.append("tool", [event(kind, BOUND, who="ann")], after=len(log))  # type: ignore[arg-type]


async def test_an_image_of_an_approved_server_is_remembered_by_its_first_start(registry: Registry) -> None:
    """And again it is let in, without another word in the log."""
    await happen(registry, "registered", "approved")
    gate = ImageGate(registry)

    assert await gate.admit("tool", ONE) == ""
    assert await gate.admit("tool", ONE) == ""
    log = await registry.log("tool")
    assert [one.kind for one in log] == ["registered", "approved", "image_changed"]
    assert (log[2].binding.image, log[2].who) == (image_with_identity(NAME, ONE), "tool")
    assert log[2].why == f"it is {ONE} now"


async def test_another_image_is_written_down_and_refused_with_both(registry: Registry) -> None:
    """And the one before, too, while nobody has decided."""
    await happen(registry, "registered", "approved")
    gate = ImageGate(registry)
    await gate.admit("tool", ONE)

    why = f"its image {NAME} is {TWO[:19]} now, and was {ONE[:19]} when it was approved"
    assert (await gate.admit("tool", TWO)).startswith(why)
    last = (await registry.log("tool"))[-1]
    assert last.binding.image == image_with_identity(NAME, TWO)
    assert last.why == f"it is {TWO} now, and was {ONE} when it was approved"
    assert "is not approved" in await gate.admit("tool", ONE)


async def test_what_nobody_approved_is_refused_and_not_remembered(registry: Registry) -> None:
    """A server that is not there, waits, or has a log that cannot be."""
    gate = ImageGate(registry)
    assert "is not approved" in await gate.admit("tool", ONE)
    await happen(registry, "registered")
    assert "is not approved" in await gate.admit("tool", ONE)
    assert len(await registry.log("tool")) == 1
    await happen(registry, "resumed")
    assert "its log of approvals was altered" in await gate.admit("tool", ONE)
