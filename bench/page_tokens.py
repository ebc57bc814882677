"""What the tools of a page cost an agent: all listed, behind categories, and opened, at a real page.

The page of the tests, `tests/data/pages/console.html`: 50 tools in 3 categories. Tokens are those of the
definitions that a client lists through a gateway. Its table is in `docs/pages.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from tests.support import page_tokens
from tests.support.chromium import browser
from tests.support.web_site import serve_site

from bench.stage import Stage
from bench.values import Failure, Size
from maitred.browser.errors import AttachError
from maitred.browser.executable import find_chrome


@dataclass(frozen=True, kw_only=True)
class PageTokens:
    """The lists of the page; empty if there is no browser."""

    listed: Sequence[page_tokens.ListedPage]
    failures: Sequence[Failure]


def measure(stage: Stage, size: Size) -> PageTokens:
    """Open the page in each way; `size` changes nothing, since tokens do not vary."""
    try:
        find_chrome()
    except AttachError as error:
        failure = Failure(what="the page of 50 tools", why=f"{error}; `make servers` installs Chromium")
        return PageTokens(listed=(), failures=[failure])
    folder = stage.folder / "page-tokens"
    folder.mkdir(exist_ok=True)
    with browser() as running, serve_site("pages") as web:
        rows = anyio.run(page_tokens.measure, folder, running, web)
    return PageTokens(listed=rows, failures=())
