"""The official conformance suite, run against the gateway once per protocol era.

The chain is suite -> `proxy.py` (names only) -> `maitred serve` over HTTP -> `everything_server.py` over
stdio. The suite's requirement sets name the scenarios of a revision, optional ones included; a scenario
passes if no check of it ends in a failure or a warning. `expected_failures.yaml` lists the exceptions.

By hand, at a server of one's choice: `node --import tests/conformance/node20.mjs $SUITE server --url URL
--requirements 2026-07-28`, where SUITE is the file that `suite_path` below returns.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from ruamel.yaml import YAML

HERE = Path(__file__).parent
INSTALLED = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
SERVER = "conformance"
REVISIONS = ["2025-11-25", "2026-07-28"]
BAD = {"FAILURE", "WARNING"}

SUITE_S = 400.0
START_S = 120.0
TRIES = 3
LATE = "WARNING: Mutated the "
"""How the suite says that no notice came within 1.5 seconds, which a busy machine may need for itself."""
STOP_S = 120.0

Check = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the suite found, held against what was expected."""

    scenarios: int
    passed: int
    excused: int
    unexpected: tuple[str, ...]
    stale: tuple[str, ...]

    def summary(self, revision: str) -> str:
        return (
            f"conformance {revision}: {self.scenarios} scenarios, {self.passed} passed,"
            f" {self.excused} expected failures, {len(self.unexpected)} unexpected failures,"
            f" {len(self.stale)} stale expectations"
        )


def suite_path() -> Path:
    chosen = os.environ.get("MAITRED_CONFORMANCE_BIN")
    return Path(chosen) if chosen else HERE.parents[1] / ".servers/npm" / INSTALLED


def judge(results: Mapping[str, Sequence[Check]], expected: Mapping[str, str]) -> Verdict:
    """Hold each check against the list, by the rules of the suite's `--expected-failures` and one more.

    An expectation which nothing matched is stale even if its check did not run, since nobody would notice a
    mistyped one otherwise.
    """
    unexpected: list[str] = []
    met: set[str] = set()
    passed = 0
    for scenario, checks in results.items():
        failures = {check["id"]: check for check in reversed(checks) if check["status"] in BAD}
        passed += not failures
        for name, check in failures.items():
            matching = {scenario, f"{scenario}:{name}"} & expected.keys()
            met |= matching
            if not matching:
                unexpected.append(f"{scenario}:{name} {check['status']}: {check.get('errorMessage')}")
    return Verdict(
        scenarios=len(results),
        passed=passed,
        excused=len(results) - passed - len({line.partition(":")[0] for line in unexpected}),
        unexpected=tuple(unexpected),
        stale=tuple(sorted(expected.keys() - met)),
    )


def test_an_unlisted_failure_and_a_listed_success_both_count_against_the_gateway() -> None:
    """The list of expected failures is exact in both directions. Source: maitred."""
    good, bad, odd = ({"id": "c", "status": status} for status in ("SUCCESS", "FAILURE", "WARNING"))
    results = {"fine": [good], "broken": [bad], "known": [good, odd], "cured": [good], "part": [bad]}
    expected = {"known": "reason", "cured": "reason", "part:c": "reason", "part:other": "reason"}

    verdict = judge(results, expected)

    assert (verdict.scenarios, verdict.passed, verdict.excused) == (5, 2, 2)
    assert verdict.unexpected == ("broken:c FAILURE: None",)
    assert verdict.stale == ("cured", "part:other")


def test_every_expected_failure_has_a_reason() -> None:
    """Both eras are listed, and each entry says why. Source: issue 2."""
    listed = expected_failures()

    assert list(listed) == REVISIONS
    assert all(isinstance(why, str) and len(why) > 10 for era in listed.values() for why in era.values())


@pytest.mark.real
@pytest.mark.anyio
@pytest.mark.timeout(START_S + TRIES * SUITE_S + 60)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_gateway_conforms(
    revision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every server scenario of the revision passes or is listed with a reason. Source: issue 2."""
    suite, node = suite_path(), shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not suite.exists():
        pytest.skip(f"the conformance suite is not installed: no file {suite}")

    async with gateway(tmp_path) as upstream, proxy(upstream, tmp_path) as url:
        for number in range(TRIES):
            folder = tmp_path / str(number)
            results = await run_suite([node, str(suite)], url, revision, folder)
            verdict = judge(results, expected_failures()[revision])
            if not any(LATE in one for one in verdict.unexpected):
                break
    with capsys.disabled():
        sys.stdout.write(f"\n{verdict.summary(revision)}\n")
    assert not verdict.unexpected, "\n".join(["Not in expected_failures.yaml:", *verdict.unexpected])
    assert not verdict.stale, "\n".join(["No longer failing, so delete:", *verdict.stale])


@pytest.mark.anyio
@pytest.mark.timeout(START_S + 60)
async def test_white_space_around_a_header_is_no_part_of_its_value(tmp_path: Path) -> None:
    """Spaces and tabs are cut off before a value is compared. Source: RFC 9110, 5.5; SEP-2243."""
    padded = {"Mcp-Name": "{} ", "Mcp-Method": "  {}\t", "MCP-Protocol-Version": "{} \t ", "Origin": "{}  "}
    async with gateway(tmp_path) as root:
        plain = await call_padded(root, {})
        answers = {name: await call_padded(root, {name: around}) for name, around in padded.items()}
        other = await call_padded(root, {"Mcp-Name": "other-{} "})

    assert plain.startswith("HTTP/1.1 200 ")
    assert {name: answer.partition("\r\n")[0] for name, answer in answers.items()} == dict.fromkeys(
        padded, "HTTP/1.1 200 OK"
    )
    assert other.startswith("HTTP/1.1 400 ")


async def call_padded(root: str, around: Mapping[str, str]) -> str:
    """The answer to a call whose headers have something put around them, which HTTP clients do not do."""
    name, netloc, version = f"{SERVER}__test_simple_text", root.removeprefix("http://"), REVISIONS[-1]
    about = "io.modelcontextprotocol/"
    meta = {
        f"{about}protocolVersion": version,
        f"{about}clientInfo": {"name": "padded", "version": "1"},
        f"{about}clientCapabilities": {},
    }
    params = {"name": name, "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Host": netloc,
        "Origin": root,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        "Connection": "close",
    }
    lines = [f"{key}: {around.get(key, '{}').format(value)}" for key, value in headers.items()]
    host, _, port = netloc.partition(":")
    with anyio.fail_after(START_S):
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send("\r\n".join(["POST /mcp HTTP/1.1", *lines, "", body]).encode())
            return b"".join([chunk async for chunk in stream]).decode()


def expected_failures() -> dict[str, dict[str, str]]:
    listed: dict[str, dict[str, str]] = YAML(typ="safe").load(HERE / "expected_failures.yaml")
    return listed


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[str]:
    """Serve the everything server through maitred; yield the root of its address once it lists the tools."""
    port = free_port()
    root = f"http://127.0.0.1:{port}"
    options = ["--config", str(write_config(folder)), "--transport", "http", "--port", str(port)]
    async with running([sys.executable, "-m", "maitred", "serve", *options], port, folder / "gateway.log"):
        with anyio.fail_after(START_S):
            async with Client(f"{root}/mcp") as client:
                while not await lists_tools(client):  # noqa: ASYNC110 - another process has no event for us
                    await anyio.sleep(0.1)
        yield root


def write_config(folder: Path) -> Path:
    module = ["-m", "tests.conformance.everything_server"]
    server = {"command": sys.executable, "args": module, "cwd": str(HERE.parents[1])}
    settings = {
        "servers": {SERVER: server},
        "disclosure": {"mode": "all"},
        "catalog": {"path": str(folder / "catalog.db")},
    }
    config = folder / "maitred.yaml"
    config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    return config


async def lists_tools(client: Client) -> bool:
    listed = await client.list_tools(cache_mode="refresh")
    return any(tool.name.startswith(f"{SERVER}__") for tool in listed.tools)


@asynccontextmanager
async def proxy(upstream: str, folder: Path) -> AsyncIterator[str]:
    """Put the renaming proxy before `upstream`; yield the address for the suite."""
    port = free_port()
    arguments = ["--port", str(port), "--upstream", upstream, "--prefix", f"{SERVER}__"]
    async with running([sys.executable, str(HERE / "proxy.py"), *arguments], port, folder / "proxy.log"):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def running(command: list[str], port: int, log: Path) -> AsyncIterator[None]:
    """Run a program while its port answers; end it, whatever happens."""
    with log.open("wb") as out:
        process = await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        with anyio.fail_after(START_S):
            while not await answers(port):
                assert process.returncode is None, f"{command} ended with {process.returncode}:\n{tail(log)}"
                await anyio.sleep(0.05)
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await end(process)


def tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-2000:]


async def end(process: anyio.abc.Process) -> None:
    if process.returncode is None:
        process.terminate()
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def answers(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


async def run_suite(suite: list[str], url: str, revision: str, folder: Path) -> dict[str, list[Check]]:
    """Return the checks of every scenario; one that was announced but left no result is one failed check."""
    await anyio.Path(folder).mkdir()
    node, *script = suite
    options = ["--url", url, "--requirements", revision, "--output-dir", str(folder / "results")]
    command = [node, "--import", (HERE / "node20.mjs").as_uri(), *script, "server", *options]
    with anyio.fail_after(SUITE_S):
        done = await anyio.run_process(command, check=False, stderr=subprocess.STDOUT, cwd=folder)
    printed = done.stdout.decode("utf-8", "replace")
    scenarios = re.findall(r"^=== Running scenario: (\S+) ===$", printed, re.MULTILINE)
    assert scenarios, f"the suite ran nothing and ended with {done.returncode}:\n{printed[-2000:]}"
    return {name: checks_of(name, folder / "results") for name in scenarios}


def checks_of(scenario: str, results: Path) -> list[Check]:
    for path in results.glob(f"server-{scenario}-20*/checks.json"):
        checks: list[Check] = json.loads(path.read_text("utf-8"))
        return checks
    return [{"id": "no-result", "status": "FAILURE", "errorMessage": "The scenario left no result."}]
