"""What every transport owes its callers besides tools, in each protocol era that it can speak."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.backends.honest_server import PROMPTS, TEMPLATE, URIS
from tests.backends.rig import (
    HONEST,
    LONG_S,
    RESOLVE,
    SOON_S,
    Heard,
    HttpServer,
    call,
    http_server,
    options,
    stdio,
)
from tests.backends.subject import Subject
from tests.support.real_servers import require

from maitred.backends.base import NOT_ASKED, Connection, Notice
from maitred.backends.http import HttpBackend
from maitred.backends.process import Warden
from maitred.calls.subscriptions import Subscriptions
from maitred.config.settings import Limits
from maitred.errors import ProtocolError, ServerError
from maitred.model.servers import EraChoice, ServerSpec

pytestmark = pytest.mark.anyio

Kill = Callable[[], Awaitable[None]]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which connections outlive tests."""
    return "asyncio"


async def use(connection: Connection, tool: str, **arguments: Any) -> None:
    await connection.call_tool(tool, call(tool, **arguments), timeout_s=SOON_S, caller=NOT_ASKED)


async def test_everything_that_is_offered_is_listed_over_all_pages(subject: Subject) -> None:
    async with subject.open() as connection:
        found = await connection.list_offers()
        declared = (connection.completes, connection.subscribes)
    assert declared == (True, True)
    assert found.notes == ()
    keys = [(offer.key.kind, offer.key.key) for offer in found.offers]
    assert keys == [
        *(("resource", uri) for uri in URIS),
        ("template", TEMPLATE),
        *(("prompt", name) for name in PROMPTS),
    ]
    definitions = {offer.key.key: offer.definition for offer in found.offers}
    assert definitions[URIS[0]] == {
        "uri": URIS[0],
        "name": "note 1",
        "description": "An honest note.",
        "mimeType": "text/plain",
    }
    assert definitions["greet"]["arguments"] == [{"name": "who", "required": True}]


async def test_resources_prompts_and_completions_are_relayed(subject: Subject) -> None:
    completing = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "Al"}}
    async with subject.open() as connection:
        read = await connection.request(
            "resources/read", {"uri": URIS[1]}, timeout_s=SOON_S, caller=NOT_ASKED
        )
        given = {"name": "greet", "arguments": {"who": "Ada"}}
        got = await connection.request("prompts/get", given, timeout_s=SOON_S, caller=NOT_ASKED)
        completed = await connection.request(
            "completion/complete", completing, timeout_s=SOON_S, caller=NOT_ASKED
        )
    assert [content["text"] for content in read["contents"]] == ["the note 2"]
    assert got["messages"][0]["content"]["text"] == "greet Ada"
    assert completed["completion"]["values"] == ["Alan"]


async def test_an_unknown_resource_is_refused_with_the_code_of_the_era(subject: Subject) -> None:
    """Source: https://modelcontextprotocol.io/specification, resources, error handling."""
    async with subject.open() as connection:
        with pytest.raises(ProtocolError) as caught:
            await connection.request(
                "resources/read", {"uri": "note:///9"}, timeout_s=SOON_S, caller=NOT_ASKED
            )
    assert caught.value.rpc_code == (-32602 if subject.era == "stateless" else -32002)
    assert caught.value.data == {"uri": "note:///9"}


async def test_a_change_of_any_list_is_noticed(subject: Subject) -> None:
    subject.heard = Heard()
    async with subject.open() as connection:
        for kind, times in (("tools", 1), ("resources", 1), ("prompts", 2)):
            await use(connection, "announce", list=kind)
            await subject.heard.until("tools" if kind == "tools" else "offers", times=times)


async def test_a_subscribed_resource_that_changes_is_told_and_no_other(subject: Subject) -> None:
    subject.heard = Heard()
    async with subject.open() as connection, connection.subscribe(URIS[0]), connection.subscribe(URIS[1]):
        for uri in (URIS[2], URIS[0], URIS[1]):
            await use(connection, "touch", uri=uri)
        await subject.heard.until(URIS[0])
        await subject.heard.until(URIS[1])
    assert {what for what in subject.heard.all if what in URIS} == {URIS[0], URIS[1]}


# --- servers that are started again -------------------------------------------------------------------------


@asynccontextmanager
async def mortal(transport: str, era: EraChoice) -> AsyncIterator[tuple[Subject, Kill]]:
    """A server of its own, and what kills it and has it start again."""
    warden = Warden()
    spec = ServerSpec(name=Subject.name, command=sys.executable, args=(str(HONEST), "stdio"))
    subject = Subject(lambda: stdio(spec, warden), era)

    async def kill_process() -> None:
        pid = subject.pool.health()[Subject.name].pid
        assert pid
        os.kill(pid, signal.SIGKILL)

    async with subject.pool as pool:
        if transport == "stdio":
            await pool.configure({spec.name: spec}, {spec.name: era})
            yield subject, kill_process
        else:
            with http_server(transport) as server:
                await _at(subject, server, transport, era)
                yield subject, lambda: _restart(subject, server)
    warden.close()


async def _at(subject: Subject, server: HttpServer, transport: str, era: EraChoice) -> None:
    spec = ServerSpec(name=Subject.name, transport=transport, url=server.url)
    subject.make = lambda: HttpBackend(spec, resolve=RESOLVE, limits=Limits())
    subject.pool._make = lambda _: subject.make()
    await subject.pool.configure({spec.name: spec}, {spec.name: era})


async def _restart(subject: Subject, server: HttpServer) -> None:
    """Start it anew; a call finds out that the new one knows no session of the old one."""
    server.kill()
    server.start()
    async with subject.open() as connection:
        try:
            await use(connection, "echo", text="still there?")
        except ServerError:
            return


@pytest.mark.parametrize(
    ("transport", "era"),
    [
        ("stdio", "handshake"),
        ("stdio", "stateless"),
        ("http", "handshake"),
        ("http", "stateless"),
        ("sse", "handshake"),
    ],
)
async def test_a_subscription_survives_the_restart_of_its_server(transport: str, era: EraChoice) -> None:
    """The resource counts as updated once, because something may have been missed."""
    missed = Heard()
    with anyio.fail_after(120):
        async with (
            mortal(transport, era) as (subject, restart),
            Subscriptions(subject.pool, on_updated=lambda *what: missed(what)) as subscriptions,
        ):
            await subscriptions.add(subject.name, URIS[0])
            async with subject.open() as connection:
                await use(connection, "touch", uri=URIS[0])
            await subject.heard.until(URIS[0])
            await restart()
            await missed.until((subject.name, URIS[0], ""))
            async with subject.open() as connection:
                await use(connection, "touch", uri=URIS[0])
            await subject.heard.until(URIS[0], times=2)
            subscriptions.remove(subject.name, URIS[0])
    assert missed.all == [(subject.name, URIS[0], "")]


@pytest.mark.real
async def test_the_offers_of_a_real_server_are_listed_read_completed_and_subscribed() -> None:
    """`everything` is the reference server: it has all kinds, and a tool that sends updates."""
    (server,) = require("everything")
    spec = ServerSpec(name="everything", command=str(server.program))
    heard, warden = Heard(), Warden()
    department = {"name": "department", "value": "Eng"}
    completing = {"ref": {"type": "ref/prompt", "name": "completable-prompt"}, "argument": department}
    async with stdio(spec, warden).connect(options("auto", heard)) as connection:
        with anyio.fail_after(LONG_S):
            found = await connection.list_offers()
            first = next(offer.key.key for offer in found.offers if offer.key.kind == "resource")
            read = await connection.request(
                "resources/read", {"uri": first}, timeout_s=SOON_S, caller=NOT_ASKED
            )
            completed = await connection.request(
                "completion/complete", completing, timeout_s=SOON_S, caller=NOT_ASKED
            )
            async with connection.subscribe(first):
                await use(connection, "toggle-subscriber-updates")
                await heard.until(Notice(kind="updated", uri=first))
    warden.close()
    assert {offer.key.kind for offer in found.offers} == {"resource", "template", "prompt"}
    assert (connection.completes, connection.subscribes, found.notes) == (True, True, ())
    assert read["contents"][0]["uri"] == first
    assert completed["completion"]["values"] == ["Engineering"]
