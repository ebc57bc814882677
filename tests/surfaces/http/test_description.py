"""The API is what its description says: examples fit their schemas, and random requests find no more."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest
from tests.interaction.harness import HttpGateway, cli, faulty, serving, write_settings
from tests.surfaces.http.rig import House, opened

KEY = "k3y"
LIMIT_S = 400
METHODS = {"get", "post", "delete"}
CONFIG = """\
[checks.positive_data_acceptance]
# which arguments a tool takes is known to the tool alone, so a call that fits the description may be 422
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "5xx"]

[[operations]]
include-path = "/healthz/{name}"
# 503 is what a probe answers of a server that is not well, such as one that another request suspended
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", "503"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "422", "503"]
"""


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Any:
    async def read() -> Any:
        async with opened(tmp_path_factory.mktemp("description"), {"s": House("s", "t")}) as (_, client):
            return (await client.get("/api/openapi.json")).json()

    return anyio.run(read)


def operations(description: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            assert method in METHODS
            yield f"{method} {path}", operation


def test_every_operation_is_described(description: Any) -> None:
    """A title, a text, and an example of every answer that has a body."""
    for name, operation in operations(description):
        assert operation["summary"], name
        assert operation["description"], name
        for status, answer in operation["responses"].items():
            assert answer["description"], (name, status)
            for content in answer.get("content", {}).values():
                assert "example" in content, (name, status)
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (name, parameter["name"])


def test_clients_that_ask_for_the_description_at_once_all_get_all_of_it(
    tmp_path: Path, description: Any
) -> None:
    """It is made for the first of them, and refusals of a wrong token are added at last."""
    answers: list[Any] = []

    async def read() -> None:
        async with opened(tmp_path, {"s": House("s", "t")}) as (_, client):

            async def ask() -> None:
                answers.append((await client.get("/api/openapi.json")).json())

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(ask)

    anyio.run(read)

    assert answers == 5 * [description]
    assert "401" in description["paths"]["/api/v1/servers"]["get"]["responses"]


def test_every_example_fits_its_schema(description: Any) -> None:
    """Whoever copies an example sends or expects the right thing."""
    for name, operation in operations(description):
        for status, answer in operation["responses"].items():
            for content in answer.get("content", {}).values():
                check(description, content["schema"], content["example"], f"{name} {status}")
        for parameter in operation.get("parameters", ()):
            for example in parameter["schema"].get("examples", ()):
                check(description, parameter["schema"], example, f"{name} {parameter['name']}")
        for content in operation.get("requestBody", {}).get("content", {}).values():
            check(description, content["schema"], example_of(description, content), name)


def example_of(description: Any, content: Any) -> Any:
    """The example of a body, its own or that of its schema."""
    if "example" in content:
        return content["example"]
    schema = description["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    return schema["examples"][0]


def check(description: Any, schema: Any, example: Any, what: str) -> None:
    whole = {**schema, "components": description["components"]}
    faults = [error.message for error in jsonschema_rs.validator_for(whole).iter_errors(example)]
    assert faults == [], what


def test_no_page_of_the_api_needs_another_site(description: Any) -> None:
    """There is a description for programs, and no page that loads its scripts from elsewhere."""
    assert description["openapi"].startswith("3.1")
    assert not any("docs" in path for path in description["paths"])


def test_standard_streams_need_no_web_framework() -> None:
    """What serves a client over stdio starts without loading what only HTTP needs."""
    loaded = "maitred.surfaces.cli.serve, maitred.surfaces.mcp.stdio, maitred.gateway"
    program = f"import sys, {loaded}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8")

    assert {"fastapi", "prometheus_client", "docker"} & set(done.stdout.split()) == set()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """A gateway with a token over servers of which one is broken and one is switched off."""
    servers = {
        "calculator": faulty("count"),
        "mortal": faulty("die-in-call"),
        "absent": {"command": "no-such-program-of-ours"},
        "off": {**faulty("env"), "enabled": False},
    }
    config = write_settings(tmp_path_factory.mktemp("fuzzed"), servers)
    cli(config, "list", "--json")
    with serving(config, env={"MAITRED_TOKEN": KEY}) as gateway:
        yield gateway


def test_random_requests_find_nothing_that_the_description_does_not_say(
    guarded: HttpGateway, description: Any, tmp_path: Path
) -> None:
    """Schemathesis with all of its checks, in all of its phases."""
    (tmp_path / "schemathesis.toml").write_text(CONFIG, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", "--checks", "all", "--seed", "1"),
            *("--max-examples", "25", "--no-shrink", "--continue-on-failure"),
            *("--header", f"Authorization: Bearer {KEY}"),
            guarded.url.removesuffix("/mcp") + "/api/openapi.json",
        ],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=LIMIT_S,
    )

    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-1_000:]
    assert "Traceback" not in "\n".join(guarded.output.lines)
    count = len(list(operations(description)))
    assert f"{count} selected / {count} total" in done.stdout
