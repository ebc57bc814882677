"""What stands in `deploy/`, as the tests read it."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
WITH_ENGINE = DEPLOY / "compose.engine.yaml"
KUBERNETES = DEPLOY / "kubernetes"
CHART = DEPLOY / "helm/maitred"
_KNOWN = frozenset(
    "ARG FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE HEALTHCHECK ENTRYPOINT CMD".split()  # noqa: SIM905
)


@cache
def read_yaml(path: Path) -> list[dict[str, Any]]:
    """The documents of a file."""
    return list(YAML(typ="safe", pure=True).load_all(path.read_text(encoding="utf-8")))


def pod() -> dict[str, Any]:
    """The pod of a gateway in Kubernetes, as the base has it."""
    found: dict[str, Any] = read_yaml(KUBERNETES / "base/gateway/deployment.yaml")[0]["spec"]["template"][
        "spec"
    ]
    return found


def service() -> dict[str, Any]:
    """The gateway under Compose."""
    found: dict[str, Any] = read_yaml(COMPOSE)[0]["services"]["gateway"]
    return found


def instructions() -> Sequence[tuple[str, str]]:
    """The instructions of the Containerfile in their order, each as its name and the rest."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, _, rest = line.partition(" ")
        assert name in _KNOWN, line
        found.append((name, rest.strip()))
    return found


def of_containerfile(name: str) -> list[str]:
    """What follows each instruction of a name."""
    return [rest for one, rest in instructions() if one == name]


def words(name: str) -> list[str]:
    """The words of an instruction that starts a program, which stand as JSON."""
    [rest] = of_containerfile(name)
    found: list[str] = json.loads(rest[rest.index("[") :])
    return found


def arguments() -> Mapping[str, str]:
    """The `ARG`s with their defaults."""
    return dict(rest.split("=", 1) for rest in of_containerfile("ARG"))


def environment() -> Mapping[str, str]:
    """What `ENV` sets."""
    return dict(one.split("=", 1) for rest in of_containerfile("ENV") for one in shlex.split(rest))
