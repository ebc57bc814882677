"""Viewers by name, for tests that do not care what these may do besides calling."""

from typing import Any

from maitred.model.access import Grant, Viewer


def agent(principal: str, **fields: Any) -> Viewer:
    """Somebody with the role `agent` and everything within reach."""
    return Viewer(grant=Grant(principal=principal, role="agent"), **fields)
