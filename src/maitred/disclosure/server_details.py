"""What a caller of a tool may know of its server: the image, the network and the limits it runs with.

Neither its command line nor its address nor any value of its environment is among that.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from maitred.model.servers import Cage, ServerSpec
from maitred.model.transports import TRANSPORTS, transport_kind

_CORE = 1_000_000_000


def server_details(spec: ServerSpec, *, jails_programs: bool) -> Mapping[str, Any]:
    """Return how a server runs; `limits` has nothing where the machine alone limits it.

    `network` is `none` or `granted` for an isolated server, `unlimited` for a program without isolation,
    `remote` for a server at an address, and `internal` for one in the gateway itself.
    """
    isolation, cage, network = _isolation(spec, jails_programs=jails_programs)
    limits: dict[str, Any] = {
        "call_timeout_s": spec.timeouts.call_s,
        "longest_call_s": spec.timeouts.longest_call_s,
    }
    if cage is not None:
        limits |= {
            "memory_bytes": cage.memory,
            "cpus": cage.nano_cpus / _CORE,
            "processes": cage.pids,
            "output_bytes_per_s": cage.output,
        }
    return {
        "transport": spec.transport,
        "image": spec.image,
        "isolation": isolation,
        "network": network,
        "limits": limits,
    }


def isolation_of(spec: ServerSpec, *, jails_programs: bool) -> str:
    """Return in what the processes of a server run, also before it starts: `jail`, `container`, or empty."""
    if spec.transport not in TRANSPORTS:  # it never starts
        return ""
    return _isolation(spec, jails_programs=jails_programs)[0]


def _isolation(spec: ServerSpec, *, jails_programs: bool) -> tuple[str, Cage | None, str]:
    """The kind of isolation, what the server may use in it, and its network."""
    match transport_kind(spec.transport).reach:
        case "image":
            cage = spec.cage or Cage()
            return "container", cage, "granted" if cage.network else "none"
        case "program":
            if not (spec.registered and jails_programs):
                return "", None, "unlimited"
            cage = spec.cage or Cage()
            return "jail", cage, "granted" if cage.network else "none"
        case "network":
            return "", None, "remote"
        case "internal":
            return "", None, "internal"
        case unknown:
            assert_never(unknown)
