"""The Containerfile is built by Podman and run as Compose and Kubernetes run it.

There is no registry and no index here. The base is made of the programs of this machine, and what maitred
needs comes from the tests' environment, which is mounted. So this shows the instructions, the user, the
read-only system, the health check and the gateway; not that packages can be downloaded.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.files import DEPLOY, of_containerfile
from tests.support.image import shared_libraries
from tests.support.podman import IMAGE, Podman
from tests.support.site_packages import link_packages
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("podman")
ROOT = DEPLOY.parent
BASE, NAME = "localhost/maitred-base:1", "localhost/maitred-built:1"
PROGRAMS = ("dash", "groupadd", "useradd", "install")
MODULES = ("ensurepip", "venv", "unittest", "wsgiref")
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/shadow": "root:*:19000::::::\n",
    "etc/gshadow": "root:*::\n",
    "etc/login.defs": "SYS_UID_MIN 100\nSYS_UID_MAX 60000\nSYS_GID_MIN 100\nSYS_GID_MAX 60000\n",
}
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_DEPS": "1",
    "PIP_NO_COMPILE": "1",
    "PIP_NO_BUILD_ISOLATION": "false",  # as pip reads it: no isolation
    "PYTHONPATH": "/packages",
}


def write_base(folder: Path) -> None:
    """The files of a base with a shell, accounts and Python with `venv`, over the image of the tests."""
    root = folder / "root"
    programs = {
        name: Path(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/bin") or "") for name in PROGRAMS
    }
    [arrays] = Path(sysconfig.get_path("purelib"), "numpy", "_core").glob("_multiarray_umath.*.so")
    files: dict[str, Path] = {f"usr/bin/{name}": path for name, path in programs.items()}
    files["bin/sh"] = programs["dash"]
    files |= shared_libraries([*map(str, programs.values()), str(arrays)])
    for at, source in files.items():
        target = root / at
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in MODULES:
        source = Path(sysconfig.get_path("stdlib"), name)
        shutil.copytree(
            source, root / "usr/lib" / version / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for at, text in ACCOUNTS.items():
        (root / at).parent.mkdir(parents=True, exist_ok=True)
        (root / at).write_text(text, encoding="utf-8")
    variables = " ".join(f"{key}={value}" for key, value in OFFLINE.items())
    (folder / "Containerfile").write_text(
        f'FROM {IMAGE}\nCOPY root /\nENV {variables}\nENTRYPOINT []\nCMD ["/bin/sh"]\n', encoding="utf-8"
    )


class Built:
    """The image, and `gateway`, a running container of it."""

    def __init__(self, podman: Podman) -> None:
        self.podman, self.gateway = podman, ""

    def inside(self, *words: str) -> str:
        """Run a program in the gateway's container."""
        return self.podman.run("exec", self.gateway, *words)


@pytest.fixture(scope="module")
def built(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The image, built, and a gateway that runs in it with a token, as Compose starts it."""
    folder = tmp_path_factory.mktemp("base")
    write_base(folder)
    site, packages = sysconfig.get_path("purelib"), link_packages(tmp_path_factory.mktemp("packages"))
    mounts = [f"--volume={packages}:/packages:ro", f"--volume={site}:{site}:ro"]
    own = ["--network=none", *mounts, "--format=docker", "--pull=never", "--layers=false"]
    podman.run("build", *own, "-t", BASE, str(folder))
    arguments = ["--build-arg", f"BASE={BASE}", "--build-arg", "SERVERS="]
    podman.run("build", *own, *arguments, "-f", str(DEPLOY / "Containerfile"), "-t", NAME, str(ROOT))
    found = Built(podman)
    secrets = tmp_path_factory.mktemp("secrets")
    secrets.chmod(0o755)
    (secrets / "token").write_text("a-token-of-the-test\n", encoding="utf-8")
    found.gateway = podman.run(
        "run", "--detach", "--network=none", "--http-proxy=false", "--read-only", "--cap-drop=ALL",
        "--tmpfs=/tmp:rw,mode=1777",
        "--security-opt=no-new-privileges", *mounts, f"--volume={DEPLOY / 'config'}:/etc/maitred:ro",
        f"--volume={secrets}:/run/maitred:ro", NAME,
    )  # fmt: skip
    yield found
    podman.run("rm", "--force", "--time=0", found.gateway, check=False)


def test_the_image_is_maitred_with_its_pages_as_a_user_of_its_own(built: Built) -> None:
    """Its entry point is the command."""
    config: Mapping[str, Any] = built.podman.inspect(NAME)["Config"]

    assert built.inside("maitred", "docs", "deploy").startswith("# Deployment")
    assert (config["User"], config["Entrypoint"]) == ("10001:10001", ["maitred"])
    assert list(config["ExposedPorts"]) == ["8420/tcp"]


@pytest.mark.anyio
async def test_the_gateway_answers_on_a_read_only_system_without_capabilities(built: Built) -> None:
    """Asked by its own health check, from within; it asks for the token."""
    check = json.loads(of_containerfile("HEALTHCHECK")[0].partition("CMD ")[2])

    def is_healthy() -> bool:
        try:
            built.inside(*check)
        except RuntimeError:  # it does not listen yet
            running = built.podman.inspect(built.gateway)["State"]["Running"]
            assert running, "the gateway ended"
            return False
        return True

    await eventually(is_healthy)
    ask = (
        "import urllib.request as u, json; r = u.Request('http://127.0.0.1:8420/api/v1/servers', headers=%r);"
        " print(json.load(u.urlopen(r))['servers'][0]['name'])"
    )
    assert built.inside("python3", "-c", ask % {"Authorization": "Bearer a-token-of-the-test"}) == "time"
    with pytest.raises(RuntimeError, match="401"):
        built.inside("python3", "-c", ask % {})


def test_a_hint_in_the_image_builds_the_image_again(built: Built) -> None:
    """What is installed into a container is gone with it."""
    code = "from maitred.extras import install_command; print(install_command('llm'))"

    assert built.inside("python3", "-c", code) == (
        "docker build -f deploy/Containerfile -t maitred --build-arg EXTRAS=containers,llm ."
    )


@pytest.mark.skipif("MAITRED_TEST_ONLINE" not in os.environ, reason="asks an index")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_package_has_a_wheel_for_both_architectures(machine: str, tmp_path: Path) -> None:
    """So the base needs no compiler. The image for the other one is not built here."""
    platforms = [f"manylinux_2_28_{machine}", f"manylinux_2_17_{machine}", f"manylinux2014_{machine}"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"),
            "--only-binary=:all:",
            *("--target", str(tmp_path), "--python-version", "3.11", "--implementation", "cp", "--quiet"),
            *("--report", str(tmp_path / "report.json")),
            *(word for one in platforms for word in ("--platform", one)),
            *requirements("containers"),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr


def requirements(extra: str) -> list[str]:
    """What the image installs beside maitred itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"][extra]]
