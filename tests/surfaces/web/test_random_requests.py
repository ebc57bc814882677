"""Random requests to every page and action of the table: each has an answer that a person can read.

Names of fields are those that the screens read, so a new screen is tried without an entry here.
"""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.surfaces.web.held import holding
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_attacks import ATTACKS

import maitred
from maitred.access.tokens import TokenRequest
from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, ROLES, Grant, Scope
from maitred.model.tools import ToolCall
from maitred.surfaces.web.app import HEADERS
from maitred.surfaces.web.screens import SCREENS

pytestmark = pytest.mark.anyio

_SOURCE = Path(maitred.__file__).parent
_NAMED = re.compile(
    r'\.(?:text|raw|number|every)\(\s*"(\w+)"|(?:name=|choice\("[^"]*", |field\("[^"]*", )"(\w+)"'
)
"""The name of a field, where Python reads it and where a template has it."""
FIELDS = sorted(
    {
        one or other
        for file in (_SOURCE / "surfaces" / "web").rglob("*.*")
        if file.suffix in (".py", ".html")
        for one, other in _NAMED.findall(file.read_text(encoding="utf-8"))
    }
    - {"form_token"}
)
"""The fields of forms and queries that some page or action reads."""
PAGES = [page.path for screen in SCREENS for page in screen.pages]
ACTIONS = [action.path for screen in SCREENS for action in screen.actions]
KNOWN = ["shop", "bank", "look", "buy", "shop__look", "refresh", "suspend", "resume", "restart", "approve"]
KNOWN += ["reject", "once", "refuse", "yes", "admin", "agent", "7", "0", "-1", "1e9", "24h", "30d", "failed"]
STRANGE = [
    "",
    "..",
    "%00",
    "\x00",
    "a" * 3_000,
    "9" * 30,
    "[" * 300,
    "{}",
    '{"query": 1}',
    *(text[:1_000] for text in ATTACKS.values()),
]
_PART = re.compile(r"\{(\w+)\}")
_HOLDS = HeldCallSettings(rules=(HoldRule(when='tool == "transfer"', session="any"),))
"""No random request makes this call, which would wait for a person."""
_BOUNDED = settings(max_examples=100, derandomize=True, phases=[Phase.generate])
"""The same requests in each run; the first that fails is not made smaller, which would take minutes."""


@dataclass(frozen=True, kw_only=True)
class RandomRequest:
    """A request by a path of the table; `parts` fill its placeholders."""

    path: str
    parts: tuple[str, ...]
    fields: Mapping[str, str]

    def address(self, examples: Mapping[str, str]) -> str:
        """Where it goes; a part `*` is the example of its placeholder."""
        parts = iter(self.parts)

        def filled(found: re.Match[str]) -> str:
            part = next(parts)
            return quote(examples.get(found[1], "shop") if part == "*" else part, safe="") or "x"

        return "/ui/" + _PART.sub(filled, self.path)


def texts() -> st.SearchStrategy[str]:
    any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    return st.one_of(st.sampled_from(KNOWN), st.sampled_from(STRANGE), any_text)


@st.composite
def requests(draw: st.DrawFn, paths: list[str]) -> RandomRequest:
    path = draw(st.sampled_from(paths))
    parts = tuple(draw(st.one_of(st.just("*"), texts())) for _ in _PART.findall(path))
    names = st.sampled_from([*FIELDS, "arg:item", "back"])
    return RandomRequest(path=path, parts=parts, fields=draw(st.dictionaries(names, texts(), max_size=6)))


@dataclass(kw_only=True, repr=False)
class Target:
    """A gateway, one browser without cookies of its own, and an example of each placeholder."""

    house: House
    client: httpx2.AsyncClient
    examples: Mapping[str, str]

    async def send(
        self,
        method: Literal["GET", "POST"],
        request: RandomRequest,
        *,
        grant: Grant | None = LOCAL_GRANT,
        form_token: str | None = None,
    ) -> httpx2.Response:
        """Send a request in a session of its own; without a token, a form has the right one."""
        headers, fields = {"origin": self.house.url}, dict(request.fields)
        if grant:
            session_id = self.house.web.sessions.begin(grant)
            session = await self.house.web.sessions.find(session_id)
            assert session
            headers["cookie"] = f"maitred_ui_{self.house.url.rpartition(':')[2]}={session_id}"
            fields["form_token"] = session.form_token if form_token is None else form_token
        address = request.address(self.examples)
        if method == "GET":
            fields.pop("form_token", None)
            return await self.client.get(address, params=fields, headers=headers)
        return await self.client.post(address, data=fields, headers=headers)

    async def state(self) -> Any:
        """What forms can change."""
        gateway = self.house.gateway
        return (
            gateway.settings,
            gateway.version,
            [one.id for one in await gateway.held_calls(LOCAL_USER)],
            [(one.id, one.revoked_at) for one in await gateway.access_tokens(LOCAL_USER)],
            [(one.server, one.state, one.digest) for one in await gateway.cases(LOCAL_USER)],
            await gateway.usage_by_server(1, LOCAL_USER),
            sorted(one.name for one in self.house.folder.iterdir() if not one.name.startswith("c.db")),
        )


@pytest.fixture(scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    folder = tmp_path_factory.mktemp("random")
    servers = {"shop": [tool("look"), tool("buy", item={"type": "string"})], "bank": [tool("transfer")]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))  # no form finds files of the person who runs the tests
        async with opened(folder, servers, held_calls=_HOLDS) as house:
            token = await house.gateway.make_token(
                TokenRequest(name="ci", role="agent", scope=Scope()), LOCAL_USER
            )
            await house.change("shop", tool("look", "Looks elsewhere."), tool("buy", item={"type": "string"}))
            async with holding(house, ToolCall(name="bank__transfer", arguments={"item": "x"})) as held:
                examples = {"server": "shop", "tool": "look", "token": token.record.id, "id": held.id}
                yield Target(house=house, client=house.stranger(), examples=examples)


def check(answer: httpx2.Response) -> None:
    """An answer is no fault of ours, says nothing of our insides, and keeps what protects the pages."""
    about = f"{answer.request.method} {answer.request.url}: {answer.status_code}"
    assert answer.status_code < 500, about
    assert "Traceback (most recent" not in answer.text, about
    assert str(_SOURCE) not in answer.text, about
    for name, value in HEADERS.items():
        assert answer.headers.get(name) == value, (about, name)


@given(request=requests(PAGES), role=st.sampled_from(ROLES))
@_BOUNDED
async def test_a_page_has_an_answer_for_every_query(
    target: Target, request: RandomRequest, role: str
) -> None:
    """Whatever is in its address, and whoever asks."""
    grant = LOCAL_GRANT if role == "admin" else Grant(principal="x", role=role)  # type: ignore[arg-type]
    answer = await target.send("GET", request, grant=grant)
    check(answer)
    assert answer.status_code in (200, 303, 400, 403, 404, 409)


@given(request=requests(ACTIONS), form_token=st.one_of(st.just(""), texts()), entered=st.booleans())
@_BOUNDED
async def test_without_the_token_of_its_session_a_form_changes_nothing(
    target: Target, request: RandomRequest, form_token: str, entered: bool
) -> None:
    """Nor without a session; 303 is the way to the form where a person enters."""
    before = await target.state()
    grant = LOCAL_GRANT if entered else None
    answer = await target.send("POST", request, grant=grant, form_token=form_token)
    check(answer)
    assert answer.status_code in ((403, 404, 405) if entered else (303, 404, 405))
    assert await target.state() == before


@given(request=requests([*ACTIONS, "leave"]))
@_BOUNDED
async def test_an_action_has_an_answer_for_every_form(target: Target, request: RandomRequest) -> None:
    """A form leads to one of our pages, which says what was done or why nothing was."""
    answer = await target.send("POST", request)
    check(answer)
    assert answer.status_code in (303, 400, 403, 404, 405, 409, 413, 422)
    if answer.status_code == 303:
        assert answer.headers["location"].startswith("/ui/")


@given(fields=st.dictionaries(st.sampled_from(["token", "next", "as"]), texts()))
@_BOUNDED
async def test_who_enters_with_a_random_token_does_not(target: Target, fields: Mapping[str, str]) -> None:
    asked = {"token": "", **fields}
    if asked.get("as") == "local":
        del asked["as"]
    headers = {"origin": target.house.url}
    answer = await target.client.post("/ui/enter", data=asked, headers=headers)
    check(answer)
    assert answer.status_code in (403, 422)
    assert "set-cookie" not in answer.headers


def test_the_fields_are_those_of_the_screens() -> None:
    """Else the tests above would try little."""
    assert {"q", "server", "digest", "read", "whole", "set", "expires", "span"} <= set(FIELDS)
    assert len(ACTIONS) >= 9
