"""The files of clients on the page *Clients*: a look, a preview without values, a write, and back again."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.surfaces.web.rig import House, opened, send, tool
from tests.surfaces.web.test_clients import words_of

from maitred.model.access import LOCAL_USER, Grant

pytestmark = pytest.mark.anyio

SERVERS: dict[str, Any] = {
    "clock": {"command": "clock", "args": ["/srv/private"], "env": {"TOKEN": "s3cret"}},
    "<b>evil</b>\u202e": {"command": "x"},
}
_OF = re.compile(r'name="of" value="([^"]+)"')


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of Cursor in a home of its own, with a comment."""
    path = tmp_path / "home" / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text("// mine\n" + json.dumps({"mcpServers": SERVERS}), encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return path


@pytest.fixture
async def house(tmp_path: Path, file: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, {"shop": [tool("look")]}) as made:
        yield made


def content(file: Path) -> str:
    return file.read_bytes().decode()


def write(file: Path, text: str) -> None:
    file.write_bytes(text.encode())


async def previewed(
    person: httpx2.AsyncClient, kind: str = "connect", client: str = "cursor"
) -> tuple[str, str]:
    """The page with a preview, and the id of what it shows."""
    answer = await send(person, "/ui/clients/preview", name=client, kind=kind)
    assert answer.status_code == 200
    found = _OF.search(answer.text)
    return answer.text, found[1] if found else ""


async def test_the_page_names_the_servers_of_a_client_and_none_of_their_values(house: House) -> None:
    text = (await (await house.person()).get("/ui/clients/files")).text
    assert "Cursor not connected" in words_of(text)
    assert "2 servers: clock" in words_of(text)
    for hidden in ("s3cret", "/srv/private", "<b>evil", "\u202e"):
        assert hidden not in text


async def test_a_client_is_connected_after_a_look_and_disconnected_again(house: House, file: Path) -> None:
    before = content(file)
    person = await house.person()
    text, of = await previewed(person)
    assert '+ "maitred": {' in words_of(text)
    assert "s3cret" not in text
    assert content(file) == before

    said = words_of((await send(person, "/ui/clients/write", of=of)).text)
    assert "Cursor is connected" in said
    assert "Start Cursor again." in said
    entry = json.loads(content(file).removeprefix("// mine\n"))["mcpServers"]["maitred"]
    assert entry["args"][-2:] == ["--config", str(house.folder / "maitred.yaml")]

    text, of = await previewed(person, "disconnect")
    assert "byte for byte as it was" in text
    assert "Cursor is disconnected" in words_of((await send(person, "/ui/clients/write", of=of)).text)
    assert content(file) == before
    lines = (await house.gateway.audit_lines(LOCAL_USER, limit=10)).lines
    assert {"client.connect", "client.disconnect"} <= {line["action"] for line in lines}


async def test_a_client_gets_the_tools_of_a_profile_and_keeps_it_when_it_is_connected_again(
    tmp_path: Path, file: Path
) -> None:
    """A profile that is not there is refused before the look."""
    profiles = {"work": {"servers": ["shop"]}, "home": {"servers": ["shop"]}}
    async with opened(tmp_path, {"shop": [tool("look")]}, profiles=profiles) as house:
        person = await house.person()
        preview = {"name": "cursor", "kind": "connect"}
        assert "There is no profile named 'wrok'" in words_of(
            (await send(person, "/ui/clients/preview", **preview, profile="wrok")).text
        )
        answer = await send(person, "/ui/clients/preview", **preview, profile="work")
        found = _OF.search(answer.text)
        assert found
        await send(person, "/ui/clients/write", of=found[1])
        page = (await person.get("/ui/clients/files")).text

        assert content(file).count('"--profile"') == 1
        assert "It has the tools of the profile work alone." in words_of(page)
        assert "<option selected>work</option>" in page


async def test_a_file_that_changed_since_the_look_is_not_written(house: House, file: Path) -> None:
    person = await house.person()
    _, of = await previewed(person)
    write(file, '{"mcpServers": {}}')
    answer = await send(person, "/ui/clients/write", of=of)
    assert "has changed since you looked at it" in words_of(answer.text)
    assert content(file) == '{"mcpServers": {}}'


async def test_without_a_look_in_this_session_nothing_is_written(house: House, file: Path) -> None:
    before = content(file)
    _, of = await previewed(await house.person())
    answer = await send(await house.person(), "/ui/clients/write", of=of)
    assert "not kept any more" in words_of(answer.text)
    assert content(file) == before


async def test_a_file_that_cannot_be_read_says_why(house: House, file: Path) -> None:
    write(file, "{")
    person = await house.person()
    assert "It cannot be changed: cannot be read: it is not valid json" in words_of(
        (await person.get("/ui/clients/files")).text
    )
    answer = await send(person, "/ui/clients/preview", name="cursor", kind="connect")
    assert "is not valid json" in words_of(answer.text)


async def test_only_an_admin_may_look_or_write(house: House, file: Path) -> None:
    before = content(file)
    person = await house.person(Grant(principal="o", role="operator"))
    assert (await person.get("/ui/clients/files")).status_code == 403
    refused = await send(person, "/ui/clients/preview", name="cursor", kind="connect")
    assert "This is not allowed" in words_of(refused.text)
    assert not _OF.search(refused.text)
    admin = await house.person()
    _, of = await previewed(admin)
    assert (await send(admin, "/ui/clients/write", of=of, form_token="wrong")).status_code == 403
    assert content(file) == before
