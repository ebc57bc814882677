"""What the tests of the layers share: a policy, and how to look at a manifest."""

from pathlib import Path

from maitred.admission.checks.base import Exemption, Policy, decide
from maitred.admission.findings import Decision
from maitred.admission.manifest_reader import read_manifest
from maitred.admission.review import CHECKS

FILE = Path("server.yml")
DIGEST = "sha256:" + "a" * 64
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
    """What all layers find of the text of a manifest."""
    return decide(read_manifest(FILE, text), policy, CHECKS)


def found(decision: Decision) -> set[tuple[str, str, str]]:
    """The findings as (layer, severity, key)."""
    return {(one.layer, one.severity, one.key) for one in decision.findings}
