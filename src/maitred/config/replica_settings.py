"""The settings of a replica: one of several gateways on one PostgreSQL."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from maitred.model.replicas import ReplicaRole


@dataclass(frozen=True, kw_only=True)
class ReplicaSettings:
    """What this process does among several gateways on one PostgreSQL; it needs `catalog.url`.

    A `gateway` takes clients and starts no program or container, a `runner` does the reverse. `address` is
    where the other replicas reach this one, without a path; it may have references. If it is empty, it is
    the address on which the process listens.
    """

    role: ReplicaRole = "both"
    address: str = ""

    @property
    def takes_clients(self) -> bool:
        """Whether MCP clients may connect to this process."""
        return self.role != "runner"


def replica_faults(section: ReplicaSettings) -> Iterator[tuple[str, str]]:
    """Yield the faults of the section: pairs of a key and a text."""
    if section.address and "$" not in section.address and (fault := address_fault(section.address)):
        yield "address", fault


def address_fault(address: str) -> str:
    """Why an address cannot be that of a replica; empty if it can."""
    try:
        parts = urlsplit(address)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        return f"is no address: {error}"
    if parts.scheme not in ("http", "https") or not is_whole:
        return "must be http:// or https:// with a host, such as http://10.0.0.7:8420"
    if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        return "must have no path, query or password"
    return ""
