"""Files of overrides in the gateway: one's own before those of others, checked, cached, and followed."""

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest
from tests.gateway.mediator import POOR, by, described, hearing, poor, replayed
from tests.gateway.rig import SOON_S, Upstream, opened, until

from maitred.config.load import load
from maitred.config.settings import MediationSettings
from maitred.errors import ConfigError
from maitred.model.access import LOCAL_USER
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolKey
from maitred.wiring import follow_settings, open_gateway

pytestmark = pytest.mark.anyio

OWN = "overrides: {poor: {gt_usr: {rename: get_user}}}\n"
THEIRS = (
    "overrides: {poor: {gt_usr: {rename: fetch_user}, del_ord: {rename: delete_order, category: trade}}}\n"
)


class Web:
    """A web server on loopback with one file; `requests` counts how often it was asked for."""

    def __init__(self, listener: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{listener.server_port}/o.yaml"
        self.text = THEIRS
        self.status = 200
        self.requests = 0

    def settings(self, text: str = THEIRS) -> dict[str, str]:
        """The keys of `mediation` that pin a version of it."""
        return {
            "overrides_url": self.url,
            "overrides_checksum": hashlib.sha256(text.encode()).hexdigest(),
        }


@pytest.fixture
def web() -> Iterator[Web]:
    """The server runs until the test ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests += 1
            self.send_response(served.status)
            self.end_headers()
            self.wfile.write(served.text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's signature
            """Tests say what went wrong."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        served = Web(listener)
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            listener.shutdown()
            thread.join()


async def test_ones_own_file_goes_before_that_of_others_tool_by_tool(web: Web, tmp_path: Path) -> None:
    """What only they wrote about holds."""
    (tmp_path / "own.yaml").write_text(OWN)
    settings = poor(tmp_path, overrides="own.yaml", **web.settings())
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        assert set(described(gateway)) == {"poor__get_user", "poor__delete_order", "poor__weather"}
        assert (
            "group:trade" in gateway.find("del_ord", LOCAL_USER).placement.tags
        )  # theirs need not know our categories


async def test_a_file_of_others_is_fetched_once(web: Web, tmp_path: Path) -> None:
    """The copy beside the catalogue serves the next start, whether or not there is a network."""
    settings = poor(tmp_path, **web.settings())
    for status in (200, 500):
        web.status = status
        async with opened(settings, Upstream("poor", POOR)) as gateway:
            assert by(gateway)["gt_usr"] == "overrides"
    assert web.requests == 1
    assert len(list((tmp_path / "overrides").iterdir())) == 1


async def test_another_version_than_the_pinned_one_is_refused(web: Web, tmp_path: Path) -> None:
    """Before anything is opened; the message has both checksums' part in it."""
    with pytest.raises(ConfigError, match="look at what changed before you pin it"):
        async with opened(poor(tmp_path, **web.settings(OWN)), Upstream("poor", POOR)):
            pass


async def test_a_file_that_cannot_be_fetched_keeps_nobody_from_starting(web: Web, tmp_path: Path) -> None:
    """The gateway goes on without it and takes it over when it can be had."""
    web.status = 500
    async with opened(poor(tmp_path, **web.settings()), Upstream("poor", POOR)) as gateway:
        assert set(by(gateway).values()) == {""}
        gateway._mediation.enhancing.pauses_s = (0.01, 0.01)
        web.status = 200
        await gateway.configure(gateway.settings, viewer=LOCAL_USER)
        await until(gateway, lambda: by(gateway)["gt_usr"] == "overrides")


async def test_what_is_missing_is_tried_again_by_itself(web: Web, tmp_path: Path) -> None:
    """After growing pauses; a version that is not the pinned one is told then."""
    web.status = 500
    settings = poor(tmp_path, **web.settings())
    servers = {"poor": Upstream("poor", POOR).sdk()}
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(
            replace(settings, mediation=MediationSettings()), in_process=servers
        ) as gateway:
            assert await gateway.settled(SOON_S)
            gateway._mediation.enhancing.pauses_s = (0.01, 0.01)
            web.text = OWN
            await gateway.configure(settings, viewer=LOCAL_USER)
            with hearing(event="what mediation lacks cannot be used") as told:
                web.status = 200
                await told.wait()
            web.text = THEIRS
            await until(gateway, lambda: by(gateway)["gt_usr"] == "overrides")


async def test_an_override_places_pins_and_says_what_a_tool_is_for(tmp_path: Path) -> None:
    """Below what the operator chose under `tools`, above what the words of the tool say."""
    (tmp_path / "o.yaml").write_text(
        "overrides: {poor: {gt_usr: {category: security, pin: true, tags: [delete],"
        " use_cases: [I want to see who lives here]}, del_ord: {category: security}}}\n"
    )
    tools = {ToolKey(server="poor", name="del_ord"): ToolChoice(category="data")}
    settings = poor(tmp_path, overrides="o.yaml")
    async with opened(replace(settings, tools=tools), Upstream("poor", POOR)) as gateway:
        place = gateway.find("gt_usr", LOCAL_USER).placement
        assert (place.category, place.confidence, place.by) == ("security", 1.0, "mediation")
        assert "function:delete" in place.tags
        assert gateway.find("del_ord", LOCAL_USER).placement.by == "person"
        hot = gateway.hot(LOCAL_USER)
        assert (hot.pinned, hot.tools[0].tool.key.name) == (1, "gt_usr")
        assert (await gateway.search(["who lives here"], viewer=LOCAL_USER)).results[
            0
        ].tool.key.name == "gt_usr"
        await gateway.configure(poor(tmp_path), viewer=LOCAL_USER)
        await until(gateway, lambda: gateway.find("gt_usr", LOCAL_USER).use_cases == ())
        assert gateway.hot(LOCAL_USER).pinned == 0


async def test_unknown_categories_and_tags_are_told_with_their_lines(tmp_path: Path) -> None:
    """In one's own file, and all at once."""
    (tmp_path / "o.yaml").write_text(
        "overrides:\n  poor:\n    gt_usr:\n      category: securty\n      tags: [delet]\n"
    )
    with pytest.raises(ConfigError) as caught:
        async with opened(poor(tmp_path, overrides="o.yaml"), Upstream("poor", POOR)):
            pass
    category, tag = caught.value.faults
    assert category == (
        "line 4: overrides.poor.gt_usr.category: 'securty' is no category; did you mean 'security'?"
    )
    assert tag.startswith("line 5: overrides.poor.gt_usr.tags: tag 'delet' is not in the vocabulary; near it")


async def test_faulty_overrides_change_nothing_of_a_running_gateway(tmp_path: Path) -> None:
    """Neither the servers nor how tools are shown: all of the new settings is refused."""
    (tmp_path / "o.yaml").write_text(OWN)
    settings = poor(tmp_path, overrides="o.yaml")
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        (tmp_path / "o.yaml").write_text("overrides: {poor: {gt_usr: {renam: x}}}\n")
        with pytest.raises(ConfigError, match="did you mean `rename`"):
            await gateway.configure(replace(settings, servers={}), viewer=LOCAL_USER)
        assert gateway.settings is settings
        assert "poor__get_user" in described(gateway)


async def test_a_change_of_the_file_is_followed(tmp_path: Path) -> None:
    """A faulty one is told and not used; another file is followed as well."""
    command, *args = replayed(tmp_path, "poor", {"gt_usr": "gets user"})
    whole = {"servers": {"poor": {"command": command, "args": args}}, "catalog": {"path": "c.db"}}
    (tmp_path / "more").mkdir()
    first, second = tmp_path / "o.yaml", tmp_path / "more" / "o.yaml"
    first.write_text(OWN)
    path = tmp_path / "maitred.yaml"
    path.write_text(json.dumps({**whole, "mediation": {"overrides": "o.yaml"}}))
    settings = load(path)

    with anyio.fail_after(3 * SOON_S):
        async with open_gateway(settings) as gateway, anyio.create_task_group() as tasks:
            assert await gateway.settled(SOON_S)
            tasks.start_soon(follow_settings, gateway, settings)
            await anyio.wait_all_tasks_blocked()
            with hearing(event="the changed configuration is not used") as told:
                first.write_text("overrides: {poor: {gt_usr: {renam: x}}}\n")
                await told.wait()
            assert set(described(gateway)) == {"poor__get_user"}
            first.write_text(OWN.replace("get_user", "read_user"))
            await until(gateway, lambda: "poor__read_user" in described(gateway))
            second.write_text(OWN.replace("get_user", "find_user"))
            with hearing(event="configuration reloaded") as taken:
                path.write_text(json.dumps({**whole, "mediation": {"overrides": "more/../more/o.yaml"}}))
                await taken.wait()
            await until(gateway, lambda: "poor__find_user" in described(gateway))
            await anyio.wait_all_tasks_blocked()
            second.write_text(OWN.replace("get_user", "seek_user"))
            await until(gateway, lambda: "poor__seek_user" in described(gateway))
            tasks.cancel_scope.cancel()
