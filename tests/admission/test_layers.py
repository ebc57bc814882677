"""What good manifests are told by each layer, when nobody is asked, and how a decision is kept."""

import json

import pytest
from tests.admission.layers import DIGEST, POLICY, found, judge

from maitred.admission.checks.base import Bounds, Exemption, Policy
from maitred.admission.credential_detection import is_secret_name, take_apart
from maitred.admission.findings import Finding
from maitred.admission.review import CHECKS

STRICT = Policy()


@pytest.mark.parametrize(
    ("image", "outcome", "severities"),
    [
        (f"ghcr.io/acme/x@{DIGEST}", "approved", []),
        (f"ghcr.io/acme/x:1@{DIGEST}", "approved", []),
        ("ghcr.io/acme/x:1", "needs approval", ["ask"]),
        ("ghcr.io/acme/x", "needs approval", ["ask"]),
        ("mcp/time:1.2", "needs approval", ["ask"]),
        ("ghcr.io/acme/trusted/x:1", "approved", ["warn"]),
        ("ghcr.io/acme/trusted/x/y:1", "approved", ["warn"]),
        (f"ghcr.io/acme/trusted/x@{DIGEST}", "approved", []),
        (f"evil.example/x@{DIGEST}", "needs approval", ["ask"]),
        ("anywhere.example/x@sha256:" + "b" * 64, "approved", []),
        ("localhost/x:1", "needs approval", ["ask"]),
    ],
)
def test_an_image_is_approved_by_itself_only_by_digest_or_trust(
    image: str, outcome: str, severities: list[str]
) -> None:
    """The table of the layer `allowlist`."""
    decision = judge(f"name: x\nimage: {image}")

    assert decision.outcome == outcome
    assert [finding.severity for finding in decision.findings] == severities


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("command: uvx\nargs: [mcp-server-time@1.2]", "approved"),
        ("command: uvx\nargs: [mcp-server-time@1.2, --x]\nenv: {LOG_LEVEL: debug}", "approved"),
        ("command: uvx\nargs: [mcp-server-time]", "needs approval"),
        ("command: /usr/bin/uvx\nargs: [mcp-server-time@1]", "needs approval"),
        ("url: https://mcp.example.com/mcp", "approved"),
        ("url: https://a.trusted.example/mcp\nheaders: {Authorization: 'Bearer ${TOKEN}'}", "approved"),
        ("url: https://a.b.trusted.example/mcp", "needs approval"),
        ("url: https://MCP.EXAMPLE.COM./mcp", "approved"),
        ("url: https://8.8.8.8/mcp", "needs approval"),
        ("url: http://wiki.internal/mcp\nnetwork: intranet", "needs approval"),
        ("url: http://10.1.2.3/mcp\nnetwork: intranet", "needs approval"),
        ("url: http://wiki.internal/mcp\nnetwork: pages", "refused"),
        ("command: 'C:\\Program Files\\x\\server.exe'", "needs approval"),
    ],
)
def test_what_the_policy_lists_is_approved_and_the_rest_is_asked(text: str, outcome: str) -> None:
    """Commands word by word, hosts by name, exemptions always by a person."""
    assert judge(f"name: x\n{text}").outcome == outcome


def test_without_a_policy_everything_is_asked() -> None:
    """No command, no image and no host is trusted from the start."""
    for text in (
        "command: uvx\nargs: [x]",
        f"image: ghcr.io/acme/x@{DIGEST}",
        "url: https://mcp.example.com",
    ):
        assert judge(f"name: x\n{text}", STRICT).outcome == "needs approval"


@pytest.mark.parametrize(
    ("grant", "outcome"),
    [
        ("{path: /srv/docs}", "approved"),
        ("{path: /srv/docs/a/b, mode: read}", "approved"),
        ("{path: /srv/scratch/x, mode: write}", "approved"),
        ("{path: /srv/scratch}", "approved"),
        ("{path: /srv/docs, mode: write}", "needs approval"),
        ("{path: /home/ann/projects/shop}", "needs approval"),
        ("{path: /etc/ssl}", "refused"),
        ("{path: /tmp}", "refused"),
        ("{path: /var/lib}", "refused"),
        ("{path: /var/tmp/}", "refused"),
        ("{path: /home/ann/.config}", "refused"),
        ("{path: /home/ann/.local/share/}", "refused"),
        ("{path: /home/ann/.config/shop}", "needs approval"),
    ],
)
def test_a_grant_needs_a_listed_folder_or_a_person(grant: str, outcome: str) -> None:
    """To read is less than to write; the system's own folders are nobody's to grant."""
    assert judge(f"name: x\nimage: ghcr.io/acme/x@{DIGEST}\nfilesystem: [{grant}]").outcome == outcome


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ("memory: 2g", ""),
        ("memory: 2048m", ""),
        ("memory: 2049m", "memory"),
        ("memory: 1k", "memory"),
        ("cpu: 4", ""),
        ("cpu: 4.01", "cpu"),
        ("cpu: 0.001", "cpu"),
        ("cpu: 512", "cpu"),
        ("cpu_shares: 4095", ""),
        ("cpu_shares: 4096", "cpu_shares"),
        ("cpu_shares: 1", "cpu_shares"),
        ("cpu_shares: 0", ""),
        ("pids: 512", ""),
        ("pids: 513", "pids"),
        ("output: 64m", ""),
        ("output: 65m", "output"),
        ("output: 10", "output"),
    ],
)
def test_limits_are_bounded_at_both_ends(limits: str, refused: str) -> None:
    """A weight and a limit on cores are two things."""
    decision = judge(f"name: x\nimage: ghcr.io/acme/x@{DIGEST}\n{limits}")

    assert found(decision) == ({("resources", "refuse", refused)} if refused else set())


def test_a_weight_that_stands_as_cores_is_explained() -> None:
    """The tier design's "CPU < 4096" is a weight of Docker."""
    [finding] = judge(f"name: x\nimage: ghcr.io/acme/x@{DIGEST}\ncpu: 1024").findings

    assert "`cpu_shares`" in finding.fix


BENIGN = [
    "LOG_LEVEL: debug",
    "MAX_TOKENS: 4096",
    "TOKEN_FILE: /data/token",
    "PASSWORD_MODE: prompt",
    "AUTH_MODE: oauth",
    "TOKENIZERS_PARALLELISM: 'false'",
    "API_URL: https://api.example.com/v1?limit=5&sort=key",
    "SORT_KEY: name",
    "SECRET_NAME: prod/db",
    "DATABASE_URL: postgres://reader@db.example/x",
    "TZ: Europe/Paris",
    "DEBUG: true",
    "COMMIT: 3f786850e387550fdab836ed7e6dc881de23001b",
    "ID: 0b8f3c1e-6f0a-4c39-9c1b-2f6f1d1f8a55",
    "PORT: 8080",
    "REQUIRE_TOKEN: true",
    "FLAGS: eyJhIjoxfQ==",
    "KEYBOARD: qwerty",
    "TOKEN: ''",
    "PASS_THROUGH: x",
    "MONKEY: george",
    "GREETING: 'mind the $100 price'",
    "TOKEN_LIMIT: 100",
    "TOKENS: 12",
    "COMPASS: north",
]


@pytest.mark.parametrize("entry", BENIGN)
def test_an_ordinary_setting_is_no_secret(entry: str) -> None:
    """Counts, choices, names and places of credentials are none themselves."""
    decision = judge(f"name: x\nimage: ghcr.io/acme/x@{DIGEST}\nenv: {{{entry}}}")

    assert decision.outcome == "approved", [str(finding) for finding in decision.findings]


@pytest.mark.parametrize(
    "entry",
    [
        "TOKEN: '${TOKEN}'",
        "TOKEN: '${env:TOKEN}'",
        "TOKEN: '${TOKEN:-}'",
        "TOKEN: '${TOKEN:-${MY_TOKEN}}'",
        "TOKEN: '${file:/run/secrets/x}'",
        "AUTHORIZATION: 'Bearer ${TOKEN}'",
        "X: 'a${TOKEN}b${MY_X}'",
        "DATABASE_URL: 'postgres://u:${MY_PW}@db.example/x'",
        "TOKEN: '${MY_TOKEN:-none}'",
    ],
)
def test_a_listed_reference_is_accepted(entry: str) -> None:
    """Whatever its name says; the value is somewhere else."""
    decision = judge(f"name: x\nimage: ghcr.io/acme/x@{DIGEST}\nenv: {{{entry}}}")

    assert decision.outcome == "approved", [str(finding) for finding in decision.findings]


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD",
        "DB_PASSWORD",
        "dbPassword",
        "GITHUB_TOKEN",
        "githubToken",
        "GITHUBTOKEN",
        "api_key",
        "apiKey",
        "APIKEY",
        "X-Api-Key",
        "AWS_SECRET_ACCESS_KEY",
        "client_secret",
        "Authorization",
        "PGPASSWORD",
        "MY_PAT",
        "PRIVATE_KEY",
    ],
)
def test_a_name_that_says_secret_is_known_in_every_style(name: str) -> None:
    """Snake, camel, kebab and written together."""
    assert is_secret_name(name)


def test_references_are_told_from_text() -> None:
    """Defaults are text; an escaped dollar sign is, too."""
    parts = take_apart("a${X}b${Y:-c${env:Z:-d}}$${E}${file:/f}")

    assert parts.literal == "abcd${E}"
    assert sorted(parts.references) == ["X", "Y", "Z", "file:/f"]


def test_a_policy_with_a_pattern_that_means_nothing_says_so() -> None:
    """All of them at once, before anybody wonders why nobody gets in."""
    with pytest.raises(ValueError, match=r"'mcp/\*'.*'\*'.*10\.0\.0\.1/8.*`none`"):
        Policy(
            images=("mcp/*",),
            trusted_commands=("*",),
            exemptions={"a": Exemption(addresses=("10.0.0.1/8",)), "none": Exemption()},
        )


def test_bounds_are_the_operators() -> None:
    """The defaults of the design can be made narrower."""
    small = Policy(bounds=Bounds(memory_bytes=2**28))

    assert ("resources", "refuse", "memory") in found(judge("name: x\nimage: a/b\nmemory: 512m", small))


def test_a_decision_is_kept_as_json() -> None:
    """Every layer with what it found, in order; the outcome; what it was about."""
    decision = judge("name: x\nimage: a/b\nnetwork: pages", POLICY)

    kept = json.loads(json.dumps(decision.record()))

    assert kept["server"] == "x"
    assert len(kept["manifest_hash"]) == 64
    assert kept["outcome"] == "needs approval"
    assert [layer["layer"] for layer in kept["layers"]] == [check.layer for check in CHECKS]
    assert all(layer["ran"] for layer in kept["layers"])
    findings = {layer["layer"]: layer["findings"] for layer in kept["layers"] if layer["findings"]}
    assert {layer: len(found) for layer, found in findings.items()} == {"allowlist": 1, "network": 1}
    assert findings["network"][0]["line"] == 3


def test_layers_that_had_nothing_to_look_at_say_so() -> None:
    """A file that is no manifest is refused, not approved by silence."""
    decision = judge("[")

    assert decision.outcome == "refused"
    assert [layer.ran for layer in decision.layers] == [False] * len(CHECKS)


def test_a_finding_reads_as_one_line() -> None:
    """File, line, key, reason and fix."""
    finding = Finding(
        layer="schema", severity="refuse", key="pids", reason="is odd", fix="mend", line=3, file="a.yml"
    )

    assert str(finding) == "a.yml:3: pids: is odd (mend)"
    assert str(Finding(layer="schema", severity="warn", key="", reason="is odd")) == "manifest: is odd"
