"""The official conformance suite, run against the gateway as a client, once per protocol era.

For each scenario the suite serves an MCP server, starts `client_program.py`, and judges what arrives: the
program opens a gateway over that server. The requirement sets of the suite name the scenarios of a revision.
Of its optional extensions, none that concern clients is offered: DPoP, client credentials, identity
assertion and workload identity have no person who logs in. `expected_client_failures.yaml` lists exceptions.

By hand: `node --import tests/conformance/node20.mjs $SUITE client --command "python -m
tests.conformance.client_program" --spec-version 2026-07-28 --scenario tools_call`.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from ruamel.yaml import YAML
from tests.conformance.test_conformance import HERE, REVISIONS, Check, judge, suite_path
from tests.support import prefork

AT_ONCE = 2
SCENARIO_S = 120
SUITE_S = 1_500.0


def expected_failures() -> Mapping[str, Mapping[str, str]]:
    listed: Mapping[str, Mapping[str, str]] = YAML(typ="safe").load(HERE / "expected_client_failures.yaml")
    return listed


def required(suite: Path, revision: str) -> list[str]:
    """The scenarios for clients that a revision requires, and those that the suite has got since."""
    path = suite.parents[1] / "requirements" / f"{revision}.yaml"
    wanted = YAML(typ="safe").load(path)
    later = [one for one in wanted["not_scored"] if one["leg"] == "client" and one["reason"] != "extension"]
    return [*wanted["client"], *(one["scenario"] for one in later)]


async def checks_of(command: Sequence[str], folder: Path) -> list[Check]:
    """The checks of one scenario; an end of the program with an error is one more."""
    with anyio.fail_after(SCENARIO_S + 60):
        done = await anyio.run_process(
            [*command, "--output-dir", str(folder)],
            check=False,
            stderr=subprocess.STDOUT,
            cwd=HERE.parents[1],
            env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        )
    found = [path async for path in anyio.Path(folder).rglob("checks.json")]
    printed = done.stdout.decode("utf-8", "replace")
    checks: list[Check] = [check for path in found for check in json.loads(await path.read_text("utf-8"))]
    if done.returncode and not any(check["status"] in ("FAILURE", "WARNING") for check in checks):
        checks.append({"id": "program", "status": "FAILURE", "errorMessage": printed[-600:]})
    return checks


def test_every_expected_failure_of_the_client_has_a_reason() -> None:
    """Both eras are listed, and each entry says why. Source: issue 17."""
    listed = expected_failures()

    assert list(listed) == REVISIONS
    assert all(isinstance(why, str) and len(why) > 10 for era in listed.values() for why in era.values())


@pytest.mark.real
@pytest.mark.anyio
@pytest.mark.timeout(SUITE_S + 60)
@pytest.mark.processor_s(600, "some thirty scenarios, each with a gateway and a suite of its own")
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
    results: dict[str, Sequence[Check]] = {}
    limit = anyio.CapacityLimiter(AT_ONCE)
    program = shlex.join(prefork.script(HERE / "client_program.py"))

    async def run(scenario: str) -> None:
        options = ["--spec-version", revision, "--timeout", str(SCENARIO_S * 1000), "--scenario", scenario]
        script = [node, "--import", (HERE / "node20.mjs").as_uri(), str(suite), "client"]
        async with limit:
            folder = tmp_path / scenario.replace("/", "-")
            await anyio.Path(folder).mkdir()
            results[scenario] = await checks_of([*script, "--command", program, *options], folder)

    async with anyio.create_task_group() as tasks:
        for scenario in required(suite, revision):
            tasks.start_soon(run, scenario)
    verdict = judge(results, expected_failures()[revision])

    with capsys.disabled():
        sys.stdout.write(f"\nas a client, {verdict.summary(revision)}\n")
    assert all(results.values()), [name for name, checks in results.items() if not checks]
    assert not verdict.unexpected, "\n".join(["Not in expected_client_failures.yaml:", *verdict.unexpected])
    assert not verdict.stale, "\n".join(["No longer failing, so delete:", *verdict.stale])
