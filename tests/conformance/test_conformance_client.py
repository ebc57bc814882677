"""The official conformance suite, run against the gateway as a client, once per protocol era.

For each scenario the suite serves an MCP server, starts `client_program.py`, and judges what arrives: the
program opens a gateway over that server. The requirement sets of the suite name the scenarios of a revision.
Of its optional extensions, none that concern clients is offered: DPoP, client credentials, identity
assertion and workload identity have no person who logs in. `expected_client_failures.yaml` lists exceptions.

One process of the suite runs all scenarios of a revision, since its start takes longer than a scenario.

By hand: `node --import tests/conformance/node20.mjs $SUITE client --command "python -m
tests.conformance.client_program /tmp" --spec-version 2026-07-28 --scenario tools_call`.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from ruamel.yaml import YAML
from tests.conformance.client_program import ENDED_WELL
from tests.conformance.test_conformance import BAD, HERE, REVISIONS, Check, judge, suite_path
from tests.support import prefork

SUITE_S = 1_500.0
MAY_END_WITH_AN_ERROR = frozenset(
    {
        "auth/iss-normalized",
        "auth/iss-supported-missing",
        "auth/iss-unexpected",
        "auth/iss-wrong-issuer",
        "auth/metadata-issuer-mismatch",
        "auth/resource-mismatch",
        "auth/scope-retry-limit",
        "http-invalid-tool-headers",
    }
)
"""Scenarios with servers that a client has to refuse: as the suite says, by `allowClientError`."""


def expected_failures() -> Mapping[str, Mapping[str, str]]:
    listed: Mapping[str, Mapping[str, str]] = YAML(typ="safe").load(HERE / "expected_client_failures.yaml")
    return listed


def required(suite: Path, revision: str) -> list[str]:
    """The scenarios for clients that a revision requires, and those that the suite has got since."""
    path = suite.parents[1] / "requirements" / f"{revision}.yaml"
    wanted = YAML(typ="safe").load(path)
    later = [one for one in wanted["not_scored"] if one["leg"] == "client" and one["reason"] != "extension"]
    return [*wanted["client"], *(one["scenario"] for one in later)]


def checks_of(scenario: str, results: Path) -> list[Check]:
    """The checks of one scenario; an end of the program with an error is one more."""
    found = list(results.glob(f"{scenario}-20*/checks.json"))
    if len(found) != 1:
        return [{"id": "no-result", "status": "FAILURE", "errorMessage": "The scenario left no result."}]
    checks: list[Check] = json.loads(found[0].read_text("utf-8"))
    ended_well = found[0].with_name("stdout.txt").read_text("utf-8").endswith(f"{ENDED_WELL}\n")
    has_failed = any(check["status"] in BAD for check in checks)
    if not (ended_well or has_failed or scenario in MAY_END_WITH_AN_ERROR):
        said = found[0].with_name("stderr.txt").read_text("utf-8")
        checks.append({"id": "program", "status": "FAILURE", "errorMessage": said[-600:]})
    return checks


def test_every_expected_failure_of_the_client_has_a_reason() -> None:
    """Both eras are listed, and each entry says why. Source: issue 17."""
    listed = expected_failures()

    assert list(listed) == REVISIONS
    assert all(isinstance(why, str) and len(why) > 10 for era in listed.values() for why in era.values())


@pytest.mark.real
@pytest.mark.anyio
@pytest.mark.timeout(SUITE_S + 60)
@pytest.mark.processor_s(600, "some thirty scenarios, each with a gateway of its own")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_gateway_conforms_as_a_client(
    revision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every client scenario of the revision passes or is listed with a reason. Source: issue 17."""
    suite, node = suite_path(), shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not suite.exists():
        pytest.skip(f"the conformance suite is not installed: no file {suite}")
    wanted = required(suite, revision)
    program = shlex.join(prefork.script(HERE / "client_program.py", str(tmp_path)))
    options = ["--requirements", revision, "--timeout", str(int(SUITE_S * 1000))]
    script = [node, "--import", (HERE / "node20.mjs").as_uri(), str(suite), "client"]
    with anyio.fail_after(SUITE_S):
        done = await anyio.run_process(
            [*script, "--command", program, "--output-dir", str(tmp_path / "results"), *options],
            check=False,
            stderr=subprocess.STDOUT,
            cwd=HERE.parents[1],
            env={**os.environ, "CONFORMANCE_SCENARIOS": ",".join(wanted)},
        )
    assert (tmp_path / "results").is_dir(), done.stdout.decode("utf-8", "replace")[-2000:]
    results = {scenario: checks_of(scenario, tmp_path / "results") for scenario in wanted}
    verdict = judge(results, expected_failures()[revision])

    with capsys.disabled():
        sys.stdout.write(f"\nas a client, {verdict.summary(revision)}\n")
    assert all(results.values()), [name for name, checks in results.items() if not checks]
    assert not verdict.unexpected, "\n".join(["Not in expected_client_failures.yaml:", *verdict.unexpected])
    assert not verdict.stale, "\n".join(["No longer failing, so delete:", *verdict.stale])
