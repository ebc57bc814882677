"""What a program needs to see of where it is installed, for the commonest ways to install one."""

import os
import sys
from pathlib import Path

import pytest

from maitred.backends.isolation import installation
from maitred.backends.isolation.installation import installation_of


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def link(path: Path, target: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def python(folder: Path, name: str = "cpython-3.12.5") -> Path:
    """A Python that is installed in a folder of its own."""
    (folder / name / "lib" / "python3.12").mkdir(parents=True)
    (folder / name / "lib" / "python3.12" / "os.py").touch()
    program(folder / name / "bin" / "python3.12")
    link(folder / name / "bin" / "python3", "python3.12")
    return folder / name


def environment(folder: Path, base: Path) -> Path:
    """A virtual environment of that Python."""
    link(folder / "bin" / "python", str(base / "bin" / "python3"))
    (folder / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\nversion = 3.12.5\n", encoding="utf-8")
    return folder


def parts(found: installation.Installation, folder: Path) -> set[str]:
    return {str(part.relative_to(folder)) for part in found.parts}


def test_of_an_environment_it_is_the_environment_and_its_python(tmp_path: Path) -> None:
    """Both for its interpreter and for a script in it, and nothing beside them."""
    venv = environment(tmp_path / "app" / "venv", python(tmp_path / "pythons"))
    script = program(venv / "bin" / "server", f"#!{venv}/bin/python\n")

    for start in (venv / "bin" / "python", script):
        found = installation_of(start, "")
        assert parts(found, tmp_path) == {"app/venv", "pythons/cpython-3.12.5"}
        assert found.links == {}
        assert found.path[0] == venv / "bin"


def test_a_link_to_a_tool_in_an_environment_of_its_own_stays_a_link(tmp_path: Path) -> None:
    """As `uv tool install` and `pipx` lay them out, with a Python whose folder is a link itself."""
    base = python(tmp_path / "uv" / "python")
    link(tmp_path / "uv" / "python" / "cpython-3.12", "cpython-3.12.5")
    tool = environment(tmp_path / "uv" / "tools" / "server", base.with_name("cpython-3.12"))
    script = program(tool / "bin" / "server", f"#!{tool}/bin/python\n")
    found = installation_of(link(tmp_path / "home" / "bin" / "server", str(script)), "")

    assert parts(found, tmp_path) == {"uv/tools/server", "uv/python/cpython-3.12.5"}
    assert found.links == {
        tmp_path / "home" / "bin" / "server": str(script),
        tmp_path / "uv" / "python" / "cpython-3.12": "cpython-3.12.5",
    }


def test_of_a_program_of_node_it_is_its_packages_and_node(tmp_path: Path) -> None:
    """As version managers lay out `npx` and what is installed for all: found by `env` on the path."""
    bin_ = tmp_path / "node" / "v20" / "bin"
    program(bin_ / "node")
    program(tmp_path / "node/v20/lib/node_modules/npm/bin/npx-cli.js", "#!/usr/bin/env node\n")
    found = installation_of(link(bin_ / "npx", "../lib/node_modules/npm/bin/npx-cli.js"), str(bin_))

    assert parts(found, tmp_path) == {"node/v20/lib/node_modules", "node/v20/bin/node"}
    assert found.links == {bin_ / "npx": "../lib/node_modules/npm/bin/npx-cli.js"}
    assert bin_ in found.path


def test_of_a_package_in_a_project_it_is_the_projects_packages(tmp_path: Path) -> None:
    """Not the project."""
    modules = tmp_path / "project" / "node_modules"
    program(modules / "server" / "node_modules" / "deep" / "index.js", "#!/usr/bin/env -S node --flag\n")
    found = installation_of(link(modules / ".bin" / "server", "../server/node_modules/deep/index.js"), "")

    assert parts(found, tmp_path) == {"project/node_modules"}


def test_of_anything_else_it_is_the_file_alone(tmp_path: Path) -> None:
    """And what runs it, if its first line names that; a line that names nothing there names nothing."""
    base = python(tmp_path / "pythons")
    binary = program(tmp_path / "bin" / "binary")
    script = program(tmp_path / "bin" / "script", f"#!{base}/bin/python3 -I\n")
    broken = program(tmp_path / "bin" / "broken", "#!/no/such/interpreter\n")

    assert parts(installation_of(binary, ""), tmp_path) == {"bin/binary"}
    assert parts(installation_of(script, ""), tmp_path) == {"bin/script", "pythons/cpython-3.12.5"}
    assert parts(installation_of(broken, ""), tmp_path) == {"bin/broken"}


def test_what_lies_under_opt_is_seen_with_its_own_folder() -> None:
    """A program directly under it has none."""
    assert installation_of(Path("/opt/acme/lib/bin/server"), "").parts == [Path("/opt/acme")]
    assert installation_of(Path("/opt/server"), "").parts == [Path("/opt/server")]


def test_what_is_of_the_system_needs_nothing() -> None:
    """Everybody sees it."""
    assert installation_of(Path("/usr/bin/env"), "").parts == []


def test_a_home_that_is_an_environment_is_not_seen_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what makes it an environment."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    home = environment(tmp_path / "home", python(tmp_path / "pythons"))
    found = installation_of(home / "bin" / "python", "")

    assert {Path(one).parts[0] for one in parts(found, tmp_path)} == {"home", "pythons"}
    assert home not in found.parts
    assert home / "pyvenv.cfg" in found.parts


@pytest.mark.parametrize("target", ["loop", "../bin/loop", "missing"])
def test_links_that_lead_nowhere_come_to_an_end(target: str, tmp_path: Path) -> None:
    """In a circle, or to nothing."""
    looping = link(tmp_path / "bin" / "loop", target)

    assert looping in installation_of(looping, "").links


def test_the_python_that_runs_this_is_found_whole() -> None:
    """Whatever way it was installed."""
    found = installation_of(Path(sys.executable), os.environ["PATH"])

    assert found.has(Path(os.__file__))
    assert found.has(Path(sys.prefix) / "bin")


def test_what_a_program_may_change_does_not_say_what_it_sees(tmp_path: Path) -> None:
    """Neither a link, nor a first line, nor a file of an environment, nor what looks like a Python."""
    other = environment(tmp_path / "other", python(tmp_path / "pythons"))
    mine = tmp_path / "mine"
    script = program(mine / "bin" / "script", f"#!{other}/bin/python\n")
    (mine / "pyvenv.cfg").write_text(f"home = {other / 'bin'}\n", encoding="utf-8")
    linked = link(mine / "bin" / "linked", str(other / "bin" / "python"))
    link(mine / "folder", str(other / "bin"))
    outside = link(tmp_path / "outside", str(linked))
    beside = program(tmp_path / "bin" / "beside")
    (tmp_path / "lib" / "python3.1").mkdir(parents=True)
    (tmp_path / "lib" / "python3.1" / "os.py").touch()
    may_write = (mine, tmp_path / "lib")

    for start in (script, linked, mine / "folder" / "python", outside):
        assert installation_of(start, "").parts
        assert installation_of(start, "", may_write).parts == []
    assert installation_of(beside, "", may_write).parts == [beside]
