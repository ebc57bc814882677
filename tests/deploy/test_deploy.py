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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.deploy.files import (
    COMPOSE,
    DEPLOY,
    KUBERNETES,
    WITH_ENGINE,
    arguments,
    environment,
    instructions,
    of_containerfile,
    read_yaml,
    resource,
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
KUBERNETES_VERSIONS = ("1.25", "1.37")
TOKEN = "a-token-of-the-test"  # it is one
CONFIG = DEPLOY / "config" / "maitred.yaml"
IN_THE_CLUSTER = resource("ConfigMap")["data"]["maitred.yaml"]
POD = resource("Deployment")["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
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


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_the_manifests_are_taken_by_the_schemas_of_kubernetes(version: str, tmp_path: Path) -> None:
    """Of the oldest and the newest version that the page names, each resource; a typing error is a fault."""
    text = (DEPLOY / "kubernetes" / "deployment.yaml").read_text(encoding="utf-8")
    wrong = tmp_path / "deployment.yaml"
    wrong.write_text(text.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"), encoding="utf-8")
    example = DEPLOY / "kubernetes" / "secret.yaml.example"
    strictly = ("--strict", "-k", version)

    done = check("kubernetes-validate", *strictly, *KUBERNETES, example, wrong)

    assert done.stdout.count(" passed for resource ") == len(KUBERNETES) + 1, done.stdout
    assert re.findall("ERROR (.*?) did not", done.stdout) == [str(wrong)]
    assert "readOnlyRootFileSystem" in done.stdout
    assert f"Kubernetes {' to '.join(KUBERNETES_VERSIONS)}" in PAGE


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


@pytest.mark.parametrize(
    "text", [CONFIG.read_text(encoding="utf-8"), IN_THE_CLUSTER], ids=["compose", "kubernetes"]
)
def test_the_configuration_is_accepted_and_keeps_its_state_on_the_volume(text: str) -> None:
    """It is looked for where it is mounted, and refers to the token where that is mounted."""
    settings: Settings = parse(Path(environment()["MAITRED_CONFIG"]), text)
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
    [served] = resource("Service")["spec"]["ports"]
    [allowed] = resource("NetworkPolicy")["spec"]["ingress"][0]["ports"]

    assert of_containerfile("EXPOSE") == [str(Http().port)]
    assert service()["ports"] == [f"127.0.0.1:{Http().port}:{Http().port}"]
    assert port == {"name": "http", "containerPort": Http().port}
    assert (served["port"], served["targetPort"], allowed["port"]) == (Http().port, "http", "http")


def test_what_the_cluster_is_told_to_use_is_there() -> None:
    """The configuration, the secret, the volume, the account and the pods behind the service."""
    volumes = {one["name"]: one for one in POD["spec"]["volumes"]}
    secret = read_yaml(DEPLOY / "kubernetes" / "secret.yaml.example")[0]
    labels = POD["metadata"]["labels"]

    assert volumes.keys() == MOUNTS.keys()
    assert volumes["config"]["configMap"]["name"] == resource("ConfigMap")["metadata"]["name"]
    assert volumes["token"]["secret"]["secretName"] == secret["metadata"]["name"]
    assert secret["stringData"] == {Path(MOUNTS["token"], "token").name: ""}
    claim = volumes["state"]["persistentVolumeClaim"]["claimName"]
    assert claim == resource("PersistentVolumeClaim")["metadata"]["name"]
    assert POD["spec"]["serviceAccountName"] == resource("ServiceAccount")["metadata"]["name"]
    assert resource("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert resource("Service")["spec"]["selector"] == labels
    assert resource("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    spaces = {resource(one["kind"])["metadata"].get("namespace") for p in KUBERNETES for one in read_yaml(p)}
    assert spaces == {None, resource("Namespace")["metadata"]["name"]}


def test_what_compose_is_told_to_use_is_there() -> None:
    """Files, volumes and secrets; the token is at the place that the configuration names."""
    whole = read_yaml(COMPOSE)[0]
    [secret] = service()["secrets"]
    volumes = [one.split(":") for one in service()["volumes"]]

    assert whole["secrets"].keys() == {secret["source"]}
    assert secret["target"] == str(Path(MOUNTS["token"], "token"))
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
    """No root, no capabilities, no new privileges, no writable system; limits; one of it at a time."""
    pod, own = POD["spec"]["securityContext"], CONTAINER["securityContext"]
    user = f"{pod['runAsUser']}:{pod['runAsGroup']}"

    assert of_containerfile("USER") == [user]
    assert (pod["runAsNonRoot"], pod["seccompProfile"]["type"]) == (True, "RuntimeDefault")
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"]["drop"] == service()["cap_drop"] == ["ALL"]
    assert (service()["read_only"], service()["security_opt"]) == (True, ["no-new-privileges:true"])
    assert {"mem_limit", "cpus", "pids_limit"} <= service().keys()
    assert {"cpu", "memory"} == CONTAINER["resources"]["limits"].keys()
    assert POD["spec"]["automountServiceAccountToken"] is False
    assert resource("ServiceAccount")["automountServiceAccountToken"] is False
    labels = resource("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    deployment = resource("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


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

    assert {"deploy/compose.yaml", "deploy/compose.engine.yaml", "deploy/kubernetes"} <= named
    assert {one for one in named if not (ROOT / one).exists()} <= {"deploy/secrets", "deploy/secrets/token"}


def test_the_secret_of_the_page_is_the_one_that_is_mounted() -> None:
    """By its name, its key and its namespace."""
    [line] = [line for block in blocks("sh") for line in block.splitlines() if "create secret" in line]
    given = shlex.split(line)
    example: Mapping[str, Any] = read_yaml(DEPLOY / "kubernetes" / "secret.yaml.example")[0]

    assert given[given.index("generic") + 1] == example["metadata"]["name"]
    assert given[given.index("--namespace") + 1] == example["metadata"]["namespace"]
    [literal] = [word for word in given if word.startswith("--from-literal=")]
    assert literal.split("=")[1] in example["stringData"]
