"""What a screen is: its pages and actions, and what each of them gets from a request.

A page is a path, a template, and a function that returns the values of the template. An action is a path and
a function that does what a form asks, and returns the address to go on to. Neither decides what a viewer may
do: the methods of `Gateway` do, and what they raise becomes a page with the reason.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from maitred.gateway import Gateway
from maitred.model.access import ROLES, Role, Viewer
from maitred.surfaces.web.session import NoticeKind, WebSession
from maitred.surfaces.web.state import PageMemory

BASE: Final = "/ui"
"""The path of all pages."""
_MOST_DIGITS: Final = 19


def url_of(*parts: str, **query: str | int) -> str:
    """The address of a page: the parts of its path, and the fields of its query that are not empty."""
    path = "/".join([BASE, *(quote(part, safe="", errors="replace") for part in parts)])
    there = {name: value for name, value in query.items() if value not in ("", None)}
    fields = urlencode(there, errors="replace")
    return f"{path}{'' if parts else '/'}{'?' if fields else ''}{fields}"


class Form:
    """The fields of a form or of a query, in their order."""

    def __init__(self, fields: Sequence[tuple[str, str]] = ()) -> None:
        self._fields = fields

    def text(self, name: str, default: str = "") -> str:
        """The first value of a field, without space around it."""
        return next((value.strip() for key, value in self._fields if key == name), default)

    def raw(self, name: str, default: str = "") -> str:
        """The first value of a field as it was sent; each line ends with a line feed alone."""
        found = next((value for key, value in self._fields if key == name), default)
        return found.replace("\r\n", "\n")

    def number(self, name: str, default: int = 0, *, most: int = 2**62) -> int:
        """A field as a whole number from 0 to `most`; `default` if it is none."""
        text = self.text(name)
        is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
        return min(int(text), most) if is_number else default

    def every(self, name: str) -> Sequence[str]:
        """All values of a field."""
        return [value for key, value in self._fields if key == name]

    def names(self) -> Sequence[str]:
        """The names of all fields that were sent."""
        return [key for key, _ in self._fields]


@dataclass(frozen=True, kw_only=True)
class McpEndpoint:
    """Where clients reach this gateway over HTTP, by the name that the person's browser uses for it."""

    url: str
    needs_token: bool


class WorkAfter(Protocol):
    """Runs what goes on after a form is answered."""

    @property
    def count(self) -> int:
        """How much of that goes on now, of this person in this role, whatever the session."""
        ...

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function beside the action; the gateway may end before it does."""
        ...

    def mark(self, *fragments: str) -> None:
        """Have open pages fetch these fragments again."""
        ...


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One request of a person: `path` has the parts of the address, `query` its fields.

    `endpoint` is `None` where this gateway serves clients over stdio alone. Only actions have `after`.
    """

    gateway: Gateway
    session: WebSession
    memory: PageMemory
    path: Mapping[str, str] = field(default_factory=dict)
    query: Form = field(default_factory=Form)
    endpoint: McpEndpoint | None = None
    after: WorkAfter | None = None

    @property
    def viewer(self) -> Viewer:
        """The person, for methods of the gateway."""
        return self.session.viewer

    def notify(self, text: str, kind: NoticeKind = "done") -> None:
        """Have a sentence shown on the next page."""
        self.session.notify(text, kind)


View = Callable[[Visit], Awaitable[Mapping[str, Any]]]
"""The values for the template of a page. `page_title` may be one of them."""
Act = Callable[[Visit, Form], Awaitable[str]]
"""Does what a form asks, and returns the address of the page to go on to (see `url_of`)."""


@dataclass(frozen=True, kw_only=True)
class ScreenPage:
    """One page. `path` is below `/ui/`; `{name}` in it is one part, and `visit.path["name"]` its text.

    `template` is a file below `surfaces/web/`, such as `servers/server.html`.
    """

    path: str
    template: str
    view: View


@dataclass(frozen=True, kw_only=True)
class Action:
    """What a form does by `POST`; `path` as for a page."""

    path: str
    act: Act


@dataclass(frozen=True, kw_only=True)
class WebScreen:
    """One entry of the navigation, with its pages and actions. The first page is its own address.

    `role` is the weakest role that has something to see there, for the navigation alone. `summary` says in a
    few words what the screen is for. `modules` are files of `static/` that its pages load.
    """

    title: str
    role: Role
    pages: Sequence[ScreenPage]
    summary: str
    actions: Sequence[Action] = ()
    modules: Sequence[str] = ()

    @property
    def path(self) -> str:
        """The address of the screen, below `/ui/`."""
        return self.pages[0].path

    def is_for(self, viewer: Viewer) -> bool:
        """Whether the navigation of a viewer has the screen."""
        return ROLES.index(viewer.grant.role) >= ROLES.index(self.role)
