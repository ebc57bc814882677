"""Who asks, under which name what somebody spends, may see and has kept is written down, and from where."""

from dataclasses import dataclass
from typing import Final, Literal

from maitred.model.access import LOCAL_GRANT, Grant

ViewerEra = Literal["handshake", "stateless"]
Surface = Literal["", "mcp", "http", "cli"]


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A principal as one look at the tools finds them, with what they may do.

    In the handshake era a connection has a state of its own, and `connection` tells it from others, as it
    does for a client that has a wire of its own; in the stateless era it is empty otherwise, and all that a
    principal does counts together. `client` is the name that the client gives itself, a claim and no proof;
    `surface` is where it came in, empty for a program's own calls.
    """

    grant: Grant
    connection: str = ""
    client: str = ""
    era: ViewerEra = "stateless"
    surface: Surface = ""

    @property
    def principal(self) -> str:
        """Who it is."""
        return self.grant.principal

    @property
    def roles(self) -> tuple[str, ...]:
        """The role, as visibility rules read it."""
        return (self.grant.role,)

    @property
    def scope(self) -> tuple[str, str]:
        """What the state of servers is kept for."""
        return self.principal, self.connection


LOCAL_USER: Final = Viewer(grant=LOCAL_GRANT)
"""The user of this machine, who may do everything."""
