"""Replay: a work session of the audit trail on a time line, and as one file."""

import base64
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.surfaces.web.held import HOLDS_BUYING, holding
from tests.surfaces.web.rig import SOON_S, House, opened, tool
from tests.surfaces.web.test_call import words_of

from maitred.audit.log import AuditEntry, AuditLog
from maitred.config.settings import Audit
from maitred.model.access import LOCAL_USER, Grant
from maitred.model.tools import ToolCall
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio
_SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("house")
    servers = {"shop": [tool("look"), tool("fail")]}
    async with opened(folder, servers, audit=Audit(enabled=True, arguments="full")) as made:
        for name, arguments in (("look", {"q": f"<script>alert(1)</script> \u202e {_SECRET}"}), ("fail", {})):
            await made.gateway.call(ToolCall(name=f"shop__{name}", arguments=arguments), viewer=LOCAL_USER)
        code = 'a = await call_tool("shop__look", {"q": 1})\nreturn a'
        await made.gateway.run_chain(code, viewer=LOCAL_USER)
        yield made


@pytest.fixture
async def page(house: House) -> str:
    client = await house.person()
    with anyio.fail_after(SOON_S):  # acts that only read are written soon after
        while True:
            newest = (await house.gateway.audit_lines(LOCAL_USER, limit=1)).lines
            if newest and newest[0]["action"] == "chain":
                break
            await anyio.sleep(0.02)
    listed = (await client.get("/ui/replay")).text
    found = re.search(r'href="(/ui/replay\?of=\d+)"', listed)
    assert found
    answer: httpx2.Response = await client.get(found[1])
    assert answer.status_code == 200
    return answer.text


async def test_a_work_session_is_on_a_time_line(page: str) -> None:
    """Each act is there once, with its outcome, when it began and how long it took."""
    read = words_of(page)
    assert len(re.findall(r"call shop__look shop", read)) == 2
    assert len(re.findall(r"call shop__fail shop", read)) == 1
    assert "error of the tool call shop__fail" in read
    assert "begun" not in read
    lanes = re.findall(r'<rect class="(fine|failed)" x="([\d.]+)" y="1" width="([\d.]+)"', page)
    assert "failed" in {one for one, _, _ in lanes}
    assert all(0 <= float(left) <= 100 for _, left, _ in lanes)


async def test_the_file_is_whole_masked_and_inert(page: str) -> None:
    found = re.search(r'href="data:text/html;base64,([^"]+)" download="work-session.html"', page)
    assert found
    file = base64.b64decode(found[1]).decode()
    assert "call" in words_of(file)
    assert "default-src 'none'" in file
    assert "<script" not in file
    assert "\u202e" not in file
    for text in (file, page):
        assert _SECRET not in text
    assert not re.search(r"(?:src|href)=", file)


async def test_a_session_that_is_not_there_is_refused(house: House) -> None:
    client = await house.person()
    assert (await client.get("/ui/replay?of=999999")).status_code == 404


async def test_who_may_not_audit_sees_nothing(house: House) -> None:
    client = await house.person(Grant(principal="x", role="operator"))
    assert (await client.get("/ui/replay")).status_code == 403


async def test_a_session_with_a_call_that_waits_for_a_person_can_be_replayed(tmp_path: Path) -> None:
    """Its line has the name of the tool at its server alone."""
    async with (
        opened(tmp_path, {"shop": [tool("buy")]}, held_calls=HOLDS_BUYING) as made,
        holding(made, ToolCall(name="shop__buy", arguments={})),
    ):
        [line, *_] = (await made.gateway.audit_lines(LOCAL_USER)).lines
        answer = await (await made.person()).get(f"/ui/replay?of={line['seq']}")
        assert answer.status_code == 200
        assert "held for a person hold a call for a person buy shop" in words_of(answer.text)


async def test_a_session_of_more_than_a_day_is_replayed_whole(tmp_path: Path) -> None:
    """One act each 20 minutes, without a pause of half an hour; what was before the pause is another one."""
    async with opened(tmp_path, {}) as made:
        path = Path(made.gateway.settings.catalog.path)
        start = datetime(2026, 3, 1, tzinfo=UTC)
        for minutes in (0, *range(60, 60 + 100 * 20, 20)):
            at = start + timedelta(minutes=minutes)
            async with AuditLog(SqliteDatabase(path), clock=lambda at=at: at) as trail:  # type: ignore[misc]
                number = await trail.record(AuditEntry(who="ann", action="call"))
        page = (await (await made.person()).get(f"/ui/replay?of={number}")).text
        assert "100 acts" in words_of(page)
