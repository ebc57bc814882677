"""What the tests of the layers share: a policy, all five layers, and how to look at a manifest."""

from pathlib import Path

from maitred.admission.checks.allowlist import AllowlistCheck
from maitred.admission.checks.base import Check, Exemption, Policy, decide
from maitred.admission.checks.network import NetworkCheck
from maitred.admission.checks.resources import ResourcesCheck
from maitred.admission.checks.schema import SchemaCheck
from maitred.admission.checks.secrets import SecretsCheck
from maitred.admission.findings import Decision
from maitred.admission.manifest_reader import read_manifest

FILE = Path("server.yml")
DIGEST = "sha256:" + "a" * 64
CHECKS: tuple[Check, ...] = (
    SchemaCheck(),
    AllowlistCheck(),
    NetworkCheck(),
    ResourcesCheck(),
    SecretsCheck(),
)
POLICY = Policy(
    images=("ghcr.io/acme/*", "docker.io/mcp/*:1.*"),
    trusted_images=("ghcr.io/acme/trusted/**",),
    trusted_digests=("sha256:" + "b" * 64,),
    trusted_commands=("uvx mcp-server-time@* **", "mcp-server-time **"),
    trusted_hosts=("mcp.example.com", "*.trusted.example"),
    exemptions={
        "intranet": Exemption(hosts=("wiki.internal",), addresses=("10.1.0.0/16",)),
        "github-api": Exemption(hosts=("api.github.com",)),
        "pages": Exemption(),
    },
    references=("MY_*", "TOKEN"),
    readable=("/srv/docs",),
    writable=("/srv/scratch",),
)


def judge(text: str, policy: Policy = POLICY) -> Decision:
    """What all five layers find of the text of a manifest."""
    return decide(read_manifest(FILE, text), policy, CHECKS)


def found(decision: Decision) -> set[tuple[str, str, str]]:
    """The findings as (layer, severity, key)."""
    return {(one.layer, one.severity, one.key) for one in decision.findings}
