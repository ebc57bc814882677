"""The way in for a manifest: read, looked at by all layers, decided; and the specification that comes of it.

It is loaded when something is registered, not when a gateway starts: the detectors of credentials take their
time. What is written down, and what follows, is for `maitred.gateway.admission`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from maitred.admission.checks.allowlist import AllowlistCheck
from maitred.admission.checks.base import Check, Declared, Policy, decide
from maitred.admission.checks.network import NetworkCheck
from maitred.admission.checks.resources import ResourcesCheck
from maitred.admission.checks.schema import SchemaCheck
from maitred.admission.checks.secrets import SecretsCheck
from maitred.admission.findings import Reviewed
from maitred.admission.manifest import ADAPTER, Manifest, to_spec
from maitred.admission.manifest_reader import read_manifest
from maitred.config.settings import Limits
from maitred.model.servers import ServerSpec
from maitred.model.tools import canonical

CHECKS: Final[list[Check]] = [
    SchemaCheck(),
    AllowlistCheck(),
    NetworkCheck(),
    ResourcesCheck(),
    SecretsCheck(),
]
"""The layers that are no person, in their order. One more is a file in `checks` and a line here."""


class Reviewer:
    """Looks at manifests by one policy; `declared` at what of them is for other parts."""

    def __init__(self, policy: Policy, declared: Declared) -> None:
        self._policy = policy
        self._declared = declared

    def look(self, text: str, source: str) -> Reviewed:
        """Read a manifest and let every layer look at it; takes up to some seconds of processor time."""
        reading = read_manifest(Path(source), text)
        decision = decide(reading, self._policy, CHECKS, self._declared)
        normal = canonical(reading.manifest.normal).decode() if reading.manifest else ""
        return Reviewed(decision=decision, normal=normal, name_line=reading.line("name"))

    def spec(self, normal: str, limits: Limits) -> ServerSpec:
        """The specification of a server by the normal form of its manifest, a JSON text.

        Raises:
            ValueError: It is no manifest, of this version at least.
        """
        manifest = manifest_of(normal)
        if any(found.severity == "refuse" for found in self._declared(manifest)):
            raise ValueError("what it declares means nothing now")
        return to_spec(manifest, limits, exempted=self._exempted(manifest))

    def _exempted(self, manifest: Manifest) -> tuple[str, ...]:
        exemption = self._policy.exemptions.get(manifest.network)
        return exemption.addresses if exemption else ()


def manifest_of(normal: str) -> Manifest:
    """A manifest by the normal form that was kept.

    Raises:
        ValueError: It is no manifest, of this version at least.
    """
    written: Mapping[str, Any] = json.loads(normal)
    return ADAPTER.validate_python(written)
