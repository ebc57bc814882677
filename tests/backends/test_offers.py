"""Resources, templates and prompts as servers list them: all pages, what is left out, what is mended."""

from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import METHOD_NOT_FOUND
from tests.backends.scripted import DISCOVERED, HANDSHAKE, Answer, Json, Script, refusal

from maitred.backends.base import NOT_ASKED, Connection, ServerOffers
from maitred.backends.listing import LISTS, read_offers
from maitred.config.settings import Limits
from maitred.errors import CallTimeoutError, ProtocolError
from maitred.model.resources import Offer, OfferKind

pytestmark = pytest.mark.anyio

DECLARED: Json = {"tools": {}, "resources": {}, "prompts": {}}
EMPTY: dict[str, Answer] = {
    "resources_list": {"resources": []},
    "prompts_list": {"prompts": []},
}
READ = {listed.kind: listed for listed in LISTS}


def declaring(capabilities: Json, **answers: Answer) -> Script:
    script = Script(initialize=HANDSHAKE | {"capabilities": capabilities}, **(EMPTY | answers))
    script.answers["resources/templates/list"] = answers.get("templates", refusal(METHOD_NOT_FOUND))
    return script


async def offers(script: Script, **fields: Any) -> ServerOffers:
    async with script.open("handshake", **fields) as connection:
        return await connection.list_offers()


def keys(found: ServerOffers) -> list[tuple[str, str]]:
    return [(offer.key.kind, offer.key.key) for offer in found.offers]


def pages(field: str, *entries: Json) -> Callable[[Json], Json]:
    """One entry a page."""

    def answer(message: Json) -> Json:
        at = int(message["params"].get("cursor", 0)) if "params" in message else 0
        more = {"nextCursor": str(at + 1)} if at + 1 < len(entries) else {}
        return {field: [entries[at]], **more}

    return answer


async def test_every_page_of_every_declared_list_is_read() -> None:
    """Each offer comes under the key it has at its server; the catalog gives it its name."""
    script = declaring(
        DECLARED,
        resources_list=pages("resources", {"uri": "a:1"}, {"uri": "a:2"}, {"uri": "a:3"}),
        templates=pages("resourceTemplates", {"uriTemplate": "a:{n}"}),
        prompts_list=pages("prompts", {"name": "p"}, {"name": "q"}),
    )
    found = await offers(script)
    resources = [("resource", "a:1"), ("resource", "a:2"), ("resource", "a:3")]
    assert keys(found) == [*resources, ("template", "a:{n}"), ("prompt", "p"), ("prompt", "q")]
    assert {offer.name for offer in found.offers} == {""}
    assert {offer.server for offer in found.offers} == {"scripted"}
    assert found.notes == ()


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_list_that_the_server_did_not_declare_is_not_asked_for(era: str) -> None:
    """Servers answer such a request in ways of their own, some by ending."""
    script = Script(initialize=HANDSHAKE, server_discover=DISCOVERED)
    async with script.open("handshake" if era == "handshake" else "stateless") as connection:
        assert await connection.list_offers() == ServerOffers(offers=[])
        assert not connection.completes
        assert not connection.subscribes
    assert not [method for method in script.methods if method.endswith("/list")]


async def test_a_list_that_is_declared_and_then_refused_gives_a_note_and_keeps_the_others() -> None:
    script = declaring(
        DECLARED,
        resources_list=refusal(METHOD_NOT_FOUND, "Method not found"),
        templates=refusal(-32603, "the database is locked"),
        prompts_list={"prompts": [{"name": "p"}]},
    )
    found = await offers(script)
    assert keys(found) == [("prompt", "p")]
    assert found.notes == (
        f"resources/list failed with error {METHOD_NOT_FOUND}: Method not found",
        "resources/templates/list failed with error -32603: the database is locked",
    )


async def test_a_server_without_templates_is_nothing_to_note() -> None:
    """No capability promises templates, so the refusal is an honest answer."""
    found = await offers(declaring({"resources": {}}, resources_list={"resources": [{"uri": "a:1"}]}))
    assert (keys(found), found.notes) == ([("resource", "a:1")], ())


async def test_pages_that_never_end_are_read_up_to_the_repetition() -> None:
    endless = declaring({"prompts": {}}, prompts_list={"prompts": [{"name": "p"}], "nextCursor": "again"})
    found = await offers(endless)
    assert keys(found) == [("prompt", "p")]
    assert found.notes == (
        "prompts/list pages never end; only the pages up to the repetition are used",
        "prompt 'p' is listed twice; only the first can be used",
    )


async def test_more_offers_than_the_limit_are_left_out_with_a_note() -> None:
    many = [{"name": str(number)} for number in range(5)]
    script = declaring({"prompts": {}}, prompts_list=pages("prompts", *many))
    found = await offers(script, limits=Limits(max_tools=3))
    assert [key for _, key in keys(found)] == ["0", "1", "2"]
    assert found.notes == ("more than 3 prompts; the rest is left out (limits.max_tools)",)


async def test_a_list_that_never_comes_costs_a_note_and_not_what_was_listed_before() -> None:
    script = declaring(DECLARED, resources_list={"resources": [{"uri": "a:1"}]}, prompts_list=lambda _: None)
    found = await offers(script, list_s=0.1)
    assert keys(found) == [("resource", "a:1")]
    assert found.notes == ("prompts/list took longer than 0.1 s; left out",)


async def test_a_server_that_ends_while_it_is_asked_gives_notes() -> None:
    script = declaring(DECLARED)

    def end(_: Json) -> None:
        script.channel.close("it exited with code 1")

    script.answers["resources/list"] = end
    found = await offers(script)
    assert keys(found) == []
    assert found.notes[0] == "resources/list failed: it exited with code 1"


def read(kind: OfferKind, *entries: Any) -> tuple[list[Offer], list[str]]:
    return read_offers("s", READ[kind], entries)


@pytest.mark.parametrize(
    "entry", [None, 5, "a:1", {}, {"uri": ""}, {"uri": 7}, {"uri": "a:\ud800"}], ids=ascii
)
def test_an_entry_without_a_usable_key_is_left_out_with_a_note(entry: Any) -> None:
    made, notes = read("resource", entry, {"uri": "a:2"})
    assert [offer.key.key for offer in made] == ["a:2"]
    assert notes == ["an entry of resources/list without a usable uri was left out"]


def test_of_two_resources_with_one_uri_the_first_counts() -> None:
    made, notes = read("resource", {"uri": "a:1", "name": "first"}, {"uri": "a:1", "name": "second"})
    assert [offer.definition["name"] for offer in made] == ["first"]
    assert notes == ["resource 'a:1' is listed twice; only the first can be used"]


def test_texts_lose_what_deceives_a_reader_and_keys_are_kept_to_the_letter() -> None:
    """A URI or name is sent back to the server, so not a character of it may change."""
    hidden = "a\u202eb\u200b"
    resource = {"uri": f"x:{hidden}", "name": hidden, "title": hidden, "description": hidden}
    (made,), _ = read("resource", resource)
    assert made.key.key == f"x:{hidden}"
    assert made.definition == {"uri": f"x:{hidden}", "name": "ab", "title": "ab", "description": "ab"}
    argument = {"name": hidden, "description": hidden, "required": True}
    (made,), _ = read("prompt", {"name": hidden, "title": hidden, "arguments": [argument]})
    assert made.definition == {
        "name": hidden,
        "title": "ab",
        "arguments": [{"name": hidden, "description": "ab", "required": True}],
    }


def test_fields_of_the_wrong_type_and_unknown_ones_are_dropped() -> None:
    """Clients refuse a whole list for one wrong field; a field nobody has heard of would pass unseen."""
    entry = {"uri": "a:1", "title": 5, "size": "big", "annotations": [], "mimeType": None, "novel": [1]}
    (made,), notes = read("resource", entry)
    assert made.definition == {"uri": "a:1", "name": "a:1"}
    assert notes == ["fields of resources/list that the protocol does not have were left out: 'novel'"]
    arguments = [{"name": "x", "required": "yes"}, {"title": "no name"}, "y"]
    (made,), more = read("prompt", {"name": "p", "arguments": arguments})
    assert made.definition == {"name": "p", "arguments": [{"name": "x"}]}
    assert more == []


async def relayed(connection: Connection, method: str, params: Json, timeout_s: float = 5) -> Json:
    return await connection.request(method, params, timeout_s=timeout_s, caller=NOT_ASKED)


async def test_a_relayed_request_and_its_result_are_as_they_came() -> None:
    """But for what belongs to the session of whoever asked, or to an era that this server does not speak."""
    odd = {"contents": [{"novel": 1}], "more": None}
    script = declaring(DECLARED, resources_read=odd)
    given: Json = {
        "uri": "a:1",
        "requestState": "of the new era",
        "_meta": {
            "k": 1,
            "progressToken": 7,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
        },
    }
    async with script.open("handshake") as connection:
        assert await relayed(connection, "resources/read", given) == odd
    assert script.sent[-1]["params"] == {"uri": "a:1", "_meta": {"k": 1}}
    assert len(given["_meta"]) == 4


async def test_a_relayed_request_of_the_new_era_carries_what_the_caller_can_do() -> None:
    """Our own envelope, with the capabilities of who asks: the server may ask that client for input."""
    script = Script(server_discover=DISCOVERED, prompts_get={"messages": []})
    able: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    async with script.open() as connection:
        await relayed(connection, "prompts/get", {"name": "p", "requestState": "s", "_meta": able})
    params = script.sent[-1]["params"]
    assert (params["name"], params["requestState"]) == ("p", "s")
    assert params["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {"elicitation": {}}
    assert params["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "maitred"


async def test_a_relayed_request_fails_as_a_call_does() -> None:
    script = declaring(
        DECLARED, resources_read=refusal(-32002, "no such file", {"uri": "a:9"}), prompts_get=lambda _: None
    )
    async with script.open("handshake") as connection:
        with pytest.raises(ProtocolError) as caught:
            await relayed(connection, "resources/read", {"uri": "a:9"})
        with pytest.raises(CallTimeoutError, match=r"did not answer prompts/get within 0\.1 s"):
            await relayed(connection, "prompts/get", {"name": "p"}, timeout_s=0.1)
    assert (caught.value.rpc_code, caught.value.data) == (-32002, {"uri": "a:9"})
