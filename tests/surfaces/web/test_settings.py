"""The settings screen: the file without its secrets, and a change of one section, seen before it applies."""

import asyncio
import html
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import httpx2
import pytest
from tests.surfaces.web.rig import House, form_token, opened, send, tool

from maitred.access.tokens import TokenRequest
from maitred.config.redaction import SECRETS
from maitred.config.settings import Limits, Settings
from maitred.errors import ConfigError, NotAllowedError
from maitred.gateway import SectionChange
from maitred.gateway.settings_sections import RULES
from maitred.model.access import LOCAL_USER, Grant, Scope, Viewer

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
_LIMITS = "# be patient\nlimits:\n  call_timeout_s: 90   # seconds\n"
_EVIL = "\u202e\u200b<script>alert(1)</script><img src=x onerror=alert(2)>"
_END = "</textarea><script>alert(3)</script>"


class Written:
    """The file of a test."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def mode(self) -> int:
        return self._path.stat().st_mode & 0o777

    def read(self) -> str:
        return self._path.read_text(encoding="utf-8")

    def write(self, text: str) -> None:
        self._path.write_text(text, encoding="utf-8")

    def remove(self) -> None:
        self._path.unlink()


def configuration(folder: Path) -> Path:
    """A file with comments, secrets, and texts that would be code in a page."""
    script = Path(__file__).with_name("scripted_server.py")
    args = json.dumps(["-I", "-S", str(script), str(folder / "shop.json")])
    text = f"""\
# The shop of Ann. {_EVIL}

# the only server
servers:
  shop:
    command: {json.dumps(sys.executable)}
    args: {args}
    # api_key: in-a-remark
    env: {{SHOP_KEY: sk-literal-of-the-shop, SHOP_NAME: "${{SHOP_NAME:-plain-default}}"}}
{_LIMITS}catalog: {{path: {json.dumps(str(folder / "c.db"))}}}
admission: {{pinning: quarantine}}
categories:
  # {_END}
  errands:
    title: "Errands {_EVIL}"
    description: What Ann buys.
tools: {{}}
disclosure:
  # api_key: sk-literal-in-a-remark
  mode: menu
http: {{anonymous: viewer}}
"""
    file = folder / "maitred.yaml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    configuration(tmp_path)
    async with opened(tmp_path, {"shop": [tool("buy", "Buys an item.")]}) as made:
        yield made


@pytest.fixture
def file(house: House) -> Written:
    return Written(house.folder / "maitred.yaml")


@pytest.fixture
async def person(house: House) -> httpx2.AsyncClient:
    return await house.person()


async def page(client: httpx2.AsyncClient, path: str) -> str:
    answer = await client.get(path)
    assert answer.status_code == 200
    return answer.text


def words_of(text: str) -> str:
    """What a person reads of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def hidden(text: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', text)
    return html.unescape(found[1]) if found else ""


def area(text: str) -> str:
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    assert found
    return html.unescape(found[1])


async def compared(client: httpx2.AsyncClient, section: str, text: str, seen: str = "") -> str:
    """The page after *Show the difference*."""
    before = await page(client, f"/ui/settings/{section}")
    fields = {
        "form_token": hidden(before, "form_token"),
        "seen": seen or hidden(before, "seen"),
        "text": text,
    }
    answer = await send(client, f"/ui/settings/{section}/compare", **fields)
    assert answer.status_code == 200
    return answer.text


async def applied(client: httpx2.AsyncClient, section: str, difference: str) -> httpx2.Response:
    """The page after *Apply*."""
    return await send(client, f"/ui/settings/{section}/apply", of=hidden(difference, "of"))


def lines_of(values: Mapping[str, str]) -> str:
    """Keys of a section as lines of its text."""
    return "".join(f"  {key}: {value}\n" for key, value in values.items())


async def acts(house: House) -> Sequence[tuple[str, str, str]]:
    """What the audit trail has of changes of the file, the newest first."""
    request = TokenRequest(name="x", role="viewer", scope=Scope())
    await house.gateway.make_token(request, LOCAL_USER)  # it is written after all that waits
    found = await house.gateway.audit_lines(LOCAL_USER, limit=200)
    return [
        (str(line["who"]), str(line["outcome"]), str(line.get("detail", "")))
        for line in found.lines
        if line["action"] == "settings.apply"
    ]


async def test_the_file_is_shown_with_its_comments_and_without_its_secrets(
    person: httpx2.AsyncClient,
) -> None:
    text = await page(person, "/ui/settings")
    read = words_of(text)
    for shown in ("# the only server", "# be patient", "call_timeout_s: 90 # seconds", "${SHOP_NAME:-***}"):
        assert shown in read
    for secret in ("sk-literal", "plain-default", "in-a-remark"):
        for path in ("", "/servers", "/disclosure", "/limits"):
            assert secret not in html.unescape(await page(person, f"/ui/settings{path}")), path


async def test_each_section_says_whether_it_is_locked_and_why(person: httpx2.AsyncClient) -> None:
    read = words_of(await page(person, "/ui/settings"))
    assert "It says which programs run and which addresses are asked" in read
    assert "maitred add , maitred remove and maitred import change it" in read
    assert "Change limits" in read
    assert "Change servers" not in read
    assert "Add supervision" in read
    assert "Add audit" not in read
    assert "It has what looks like a secret" in read  # disclosure, in a remark


async def test_a_page_says_when_a_change_in_an_editor_counts(person: httpx2.AsyncClient) -> None:
    counts = {"disclosure": "at once,", "catalog": "when it starts again", "http": "when it starts again"}
    for name, when in counts.items():
        assert f"The gateway uses this section {when}" in words_of(await page(person, f"/ui/settings/{name}"))
    assert "at once, but max_message_bytes" in words_of(await page(person, "/ui/settings/limits"))
    read = words_of((await person.get("/ui/settings")).text)
    assert "uses it at once, but for what it reads only when it starts" in read


async def test_a_change_is_seen_then_applied_and_recorded(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    """Comments of the section are as they were typed; the rest of the file is as it was."""
    before = file.read()
    assert area(await page(person, "/ui/settings/limits")) == _LIMITS
    text = "# more patient\nlimits:\n  call_timeout_s: 120   # two minutes\n  idle_stop_s: 60\n"
    difference = await compared(person, "limits", text.replace("\n", "\r\n"))
    assert file.read() == before
    read = words_of(difference)
    assert "removed: - # be patient" in read
    assert "added: + # more patient" in read
    assert "added: + idle_stop_s: 60" in read
    after = await applied(person, "limits", difference)
    assert "The gateway uses the new limits now." in words_of(after.text)
    assert file.read() == before.replace(_LIMITS, text)
    assert file.mode == 0o600
    assert house.gateway.settings.limits.call_timeout_s == 120
    assert await acts(house) == [("local", "ok", "limits: 3 lines added, 2 lines removed")]


async def test_a_section_may_be_added_and_taken_out(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    before = file.read()
    assert area(await page(person, "/ui/settings/supervision")) == "supervision:\n"
    await applied(
        person, "supervision", await compared(person, "supervision", "# often\nsupervision: {failures: 5}")
    )
    assert file.read() == f"{before}# often\nsupervision: {{failures: 5}}\n"
    assert house.gateway.settings.supervision.failures == 5
    await applied(person, "supervision", await compared(person, "supervision", ""))
    assert file.read() == before
    assert house.gateway.settings.supervision.failures == 3


async def test_a_fault_is_shown_with_its_line_and_nothing_can_be_applied(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    before = file.read()
    difference = await compared(person, "limits", "limits:\n  call_timeout_s: 0\n  idle: 5\n")
    line = before.splitlines().index("# be patient") + 2
    read = words_of(difference)
    assert "2 faults: nothing can be applied" in read
    assert f"Line {line}: limits.call_timeout_s: must be more than 0 call_timeout_s: 0" in read
    assert f"Line {line + 1}: limits.idle: is not a known key" in read
    assert "/apply" not in difference
    assert area(difference) == "limits:\n  call_timeout_s: 0\n  idle: 5\n"  # what was typed is not lost
    await applied(person, "limits", difference)
    assert file.read() == before
    assert "while scanning" in words_of(await compared(person, "limits", "limits: 'open\n"))


async def test_an_equal_text_has_nothing_to_apply(person: httpx2.AsyncClient) -> None:
    difference = await compared(person, "limits", _LIMITS)
    assert "This is what the file has already." in words_of(difference)
    assert "/apply" not in difference


async def test_a_file_that_changed_meanwhile_is_not_overwritten(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    """Whether it changed before the difference was shown, or after."""
    seen = hidden(await page(person, "/ui/settings/limits"), "seen")
    difference = await compared(person, "limits", "limits: {call_timeout_s: 5}\n")
    other = file.read() + "\n# another hand\n"
    file.write(other)
    answer = await applied(person, "limits", difference)
    assert "has changed since this page was read" in words_of(answer.text)
    late = await compared(person, "limits", "limits: {call_timeout_s: 5}\n", seen=seen)
    assert "has changed since this page was read" in words_of(late)
    assert "/apply" not in late
    assert file.read() == other
    assert house.gateway.settings.limits.call_timeout_s != 5


@pytest.mark.parametrize("name", sorted(name for name, rule in RULES.items() if rule.locked))
async def test_no_forged_form_writes_a_locked_section(house: House, file: Written, name: str) -> None:
    """The gateway refuses, whatever page the form pretends to come from; the trail has the attempt."""
    before = file.read()
    seen = (await house.gateway.settings_file(LOCAL_USER)).digest
    client = await house.person()
    assert "/compare" not in await page(client, "/ui/settings")
    text = f"{name}: {{}}\n"
    answer = await send(client, f"/ui/settings/{name}/compare", text=text, seen=seen)
    assert f"the section `{name}` is locked here" in words_of(answer.text)
    for method in (house.gateway.compare_settings, house.gateway.apply_settings):
        with pytest.raises(NotAllowedError, match="is locked here"):
            await method(SectionChange(name=name, text=text, seen=seen), LOCAL_USER)
    assert file.read() == before
    assert await acts(house) == [("local", "not_allowed", f"{name} is locked")] * 3


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("limits", "limits: {}\nservers: {x: {command: touch}}\n", "servers: is"),
        ("limits", "limits: {}\naccess: {calls_per_minute: 0}\n", "access: is not a part of `limits`"),
        ("limits", "limits: {max_message_bytes: 99999999}\n", "limits.max_message_bytes: must stay as it is"),
        ("tools", "tools: {}\nheld_calls: {rules: []}\n", "held_calls: is not a part of `tools`"),
        ("visibility", "http: {anonymous: admin}\n", "http: is"),
        ("limits", "limits: {}\n# \x07\n", "control character"),
        ("limits", f"limits: {{}}\n# {'x' * 100_001}\n", "may have 100,000 characters"),
    ],
)
async def test_no_forged_text_reaches_what_is_locked(
    house: House, file: Written, person: httpx2.AsyncClient, name: str, text: str, fault: str
) -> None:
    """Neither another section, nor a key that stays as it is."""
    before = house.gateway.settings
    difference = await compared(person, name, text)
    assert fault in words_of(difference)
    assert "/apply" not in difference
    seen = (await house.gateway.settings_file(LOCAL_USER)).digest
    with pytest.raises(ConfigError, match="fault"):
        await house.gateway.apply_settings(SectionChange(name=name, text=text, seen=seen), LOCAL_USER)
    assert house.gateway.settings is before


async def test_mediation_may_be_changed_but_not_where_texts_and_keys_are_sent(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    there = {
        "llm_provider": "local",
        "url": "http://127.0.0.1:1/v1",
        "model": "m",
        "api_key": "'${MODEL_KEY}'",
    }
    file.write(f"{file.read()}mediation:\n{lines_of(there)}")
    more = lines_of({**there, "rules": "false"})
    assert "/apply" in await compared(person, "mediation", f"mediation:\n{more}")
    for key, value in (
        ("api_key", "'${file:~/.ssh/id_rsa}'"),
        ("url", "https://evil.example/v1"),
        ("overrides", "/etc/passwd"),
        ("model", "dear"),
    ):
        other = lines_of({**there, key: value})
        difference = await compared(person, "mediation", f"mediation:\n{other}")
        assert f"mediation.{key}: must stay as it is" in words_of(difference), key
        assert "/apply" not in difference


async def test_only_an_admin_of_the_whole_gateway_may_read_and_write_it(house: House, file: Written) -> None:
    before = file.read()
    seen = (await house.gateway.settings_file(LOCAL_USER)).digest
    whole, part = Scope(), Scope(servers=frozenset({"shop"}))
    for grant in (
        Grant(principal="v", role="viewer", scope=whole),
        Grant(principal="a", role="agent", scope=whole),
        Grant(principal="o", role="operator", scope=whole),
        Grant(principal="p", role="admin", scope=part),
        Grant(principal="r", role="admin", scope=Scope(read_only=True)),
    ):
        client = await house.person(grant)
        for path in ("/ui/settings", "/ui/settings/limits"):
            assert (await client.get(path)).status_code == 403
        token = await form_token(client)
        fields = {"form_token": token, "text": "limits: {}\n", "seen": seen, "of": "x"}
        answer = await send(client, "/ui/settings/limits/compare", **fields)
        assert "/apply" not in answer.text
        change = SectionChange(name="limits", text="limits: {}\n", seen=seen)
        with pytest.raises(NotAllowedError, match=r"needs the role|part of the catalog|may only read"):
            await house.gateway.apply_settings(change, Viewer(grant=grant))
    assert file.read() == before


async def test_what_was_not_shown_cannot_be_applied(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    """The form to apply has no text: another session, another section and no difference give nothing."""
    before = file.read()
    difference = await compared(person, "limits", "limits: {call_timeout_s: 5}\n")
    other = await house.person()
    for client, section, of in (
        (other, "limits", hidden(difference, "of")),
        (person, "tools", hidden(difference, "of")),
        (person, "limits", "nothing"),
    ):
        answer = await send(client, f"/ui/settings/{section}/apply", of=of, text="limits: {}", seen="x")
        assert "This difference is not kept any more." in words_of(answer.text)
    no_token = await person.post(
        "/ui/settings/limits/apply",
        data={"of": hidden(difference, "of")},
        headers={"origin": str(person.base_url).rstrip("/")},
    )
    assert no_token.status_code == 403
    assert file.read() == before


async def test_hostile_texts_of_the_file_are_inert(person: httpx2.AsyncClient) -> None:
    """In the page and in the form, which sends each character back as it was."""
    for path in ("", "/categories"):
        text = await page(person, f"/ui/settings{path}")
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "\u202e" not in text
        assert "\u200b" not in text
    form = area(await page(person, "/ui/settings/categories"))
    assert _END in form
    assert f'title: "Errands {_EVIL}"' in form
    difference = await compared(person, "categories", form.replace("What Ann buys", "What Ann sells"))
    assert "<script>" not in difference.replace('<script type="module"', "")
    read = words_of(difference)
    assert "added: + description: What Ann sells." in read
    assert read.count("removed: ") == 1


async def test_a_file_with_faults_can_be_mended_and_shows_no_secret(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    text = file.read()
    file.write(text.replace("call_timeout_s: 90", "call_timeout_s: x"))
    read = words_of(await page(person, "/ui/settings"))
    assert "The file has 1 fault" in read
    assert "limits.call_timeout_s: must be a number" in read
    await applied(person, "limits", await compared(person, "limits", _LIMITS))
    assert file.read() == text
    file.write(f"{text}: [\n")
    broken = words_of(await page(person, "/ui/settings"))
    assert "Its text is not shown" in broken
    assert "sk-literal" not in broken
    assert (await person.get("/ui/settings/limits")).status_code == 404
    file.remove()
    assert "the file does not exist" in words_of(await page(person, "/ui/settings"))


async def test_the_file_of_a_client_is_shown_and_not_changed(tmp_path: Path) -> None:
    source = tmp_path / "mcp.json"
    server = {"command": "x", "env": {"A_KEY": "sk-literal", "B": "${B}"}}
    text = f'{{"mcpServers": {{"far": {json.dumps(server)}}}, // of Ann\n "limits": {{}}}}'
    source.write_text(text)
    async with opened(tmp_path, {}, source=source) as house:
        person = await house.person()
        read = words_of(await page(person, "/ui/settings"))
        assert "It is the file of an MCP client" in read
        assert "// of Ann" in read
        assert "${B}" in read
        assert "sk-literal" not in read
        assert 'class="button" href="/ui/settings/' not in await page(person, "/ui/settings")
        seen = (await house.gateway.settings_file(LOCAL_USER)).digest
        change = SectionChange(name="limits", text="limits: {}", seen=seen)
        with pytest.raises(NotAllowedError, match="locked"):
            await house.gateway.apply_settings(change, LOCAL_USER)
        assert source.read_text() == text


async def test_a_change_that_cannot_be_applied_is_taken_back(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    """The file has no fault, but it names another one that is not there: nothing is applied or kept."""
    file.write(f"{file.read()}mediation: {{overrides: gone.yaml}}\n")
    before, settings = file.read(), house.gateway.settings
    difference = await compared(person, "limits", "limits: {call_timeout_s: 5}\n")
    answer = await applied(person, "limits", difference)
    assert "gone.yaml" in words_of(answer.text)
    assert file.read() == before
    assert house.gateway.settings is settings
    assert await acts(house) == [("local", "config_invalid", "limits")]


async def test_of_two_people_who_apply_at_once_one_is_refused(
    house: House, file: Written, person: httpx2.AsyncClient
) -> None:
    other = await house.person()
    first = await compared(person, "limits", "limits: {call_timeout_s: 5}\n")
    second = await compared(other, "limits", "limits: {call_timeout_s: 6}\n")
    answers = await asyncio.gather(applied(person, "limits", first), applied(other, "limits", second))
    read = [words_of(one.text) for one in answers]
    assert sum("The gateway uses the new limits now." in one for one in read) == 1
    assert sum("has changed since" in one for one in read) == 1
    assert f"call_timeout_s: {house.gateway.settings.limits.call_timeout_s:.0f}" in file.read()


async def test_a_short_text_that_stands_for_a_long_one_is_refused(
    person: httpx2.AsyncClient, file: Written
) -> None:
    """An alias of an alias fills the memory when it is read."""
    bomb = "categories:\n  a: &a {words: [x, y]}\n  b: *a\n"
    difference = await compared(person, "categories", bomb)
    assert "has an anchor or an alias" in difference


async def test_what_a_person_wrote_is_not_masked_by_the_secrets_of_the_process(
    person: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which guess is masked would say what the secret is."""
    guess = "sk-ant-0123456789abcdef"
    monkeypatch.setenv("KEY_OF_A_SERVER", guess)
    SECRETS.learn(guess)
    difference = await compared(person, "limits", f"limits:\n  {guess}: 1\n")
    assert guess in difference
    assert "***" not in difference
    difference = await compared(person, "limits", "limits:\n  call_timeout_s: ${KEY_OF_A_SERVER}\n")
    assert guess not in difference
    assert "why is not shown" in difference


def test_every_section_has_a_rule_and_what_counts_at_the_start_only_is_locked() -> None:
    """A new section is decided on when it is made. Source: docs/configuration.md, the first page."""
    assert set(RULES) == {one.name for one in fields(Settings)} - {"source"}
    manual = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    said = re.search(
        r"except for the sections (.*?), the `max_…` limits, (.*?), which are read", manual, re.DOTALL
    )
    assert said
    at_start = re.findall(r"`(\w+)`", said[1])
    assert len(at_start) > 5
    assert [name for name in at_start if not RULES[name].locked] == []
    assert all(RULES[key.partition(".")[0]].locked for key in re.findall(r"`([\w.]+)`", said[2]))
    most = {one.name for one in fields(Limits) if one.name.startswith("max_")}
    assert most == RULES["limits"].fixed
