"""The files in `deploy/` are true: their schemas take them, and what they name is there in maitred."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.deploy.files import (
    COMPOSE,
    DEPLOY,
    WITH_ENGINE,
    arguments,
    environment,
    instructions,
    of_containerfile,
    pod,
    read_yaml,
    service,
    words,
)
from tests.support.real_servers import require

from maitred.backends.isolation.engine_api import candidates
from maitred.config.load import catalog_path, parse
from maitred.config.paths import default_path
from maitred.config.settings import Http, Settings
from maitred.surfaces.cli.app import app

ROOT = DEPLOY.parent
BIN = Path(sys.executable).parent
TOKEN = "a-token-of-the-test"  # it is one
CONFIG = DEPLOY / "config" / "maitred.yaml"
[CONTAINER] = pod()["containers"]
MOUNTS = {one["name"]: one["mountPath"] for one in CONTAINER["volumeMounts"]}
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def check(tool: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a program of the tests' own environment."""
    command = [str(BIN / tool), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# --- by their schemas -----------------------------------------------------------------------------------


def test_the_compose_files_are_taken_by_the_schema_of_compose(tmp_path: Path) -> None:
    """That of the Compose Specification; a key with a typing error is a fault."""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(
        COMPOSE.read_text(encoding="utf-8").replace("read_only:", "read_onyl:"), encoding="utf-8"
    )

    fine = check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE, WITH_ENGINE)
    refused = check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", wrong)

    assert fine.returncode == 0, fine.stdout
    assert (refused.returncode, "read_onyl" in refused.stdout) == (1, True)


# --- what they start ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Started:
    """The program of the image; `at` is its port."""

    at: str
    folder: Path

    def get(self, path: str, token: str = "") -> tuple[int, Any]:
        """The status and the answer of a request."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.at}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """The entry point of the image with its environment and configuration, its folders being elsewhere."""
    require("time")
    folder = tmp_path_factory.mktemp("root")
    places = ("/etc/maitred", "/run/maitred", "/var/lib", "/tmp")  # of the image
    for place in places:
        (folder / place[1:]).mkdir(parents=True)
    (folder / "run/maitred/token").write_text(f"{TOKEN}\n", encoding="utf-8")
    config = folder / "etc/maitred/maitred.yaml"
    config.write_text(moved(CONFIG.read_text(encoding="utf-8"), folder), encoding="utf-8")
    given = {name: moved(value, folder) for name, value in environment().items()}
    given |= {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "200"}
    program = subprocess.Popen(
        [BIN / words("ENTRYPOINT")[0], *words("CMD"), "--port", "0"],
        env=given, cwd=folder / "tmp", stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stderr is not None
    try:
        said = program.stderr.readline()
        port = re.fullmatch(r"maitred listens on http://0\.0\.0\.0:(\d+)/mcp\n", said)
        assert port, said + program.stderr.read()
        yield Started(at=port[1], folder=folder)
    finally:
        program.send_signal(signal.SIGTERM)
        assert program.wait(120) == 0
        program.stderr.close()


def moved(text: str, folder: Path) -> str:
    """The folders of the image in a text, moved below another one."""
    return re.sub(r"(?<![\w/.])/(?=(etc|run|var|tmp)\b)", f"{folder}/", text)


def test_the_image_starts_a_gateway_that_listens_to_all_and_asks_for_the_token(started: Started) -> None:
    """The token is read from its file; its bearer may do all, and nobody else anything."""
    assert started.get("/api/v1/servers")[0] == 401
    assert started.get("/api/v1/servers", "another")[0] == 401
    assert started.get("/api/v1/tokens", TOKEN)[0] == 200
    assert started.get("/api/v1/servers", TOKEN)[1]["servers"][0]["name"] == "time"


def test_all_that_asks_how_it_is_is_answered_without_a_token(started: Started) -> None:
    """The probes of Kubernetes, and the health checks of the image and of Compose, whose commands are run."""
    probes = {kind: CONTAINER[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {one["path"] for one in probes.values()} == {"/healthz", "/readyz"}
    assert {one["port"] for one in probes.values()} == {"http"}
    assert started.get("/healthz") == (200, {"status": "ok"})
    assert started.get("/readyz")[0] in (200, 503)
    asked = words("HEALTHCHECK")
    assert service()["healthcheck"]["test"] == ["CMD", *asked]
    assert f"127.0.0.1:{Http().port}/" in asked[-1]
    for port, code in ((started.at, 0), ("1", 1)):
        script = asked[-1].replace(str(Http().port), port)
        done = subprocess.run([sys.executable, *asked[1:-1], script], capture_output=True, check=False)
        assert done.returncode == code


def test_it_writes_only_where_a_read_only_system_lets_it(started: Started) -> None:
    """What it made lies in the folders for its state and for what passes."""
    made = {
        one.relative_to(started.folder).parts[:2] for one in started.folder.rglob("*") if one.is_file()
    } - {("etc", "maitred"), ("run", "maitred")}

    assert (started.folder / "var/lib/maitred/catalog.db").is_file()
    assert {"/" + "/".join(parts) for parts in made} <= {"/var/lib", "/tmp/maitred"}


def test_every_command_line_is_one_of_this_version() -> None:
    """That of the image, which Compose leaves as it is, and that of the pod."""
    serve = typer.main.get_group(app).get_command(typer.Context(typer.main.get_group(app)), "serve")
    assert serve is not None
    for line in (words("CMD"), CONTAINER["args"]):
        given = serve.make_context("serve", line[1:]).params
        assert (line[0], given["transport"], given["host"]) == ("serve", "http", "0.0.0.0")
    assert words("ENTRYPOINT") == ["maitred"]
    assert {"command", "entrypoint"} & service().keys() == {"command"} & CONTAINER.keys() == set()


# --- what they name -------------------------------------------------------------------------------------


def test_the_configuration_is_accepted_and_keeps_its_state_on_the_volume() -> None:
    """It is looked for where it is mounted, and refers to the token where that is mounted."""
    settings: Settings = parse(Path(environment()["MAITRED_CONFIG"]), CONFIG.read_text(encoding="utf-8"))
    token = "${file:/run/maitred/token}"  # where it is

    assert settings.http.token == token
    assert default_path(environment()) == settings.source == Path(MOUNTS["config"], "maitred.yaml")
    assert catalog_path(settings, environment()).parent == Path(MOUNTS["state"])
    assert [*settings.servers] == ["time"]
    assert not Path("/run/maitred").is_relative_to(*settings.admission.secret_folders)


def test_the_servers_of_the_configuration_are_in_the_image() -> None:
    """By a package of the image, in the version that is tested here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    assert arguments()["SERVERS"] in extras["demo"]
    assert set(arguments()["EXTRAS"].split(",")) <= extras.keys()
    assert re.match(r"[\w-]+", arguments()["SERVERS"])[0] == "mcp-server-time"  # type: ignore[index]


def test_all_talk_of_one_port() -> None:
    """The one that is in the settings."""
    [port] = CONTAINER["ports"]

    assert of_containerfile("EXPOSE") == [str(Http().port)]
    assert service()["ports"] == [f"127.0.0.1:{Http().port}:{Http().port}"]
    assert port == {"name": "http", "containerPort": Http().port}


def test_what_compose_is_told_to_use_is_there() -> None:
    """Files, volumes and secrets; the token is at the place that the configuration names."""
    whole = read_yaml(COMPOSE)[0]
    [secret] = service()["secrets"]
    volumes = [one.split(":") for one in service()["volumes"]]

    assert whole["secrets"].keys() == {secret["source"]}
    assert secret["target"] == str(Path(MOUNTS["secret"], "token"))
    assert volumes == [["state", MOUNTS["state"]], ["./config", MOUNTS["config"], "ro"]]
    assert whole["volumes"].keys() == {"state"}
    assert (DEPLOY / "config").is_dir()
    assert (DEPLOY / service()["build"]["context"] / service()["build"]["dockerfile"]).is_file()
    ignored = (DEPLOY / ".gitignore").read_text(encoding="utf-8").split()
    assert f"{Path(whole['secrets']['token']['file']).parent.name}/" in ignored


def test_the_socket_of_an_engine_is_where_the_gateway_looks_for_it() -> None:
    """And only in the file that says what this gives away."""
    [given] = [one["gateway"] for one in [read_yaml(WITH_ENGINE)[0]["services"]]]
    [socket] = given["volumes"]

    assert candidates("", given["environment"], Path("/root")) == [f"unix://{socket['target']}"]
    assert given.keys() == {"environment", "group_add", "volumes"}, "no name that two deployments would share"
    assert "rootless" in WITH_ENGINE.read_text(encoding="utf-8")
    assert ".sock" not in COMPOSE.read_text(encoding="utf-8")


# --- what they withhold ---------------------------------------------------------------------------------


def test_the_gateway_has_no_more_than_it_needs() -> None:
    """No root, no capabilities, no new privileges, no writable system; limits."""
    user = f"{pod()['securityContext']['runAsUser']}:{pod()['securityContext']['runAsGroup']}"

    assert of_containerfile("USER") == [user]
    assert service()["cap_drop"] == ["ALL"]
    assert (service()["read_only"], service()["security_opt"]) == (True, ["no-new-privileges:true"])
    assert {"mem_limit", "cpus", "pids_limit"} <= service().keys()


def test_the_containerfile_copies_what_is_there_and_builds_as_another_than_it_runs() -> None:
    """What is copied exists, and the last stage has what it starts."""
    stages = [number for number, (name, _) in enumerate(instructions()) if name == "FROM"]
    last = dict(instructions()[stages[-1] :])
    copied = [shlex.split(rest) for rest in of_containerfile("COPY")]

    assert [rest for name, rest in instructions() if name == "FROM"] == ["${BASE} AS build", "${BASE}"]
    assert all((ROOT / one).exists() for *sources, _ in copied[:-1] for one in sources)
    assert copied[-1] == ["--from=build", "/opt/maitred", "/opt/maitred"]
    assert environment()["PATH"].startswith("/opt/maitred/bin:")
    assert last["VOLUME"] == MOUNTS["state"]
    assert instructions()[0][0] == "ARG"


# --- the page -------------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_file_of_the_commands_on_the_page_is_there() -> None:
    """Or is the token, which one of the commands writes."""
    lines = [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]
    named = {word for words in lines for word in words if word.startswith("deploy/")}

    assert {"deploy/compose.yaml", "deploy/compose.engine.yaml"} <= named
    assert {one for one in named if not (ROOT / one).exists()} <= {"deploy/secrets", "deploy/secrets/token"}
