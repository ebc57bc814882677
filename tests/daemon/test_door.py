"""Who comes to a gateway's socket is served, or shown out, and never gets what is another's."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.daemon.visitors import Place, place_of, stateless
from tests.gateway.debugging import debugging, gateway_of
from tests.support.debugger_server import DebuggerServer

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Disclosure
from maitred.meta_tools.menu import safe_tools
from maitred.model.access import LOCAL_USER, Role, Scope
from maitred.surfaces.daemon.discovery import EndpointQuery, found_now
from maitred.surfaces.daemon.handshake import HERE, PLACE, encode_line
from maitred.surfaces.daemon.sockets import address_of

pytestmark = pytest.mark.anyio

CONNECTED = "debugger__query_elements"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def place(
    anyio_backend: str, counted_here: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    """Before the debugging server, all of whose tools are listed that make sense."""
    settings = debugging(tmp_path_factory.mktemp("place"), disclosure=Disclosure(mode="all"))
    async with gateway_of(settings, DebuggerServer()) as gateway, place_of(gateway) as made:
        yield made


async def token_of(place: Place, role: Role, servers: frozenset[str] | None = None) -> str:
    wanted = TokenRequest(name=f"{role}-{len(servers or ())}", role=role, scope=Scope(servers=servers))
    return (await place.gateway.make_token(wanted, LOCAL_USER)).token


async def test_clients_of_both_eras_are_served_at_one_socket(place: Place) -> None:
    """Each in the era that it opens, and the other is refused on its connection."""
    async with place.client() as old, place.client() as new:
        await old.shake_hands()
        assert await old.tools() <= await new.tools(**stateless())
        assert "error" in await old.ask("tools/list", **stateless())
        assert "error" in await new.ask("initialize", protocolVersion="2025-11-25")


async def test_a_clients_program_learns_which_tools_it_may_call_again(place: Place) -> None:
    """Those of the gateway that it found: the meta-tools that change nothing."""
    query = EndpointQuery(
        address_of(place.gateway.settings.source), {"token": "", "values": dict(place.values)}
    )
    talk = await anyio.to_thread.run_sync(found_now, query)

    assert talk is not None
    talk.close()
    assert talk.safe_tools == set(safe_tools()) >= {"search_tools", "call_read_only_tool"}


async def test_what_one_connection_did_shows_no_other_connection_more(place: Place) -> None:
    """Facts are kept for a connection; a client that leaves takes its own along."""
    async with place.client() as one, place.client() as other:
        await one.shake_hands()
        await other.shake_hands()
        before = await one.tools()
        done = await one.ask("tools/call", name="debugger__chrome_connect", arguments={"connection_id": "a"})
        assert not done["result"]["isError"], done
        assert CONNECTED in await one.tools() - before
        assert await other.tools() == before


async def test_stateless_clients_of_one_gateway_have_states_of_their_own(place: Place) -> None:
    """Each has a wire, so what one did opens nothing for another. Source: issue 8."""
    async with place.client() as one, place.client() as other:
        arguments = {"connection_id": "b"}
        done = await one.ask(
            "tools/call", name="debugger__chrome_connect", arguments=arguments, **stateless()
        )
        assert not done["result"].get("isError"), done
        answers = [
            json.dumps(await client.ask("tools/call", name=CONNECTED, arguments={}, **stateless()))
            for client in (one, other)
        ]

    assert "cannot be called" not in answers[0]
    assert "cannot be called" in answers[1]


async def test_the_bearer_of_a_token_is_served_as_such_in_both_eras(place: Place) -> None:
    """Beside others, who may more."""
    token = await token_of(place, "agent", frozenset())
    async with place.client(token=token) as old, place.client(token=token) as new, place.client() as local:
        for client in (old, local):
            await client.shake_hands()
        assert any(name.startswith("debugger__") for name in await local.tools())
        for client, params in ((old, {}), (new, stateless())):
            assert not any(name.startswith("debugger__") for name in await client.tools(**params))
            refused = await client.ask("tools/call", name="debugger__chrome_connect", arguments={}, **params)
            assert "no access to the server 'debugger'" in json.dumps(refused)


async def test_a_token_that_is_not_valid_is_refused_in_the_words_of_the_command_line(place: Place) -> None:
    async with place.visitor() as visitor:
        answer = await visitor.hello(token="maitred_0123456789_" + 20 * "x")
        assert answer["maitred"] == "refused"
        assert answer["why"].startswith("MAITRED_AS_TOKEN: 1 fault")
        assert await visitor.is_shown_out()


async def test_a_client_whose_token_is_revoked_is_sent_away_and_told_so_if_it_comes_again(
    place: Place,
) -> None:
    """Nothing that it sends is answered any more; who came without a token, or with another, stays."""
    made = await place.gateway.make_token(
        TokenRequest(name="leaver", role="agent", scope=Scope()), LOCAL_USER
    )
    other = await token_of(place, "agent")
    async with place.client(token=made.token) as leaver, place.client(token=other) as client:
        await leaver.shake_hands()
        await client.shake_hands()
        await place.gateway.revoke_tokens(made.record.id, LOCAL_USER)
        while "maitred" not in (last := await leaver.hear()):
            pass
        assert last == {"maitred": "moved"}
        assert await leaver.is_shown_out()
        assert "result" in await client.ask("ping")
    async with place.visitor() as visitor:
        answer = await visitor.hello(token=made.token)
    assert answer["maitred"] == "refused"
    assert "was revoked on" in answer["why"]


@pytest.mark.parametrize("name", ["PATH", "HOME", "https_proxy", "MAITRED_KEY", PLACE])
async def test_who_sees_another_environment_is_sent_elsewhere(place: Place, name: str) -> None:
    """Its servers would have other programs, files or credentials than those of this gateway."""
    async with place.visitor() as visitor:
        assert await visitor.hello(values={**place.values, name: "other"}) == {"maitred": "other"}


async def test_who_differs_in_what_does_not_matter_is_welcome(place: Place) -> None:
    """For instance in its terminal, its folder, or whose bearer it is."""
    async with place.client(values={**place.values, "TERM": "other", HERE: "other", "SECRET": "other"}):
        pass


async def test_a_client_is_sent_elsewhere_when_the_configuration_comes_to_refer_to_what_it_has_otherwise(
    tmp_path: Path, counted_here: None
) -> None:
    """Nothing that it sends from there on is answered; who has the same values stays."""
    settings = debugging(tmp_path)
    async with (
        gateway_of(settings, DebuggerServer()) as gateway,
        place_of(gateway) as place,
        place.client(values={**place.values, "KEY": "other"}) as one,
        place.client() as same,
    ):
        await one.shake_hands()
        await same.shake_hands()
        debugger = replace(settings.servers["debugger"], env={"A": "${KEY:-none}"})
        await gateway.configure(replace(settings, servers={"debugger": debugger}), viewer=LOCAL_USER)
        await one.say({"id": 99, "method": "ping"})
        while "maitred" not in (last := await one.hear()):
            pass
        assert last == {"maitred": "moved"}
        assert await one.is_shown_out()
        assert "result" in await same.ask("ping")


async def test_a_gateway_is_idle_once_its_last_client_has_left(place: Place) -> None:
    """Who only asks how it is is no client."""
    idle = anyio.Event()

    async def wait() -> None:
        await place.door.idle(0.05)
        idle.set()

    async with anyio.create_task_group() as tasks:
        async with place.client() as client:
            tasks.start_soon(wait)
            async with place.visitor() as visitor:
                assert (await visitor.hello("status"))["clients"] == 1
            with anyio.move_on_after(0.3):
                await idle.wait()
            assert not idle.is_set()
            await client.shake_hands()
        with anyio.fail_after(120):
            await idle.wait()


async def test_status_tells_each_what_it_may_watch(place: Place) -> None:
    """A server outside of its scope is not named; without any it is refused."""
    async with place.visitor() as visitor:
        told = await visitor.hello("status")
    assert (told["transport"], told["clients"]) == ("daemon", 0)
    assert told["config"] == str(place.gateway.settings.source)
    [server] = told["servers"]
    assert (server["name"], server["state"], server["desired"]) == ("debugger", "ready", "on_demand")

    for token in (await token_of(place, "operator", frozenset()), await token_of(place, "agent")):
        async with place.visitor() as visitor:
            refused = await visitor.hello("status", token=token)
            assert refused["maitred"] == "refused"
            assert "This is not allowed" in refused["why"]


async def test_only_who_may_configure_stops_a_gateway(place: Place) -> None:
    async with place.visitor() as visitor:
        refused = await visitor.hello("stop", token=await token_of(place, "operator"))
    assert "needs the role 'admin'" in refused["why"]
    assert not place.stop.is_set()
    async with place.visitor() as visitor:
        assert (await visitor.hello("stop"))["maitred"] == "stopping"
        assert place.stop.is_set()


@pytest.mark.parametrize(
    "said", [b"nonsense\n", b"[]\n", encode_line({"maitred": "dance"}), b"{" * 2_000_000 + b"\n"], ids=len
)
async def test_who_says_nothing_sensible_is_shown_out_and_disturbs_nobody(place: Place, said: bytes) -> None:
    async with place.client() as client:
        await client.shake_hands()
        async with place.visitor() as visitor:
            try:
                await visitor.stream.send(said)
                if len(said) < 1_000:
                    assert (await visitor.hear())["maitred"] == "refused"
            except anyio.BrokenResourceError:
                pass
            assert await visitor.is_shown_out()
        assert "result" in await client.ask("ping")
