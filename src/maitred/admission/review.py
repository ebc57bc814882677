"""Review a manifest: read it, run all layers, decide; and make the server's specification.

It is imported at a registration, not at the start of a gateway: the detectors of credentials load slowly.
`maitred.gateway.admission` stores the result and acts on it.
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
from maitred.admission.findings import ReviewResult
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
"""The layers that are no person. One more is a file in `checks` and a line here.

No check depends on another, so their order does not change the outcome. Findings and the numbers of layers
are in this order.
"""


class Reviewer:
    """Reviews manifests by one policy; `declared` checks the keys that belong to other features."""

    def __init__(self, policy: Policy, declared: Declared) -> None:
        self._policy = policy
        self._declared = declared

    def look(self, text: str, source: str) -> ReviewResult:
        """Read a manifest and run every layer; takes up to some seconds of processor time."""
        reading = read_manifest(Path(source), text)
        decision = decide(reading, self._policy, CHECKS, self._declared)
        normal = canonical(reading.manifest.normal).decode() if reading.manifest else ""
        return ReviewResult(decision=decision, normal=normal, name_line=reading.line("name"))

    def spec(self, normal: str, limits: Limits) -> ServerSpec:
        """The specification of a server, from the normal form of its manifest as JSON text.

        Raises:
            ValueError: The text is no manifest of this version.
        """
        manifest = manifest_of(normal)
        if any(finding.severity == "refuse" for finding in self._declared(manifest)):
            raise ValueError("what it declares means nothing now")
        return to_spec(manifest, limits, exempted=self._exempted(manifest))

    def _exempted(self, manifest: Manifest) -> tuple[str, ...]:
        exemption = self._policy.exemptions.get(manifest.network)
        return exemption.addresses if exemption else ()


def manifest_of(normal: str) -> Manifest:
    """The manifest with a stored normal form.

    Raises:
        ValueError: The text is no manifest of this version.
    """
    values: Mapping[str, Any] = json.loads(normal)
    return ADAPTER.validate_python(values)
