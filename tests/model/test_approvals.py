"""Values of the log of approvals."""

from maitred.model.approvals import Binding, Event


def test_an_event_about_nothing_is_bound_to_nothing() -> None:
    """Suspending or withdrawing needs no hashes."""
    assert Event(kind="suspended").binding == Binding() == Binding(manifest="", image="", definition="")
