"""What a person chose for a tool, written into a file and taken out again: nothing else in it changes."""

import json
from pathlib import Path

import pytest

from maitred.config.edit import remove_server
from maitred.config.edit_choices import ToolChange, change_choices, set_choice, unset_choice
from maitred.config.load import load, parse
from maitred.errors import ConfigError
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolKey

ADD = ToolKey(server="counter", name="add")
SERVERS = "servers:\n  counter: {command: counter}  # counts\n"
BOTH = f"{SERVERS}  clock: {{command: clock}}\n"
LAYOUTS = {
    "none": SERVERS,
    "null": f"{SERVERS}tools:\n\n# end\n",
    "empty": f"{SERVERS}tools: {{}}\n",
    "other server": f"tools:  # mine\n  clock:\n    now: {{pinned: true}}\n# between\n{BOTH}",
    "other tool": f"tools:\n    counter:\n        # process\n        pid:\n         pinned: true\n{SERVERS}",
    "other choice": f"tools:\n  counter:\n    add:\n      pinned: true # often\n\n{SERVERS}# end",
    "chosen": f"tools:\n  counter:\n    add:\n      category: 'ai'  # was ai\n      pinned: true\n{SERVERS}",
    "null server": f"tools:\n  counter:\n{SERVERS}",
    "flow": f"tools: {{counter: {{add: {{pinned: true}}}}}}\n{SERVERS}",
    "windows": SERVERS.replace("\n", "\r\n"),
    "json": json.dumps({"servers": {"counter": {"command": "counter"}}}, indent=2),
    "json with tools": json.dumps(
        {"tools": {"counter": {"pid": {"pinned": True}}}, "servers": {"counter": {"command": "counter"}}},
        indent=2,
    ),
    "json in a line": '{"servers": {"counter": {"command": "counter"}}, "tools": {}}',
}


def write(folder: Path, text: str) -> Path:
    path = folder / "maitred.yaml"
    path.write_bytes(text.encode())
    return path


def remarks(text: str) -> list[str]:
    return [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_choice_is_written_whatever_the_layout(tmp_path: Path, layout: str) -> None:
    """Other choices, servers and remarks stay, and the file has no more lines than it needs."""
    text = LAYOUTS[layout]
    path = write(tmp_path, text)
    before = parse(path, text)

    set_choice(path, ADD, "category", "data")

    after = load(path)
    changed = path.read_bytes().decode()
    assert after.tools[ADD].category == "data"
    assert after.servers == before.servers
    assert {k: v for k, v in after.tools.items() if k != ADD} == {
        k: v for k, v in before.tools.items() if k != ADD
    }
    assert after.tools[ADD].pinned is (ADD in before.tools and before.tools[ADD].pinned)
    assert remarks(changed) == remarks(text)
    assert len(changed.splitlines()) - len(text.splitlines()) <= 7


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_choice_that_is_taken_back_leaves_the_others(tmp_path: Path, layout: str) -> None:
    """A second time there is none, and the file stays as it is."""
    path = write(tmp_path, LAYOUTS[layout])
    before = load(path).tools
    set_choice(path, ADD, "category", "data")

    assert unset_choice(path, ADD, "category")
    left = path.read_bytes()
    assert not unset_choice(path, ADD, "category")

    assert path.read_bytes() == left
    after = load(path).tools
    assert ADD not in after or not after[ADD].category
    assert {key for key in before if before[key].pinned} == set(after)


def test_a_second_choice_replaces_the_first(tmp_path: Path) -> None:
    """Only the value changes: the remark behind it stays."""
    path = write(tmp_path, LAYOUTS["chosen"])

    set_choice(path, ADD, "category", "data")

    assert path.read_text() == LAYOUTS["chosen"].replace("'ai'", '"data"')


def test_names_of_any_kind_can_be_chosen_for(tmp_path: Path) -> None:
    """A raw name may hold what YAML has a meaning for."""
    path = write(tmp_path, SERVERS)
    odd = [
        ToolKey(server="counter", name=name) for name in ("a: b", "- x", "null", "#1", "1.10", '"q"', "é x")
    ]

    for key in odd:
        set_choice(path, key, "category", "data")

    assert {key: choice.category for key, choice in load(path).tools.items()} == dict.fromkeys(odd, "data")
    assert all(unset_choice(path, key, "category") for key in odd)
    assert load(path).tools == {}


def test_a_category_that_does_not_exist_is_not_written(tmp_path: Path) -> None:
    """The message says which there are, and the file stays as it was."""
    path = write(tmp_path, SERVERS)

    with pytest.raises(ConfigError, match="is no category"):
        set_choice(path, ADD, "category", "datta")

    assert path.read_text() == SERVERS


def test_a_clients_file_holds_no_choices(tmp_path: Path) -> None:
    """It is not ours; the message says where they belong."""
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"counter": {"command": "counter"}}}))

    with pytest.raises(ConfigError, match="cannot hold choices for tools"):
        set_choice(path, ADD, "category", "data")


def test_a_server_is_removed_with_what_was_chosen_for_its_tools(tmp_path: Path) -> None:
    """Choices of a server that is not there would be a fault; those of others stay."""
    path = tmp_path / "maitred.yaml"
    path.write_text(
        "servers:\n  a: {command: x}\n  b: {command: y}\n"
        "tools:\n  a:\n    t: {category: data}\n  b:\n    t: {category: ai}  # mine\n",
        encoding="utf-8",
    )

    remove_server(path, "a")

    assert path.read_text(encoding="utf-8") == (
        "servers:\n  b: {command: y}\ntools:\n  b:\n    t: {category: ai}  # mine\n"
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_choices_are_written_at_once_and_taken_back(tmp_path: Path, layout: str) -> None:
    """Switches too; what is written already is left as it is."""
    path = write(tmp_path, LAYOUTS[layout])
    before = load(path).tools
    wanted = ToolChange(enabled=False, pinned=True, category="data")

    assert change_choices(path, ADD, wanted.values)
    assert load(path).tools[ADD] == ToolChoice(enabled=False, pinned=True, category="data")
    assert remarks(path.read_bytes().decode()) == remarks(LAYOUTS[layout])
    written = path.read_bytes()
    assert not change_choices(path, ADD, wanted.values)
    assert path.read_bytes() == written

    assert change_choices(path, ADD, ToolChange(enabled=True, pinned=False, category="").values)
    assert load(path).tools == {key: choice for key, choice in before.items() if key != ADD}


def test_of_several_choices_none_is_written_if_one_cannot_be(tmp_path: Path) -> None:
    path = write(tmp_path, SERVERS)

    with pytest.raises(ConfigError, match="is no category"):
        change_choices(path, ADD, ToolChange(enabled=False, category="datta").values)

    assert path.read_text() == SERVERS
