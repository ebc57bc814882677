"""An answer of a page that is too long to read at once is kept whole, and read by its address.

Source: issue 19, points 3 and 5; docs/answers.md.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.browser.dialing import ORIGIN, PlayedPage, dialed_house, file_of, played_page
from tests.support.pages import House

from maitred.calls.steps.shorten_answer import MOST_OF_PAGE
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.pages import mark
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio
ROWS = {"rows": [{"number": number, "name": f"The article {number} of the shop"} for number in range(3_000)]}
MARK = mark(ORIGIN)


@asynccontextmanager
async def answering(folder: Path) -> AsyncIterator[tuple[House, PlayedPage]]:
    """A page with one approved tool."""
    async with dialed_house(folder) as one, played_page(file_of(folder), offers=["list"]) as page:
        await one.approve_all(1)
        yield one, page


async def answer_of(
    one: House, page: PlayedPage, value: Any, viewer: Viewer = LOCAL_USER, *, shorten: bool = False
) -> dict[str, Any]:
    """What a caller gets when the page answers with a value."""
    got: list[dict[str, Any]] = []
    [tool] = one.gateway.snapshot.by_server["web"]

    async def call() -> None:
        made = ToolCall(name=tool.name, arguments={})
        got.append(await one.gateway.call(made, viewer=viewer, shorten=shorten))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await page.answer(value)
    return got[0]


@pytest.mark.parametrize("shorten", [False, True], ids=["called by its name", "called by call_tool"])
async def test_the_whole_of_a_long_answer_is_read_at_its_address(tmp_path: Path, shorten: bool) -> None:
    """In pages that each say whose text it is; and searched there."""
    async with answering(tmp_path) as (one, page):
        answer = await answer_of(one, page, ROWS, shorten=shorten)
        [block] = answer["content"]
        assert "structuredContent" not in answer
        assert block["text"].startswith(f"{MARK}\n")
        assert len(block["text"].encode()) <= MOST_OF_PAGE
        [result_id] = re.findall(r"maitred://result/([\w-]+) ", block["text"])
        texts, cursor = list[str](), ""
        while not texts or cursor:
            read = one.gateway.result(result_id, cursor, viewer=LOCAL_USER)
            assert read.text.startswith(f"{MARK}\n")
            texts.append(read.text.removeprefix(f"{MARK}\n"))
            cursor = read.next_cursor
        assert len(texts) > 1
        assert json.loads("".join(texts)) == ROWS
        found = one.gateway.result(result_id, viewer=LOCAL_USER, find="article 2999 ")
        assert found.text.startswith(f"{MARK}\n")


async def test_the_limit_counts_bytes_and_a_person_reads_the_whole(tmp_path: Path) -> None:
    """Thirty thousand characters of Chinese are ninety thousand bytes."""
    async with answering(tmp_path) as (one, page):
        text = "語" * 30_000
        answer = await answer_of(one, page, text)
        assert "maitred://result/" in answer["content"][0]["text"]
        answer = await answer_of(one, page, text, replace(LOCAL_USER, surface="cli"))
        assert answer["content"][0]["text"] == f"{MARK}\n{text}"
        answer = await answer_of(one, page, "語" * 20_000)
        assert answer["content"][0]["text"] == f"{MARK}\n{'語' * 20_000}"


async def test_what_is_there_as_text_and_as_structure_counts_once(tmp_path: Path) -> None:
    """It fits once into what an agent may read, and not twice."""
    value = {"rows": [f"The article {number} of the shop" for number in range(1_600)]}
    async with answering(tmp_path) as (one, page):
        answer = await answer_of(one, page, value, shorten=True)
        assert answer["content"][0]["text"] == f"{MARK}\n{json.dumps(value)}"
        assert answer["structuredContent"]["rows"] == value["rows"]
