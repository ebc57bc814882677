"""`maitred disable`, `enable` and `profiles` as an operator runs them."""

import json
from pathlib import Path

import anyio
import pytest
from tests.interaction.harness import cli, faulty, know_as, over_http, serving
from tests.interaction.test_cli import fine, read_json, refused
from tests.interaction.test_cli_menu import REMARK, make_config

from maitred.config.load import load

__all__ = ["make_config"]

ADD = "counter__add"


@pytest.fixture
def own(tmp_path: Path, config: Path) -> Path:
    """A configuration with a remark; its one server that can be started is known."""
    path = tmp_path / "maitred.yaml"
    know_as(config, tmp_path)
    entry = json.dumps(faulty("count"))
    path.write_text(
        f"servers:\n  counter: {entry}  {REMARK}\n  broken: {{command: no-such-program}}\n"
        "catalog: {path: catalog.db}\n"
    )
    return path


def test_servers_and_tools_are_switched_off_and_on(own: Path) -> None:
    """By any form of their names, several at once; the file comes back as it was. Source: docs/cli.md."""
    before = own.read_text()

    said = fine(cli(own, "disable", "counter.add", "broken", "counter__pid"))

    assert f"Disabled broken, in {own}." in said
    assert f"Disabled counter__add, in {own}." in said
    assert not load(own).servers["broken"].enabled
    assert "switched off by the operator" in refused(cli(own, "call", "counter__add", "a=1", "b=2"))
    again = read_json(cli(own, "disable", "counter__add", "counter", "--json"))
    assert [(one["name"], one["kind"], one["changed"]) for one in again] == [
        ("counter", "server", True), ("counter__add", "tool", False),
    ]  # fmt: skip
    assert "disabled in the configuration" in refused(cli(own, "call", "counter__echo", "text=a"))
    assert REMARK in own.read_text()

    fine(cli(own, "enable", "counter", "broken", "counter__add", "counter__pid"))
    assert own.read_text() == before
    assert "counter is enabled already." in fine(cli(own, "enable", "counter"))
    trail = fine(cli(own, "audit", "--limit", "50"))
    assert (trail.count("server.switch"), trail.count("tool.change")) == (4, 4)


@pytest.fixture
def listing(own: Path) -> Path:
    """The configuration, whose clients list all tools."""
    own.write_text(f"{own.read_text()}disclosure: {{mode: all}}\n")
    return own


@pytest.mark.anyio
async def test_a_running_gateway_takes_a_switch_over_at_once(listing: Path) -> None:
    """Its clients see the tool no more, and then again. Source: docs/cli.md."""
    with serving(listing) as gateway:
        async with over_http(gateway.url, "legacy") as client:  # the other era may keep its list for a while

            async def until(*, is_there: bool) -> None:
                async def has() -> bool:
                    return ADD in {one.name for one in (await client.list_tools()).tools}

                while await has() is not is_there:  # noqa: ASYNC110  # another process reads the file
                    await anyio.sleep(0.05)

            await until(is_there=True)
            await anyio.to_thread.run_sync(lambda: fine(cli(listing, "disable", ADD)))
            await until(is_there=False)
            await anyio.to_thread.run_sync(lambda: fine(cli(listing, "enable", ADD)))
            await until(is_there=True)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["broken", "countr"], "There is no server and no tool named 'countr'. Did you mean counter"),
        (["counter__ad"], "Did you mean counter__add"),
    ],
)
def test_a_name_that_means_nothing_is_refused_and_nothing_is_switched(
    own: Path, names: list[str], says: str
) -> None:
    before = own.read_text()

    assert says in refused(cli(own, "disable", *names))
    assert own.read_text() == before


def test_profiles_are_listed_with_what_they_have(own: Path) -> None:
    """And with what in them matches nothing. Source: docs/profiles.md."""
    assert "has no profiles" in fine(cli(own, "profiles"))
    profiles = {
        "sums": {"tools": ["counter/add", "counter/ad"]},
        "menu": {"servers": ["counter"], "mode": "menu"},
    }
    own.write_text(f"{own.read_text()}profiles: {json.dumps(profiles)}\n")

    listed = read_json(cli(own, "profiles", "--json"))["profiles"]
    table = fine(cli(own, "profiles"))

    assert [(one["name"], one["tools"], one["servers"]) for one in listed] == [
        ("sums", 1, ["counter"]), ("menu", 3, ["counter"]),
    ]  # fmt: skip
    assert [(one["mode"], one["unmatched"]) for one in listed] == [("all", ["counter/ad"]), ("menu", [])]
    assert "counter/ad" in table
