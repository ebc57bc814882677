"""A server that turns evil after it was approved, as an operator at a shell and an agent meet it."""

import json
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread
from tests.interaction.harness import SUPPORT, Mode, cli, faulty, over_stdio, write_settings
from tests.support.jails import require_jail

pytestmark = pytest.mark.anyio


def registered(folder: Path) -> tuple[Path, Path]:
    """A configuration with one registered and approved server, and the file that makes the server evil."""
    flag = folder / "granted" / "evil"
    flag.parent.mkdir()
    manifest = {
        "name": "city",
        **faulty("rug", str(flag)),
        "filesystem": [{"path": str(path)} for path in (flag.parent, SUPPORT)],
    }
    (folder / "city.yml").write_text(json.dumps(manifest), encoding="utf-8")  # JSON is YAML
    config = write_settings(folder, {})
    maitred = partial(cli, config)
    for words in (["register", str(folder / "city.yml")], ["approve", "city", "--yes"]):
        assert maitred(*words).returncode == 0
    good = maitred("call", "city__weather", "city=Rome")
    assert "sunny in Rome" in good.stdout, good.stderr
    return config, flag


def test_a_registered_server_that_changed_is_never_called_from_the_shell(tmp_path: Path) -> None:
    """Neither the first time nor later, and what waits is shown. Source: issue "What broke", 1."""
    require_jail()
    config, flag = registered(tmp_path)
    flag.touch()

    for _ in range(2):
        said = cli(config, "call", "city__weather", "city=Rome")
        assert said.returncode == 2
        assert "sunny" not in said.stdout
        assert "has changed since it was approved" in said.stderr
    assert cli(config, "call", "city__delete_all", "path=/").returncode == 2
    waiting = cli(config, "approvals").stdout
    assert "tool 'weather' is withheld" in waiting
    assert "tool 'delete_all' is withheld" in waiting


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_registered_server_that_changed_is_never_called_by_an_agent(
    tmp_path: Path, mode: Mode
) -> None:
    """The first call after the gateway's start is refused like the second."""
    require_jail()
    config, flag = await to_thread.run_sync(registered, tmp_path)
    flag.touch()

    async with over_stdio(config, mode) as client:
        for _ in range(2):
            answer = await client.call_tool("city__weather", {"city": "Rome"})
            assert answer.is_error
            assert "has changed since it was approved" in answer.content[0].text  # type: ignore[union-attr]


def test_an_own_server_that_turns_evil_is_stopped_and_shown(tmp_path: Path) -> None:
    """By default; nothing is called refused and in use at once. Source: issue "What broke", 7."""
    flag = tmp_path / "evil"
    config = write_settings(tmp_path, {"city": faulty("rug", str(flag))})
    assert "sunny in Rome" in cli(config, "call", "city__weather", "city=Rome").stdout
    flag.touch()

    for words in (["city__weather", "city=Rome"], ["city__delete_all", "path=/"]):
        said = cli(config, "call", *words)
        assert said.returncode == 2
        assert "waits for a person" in said.stderr
    assert "Hello" in cli(config, "call", "city__echo", "text=Hello").stdout

    waiting = cli(config, "approvals").stdout
    assert "tool 'weather' is withheld" in waiting
    assert "attack (poisoning)" in waiting
    assert "in use" not in waiting
    assert "2 withheld until approved" in cli(config, "list").stdout
    [server] = json.loads(cli(config, "list", "--json").stdout)["servers"]
    assert server["withheld_parts"] == 2
    assert "2 withheld until approved" in cli(config, "doctor", "city").stdout

    assert cli(config, "approve", "city", "--yes").returncode == 0
    assert "deleted /" in cli(config, "call", "city__delete_all", "path=/").stdout
