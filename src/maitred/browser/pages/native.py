"""The tools of documents whose browser has WebMCP itself, as the domain `WebMCP` reports them.

The behavior that is nowhere documented is pinned by `tests/browser/test_webmcp.py`: which events come, in
which order, and how results are written.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from maitred.browser.cdp import Params
from maitred.browser.pages.definitions import (
    MOST_DESCRIPTION,
    MOST_TOOLS,
    TOO_LARGE,
    is_large,
    read_page_tools,
)
from maitred.browser.pages.document_link import DocumentLink
from maitred.browser.pages.documents import DocumentContext
from maitred.browser.pages.links import PageCallError, PageTool

_MOST_KEPT: Final = 2 * MOST_TOOLS
_MOST_NAME: Final = 128


class FrameTools:
    """The tools of one document, as events of the browser add and remove them; none over the limits."""

    def __init__(self) -> None:
        self._definitions: dict[str, Mapping[str, Any]] = {}
        self._is_full = False
        self.changes = 0

    @property
    def definitions(self) -> Iterable[Mapping[str, Any]]:
        """What is kept of the definitions."""
        return self._definitions.values()

    def change(self, added: Sequence[Mapping[str, Any]], removed: Sequence[Mapping[str, Any]]) -> None:
        """Take an event."""
        self.changes += 1
        for tool in removed:
            self._definitions.pop(str(tool.get("name")), None)
        for tool in added:
            name = str(tool.get("name"))[: _MOST_NAME + 1]
            if name in self._definitions or len(self._definitions) < _MOST_KEPT:
                self._definitions[name] = _within_limits(tool)
            else:
                self._is_full = True

    def read(self) -> tuple[dict[str, PageTool], tuple[str, ...]]:
        """The tools within limits, and notes on what was left out."""
        tools, notes = read_page_tools(self.definitions)
        more = f"further tools were left out; a page may have {MOST_TOOLS}"
        return tools, tuple(dict.fromkeys((*notes, *([more] if self._is_full else []))))


def _within_limits(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """A definition without what is far too large, which is left out with a note later."""
    description, schema = tool.get("description"), tool.get("inputSchema")
    return {
        "name": str(tool.get("name"))[: _MOST_NAME + 1],
        "description": description[: MOST_DESCRIPTION + 1] if isinstance(description, str) else None,
        "inputSchema": TOO_LARGE if is_large(schema) else schema,
        "annotations": tool.get("annotations"),
    }


class NativeLink(DocumentLink):
    """A document whose browser reports the tools; see `PageLink`."""

    def __init__(self, context: DocumentContext, key: str, tools: FrameTools) -> None:
        super().__init__(context, key)
        self._frame = tools
        self._known: tuple[int, Mapping[str, PageTool], tuple[str, ...]] = (-1, {}, ())

    @property
    def tools(self) -> Mapping[str, PageTool]:
        """Its tools by their names in the page."""
        return self._read()[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of its tools, and why."""
        return self._read()[2]

    def _read(self) -> tuple[int, Mapping[str, PageTool], tuple[str, ...]]:
        if self._known[0] != self._frame.changes:
            self._known = (self._frame.changes, *self._frame.read())
        return self._known

    async def call(self, name: str, arguments: Mapping[str, Any], *, timeout_s: float) -> Any:
        """Call a tool; see `PageLink`. The browser keeps from the script why it failed, but reports it."""
        said: list[str] = []
        stop = self._context.on("WebMCP.toolResponded", lambda response: said.extend(_why(response)))
        try:
            return await super().call(name, arguments, timeout_s=timeout_s)
        except PageCallError as error:
            raise (
                PageCallError(str(error), page_text=said[-1]) if error.page_text and said else error
            ) from None
        finally:
            stop()


def _why(response: Params) -> list[str]:
    """Why a call failed, without the stack, which has addresses of the page."""
    thrown = response.get("exception") or {}
    why = thrown.get("description") if response.get("status") == "Error" else None
    return [why.splitlines()[0]] if isinstance(why, str) and why else []
