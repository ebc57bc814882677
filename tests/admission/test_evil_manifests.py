"""Evil and mistaken manifests: what each layer finds of them, and that none gets in.

Each entry of the tables is one threat: a manifest and one finding that it must have, as `layer severity key`.
A manifest may have further findings; none may be approved.
"""

import pytest
from tests.admission import evil_reach, evil_shapes
from tests.admission.evil_reach import HIDDEN, PAT
from tests.admission.layers import found, judge
from tests.support.cpu import cpu_within

EVIL = evil_shapes.EVIL | evil_reach.EVIL


@pytest.mark.parametrize("threat", EVIL)
def test_an_evil_manifest_is_told_what_is_wrong_and_does_not_get_in(threat: str) -> None:
    """Every threat of the table ends as designed, within seconds, and with a way out."""
    text, expected = EVIL[threat]
    layer, severity, key = expected.split(" ", 2)

    with cpu_within(10):
        decision = judge(text)

    assert (layer, severity, key) in found(decision)
    assert decision.outcome == ("refused" if severity == "refuse" else decision.outcome) != "approved"
    for finding in decision.findings:
        assert finding.reason
        assert finding.file == "server.yml"


def test_no_finding_repeats_a_secret() -> None:
    """What is found may be logged and shown, so the value itself is in none of it."""
    secrets = ("hunter2", PAT, HIDDEN, "AKIAIOSFODNN7EXAMPLE", "abcdef")

    told = [str(finding) for text, _ in EVIL.values() for finding in judge(text).findings]

    assert not [line for line in told for secret in secrets if secret in line]
