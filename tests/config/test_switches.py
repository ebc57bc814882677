"""Servers and tools are switched off and on in the file, which stays as it is otherwise."""

from pathlib import Path

import pytest

from maitred.config.edit_choices import switch
from maitred.config.load import load
from maitred.errors import ConfigError
from maitred.model.tools import ToolKey

READ = ToolKey(server="files", name="read")
LAYOUTS = {
    "block": (
        "# all of them\n"
        "servers:\n"
        "  files:  # ours\n"
        "    command: files-mcp\n"
        "    args: [/data]  # the folder\n"
        "  mail:\n"
        "    url: https://mail.example/mcp\n"
        "\n"
        "limits:\n"
        "  call_timeout_s: 60\n"
    ),
    "flow": "servers: {files: {command: files-mcp}, mail: {url: 'https://mail.example/mcp'}}  # short\n",
    "crlf": "servers:\r\n  files:\r\n    command: files-mcp\r\n  mail:\r\n    command: mail-mcp  # y\r\n",
}


def remarks(text: str) -> list[str]:
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_file_comes_back_as_it_was(tmp_path: Path, layout: str) -> None:
    """Off, off again and on: only the switches are written, and in the end nothing is left of them."""
    path = tmp_path / "maitred.yaml"
    path.write_bytes(LAYOUTS[layout].encode())

    assert list(switch(path, ["mail"], [READ], enabled=False)) == [True, True]
    off = path.read_bytes()
    assert (load(path).servers["files"].enabled, load(path).servers["mail"].enabled) == (True, False)
    assert not load(path).tools[READ].enabled
    assert remarks(off.decode()) == remarks(LAYOUTS[layout])

    assert list(switch(path, ["mail"], [READ], enabled=False)) == [False, False]
    assert path.read_bytes() == off

    assert list(switch(path, ["mail", "files"], [READ], enabled=True)) == [True, False, True]
    assert path.read_bytes().decode() == LAYOUTS[layout]


@pytest.mark.parametrize("key", ["enabled: false", "disabled: true", "enabled: true"])
def test_a_switch_that_a_person_wrote_is_found(tmp_path: Path, key: str) -> None:
    """In either form; a switch that says `true` is changed where it is."""
    path = tmp_path / "maitred.yaml"
    path.write_text(f"servers:\n  files:\n    {key}  # since May\n    command: files-mcp\n")

    switch(path, ["files"], [], enabled=False)
    assert not load(path).servers["files"].enabled
    switch(path, ["files"], [], enabled=True)
    assert load(path).servers["files"].enabled


def test_of_several_none_is_switched_if_one_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text(LAYOUTS["block"])

    with pytest.raises(ConfigError, match="has no server 'post' to switch"):
        switch(path, ["files", "post"], [READ], enabled=False)

    assert path.read_text() == LAYOUTS["block"]


def test_a_clients_file_has_no_switches(tmp_path: Path) -> None:
    """The client reads it, too."""
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"files": {"command": "files-mcp"}}}')
    before = path.read_bytes()

    with pytest.raises(ConfigError, match="client's file, which cannot hold switches"):
        switch(path, ["files"], [], enabled=False)

    assert path.read_bytes() == before
