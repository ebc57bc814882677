"""The client of a request, as servers see it."""

from typing import Any

import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from tests.surfaces.mcp.test_parked_calls import Link

from maitred.model.access import LOCAL_USER, Grant, Role, Viewer
from maitred.surfaces.mcp.caller import StatelessCaller
from maitred.surfaces.mcp.client_keys import key_of


def caller(viewer: Viewer, **capabilities: Any) -> StatelessCaller:
    return StatelessCaller(Link(), {"_meta": {CLIENT_CAPABILITIES_META_KEY: capabilities}}, viewer)


@pytest.mark.parametrize(("role", "shown"), [("agent", False), ("operator", True), ("admin", True)])
def test_only_operators_have_roots_since_servers_open_the_folders_that_roots_name(
    role: Role, shown: bool
) -> None:
    """A server such as that of file systems lets its caller's roots replace the folders it was given."""
    asked = caller(Viewer(grant=Grant(principal="ann", role=role)), roots={}, sampling={})
    assert ("roots" in asked.capabilities) is shown
    assert "sampling" in asked.capabilities


def test_two_requests_have_one_key_only_if_they_certainly_have_one_client() -> None:
    """Over HTTP nothing says so of clients of the stateless era; a wire or a session does."""
    wire = Viewer(grant=LOCAL_USER.grant, connection="wire 1")
    assert key_of(wire) == key_of(wire)
    assert key_of(LOCAL_USER) != key_of(LOCAL_USER)
    assert key_of(wire) != key_of(Viewer(grant=LOCAL_USER.grant, connection="wire 2"))
