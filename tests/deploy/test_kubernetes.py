"""The overlays of Kustomize and the chart of Helm, as `kubectl` and `helm` make them.

Schemas of the oldest and the newest version of Kubernetes take what they make, and what it names is there.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.deploy.files import CHART, DEPLOY, KUBERNETES, environment, read_yaml

from maitred.config.load import catalog_path, parse
from maitred.config.settings import Http, Settings
from maitred.telemetry.instruments import INSTRUMENTS

ROOT = DEPLOY.parent
TOOLS = ROOT / ".servers" / "kubernetes"
BIN = Path(sys.executable).parent
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
VERSIONS = ("1.25", "1.37")
WATCH = "components: [../../components/watch]\n"
FLEET = ("--set", "fleet.enabled=true")
WATCHING = ("--set", "watch.enabled=true")
RENDERS = ("single", "fleet", "fleet-watch", "watched", "chart", "chart-fleet", "chart-fleet-watch")
OPTIONS = (
    "--set", "imagePullSecrets[0].name=registry,nodeSelector.disk=ssd,podAnnotations.team=tools",
    "--set", "tolerations[0].key=dedicated,tolerations[0].operator=Exists,persistence.storageClass=fast",
    "--set", f"image.digest=sha256:{'0' * 64}",
    "--set-json", 'networkPolicy.egress=[{"to": [{"podSelector": {}}], "ports": [{"port": 9000}]}]',
)  # fmt: skip
"""Values of the chart that are empty as it comes."""
GATEWAYS = tuple(name for name in RENDERS if name != "watched")

Resource = dict[str, Any]


def run(tool: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `helm` or `kubectl`, as `make servers` installs it."""
    program = TOOLS / tool / tool
    if not program.exists():
        pytest.skip(f"{tool} is not installed: make servers (it comes for Linux on amd64 alone)")
    command = [str(program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": "/nonexistent"})


def chart(*words: str) -> subprocess.CompletedProcess[str]:
    """The manifests of the chart with some values."""
    return run("helm", "template", "maitred", CHART, "--namespace", "maitred", *words)


@cache
def rendered(name: str, folder: Path) -> str:
    """The manifests of one way to deploy; `folder` is for a changed copy."""
    if name.startswith("chart"):
        values = [*(FLEET if "fleet" in name else ()), *(WATCHING if "watch" in name else ())]
        values += ["--set", "fleet.valkey=false"] if "postgres" in name else []
        done = chart(*values)
    elif name == "fleet-watch":
        copy = Path(tempfile.mkdtemp(dir=folder)) / "kubernetes"  # the first copy may have been skipped
        shutil.copytree(KUBERNETES, copy)
        with (copy / "overlays/fleet/kustomization.yaml").open("a", encoding="utf-8") as file:
            file.write(WATCH)
        done = run("kubectl", "kustomize", copy / "overlays/fleet")
    else:
        done = run("kubectl", "kustomize", KUBERNETES / ("" if name == "watched" else "overlays") / name)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("renders")


def resources(name: str, folder: Path) -> list[Resource]:
    """The resources of one way to deploy."""
    return [one for one in YAML(typ="safe", pure=True).load_all(rendered(name, folder)) if one]


def of_kind(kind: str, name: str, folder: Path) -> list[Resource]:
    return [one for one in resources(name, folder) if one["kind"] == kind]


def pods(name: str, folder: Path) -> Iterator[tuple[Resource, Resource]]:
    """The deployments of one way to deploy, each with its pod."""
    for one in of_kind("Deployment", name, folder):
        yield one, one["spec"]["template"]["spec"]


def config_of(name: str, folder: Path, pod: Resource) -> Settings:
    """The configuration that a pod mounts, as its gateway reads it."""
    [used] = [one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one]
    [one] = [one for one in of_kind("ConfigMap", name, folder) if one["metadata"]["name"] == used]
    return parse(Path(environment()["MAITRED_CONFIG"]), one["data"]["maitred.yaml"])


# --- by their schemas -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_schemas_of_kubernetes_take_every_manifest(version: str, tmp_path: Path, folder: Path) -> None:
    """Of the oldest and the newest version that the page names, each resource; a typing error is a fault."""
    whole = tmp_path / "whole.yaml"
    with_options = chart(*OPTIONS).stdout
    texts = [*(rendered(name, folder) for name in RENDERS), with_options]
    whole.write_text("\n---\n".join(texts), encoding="utf-8")
    wrong = tmp_path / "wrong.yaml"
    text = (KUBERNETES / "base/gateway/deployment.yaml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"), encoding="utf-8")
    examples = sorted(KUBERNETES.rglob("*.example"))

    command = [str(BIN / "kubernetes-validate"), "--strict", "-k", version, str(whole), *map(str, examples)]
    done = subprocess.run([*command, str(wrong)], capture_output=True, text=True, check=False)

    count = sum(len(resources(name, folder)) for name in (*RENDERS, "chart")) + len(examples)
    assert done.stdout.count(" passed for resource ") == count, done.stdout
    assert re.findall("ERROR (.*?) did not", done.stdout) == [str(wrong)]
    assert "readOnlyRootFileSystem" in done.stdout
    assert f"@sha256:{'0' * 64}" in with_options
    assert f"Kubernetes {' to '.join(VERSIONS)}" in PAGE


def test_helm_finds_no_fault_in_the_chart() -> None:
    for words in ((), FLEET, (*FLEET, *WATCHING)):
        done = run("helm", "lint", "--strict", CHART, *words)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("fleet.enabeld=true", "enabeld"),
        ("image.digest=latest", "digest"),
        ("fleet.minReplicas=0", "minReplicas"),
        ("drainSeconds=150", "terminationGracePeriodSeconds is not more than drainSeconds"),
        ("fleet.enabled=true,fleet.maxReplicas=2", "fleet.maxReplicas is less than fleet.minReplicas"),
    ],
)
def test_the_chart_refuses_a_wrong_value(value: str, reason: str) -> None:
    done = chart("--set", value)
    assert done.returncode != 0
    assert reason in done.stderr


def test_the_chart_has_the_version_of_maitred() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [described] = read_yaml(CHART / "Chart.yaml")
    assert (described["version"], described["appVersion"]) == (project["version"], project["version"])


# --- both ways are the same -----------------------------------------------------------------------------

OF_RELEASE = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}


def plain(value: Any) -> Any:
    """A value without what a chart alone has: labels of its release, and defaults that it writes."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in (*OF_RELEASE, "imagePullPolicy")}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("overlay", "other"), [("single", "chart"), ("fleet", "chart-fleet")])
def test_the_chart_makes_the_same_as_the_overlay(overlay: str, other: str, folder: Path) -> None:
    """All but the namespace; policies are compared by what they let in and out."""
    ours = {place(one): one for one in resources(overlay, folder) if one["kind"] not in OTHERWISE}
    theirs = {place(one): one for one in resources(other, folder) if one["kind"] not in OTHERWISE}

    assert theirs.keys() == ours.keys()
    for where, one in ours.items():
        assert by_name(plain(theirs[where].get("spec"))) == by_name(plain(one.get("spec"))), where
    for (_, own), (_, its) in zip(pods(overlay, folder), pods(other, folder), strict=True):
        assert config_of(overlay, folder, own) == config_of(other, folder, its)
    assert reachable(overlay, folder) == reachable(other, folder)


OTHERWISE = ("Namespace", "ConfigMap", "NetworkPolicy")


def place(one: Resource) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def by_name(value: Any) -> Any:
    """A value whose lists of named things have one order."""
    if isinstance(value, dict):
        return {key: by_name(one) for key, one in value.items()}
    if isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value):
        return sorted(map(by_name, value), key=lambda one: str(one["name"]))
    return [by_name(one) for one in value] if isinstance(value, list) else value


def reachable(name: str, folder: Path) -> set[tuple[str, str, str, str]]:
    """What the network policies let in and out: component, direction, peer and port."""
    found = set()
    for deployment, _ in pods(name, folder):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        component = labels["app.kubernetes.io/component"]
        for policy in of_kind("NetworkPolicy", name, folder):
            if not policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items():
                continue
            for direction, key in (("egress", "to"), ("ingress", "from")):
                for rule in policy["spec"].get(direction, ()):
                    for port in rule.get("ports", [{"port": "any"}]):
                        peers = {str(plain(peer)) for peer in rule[key]}
                        found |= {(component, direction, peer, str(port["port"])) for peer in peers}
    return found


def test_clients_reach_gateways_and_runners_only_each_other(folder: Path) -> None:
    """A runner takes no clients, and its port is closed to them."""
    ways = reachable("fleet", folder)
    into = {(component, "namespaceSelector" in peer) for component, way, peer, _ in ways if way == "ingress"}

    assert into == {("gateway", True), ("gateway", False), ("runner", False)}
    out = {(component, port) for component, way, _, port in ways if way == "egress"}
    ports = {"53", "443", "5432", "6379", str(Http().port)}
    assert out == {(component, port) for component in ("gateway", "runner") for port in ports}


# --- what they name -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*GATEWAYS, "chart-fleet-postgres"])
def test_the_configuration_is_accepted_and_finds_what_is_mounted(name: str, folder: Path) -> None:
    """Each file that it refers to is a key of the Secret that the pod mounts; its role is that of the pod."""
    [secret] = read_yaml(
        KUBERNETES / f"overlays/{'fleet' if 'fleet' in name else 'single'}/secret.yaml.example"
    )
    there = secret["stringData"].keys() - ({"valkey-url"} if "postgres" in name else set())

    for deployment, pod in pods(name, folder):
        settings, [container] = config_of(name, folder, pod), pod["containers"]
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        volumes = {one["name"]: one for one in pod["volumes"]}
        keys = {one["key"] for one in volumes["secret"]["secret"]["items"]}
        values = {one["name"]: one["value"] for one in container.get("env", ()) if "value" in one}
        given = [one["valueFrom"] for one in container.get("env", ()) if "valueFrom" in one]
        read = {one["secretKeyRef"]["key"] for one in given if "secretKeyRef" in one}
        urls = f"{settings.http.token} {settings.catalog.url} {settings.shared.url}"
        component = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        assert mounts.keys() == volumes.keys()
        assert set(re.findall(r"\$\{file:(.*?)\}", urls)) == {f"{mounts['secret']}/{key}" for key in keys}
        assert keys | read == there
        assert volumes["secret"]["secret"]["secretName"] == secret["metadata"]["name"]
        assert settings.source == Path(mounts["config"], "maitred.yaml")
        assert values == ({"MAITRED_ROLE": component} if "fleet" in name else {})
        assert settings.replica.role == "both", "the variable says it"
        if not settings.catalog.url:
            assert catalog_path(settings, environment()).parent == Path(mounts["state"])


@pytest.mark.parametrize("name", GATEWAYS)
def test_what_selects_pods_selects_those_that_are_there(name: str, folder: Path) -> None:
    """Services, policies, budgets and autoscalers; all talk of one port."""
    deployments = of_kind("Deployment", name, folder)
    labels = {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in deployments}
    selectors = [one["spec"]["selector"] for one in of_kind("Service", name, folder)]
    selectors += [
        one["spec"]["selector"]["matchLabels"] for one in of_kind("PodDisruptionBudget", name, folder)
    ]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in of_kind("NetworkPolicy", name, folder)]

    for one in deployments:
        assert one["spec"]["selector"]["matchLabels"] == labels[one["metadata"]["name"]]
        for spread in one["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
            assert spread["labelSelector"]["matchLabels"] == labels[one["metadata"]["name"]]
    for selector in selectors:
        assert any(selector.items() <= given.items() for given in labels.values())
    for one in of_kind("HorizontalPodAutoscaler", name, folder):
        assert one["spec"]["scaleTargetRef"]["name"] in labels
    for one in of_kind("Service", name, folder):
        [port] = one["spec"]["ports"]
        assert (port["port"], port["targetPort"]) == (Http().port, "http")


def test_the_autoscaler_goes_by_a_metric_that_gateways_have(folder: Path) -> None:
    """Under the name that the adapter of Prometheus gives it."""
    [adapter] = read_yaml(DEPLOY / "monitoring/prometheus-adapter.yaml")
    [rule] = adapter["rules"]["custom"]
    [scaler] = of_kind("HorizontalPodAutoscaler", "fleet", folder)
    [metric] = [one["pods"]["metric"]["name"] for one in scaler["spec"]["metrics"] if one["type"] == "Pods"]

    gauges = {one.name for one in INSTRUMENTS if one.kind == "gauge" and not one.labels}
    assert metric in gauges
    assert rule["name"]["as"] == metric
    assert rule["seriesQuery"].startswith(f"{metric}{{")


# --- what they withhold ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateway_has_no_more_than_it_needs(name: str, folder: Path) -> None:
    """No root, no capabilities, no writable system, no token of the cluster unless it watches; limits."""
    for _, pod in pods(name, folder):
        [container] = pod["containers"]
        own, whole = container["securityContext"], pod["securityContext"]
        assert (whole["runAsNonRoot"], whole["seccompProfile"]["type"]) == (True, "RuntimeDefault")
        assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} == container["resources"]["limits"].keys()
        assert {"cpu", "memory"} == container["resources"]["requests"].keys()
        assert pod["automountServiceAccountToken"] is ("watch" in name)
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
        http = config_of(name, folder, pod).http
        assert http.unready_s < http.drain_s < pod["terminationGracePeriodSeconds"] - 10
        assert (http.unready_s > 0) is ("fleet" in name)
    for account in of_kind("ServiceAccount", name, folder):
        assert account["automountServiceAccountToken"] is False
    for deployment, _ in pods(name, folder):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        limited = {
            way
            for policy in of_kind("NetworkPolicy", name, folder)
            if policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
            for way in policy["spec"]["policyTypes"]
        }
        assert limited == {"Ingress", "Egress"}


def test_one_gateway_is_never_two_and_several_are_never_none(folder: Path) -> None:
    """An SQLite file has one process; several gateways start before the old ones end."""
    [(single, _)] = pods("single", folder)
    [(fleet, _)] = [one for one in pods("fleet", folder) if one[0]["metadata"]["name"] == "maitred"]
    budgets = of_kind("PodDisruptionBudget", "fleet", folder)

    assert (single["spec"]["replicas"], single["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert "replicas" not in fleet["spec"], "an autoscaler sets it"
    assert fleet["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert [one["spec"]["maxUnavailable"] for one in budgets] == [1] * len(budgets)
    assert not of_kind("PodDisruptionBudget", "single", folder)


def test_the_namespace_enforces_the_strictest_profile(folder: Path) -> None:
    [namespace] = of_kind("Namespace", "single", folder)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", ["watched", "chart-fleet-watch"])
def test_a_gateway_that_watches_may_read_one_kind_of_resource_in_one_namespace(
    name: str, folder: Path
) -> None:
    [role], [binding] = of_kind("Role", name, folder), of_kind("RoleBinding", name, folder)
    [rule] = role["rules"]

    assert rule == {"apiGroups": ["mcp.x-k8s.io"], "resources": ["mcpservers"], "verbs": ["list", "watch"]}
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "mcp-servers"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "maitred", "namespace": "maitred"}]


# --- the page -------------------------------------------------------------------------------------------


def commands() -> Sequence[list[str]]:
    """The commands of the page, each as its words."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    joined = "".join(blocks).replace("\\\n", " ")
    return [shlex.split(line) for line in joined.splitlines() if line.strip()]


def test_every_file_of_the_commands_on_the_page_is_there() -> None:
    named = {word for words in commands() for word in words if word.startswith("deploy/")}

    assert {"deploy/kubernetes/overlays/single", "deploy/kubernetes/overlays/fleet"} <= named
    assert {"deploy/helm/maitred", "deploy/kubernetes/watched"} <= named
    assert not {one for one in named if not (ROOT / one).exists()}


def test_the_settings_of_the_page_name_an_exemption_that_they_have() -> None:
    """And fit what the chart adds by itself."""
    [block] = re.findall(r"^ *```yaml\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    settings = parse(Path("maitred.yaml"), textwrap.dedent(block))
    watch = settings.kubernetes.watch

    assert watch is not None
    [(name, exemption)] = settings.admission.exemptions.items()
    assert name == watch.network
    assert exemption.hosts == (f"*.{watch.namespace}.svc.cluster.local",)


def test_the_chart_lets_gateways_reach_what_they_watch(folder: Path) -> None:
    for _, pod in pods("chart-fleet-watch", folder):
        settings = config_of("chart-fleet-watch", folder, pod)
        watch = settings.kubernetes.watch
        assert watch is not None
        assert settings.admission.exemptions[watch.network].hosts == (
            f"*.{watch.namespace}.svc.cluster.local",
        )


def test_each_secret_of_the_page_has_the_keys_that_are_mounted() -> None:
    """By its name, its keys and its namespace; and it has every key of the example."""
    lines = [words for words in commands() if words[:4] == ["kubectl", "create", "secret", "generic"]]
    examples = {path.parent.name: read_yaml(path)[0] for path in KUBERNETES.rglob("*.example")}
    made = []
    for words in lines:
        literals = [word for word in words if word.startswith("--from-literal=")]
        made.append({literal.split("=")[1] for literal in literals})
        assert words[4] == examples["single"]["metadata"]["name"]
        assert words[words.index("--namespace") + 1] == examples["single"]["metadata"]["namespace"]

    assert made == [set(examples[name]["stringData"]) for name in ("single", "fleet")]
