"""What a gateway makes of supervision: suspensions that last and are explained, lines of audit, always-on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.backends.rig import faulty, text_of
from tests.gateway.rig import SOON_S, Upstream, settings_of, until
from tests.support.waiting import eventually

from maitred.admission.gatekeeper import Gatekeeper
from maitred.backends import supervision
from maitred.config.settings import Settings, Supervision
from maitred.errors import ConfigError, ConnectionLostError, StoreError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.gateway.configure import Configuration
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec, State
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

HINT = "was suspended by supervisor (`maitred resume faulty` ends that): it had to be started again"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between starts are what other tests are about."""
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.01)


def dying(folder: Path, mode: str = "die-in-call", **fields: object) -> Settings:
    """Settings for a server that may be started again once."""
    spec = replace(faulty(mode), **fields)  # type: ignore[arg-type]  # as given
    return replace(settings_of(folder, supervision=Supervision(restarts=1)), servers={spec.name: spec})


@asynccontextmanager
async def serving(settings: Settings, *upstreams: Upstream) -> AsyncIterator[Gateway]:
    """A gateway that is there to stay, and has got to know what it can."""
    servers = {upstream.name: upstream.sdk() for upstream in upstreams}
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(settings, in_process=servers, serves=True) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def call(gateway: Gateway, name: str, **arguments: str) -> str:
    answer = await gateway.call(ToolCall(name=f"faulty__{name}", arguments=arguments), viewer=LOCAL_USER)
    return text_of(answer)


async def wear_out(gateway: Gateway) -> None:
    """Have the server end once more than it may be started again."""
    for _ in range(2):
        with pytest.raises(ConnectionLostError):
            await call(gateway, "fault")
    await until(gateway, lambda: HINT in gateway.servers(LOCAL_USER)[0].withheld)


async def test_a_server_that_ended_too_often_is_suspended_explained_and_resumed(tmp_path: Path) -> None:
    """Its tools leave the lists, calls and searches say why and what to do; a person brings it back."""
    shown: list[int] = []
    async with serving(dying(tmp_path)) as gateway:
        gateway.listen(
            lists=lambda: shown.append(len(gateway.visible_tools(LOCAL_USER))), resource=lambda *_: None
        )
        await wear_out(gateway)
        assert shown[-1] == 0
        [status] = gateway.servers(LOCAL_USER)
        told = status.to_json()
        assert (told["state"], told["ended"], told["restarts"]) == ("suspended", "exit", 1)
        assert told["since"]
        assert told["last_error"].startswith("it exited with code 3")
        with pytest.raises(ToolWithheldError, match="`maitred resume faulty` ends that"):
            await call(gateway, "echo", text="x")
        found = await gateway.search(["echo a text"], viewer=LOCAL_USER)
        assert "was suspended by supervisor (`maitred resume faulty` ends that)" in found.text

        case = await gateway.case("faulty", viewer=LOCAL_USER)
        assert (case.state, case.log[-1].kind, case.log[-1].who) == ("suspended", "suspended", "supervisor")
        assert "it exited with code 3" in case.log[-1].why
        lines = (await gateway.audit_lines(LOCAL_USER, who="supervisor")).lines
        assert [(line["action"], line["server"]) for line in lines] == [
            ("suspend", "faulty"),
            ("restart", "faulty"),
        ]
        assert lines[1]["detail"].startswith("exit: it exited with code 3")

        await gateway.decide("faulty", "resume", viewer=LOCAL_USER, why="mended")
        assert gateway.servers(LOCAL_USER)[0].withheld == ""
        assert shown[-1] == 2
        assert await call(gateway, "echo", text="back") == "back"


async def test_a_server_that_was_suspended_and_resumed_before_anybody_looked_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several gateways may give up the same server; one resumption is one for all of them."""
    settings, take, broken = dying(tmp_path), Configuration._take, True

    async def taken(self: Configuration, written: Settings) -> None:
        if broken and self is gateway._configuring:
            raise ConfigError("overrides.yaml", ["line 1: broken"])
        await take(self, written)

    async with serving(settings) as gateway:
        monkeypatch.setattr(Configuration, "_take", taken)
        for _ in range(2):
            with pytest.raises(ConnectionLostError):
                await call(gateway, "fault")
        with anyio.fail_after(SOON_S):
            while (await gateway.case("faulty", viewer=LOCAL_USER)).state != "suspended":  # noqa: ASYNC110  # nobody is told
                await anyio.sleep(0.01)
        async with open_gateway(settings) as other:
            await other.decide("faulty", "resume", viewer=LOCAL_USER)
        broken = False
        await gateway.configure(settings, viewer=LOCAL_USER)
        assert gateway.servers(LOCAL_USER)[0].withheld == ""
        assert await call(gateway, "echo", text="back") == "back"


async def test_a_server_that_failed_and_is_started_for_the_next_call_is_well(tmp_path: Path) -> None:
    """A probe that found it ill would have it restarted, or left out, though every call is answered."""
    async with serving(dying(tmp_path)) as gateway:
        with pytest.raises(ConnectionLostError):
            await call(gateway, "fault")
        await eventually(lambda: gateway.servers(LOCAL_USER)[0].health.state is State.FAILED)
        [status] = gateway.servers(LOCAL_USER)
        assert status.unwell == ""
        assert replace(status, spec=replace(status.spec, start="always")).unwell.startswith("it exited")
        assert replace(status, health=replace(status.health, retry_in_s=4.0)).unwell.startswith("it exited")


async def test_a_suspension_outlives_the_gateway(tmp_path: Path) -> None:
    """It stands in the log, not in the memory of one process."""
    settings = dying(tmp_path)
    async with serving(settings) as gateway:
        await wear_out(gateway)
    async with serving(settings) as gateway:
        assert HINT in gateway.servers(LOCAL_USER)[0].withheld
        assert gateway.servers(LOCAL_USER)[0].health.starts == 0
        with pytest.raises(ToolWithheldError):
            await call(gateway, "echo", text="x")


async def test_a_server_that_never_got_as_far_as_a_list_is_suspended_all_the_same(tmp_path: Path) -> None:
    """The log of a server of the configuration begins with its first list, or with this."""
    async with serving(dying(tmp_path, "exit-at-start", start="always")) as gateway:
        await until(gateway, lambda: HINT in gateway.servers(LOCAL_USER)[0].withheld)
        case = await gateway.case("faulty", viewer=LOCAL_USER)
        assert [event.kind for event in case.log] == ["registered", "auto_approved", "suspended"]
        assert "API_KEY is not set" in case.log[-1].why
        await gateway.decide("faulty", "resume", viewer=LOCAL_USER)
        await until(gateway, lambda: HINT in gateway.servers(LOCAL_USER)[0].withheld)


async def test_a_suspension_that_cannot_be_written_down_holds_here_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is left alone at once; what is written is for everybody else."""
    monkeypatch.setattr("maitred.gateway.suspensions._AGAIN_S", 0.0)
    written, full = Gatekeeper.suspend, True

    async def suspend(self: Gatekeeper, spec: ServerSpec, *, who: str, why: str) -> bool:
        if full:
            await anyio.lowlevel.checkpoint()
            raise StoreError("c.db", "the disk is full")
        return await written(self, spec, who=who, why=why)

    monkeypatch.setattr(Gatekeeper, "suspend", suspend)
    async with serving(dying(tmp_path)) as gateway:
        for _ in range(2):
            with pytest.raises(ConnectionLostError):
                await call(gateway, "fault")
        await until(gateway, lambda: gateway.servers(LOCAL_USER)[0].health.state is State.SUSPENDED)
        assert gateway.servers(LOCAL_USER)[0].withheld.startswith("suspended: it had to be started again")
        assert gateway.visible_tools(LOCAL_USER) == []
        full = False
        await until(gateway, lambda: HINT in gateway.servers(LOCAL_USER)[0].withheld)


async def test_servers_that_run_always_are_started_by_a_gateway_that_serves_and_by_no_other(
    tmp_path: Path,
) -> None:
    """A command that lists tools starts nothing that is known; an edit of the file is followed."""
    settings = settings_of(tmp_path, "s")
    always = replace(settings, servers={"s": replace(settings.servers["s"], start="always")})
    upstream = Upstream("s", {"a": "Do."})
    async with serving(settings, upstream):
        pass
    upstream.starts = 0
    async with open_gateway(always, in_process={"s": upstream.sdk()}):
        pass
    assert upstream.starts == 0
    async with serving(settings, upstream) as gateway:
        await gateway.configure(always, viewer=LOCAL_USER)
        await ready(gateway)
        assert upstream.starts == 1
        await gateway.decide("s", "suspend", viewer=LOCAL_USER)
        assert gateway.servers(LOCAL_USER)[0].health.state is State.SUSPENDED
        await gateway.decide("s", "resume", viewer=LOCAL_USER)
        await ready(gateway)
        assert upstream.starts == 2


async def ready(gateway: Gateway) -> None:
    """Wait until the only server runs."""
    changed = anyio.Event()
    gateway.listen(lists=lambda: None, resource=lambda *_: changed.set())
    with anyio.fail_after(SOON_S):
        while gateway.servers(LOCAL_USER)[0].health.state is not State.READY:
            await changed.wait()
            changed = anyio.Event()
