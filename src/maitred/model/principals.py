"""Who asks, under which name what somebody spends, may see and has kept is written down, and from where."""

from dataclasses import dataclass
from typing import Final, Literal

LOCAL: Final = "local"
"""The principal who is not told apart: the user of this machine."""

ViewerEra = Literal["handshake", "stateless"]


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A principal as one look at the tools finds them.

    In the handshake era a connection has a state of its own, and `connection` tells it from others; in the
    stateless era, where it is empty, all that a principal does counts together. `client` is the name that the
    client gives itself, a claim and no proof.
    """

    principal: str
    connection: str = ""
    client: str = ""
    era: ViewerEra = "stateless"
    roles: tuple[str, ...] = ()

    @property
    def scope(self) -> tuple[str, str]:
        """What the state of servers is kept for."""
        return self.principal, self.connection


LOCAL_USER: Final = Viewer(principal=LOCAL, roles=("admin",))
"""The user of this machine, who may do everything."""
