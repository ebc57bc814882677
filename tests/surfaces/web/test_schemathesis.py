"""Schemathesis over all pages and actions, by a description that is made from the table of screens."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.interaction.harness import HttpGateway, cli, faulty, serving, write_settings
from tests.surfaces.web.test_random_requests import ACTIONS, FIELDS, PAGES

from maitred.surfaces.web.app import HEADERS

KEY = "k3y"
LIMIT_S = 400
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance"
EXAMPLES = 6
"""For each page and action, right and wrong ones: hundreds of requests in all."""
_PART = re.compile(r"\{(\w+)\}")
_FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    servers = {"calculator": faulty("count"), "absent": {"command": "no-such-program-of-ours"}}
    config = write_settings(tmp_path_factory.mktemp("pages"), servers)
    cli(config, "list", "--json")
    with serving(config, env={"MAITRED_TOKEN": KEY}) as served:
        yield served


def description(form_token: str) -> dict[str, Any]:
    """What OpenAPI says of the table: each page takes every field in its address, each action in its form."""
    paths: dict[str, dict[str, Any]] = {}
    for path in PAGES:
        query = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in FIELDS]
        operation = {"parameters": [*_parts(path), *query], "responses": _answers(200, 303, 400, 404, 409)}
        paths.setdefault(f"/ui/{path}", {})["get"] = operation
    for path in ACTIONS:
        properties: dict[str, Any] = {name: {"type": "string"} for name in FIELDS}
        properties["form_token"] = {"const": form_token}
        form = {"type": "object", "properties": properties, "required": ["form_token"]}
        operation = {
            "parameters": _parts(path),
            "requestBody": {
                "required": True,
                "content": {"application/x-www-form-urlencoded": {"schema": form}},
            },
            "responses": _answers(200, 303, 400, 403, 404, 409, 413, 422),
        }
        paths.setdefault(f"/ui/{path}", {})["post"] = operation
    return {"openapi": "3.1.0", "info": {"title": "pages", "version": "1"}, "paths": paths}


def _parts(path: str) -> list[dict[str, Any]]:
    known = {"type": "string", "enum": ["calculator", "absent", "add", "approve"]}
    any_text = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": {"anyOf": [known, any_text]}}
        for name in _PART.findall(path)
    ]


def _answers(*statuses: int) -> dict[str, Any]:
    """Each answer with these statuses has what protects the pages."""
    headers = {name: {"required": True, "schema": {"const": value}} for name, value in HEADERS.items()}
    page = {"content": {"text/html": {"schema": {"type": "string"}}}}
    return {
        str(status): {"description": "a page", "headers": headers, **({} if status == 303 else page)}
        for status in statuses
    }


def operations(of: dict[str, Any]) -> Sequence[str]:
    return [f"{method} {path}" for path, methods in of["paths"].items() for method in methods]


def test_requests_by_the_description_of_the_pages_find_no_fault(gateway: HttpGateway, tmp_path: Path) -> None:
    """Whatever a form or an address holds, and by any method: a page of ours, with all that protects it."""
    origin = gateway.url.removesuffix("/mcp")
    with httpx2.Client(base_url=origin, headers={"origin": origin}) as person:
        assert person.post("/ui/enter", data={"token": KEY}).status_code == 303
        form_token = _FORM_TOKEN.search(person.get("/ui/").text)
        cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    assert form_token
    described = description(form_token[1])
    (tmp_path / "pages.json").write_text(json.dumps(described), encoding="utf-8")

    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", "pages.json", "--url", origin),
            *(
                "--phases",
                "fuzzing",
                "--checks",
                CHECKS,
                "--seed",
                "1",
                "--max-examples",
                str(EXAMPLES),
                "--no-shrink",
            ),
            *("--continue-on-failure", "--header", f"Cookie: {cookies}", "--header", f"Origin: {origin}"),
        ],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=LIMIT_S,
    )

    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-1_000:]
    assert "Traceback" not in "\n".join(gateway.output.lines)
    count = len(operations(described))
    assert f"{count} selected / {count} total" in done.stdout
