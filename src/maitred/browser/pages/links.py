"""The interface to one document in which a page registered tools, whatever the way into it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from maitred.browser.browsers import Owner

MOST_LEVELS: Final = 100
"""The most levels of an answer."""


class LinkKey(NamedTuple):
    """Identifies a document: its connection, its target there, its frame, and which document of the frame."""

    connection: str
    target: str
    frame: str
    document: str


@dataclass(frozen=True, kw_only=True)
class PageTool:
    """A tool as its page defined it, within all limits.

    `claims` are what the page says of its effects, as annotations of MCP; no claim makes a call easier.
    `consequential` says that the page wants a person to be asked. `label` is the page's own group for it.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    title: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    consequential: bool = False
    label: str = ""


class PageCallError(Exception):
    """A tool of a page did not answer; the text says why, in our words about the page.

    `page_text` is what the page says of it: a text of any length that nothing is believed of.
    """

    def __init__(self, text: str, *, page_text: str = "") -> None:
        self.page_text = page_text
        super().__init__(text)


class PageLink(Protocol):
    """A document with tools. `origin` is what the browser says of it, never what the page says."""

    @property
    def key(self) -> LinkKey:
        """Which document it is."""
        ...

    @property
    def origin(self) -> str:
        """The origin of the document."""
        ...

    @property
    def owner(self) -> Owner | None:
        """The client whose tab it is in; `None` for a tab of no client."""
        ...

    @property
    def blocked(self) -> str:
        """Why its tools cannot be called now, such as a paused debugger; empty if they can."""
        ...

    def on_blocked(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function when its tools cannot be called any more; returns what ends that."""
        ...

    @property
    def tools(self) -> Mapping[str, PageTool]:
        """Its tools by their names in the page."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of its tools, and why."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], *, timeout_s: float) -> Any:
        """Call a tool; returns what it answered, a JSON value.

        Raises:
            PageCallError: It failed, took too long, or the document has gone.
        """
        ...
