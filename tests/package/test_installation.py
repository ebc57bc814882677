"""Hints and entries fit the way of installation: pip, pipx, uv, uvx, an image or a checkout."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from maitred import extras
from maitred.config.clients.discovery import is_maitred
from maitred.config.clients.entries import start_command
from maitred.installation import IMAGE_MARK, OwnInstallation, find_installation

WHEEL = "/downloads/maitred-0.1.0-py3-none-any.whl"
FROM_WHEEL: Mapping[str, Any] = {"url": f"file://{WHEEL}", "archive_info": {}}
BY_UV = "home = /usr/bin\nuv = 0.13.9\n"
RECEIPT = """[tool]
requirements = [{ name = "maitred", path = "/downloads/maitred-0.1.0-py3-none-any.whl" },
                { name = "six", specifier = ">=1.16" }]
"""


def installed(
    folder: Path, files: Mapping[str, str], origin: Mapping[str, Any] = FROM_WHEEL
) -> OwnInstallation:
    """The installation that is recognised in a folder with some files."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return find_installation(folder, {"UV": "/opt/uv"}, origin=origin)


def test_pipx_gets_packages_by_its_own_command(tmp_path: Path) -> None:
    """`pip install` into its environment would be undone by the next upgrade. The name has pipx's suffix."""
    there = installed(tmp_path / "venvs/maitred-dev", {"pipx_metadata.json": "{}"})

    assert there.way == "pipx"
    assert there.add_command("llm", ["openai>=3"]) == "pipx inject maitred-dev 'openai>=3'"
    assert there.upgrade_command("new.whl") == "pipx install --force --suffix -dev new.whl"
    assert there.start_words() == ()


def test_uv_tool_installs_again_with_what_it_had(tmp_path: Path) -> None:
    """A second `uv tool install` forgets the `--with` of the first."""
    there = installed(tmp_path / "tools/maitred", {"uv-receipt.toml": RECEIPT, "pyvenv.cfg": BY_UV})

    assert there.way == "uv tool"
    added = "uv tool install --force --with 'six>=1.16'"
    assert there.add_command("llm", ["openai>=3"]) == f"{added} --with 'openai>=3' {WHEEL}"
    assert there.upgrade_command("new.whl") == f"{added} new.whl"
    assert there.start_words() == ()


def test_what_uvx_runs_is_started_again_by_uv_from_the_same_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that it runs from is one of a cache. A client's entry starts with full paths."""
    there = installed(tmp_path / "cache/archive-v0/x1", {"pyvenv.cfg": BY_UV})
    monkeypatch.setattr("maitred.config.clients.entries.find_installation", lambda: there)
    program = tmp_path / "cache/archive-v0/x1/maitred"
    program.touch()

    command, *args = start_command(program, tmp_path / "m.yaml")

    assert there.way == "uvx"
    assert [command, *args] == [
        *("/opt/uv", "tool", "run", "--from", WHEEL, "maitred", "serve", "--config", f"{tmp_path}/m.yaml")
    ]
    assert is_maitred({"command": command, "args": args})  # so `import` and `disconnect` know it
    assert there.add_command("llm", ["openai>=3"]) == f"uvx --with 'openai>=3' --from {WHEEL} maitred"
    assert there.upgrade_command("new.whl") == "uvx --from new.whl maitred"


def test_an_environment_that_uv_made_outside_its_cache_stays(tmp_path: Path) -> None:
    """`uv venv` writes the same line into `pyvenv.cfg`."""
    assert installed(tmp_path / "project/.venv", {"pyvenv.cfg": BY_UV}).start_words() == ()


def test_the_image_is_built_again_with_one_more_extra(tmp_path: Path) -> None:
    """What is installed into a container is gone with it."""
    there = installed(tmp_path / "opt", {IMAGE_MARK: "containers,llm\n"})

    build = "docker build -f deploy/Containerfile -t maitred"
    assert there.add_command("minilm", ["x"]) == f"{build} --build-arg EXTRAS=containers,llm,minilm ."
    assert there.upgrade_command("new.whl") == f"{build} ."


def test_a_checkout_is_pulled_and_a_wheel_replaced(tmp_path: Path) -> None:
    checkout = installed(
        tmp_path / "a", {}, {"url": "file:///src/my%20maitred", "dir_info": {"editable": True}}
    )
    wheel = installed(tmp_path / "b", {})

    python = shlex.quote(str(checkout.python))
    assert checkout.upgrade_command("x.whl") == (
        f"git -C '/src/my maitred' pull && {python} -m pip install -e '/src/my maitred'"
    )
    assert (
        wheel.upgrade_command("/new folder/x.whl") == f"{python} -m pip install --upgrade '/new folder/x.whl'"
    )


def test_the_address_of_a_private_index_is_shown_without_its_password(tmp_path: Path) -> None:
    there = installed(
        tmp_path / "a", {}, {"url": "https://me:secret@host.example/maitred.whl", "archive_info": {}}
    )

    assert there.source == "https://host.example/maitred.whl"


def test_every_hint_for_an_extra_goes_through_the_way_of_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`extras.install_command` is what all messages show."""
    there = installed(tmp_path / "venvs/maitred", {"pipx_metadata.json": "{}"})
    monkeypatch.setattr(extras, "find_installation", lambda: there)

    assert extras.install_command("containers").startswith("pipx inject maitred 'docker")
