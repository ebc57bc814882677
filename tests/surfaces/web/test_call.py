"""Calling a tool by a form: the fields of its schema, faults in place, the answer, and commands to copy."""

import html
import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from tests.surfaces.web.rig import House, form_token, opened, send, tool

from maitred.model.access import Grant
from maitred.surfaces.web.call import beginning_of

pytestmark = pytest.mark.anyio

_CHARGE = tool(
    "charge",
    "Charges a card.",
    amount={"type": "integer", "minimum": 1, "description": "In cents."},
    currency={"enum": ["EUR", "USD"]},
    note={"type": "string"},
    quick={"type": "boolean"},
    card={"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]},
)
_CHARGE["inputSchema"] = {**_CHARGE["inputSchema"], "required": ["amount"]}
_NASTY = tool(
    "nasty; rm -rf $HOME '",
    "Adds numbers.",
    **{
        "<b>\u202ex": {
            "type": "string",
            "description": "<script>alert(1)</script>",
            "default": '"><img src=x>',
        }
    },
)


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("house")
    async with opened(
        folder, {"shop": [_CHARGE, tool("fail"), tool("echo", text={"type": "string"}), _NASTY]}
    ) as made:
        yield made


@pytest.fixture
async def person(house: House) -> httpx2.AsyncClient:
    return await house.person()


def words_of(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def call(
    client: httpx2.AsyncClient, path: str = "/ui/call/shop/charge", **fields: str
) -> httpx2.Response:
    typed = {name if name == "whole" else f"arg:{name}": value for name, value in fields.items()}
    return await send(client, path, form_token=await form_token(client, "/ui/call"), **typed)


async def test_the_form_has_the_arguments_of_the_schema(person: httpx2.AsyncClient) -> None:
    """Those that are required come first, with their types and limits."""
    page = (await person.get("/ui/call/shop/charge")).text
    assert re.findall(r'name="arg:(\w+)"', page) == ["amount", "currency", "note", "quick", "card"]
    read = words_of(page)
    assert "amount required integer, at least 1 . In cents." in read
    assert "object , as JSON" in read
    assert '<option value="&#34;EUR&#34;">' in page


async def test_call_a_tool_with_its_arguments(person: httpx2.AsyncClient) -> None:
    """Each value has the type that the schema wants; fields that are left empty are not sent."""
    card = '{"number": "4711"}'
    answer = await call(
        person,
        amount="5",
        currency='"EUR"',
        note="007",
        quick="true",
        card=card,
    )
    sent = {"amount": 5, "currency": "EUR", "note": "007", "quick": True, "card": {"number": "4711"}}
    read = html.unescape(answer.text)
    assert json.dumps(sent) in read
    assert "ok" in words_of(answer.text)
    assert f"maitred call --args {shlex.quote(json.dumps(sent))} -- shop__charge" in words_of(answer.text)
    assert "/api/v1/tools/shop/charge/call" in read


async def test_call_a_tool_with_a_wrong_argument(house: House, person: httpx2.AsyncClient) -> None:
    """The fault is beside its field, what was typed is still there, and the server saw nothing."""
    answer = await call(person, amount="none", note="a long note", card="{}")
    read = words_of(answer.text)
    assert "The arguments do not fit, so the tool was not called." in read
    assert re.search(r'aria-invalid="true"', answer.text)
    assert 'value="none"' in answer.text
    assert 'value="a long note"' in answer.text
    wrong = re.findall(r'class="field-fault" id="([^"]+)">(.*?)</p>', answer.text)
    assert {one for one, _ in wrong} == {"a-1-e", "a-5-e"}
    missing = await call(person, note="x")
    assert "is a required property" in words_of(missing.text)


@pytest.mark.parametrize("text", ["a\u00a0b", "\u0645\u06cc\u200c\u062e", " a ", '<i>"&amp;', "x" * 5_000])
async def test_what_was_typed_comes_back_whole(person: httpx2.AsyncClient, text: str) -> None:
    """To call again sends the same: no character is replaced, and nothing is cut."""
    whole = json.dumps({"amount": 1, "note": text}, ensure_ascii=False)
    answer = await call(person, amount="none", note=text, whole=f"\n{whole}")
    typed = re.search(r'name="arg:note" value="([^"]*)"', answer.text)
    object_typed = re.search(r'<textarea id="f-whole"[^>]*>([^<]*)</textarea>', answer.text)
    assert typed
    assert object_typed
    assert html.unescape(typed[1]) == text
    assert html.unescape(object_typed[1]) == f"\n\n{whole}"  # a browser leaves the first line feed out
    assert "\u200c" not in answer.text


async def test_all_arguments_can_be_one_object(person: httpx2.AsyncClient) -> None:
    answer = await call(person, whole='{"amount": 7}')
    assert '{"amount": 7}' in html.unescape(answer.text)
    for text in ("[1]", "{", "7"):
        assert "All arguments together" in words_of((await call(person, whole=text)).text)


async def test_json_that_cannot_be_read_is_told_beside_its_field(person: httpx2.AsyncClient) -> None:
    """A comma too much was told as "is not of type object", which sent people to the schema."""
    answer = await call(person, amount="1", card='{"number": 1,}')
    read = words_of(answer.text)
    assert "The arguments cannot be read, so the tool was not called." in read
    wrong = re.findall(r'class="field-fault" id="[^"]+">(.*?)</p>', answer.text)
    assert len(wrong) == 1
    assert "this is not JSON" in wrong[0]
    assert '{"number": 1,}' in html.unescape(answer.text)


async def test_json_without_end_is_a_fault_of_the_person(person: httpx2.AsyncClient) -> None:
    """In one field, in all arguments together, and in the text that a server answers with."""
    for deep in ("[" * 100_000, "[" * 300 + "]" * 300):
        in_field = await call(person, amount="1", card=deep)
        assert in_field.status_code == 200
        assert "so the tool was not called" in words_of(in_field.text)
        in_whole = await call(person, whole=f'{{"amount": {deep}}}')
        assert in_whole.status_code == 200
        assert "All arguments together" in words_of(in_whole.text)
        echoed = await call(person, "/ui/call/shop/echo", text=deep)
        assert echoed.status_code == 200
        assert "[[[[" in words_of(echoed.text)


async def test_a_tool_that_fails_says_so(person: httpx2.AsyncClient) -> None:
    answer = await call(person, "/ui/call/shop/fail")
    assert "the tool reports an error" in words_of(answer.text)


async def test_who_may_not_call_hears_why(house: House) -> None:
    client = await house.person(Grant(principal="guest", role="viewer"))
    token = await form_token(client, "/ui/tools")
    answer = await send(client, "/ui/call/shop/charge", form_token=token, **{"arg:amount": "1"})
    assert "This is not allowed" in words_of(answer.text)


async def test_another_session_does_not_see_the_answer(house: House, person: httpx2.AsyncClient) -> None:
    answer = await call(person, amount="31337")
    other = await house.person()
    seen = words_of((await other.get(str(answer.url.copy_with(fragment=None)))).text)
    assert "31337" not in seen
    assert "is not kept any more" in seen


async def test_a_session_keeps_its_last_five_answers_until_it_ends(house: House) -> None:
    """So no person fills the memory of the gateway, and an answer does not outlive who asked."""
    client = await house.person()
    asked = [str((await call(client, amount=str(n))).url.copy_with(fragment=None)) for n in range(1, 7)]
    gone = [url for url in asked if "is not kept any more" in (await client.get(url)).text]
    assert gone == asked[:1]
    cookies = dict(client.cookies)
    [session_id] = cookies.values()
    session = await house.web.sessions.find(session_id)
    assert session
    assert len(session.outcomes) == 5
    await send(client, "/ui/leave")
    assert not session.outcomes
    session.keep_outcome("call", "an answer that came too late")
    assert not session.outcomes


def test_a_large_answer_is_kept_in_part() -> None:
    """Its blocks in their order, as far as there is room, and the beginning of the one that has none."""
    blocks = [{"type": "text", "text": letter * 4_000} for letter in "ab\u00e9"]
    answer = {
        "content": [*blocks, {"type": "image", "data": "A" * 9_000}],
        "structuredContent": {"x": "y" * 9_000},
    }
    kept, is_cut = beginning_of(answer, 10_000)
    assert is_cut
    assert len(json.dumps(kept)) <= 10_000
    assert kept["content"][:2] == blocks[:2]
    assert kept["content"][2]["text"].startswith("\u00e9" * 50)
    assert [one["type"] for one in kept["content"]] == ["text"] * 3
    assert beginning_of(answer) == (answer, False)


async def test_names_of_servers_break_no_line_to_copy(person: httpx2.AsyncClient) -> None:
    """A shell reads each of the commands as one program with its arguments; the page runs nothing of them."""
    page = (await person.get(f"/ui/call/shop/{quote(_NASTY['name'], safe='')}")).text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    lines = re.findall(r'<code class="copy"><bdi>(.*?)</bdi>', page)
    assert len(lines) == 2
    for line in lines:
        program, *rest = shlex.split(html.unescape(line))
        assert program in ("maitred", "curl")
        assert "rm" not in rest


async def test_the_tools_to_choose_from_are_those_of_the_viewer(
    house: House, person: httpx2.AsyncClient
) -> None:
    read = (await person.get("/ui/call", params={"q": "char"})).text
    assert "/ui/call/shop/charge" in read
    assert "/ui/call/shop/fail" not in read
    assert "Search by meaning" in (await person.get("/ui/call", params={"q": "zzz"})).text
