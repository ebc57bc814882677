"""The protocol of a layer of admission, the operator's policy, and the decision from all findings.

A layer sees values only: the manifest and the policy. It knows no files and lines; `decide` adds them to its
findings. Every layer runs, whatever the layers before it found, so that the author of a manifest sees all
faults at once. The last layer is a person: the outcome says whether one has to look.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from maitred.admission.addresses import networks
from maitred.admission.findings import Decision, Finding, LayerReport
from maitred.admission.image_names import parse_command_pattern, parse_image_pattern
from maitred.admission.manifest import MIB, Manifest
from maitred.model.approvals import Severity


@dataclass(frozen=True, kw_only=True)
class Exemption:
    """What a server may reach that names this exemption.

    `hosts` are host names, `*.example.com` for one more label; none means any public host. `addresses` are
    networks that are forbidden otherwise, such as `10.1.0.0/16`.
    """

    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The most that a server may ask for. `cpu_shares` is a weight, and `nano_cpus` a limit."""

    memory_bytes: int = 2048 * MIB
    nano_cpus: int = 4_000_000_000
    cpu_shares: int = 4095
    pids: int = 512
    output_bytes_s: int = 64 * MIB


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the operator decided beforehand. What it does not cover needs a person's approval.

    Attributes:
        images: Patterns such as `ghcr.io/acme/*`. The policy approves such an image if a digest pins it.
        trusted_images: Patterns whose images the policy approves by tag, too.
        trusted_digests: Digests that the policy approves, wherever the image comes from.
        trusted_commands: Patterns of command lines such as `uvx mcp-server-time@* **`.
        trusted_hosts: Hosts of http servers, `*.example.com` for one more label.
        exemptions: What `network: NAME` may ask for.
        references: Variables that a manifest may refer to unasked; a last `*` stands for any ending.
        secret_folders: Folders whose files a manifest may refer to unasked.
        readable: Folders that may be granted for reading unasked.
        writable: Folders that may be granted for writing unasked.
        bounds: The most that a server may ask for.

    Raises:
        ValueError: Patterns or networks are not valid. The text lists all of them.
    """

    images: tuple[str, ...] = ()
    trusted_images: tuple[str, ...] = ()
    trusted_digests: tuple[str, ...] = ()
    trusted_commands: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    exemptions: Mapping[str, Exemption] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ("/run/secrets",)
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        """Refuse patterns that mean nothing: they would match no server, without a sign for the operator."""
        faults = []
        for read, texts in (
            (parse_image_pattern, (*self.images, *self.trusted_images)),
            (parse_command_pattern, self.trusted_commands),
            (lambda text: networks([text]), [a for e in self.exemptions.values() for a in e.addresses]),
        ):
            for text in texts:
                try:
                    read(text)
                except ValueError as error:
                    faults.append(str(error))
        if "none" in self.exemptions:
            faults.append("`none` cannot be the name of an exemption")
        if faults:
            raise ValueError("; ".join(faults))


SCHEMA: Final = "schema"
"""The layer that the faults of the reader and of declarations belong to."""

Declared = Callable[[Manifest], Iterable[Finding]]
"""Checks the declarations that other packages will use, such as rules of visibility."""


def _nothing(_: Manifest) -> Iterable[Finding]:
    return ()


class Check(Protocol):
    """One layer. It never raises on a manifest, however odd, and always finds the same.

    A check that depends on how the server is reached asks `manifest_reach`. It answers `unknown_transport`
    for a transport for which it has no rules. A URL that cannot be read is a matter of the layer `network`;
    other checks say nothing of it.

    A person can approve what a check asks, but cannot overrule what it refuses. So a check that refuses what
    an operator may want needs a field of `Policy` that permits it.

    Helpers: `checks.allowlist.fits_host` compares hosts with patterns, `addresses` reads URLs, and
    `lookalike.likeness` compares names.
    """

    layer: str

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        """The findings against the manifest, in the order of its keys."""
        ...


class LayerCheck:
    """What the checks of this package share: a finding of their own layer."""

    layer: str

    def _finding(self, severity: Severity, key: str, reason: str, fix: str) -> Finding:
        return Finding(layer=self.layer, severity=severity, key=key, reason=reason, fix=fix)


@dataclass(frozen=True, kw_only=True)
class ManifestReading:
    """A file after reading: the manifest as far as it is readable, the faults, and the lines of its keys."""

    file: str
    manifest: Manifest | None = None
    findings: tuple[Finding, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)

    def line(self, key: str) -> int:
        """The line of a key, or of the nearest key around it; 0 for a manifest that comes from no file."""
        while key and key not in self.lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.lines.get(key, min(self.lines.values(), default=0))


def decide(
    reading: ManifestReading, policy: Policy, checks: Sequence[Check], declared: Declared = _nothing
) -> Decision:
    """Let every layer look at a manifest, in their order.

    The findings of the reader and of `declared` belong to the layer `schema`. A layer does not report a key
    again that could not be read.
    """
    manifest = reading.manifest
    known = {finding.key for finding in reading.findings}
    reports = []
    for check in checks:
        is_schema = check.layer == SCHEMA
        found = list(reading.findings) if is_schema else []
        if manifest is not None:
            own = [*check.check(manifest, policy), *(declared(manifest) if is_schema else ())]
            found += [_placed(finding, reading) for finding in own if finding.key not in known]
        reports.append(LayerReport(layer=check.layer, findings=tuple(found), ran=manifest is not None))
    return Decision(
        server=manifest.name if manifest else "",
        manifest_hash=manifest.hash if manifest else "",
        layers=tuple(reports),
    )


def _placed(finding: Finding, reading: ManifestReading) -> Finding:
    return replace(finding, file=reading.file, line=reading.line(finding.key))
