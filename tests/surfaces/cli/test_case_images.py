"""Whoever decides on a server sees that its image is another one."""

from maitred.gateway.cases import Case
from maitred.model.approvals import Binding, Event
from maitred.surfaces.cli.case_view import summary

NOW = "it is sha256:2222 now, and was sha256:1111 when it was approved"
CHANGED = Event(kind="image_changed", binding=Binding(image="docker.io/a/b:1@sha256:2222"), why=NOW)
APPROVED = Event(kind="approved")


def lines(*log: Event, state: str) -> list[str]:
    case = Case(server="tool", source="tool.yml", state=state, awaits=True, log=log)  # type: ignore[arg-type]
    return [str(line) for line in summary(case)]


def test_an_image_that_changed_is_shown_until_somebody_decides() -> None:
    """With what it was and what it is."""
    assert f"  image: changed: {NOW}" in lines(APPROVED, CHANGED, state="pending")
    assert not any("changed" in line for line in lines(APPROVED, CHANGED, APPROVED, state="approved"))
    assert not any("changed" in line for line in lines(APPROVED, CHANGED, state="approved"))
