"""A replica: one of several gateways on one database, as the others know it."""

from dataclasses import dataclass
from typing import Final, Literal

ReplicaRole = Literal["gateway", "runner", "both"]
LEASE_S: Final = 15.0
"""How long a replica counts as alive after it was last heard of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveReplica:
    """A live replica; one that is ending has the role `draining`.

    `address` is where the others reach it, such as `http://10.0.0.7:8420`.
    """

    id: str
    role: ReplicaRole | Literal["draining"]
    address: str
    version: str

    @property
    def runs_servers(self) -> bool:
        """Whether it may own servers that are programs or containers."""
        return self.role in ("runner", "both")
