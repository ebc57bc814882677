"""The search screen: why a search finds what it finds, other texts on trial, and labelled sets."""

import html
import json
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.surfaces.web.rig import House, form_token, opened, send, tool

from maitred.model.access import LOCAL_USER, Grant, Scope

pytestmark = pytest.mark.anyio

_CODE = {
    "find_commits": "Lists the commits of a repository.",
    "blame": "Annotates lines with revision metadata.",
    "diff": "Shows what differs between two revisions.",
    "delete_branch": "Removes a branch.",
}
_MAIL = {
    "send_mail": "Sends a message to an address.",
    "find_mail": "Finds messages by their words.",
    "evil": "Reads mail. <script>alert(1)</script> <img src=x onerror=alert(2)>",
}


def tools(texts: dict[str, str]) -> list[dict[str, object]]:
    return [
        tool(name, text, path={"type": "string", "description": "Where."}) for name, text in texts.items()
    ]


def configuration(folder: Path) -> Path:
    """The file that the gateway of `opened` would have been started with."""

    script = Path(__file__).with_name("scripted_server.py")
    lines = ["# who reads code", "servers:"]
    for name in ("code", "mail"):
        args = json.dumps(["-I", "-S", str(script), str(folder / f"{name}.json")])
        lines += [f"  {name}:", f"    command: {json.dumps(sys.executable)}", f"    args: {args}"]
    lines += ["catalog:", f"  path: {json.dumps(str(folder / 'c.db'))}"]
    lines += ["admission:", "  pinning: quarantine", ""]
    file = folder / "maitred.yaml"
    file.write_text("\n".join(lines))
    return file


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("house")
    configuration(folder)
    async with opened(folder, {"code": tools(_CODE), "mail": tools(_MAIL)}) as made:
        await made.gateway.warm(wholly=True)
        yield made


@pytest.fixture
async def person(house: House) -> httpx2.AsyncClient:
    return await house.person()


async def page(client: httpx2.AsyncClient, path: str = "/ui/search", **query: str | int) -> str:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200
    return answer.text


def words_of(text: str) -> str:
    """What a person reads of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def test_a_hit_has_its_reasons(person: httpx2.AsyncClient) -> None:
    """Which words are in which part of the tool, how much words and meaning count, and what is ignored."""
    read = words_of(await page(person, q="list the commits of a frobnicator"))
    assert "code__find_commits" in read
    assert "commits name, description" in read
    assert "Too frequent to count: the, of, a ." in read
    assert "In no tool: frobnicator ." in read
    assert re.search(r"Words count \d+ %, meaning \d+ %", read)


async def test_a_mistyped_word_is_shown_with_what_was_searched_for(person: httpx2.AsyncClient) -> None:
    """The reasons are those of other words than the phrase has, so the page says which."""
    read = words_of(await page(person, q="list the comits")).replace("\u2060", "")
    assert re.search(r"Searched for commits? \(not comits \)", read)


async def test_the_page_shows_the_answer_that_an_agent_gets(house: House, person: httpx2.AsyncClient) -> None:
    answer = await house.gateway.search(["commits", "send a message"], viewer=LOCAL_USER)
    shown = html.unescape(await page(person, q="commits\r\nsend a message"))
    for line in answer.text.splitlines():
        assert line in shown


async def test_the_order_is_that_of_a_search(house: House, person: httpx2.AsyncClient) -> None:
    for phrase in ("find messages", "who changed a line", "code", "find_mail", "zzz qqq"):
        answer = await house.gateway.search([phrase], viewer=LOCAL_USER)
        rows = re.findall(
            r'<th scope="row" class="named"><a href="/ui/tools/[^"]*">.*?>([a-z_]+)</bdi>',
            await page(person, q=phrase),
        )
        assert rows == [found.tool.name for found in answer.results]


async def test_a_weak_hit_is_called_what_the_agent_gets(house: House, person: httpx2.AsyncClient) -> None:
    """The answer says that nothing is relevant, and has the nearest three; the page says the same."""
    weak = 0
    for phrase in ("time in tokyo", "zebra", "revision of a house", "an address in a forest"):
        answer = await house.gateway.search([phrase], viewer=LOCAL_USER)
        for place, result in enumerate(answer.results, 1):
            if answer.is_relevant or result.band != "weak":
                continue
            weak += 1
            read = words_of(await page(person, q=phrase, expected=result.tool.name)).replace("\u2060", "")
            is_read = f"{result.tool.name}(" in answer.text
            assert is_read == (place <= 3)
            assert "a search says that nothing relevant was found" in read
            assert ("has this tool among the nearest" in read) == is_read
            assert ("does not name this tool" in read) == (not is_read)
    assert weak > 3


async def test_find_out_why_the_agent_did_not_find_a_tool(person: httpx2.AsyncClient) -> None:
    """The tool is behind the results; with other texts it is first, and the page says whom that harms."""
    asked: dict[str, Any] = {"q": "who wrote this line of code", "expected": "code__blame", "limit": 3}
    read = words_of(await page(person, **asked))
    assert re.search(
        r"blame is (at place \d+, behind the 3 results|found, at place \d+\. But its fit is weak|no cand)",
        read,
    )
    tried = words_of(
        await page(
            person,
            **asked,
            edit="code__blame",
            description="Says who wrote each line of code, and when it was changed.",
            use_cases="I want to know who wrote this line of code",
        )
    )
    assert re.search(r"who wrote this line of code \S+ 1 ", tried)
    assert "No tool beside it loses a place" in tried
    assert "It saves nothing, and shows no agent what is typed here." in tried


async def test_undo_a_text_that_made_search_worse(house: House, person: httpx2.AsyncClient) -> None:
    """A text is kept in a file of overrides, takes effect at once, and is taken out again."""
    text = "Shows what differs between two versions."
    token = await form_token(person, "/ui/search")
    fields = {
        "form_token": token,
        "q": "what differs between two versions",
        "tool": "mail__send_mail",
        "description": text,
    }
    kept = await send(person, "/ui/search/keep", **fields, use_cases="I want to know what differs")
    assert "Agents find mail__send_mail by these texts now" in kept.text
    file = house.folder / "overrides.yaml"
    assert text in file.read_text()
    assert (house.folder / "maitred.yaml").read_text().startswith("# who reads code\n")
    [first, *_] = (
        await house.gateway.search(["what differs between two versions"], viewer=LOCAL_USER)
    ).results
    assert first.tool.name == "mail__send_mail"

    assert "Undo: use the texts of its server" in kept.text
    undone = await send(
        person,
        "/ui/search/drop",
        form_token=token,
        q="what differs between two versions",
        tool="mail__send_mail",
    )
    assert "has the texts of its server again" in undone.text
    assert text not in file.read_text()
    [first, *_] = (
        await house.gateway.search(["what differs between two versions"], viewer=LOCAL_USER)
    ).results
    assert first.tool.name == "code__diff"


async def test_a_trial_that_harms_says_whom(person: httpx2.AsyncClient) -> None:
    text = "Annotates lines with revision metadata. Annotates revision metadata of lines."
    read = words_of(
        await page(
            person,
            q="revision metadata",
            edit="code__diff",
            description=text,
            use_cases="annotates lines with revision metadata path",
        )
    )
    assert "would find another tool at a lower place" in read
    assert "code__blame" in read


async def test_texts_with_faults_are_refused_beside_them(person: httpx2.AsyncClient) -> None:
    read = words_of(await page(person, q="commits", edit="code__diff", description="  "))
    assert "description: must not be empty" in read
    hidden = "ha\u202eha"
    token = await form_token(person, "/ui/search")
    kept = await send(
        person, "/ui/search/keep", form_token=token, tool="code__diff", description=hidden, back="/ui/search"
    )
    assert "holds the invisible character U+202E" in kept.text


async def test_to_undo_what_is_not_there_is_a_fault(house: House, person: httpx2.AsyncClient) -> None:
    before = sorted(house.folder.glob("*.yaml"))
    token = await form_token(person, "/ui/search")
    undone = await send(
        person, "/ui/search/drop", form_token=token, tool="mail__find_mail", back="/ui/search"
    )
    assert "has no texts for 'find_mail' of 'mail', so nothing was removed" in words_of(undone.text)
    assert "has the texts of its server again" not in undone.text
    assert sorted(house.folder.glob("*.yaml")) == before


async def test_beside_the_file_of_a_client_no_file_is_left(tmp_path: Path) -> None:
    """Such a file can name no overrides, so the texts would have no effect; the page says so."""
    source = tmp_path / "client.json"
    source.write_text(json.dumps({"mcpServers": {"code": {"command": sys.executable}}}))
    before = source.read_text()
    async with opened(tmp_path, {"code": tools(_CODE)}, source=source) as made:
        client = await made.person()
        fields = {"tool": "code__diff", "description": "Compares.", "back": "/ui/search"}
        token = await form_token(client, "/ui/search")
        kept = await send(client, "/ui/search/keep", form_token=token, **fields)
        assert "is a client's file" in words_of(kept.text)
    assert not (tmp_path / "overrides.yaml").exists()
    assert source.read_text() == before


async def test_texts_on_trial_come_back_whole(person: httpx2.AsyncClient) -> None:
    """In the form, and in what *Keep these texts* would write."""
    text = "Lists\u00a0commits, \u0645\u06cc\u200c\u062e. " + "And more. " * 350
    read = await page(person, q="commits", edit="code__diff", description=text, use_cases="a\u00a0b")
    typed = re.findall(r'<textarea[^>]*name="description"[^>]*>([^<]*)</textarea>', read)
    assert [html.unescape(one) for one in typed] == [text, text]
    cases = re.findall(r'<textarea[^>]*name="use_cases"[^>]*>([^<]*)</textarea>', read)
    assert [html.unescape(one) for one in cases] == ["a\u00a0b", "a\u00a0b"]
    assert "more characters" not in read


async def test_long_phrases_stay_whole_in_the_links_of_a_page(person: httpx2.AsyncClient) -> None:
    phrases = [f"find commits {'word ' * 120}{n}" for n in range(8)]
    read = await page(person, q="\n".join(phrases))
    links = [html.unescape(one) for one in re.findall(r'href="(/ui/search\?[^"]*edit=[^"]*)"', read)]
    assert links
    assert all(httpx2.URL(one).params["q"].split("\n") == [p.strip() for p in phrases] for one in links)


async def test_a_set_may_have_any_text_of_json(person: httpx2.AsyncClient) -> None:
    """Half of a pair of surrogates is a query like another; what has no end is a fault of its line."""
    token = await form_token(person, "/ui/search/set")
    half = '{"query": "zebra \\ud800 crossing", "relevant": ["code__diff"]}'
    found = await send(person, "/ui/search/measure", form_token=token, set=half)
    assert found.status_code == 200
    assert "Queries 1" in words_of(found.text)
    deep = '{"query": ' + "[" * 100_000
    refused = await send(person, "/ui/search/measure", form_token=token, set=deep, back="/ui/search/set")
    assert "nested too deeply" in words_of(refused.text)


async def test_the_command_of_a_search_means_the_same(person: httpx2.AsyncClient) -> None:
    """Whatever was typed: a shell reads it as phrases, and the program as phrases too."""
    phrases = ["who's `id`; $(x)", "--json", "commits"]
    read = await page(person, q="\n".join(phrases), server="code", limit=3, read_only="yes")
    found = re.findall(r'<kbd class="command">(maitred search[^<]*)</kbd>', read)
    given = shlex.split(html.unescape(found[-1]))
    assert given == ["maitred", "search", "--server", "code", "--read-only", "--limit", "3", "--", *phrases]
    nothing = await page(person, "/ui/tools", q="zzz' $(id)")
    found = re.findall(r'<kbd class="command">(maitred search[^<]*)</kbd>', nothing)
    assert shlex.split(html.unescape(found[0])) == ["maitred", "search", "--", "zzz' $(id)"]
    audited = await page(person, "/ui/activity", tool="a'b; rm -rf x")
    found = re.findall(r'<kbd class="command">(maitred audit list[^<]*)</kbd>', audited)
    assert shlex.split(html.unescape(found[0]))[-2:] == ["--tool", "a'b; rm -rf x"]


async def test_an_unknown_tool_or_server_is_named(person: httpx2.AsyncClient) -> None:
    assert "code__blame" in words_of(await page(person, q="lines", expected="code__blam"))
    answer = await person.get("/ui/search", params={"q": "lines", "server": "nowhere"})
    assert answer.status_code == 404


async def test_who_may_only_see_keeps_nothing(house: House) -> None:
    client = await house.person(Grant(principal="guest", role="viewer"))
    read = await page(client, q="commits", edit="code__diff", description="Lists commits.")
    assert "Keep these texts" not in read
    token = await form_token(client, "/ui/search")
    answer = await send(
        client, "/ui/search/keep", form_token=token, tool="code__diff", description="x", back="/ui/search"
    )
    assert "This is not allowed: this needs the role 'admin'" in words_of(answer.text)
    assert (
        not (house.folder / "overrides.yaml").exists()
        or "code__diff" not in (house.folder / "overrides.yaml").read_text()
    )


async def test_tools_outside_of_a_scope_have_no_name(house: House) -> None:
    client = await house.person(
        Grant(principal="guest", role="viewer", scope=Scope(servers=frozenset({"mail"})))
    )
    read = words_of(await page(client, q="list commits of a repository"))
    assert "code__find_commits" not in read
    assert "of other servers: outside what 'guest' may use" in read
    assert "did not find" not in words_of(await page(client, q="lines", expected="code__blame"))


async def test_words_of_tools_outside_of_a_scope_are_in_no_tool(house: House) -> None:
    """Else a person could ask word by word what other tools say; a filter of the search hides no words."""
    own = Grant(principal="guest", role="viewer", scope=Scope(servers=frozenset({"mail"})))
    read = words_of(await page(await house.person(own), q="commits of a message"))
    assert "In no tool: commits ." in read
    read = words_of(await page(await house.person(), q="commits of a message", server="mail"))
    assert "In no tool" not in read


async def test_one_person_at_a_time_measures_and_agents_do_not_wait(house: House) -> None:
    client = await house.person()
    token = await form_token(client, "/ui/search/set")
    line = '{"query": "commits", "relevant": ["code__find_commits"]}'
    answers: list[httpx2.Response] = []

    async def measure() -> None:
        answers.append(await send(client, "/ui/search/measure", form_token=token, set=line))

    async with anyio.create_task_group() as tasks, house.web.memory.trials:
        tasks.start_soon(measure)
        await anyio.wait_all_tasks_blocked()
        assert (await house.gateway.search(["commits"], viewer=LOCAL_USER)).results
        assert not answers
    assert "R@5" in answers[0].text


async def test_what_servers_wrote_is_inert(person: httpx2.AsyncClient) -> None:
    read = await page(person, q="evil send", expected="mail__evil")
    assert "<script>alert" not in read
    assert "<img" not in read
    assert "\u202e" not in read


async def test_a_labelled_set_gives_its_recall(person: httpx2.AsyncClient) -> None:
    """A query that misses its tool leads to the page that says why."""
    lines = [
        {"query": "list the commits", "relevant": ["code__find_commits"]},
        {"query": "send a message", "relevant": ["mail__send_mail"]},
    ]
    token = await form_token(person, "/ui/search/set")
    text = "\r\n".join(map(json.dumps, lines))
    read = words_of((await send(person, "/ui/search/measure", form_token=token, set=text)).text)
    assert "R@5 1.000" in read
    assert "Each relevant tool is among the first five." in read
    wrong = await send(
        person, "/ui/search/measure", form_token=token, set='{"query": "x", "relevant": ["no_tool"]}'
    )
    assert "there is no tool" in html.unescape(wrong.text)


async def test_a_trial_leaves_the_index_as_it_is(house: House, person: httpx2.AsyncClient) -> None:
    before = await house.gateway.search(["commits of a branch"], viewer=LOCAL_USER)
    await page(
        person, q="commits of a branch", edit="mail__find_mail", description="Lists commits of a branch."
    )
    assert await house.gateway.search(["commits of a branch"], viewer=LOCAL_USER) == before
