"""docs/first-steps.md is played in a container with Python, uv and the wheel, in an empty home folder."""

import json
import re
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.package.distributions import ROOT, Distributions, stand_alone
from tests.package.test_installers import offline
from tests.support.image import shared_libraries
from tests.support.podman import IMAGE, Podman

pytestmark = pytest.mark.xdist_group("podman")
PAGE = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
NEWCOMER = Path(__file__).with_name("newcomer.py")
HOME = "/home/ann"
SHELL = ["/bin/sh", "/usr/bin/dirname", "/usr/bin/realpath"]
"""By these the programs that uv installs find their interpreter."""


def block(language: str) -> str:
    """The one block of the page in a language."""
    [text] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def steps() -> list[tuple[str, str]]:
    """Each command line of the page with what it prints."""
    parts = re.split(r"^\$ (.*)\n", block("console"), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def shows(expected: str, printed: str) -> bool:
    """Whether a text is what the page shows; … is anything."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def test_the_page_has_at_most_three_commands() -> None:
    """From nothing to the first call."""
    assert len(steps()) <= 3


def test_a_new_user_comes_from_the_wheel_to_the_first_call(
    podman: Podman, built: Distributions, packages: Path, tmp_path: Path
) -> None:
    """Every line is typed as it is there and prints what is there; a client then calls by its entry."""
    site = sysconfig.get_path("purelib")
    settings = dict(offline(tmp_path, packages))
    settings |= {
        "HOME": HOME,
        "PATH": f"{HOME}/.local/bin:/usr/local/bin:/usr/bin",
        "PYTHONPATH": "/packages",
        "UV_OVERRIDE": "/given/overrides.txt",
        "UV_PYTHON": "/usr/bin/python3",
    }
    listed, called = re.findall(r"^(?:tools|call) +(.*)$", block("text"), re.MULTILINE)
    name, arguments = called.split(" ", 1)
    wheel = f"/given/{built.wheel.name}"
    asked = {
        "files": [wheel],
        "lines": [line for line, _ in steps()],
        "client": ".cursor/mcp.json",
        "call": {"name": name, "arguments": json.loads(arguments)},
    }
    programs = Path(sys.executable).parent
    server = stand_alone("mcp-server-time", tmp_path)
    (tmp_path / "uv.toml").write_text('no-index = true\nfind-links = ["/given"]\n', encoding="utf-8")
    [arrays] = Path(site, "numpy", "_core").glob("_multiarray_umath.*.so")
    mounts = {
        **{str(library): f"/{at}" for at, library in shared_libraries([str(arrays), *SHELL]).items()},
        **{program: program for program in SHELL},
        str(packages): "/packages",
        site: site,
        str(programs / "uv"): "/usr/local/bin/uv",
        str(programs / "uvx"): "/usr/local/bin/uvx",
        str(server): f"/given/{server.name}",
        str(tmp_path / "uv.toml"): "/etc/uv/uv.toml",  # a server sees no variables of uv
        str(built.wheel): wheel,
        str(tmp_path / "overrides.txt"): "/given/overrides.txt",
        str(NEWCOMER): "/given/newcomer.py",
    }

    printed = podman.run(
        "run", "--rm", "--network=none", "--read-only", "--user=1000:1000",
        f"--tmpfs={HOME}:rw,exec,mode=1777", "--tmpfs=/tmp:rw,mode=1777",
        *(f"--volume={here}:{there}:ro" for here, there in mounts.items()),
        *(f"--env={key}={value}" for key, value in settings.items()),
        IMAGE, "/given/newcomer.py", json.dumps(asked),
    )  # fmt: skip
    done = json.loads(printed)

    for (line, expected), played in zip(steps(), done["played"], strict=True):
        assert played["code"] == 0, f"{line}\n{played['said']}"
        assert shows(expected, played["said"]), f"{line}\n{played['said']}"
    answer = block("text").partition(f"{called}\n")[2]
    assert ", ".join(done["used"]["tools"]) == listed
    assert shows(answer, done["used"]["answer"]), done["used"]
