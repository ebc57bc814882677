"""What should run, compared with what there is: pure values, on which the pool acts.

Whatever changes what should run comes through here: an edit of the configuration, a decision of a person, a
suspension, and the end of a server that is to run always.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from maitred.model.servers import ServerSpec

Desired = Literal["running", "as needed", "stopped"]


def desired(spec: ServerSpec) -> Desired:
    """What is wanted of a server now."""
    if not spec.usable:
        return "stopped"
    return "running" if spec.start == "always" else "as needed"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What has to be done: servers to stop for good, to make anew (some of them in place of the former)."""

    retire: frozenset[str]
    make: frozenset[str]

    @property
    def replaced(self) -> frozenset[str]:
        """Those that are stopped and made anew, since they are reached otherwise than before."""
        return self.retire & self.make


def difference(wanted: Mapping[str, ServerSpec], present: Mapping[str, ServerSpec]) -> Difference:
    """How the servers that there are differ from those that there should be."""
    same = {name for name, spec in wanted.items() if name in present and present[name].run == spec.run}
    return Difference(retire=frozenset(present.keys() - same), make=frozenset(wanted.keys() - same))
