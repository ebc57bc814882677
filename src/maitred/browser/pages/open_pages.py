"""All tools of all open documents: a tool of one origin in several tabs is one tool.

The key of a tool is its origin and its name, `https://app.example#pay`. What has gone leaves a note for five
minutes, so that a late call hears why. Tools that change all the time are reported once a second.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import anyio

from maitred.browser.browsers import Owner
from maitred.browser.errors import BrowserFaultError
from maitred.browser.pages.definitions import MOST_TOOLS
from maitred.browser.pages.links import LinkKey, PageLink, PageTool
from maitred.model.pages import OriginRules, key_name
from maitred.model.sharing import Sharer
from maitred.token_bucket import TokenBucket

GONE_S: Final = 300.0
_MOST_GONE: Final = 1_000
_MOST_EVER: Final = 256
_MOST_ORIGINS: Final = 64
_MOST_TABS: Final = 1_000
_MOST_NOTES: Final = 100
_MOST_LEFT_OUT: Final = 10
_MOST_ORIGIN: Final = 100
_LEFT_OUT: Final = "pages were open that are not in `pages.allow`, so no tools of them are looked for"
_MOST_TAB: Final = 20
_NOT_OFFERED: Final = "its page does not offer it any more"
_SOON_S: Final = 0.05
_EXPECTED_S: Final = 1.0
"""Seconds after a page was opened in which calls wait for its tools."""
_MORE_S: Final = 0.1
"""Seconds after its first tools in which more of them may come."""
_REPORTS_S: Final = 1.0
_REPORTS_AT_ONCE: Final = 30
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class OpenTool:
    """A tool that can be called, in one document or in several; `tabs` are their names."""

    origin: str
    tool: PageTool
    links: tuple[PageLink, ...]
    tabs: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name in the catalog."""
        return key_name(self.origin, self.tool.name)

    @property
    def tab_parameter(self) -> str:
        """The parameter that chooses a tab. The page's own schema has none of this name."""
        properties = self.tool.schema.get("properties")
        taken = properties if isinstance(properties, dict) else {}
        return next(name for name in _tab_parameters() if name not in taken)


def _tab_parameters() -> Iterator[str]:
    yield "tab"
    yield "browser_tab"
    yield from (f"browser_tab_{number}" for number in count(2))


@dataclass
class _Origin:
    """What is remembered of an origin: all tools that it ever had, by name."""

    ever: set[str] = field(default_factory=set)


class OpenPages:
    """The documents that are open now. `on_change` is called when the tools have changed; see `announce`."""

    def __init__(self, rules: OriginRules, on_change: Callable[[], None]) -> None:
        self.rules = rules
        self._on_change = on_change
        self._links: dict[LinkKey, PageLink] = {}
        self._tabs: dict[tuple[str, str], str] = {}
        self._used: dict[LinkKey, int] = {}
        self._uses = self._named = 0
        self._origins: dict[str, _Origin] = {}
        self._gone: dict[str, tuple[float, str]] = {}
        self._tools: dict[str, OpenTool] = {}
        self._notes: tuple[str, ...] = ()
        self._remarks: dict[str, str] = {}
        self._left_out: dict[str, None] = {}
        self._reasons: dict[str, str] = {}
        self._is_current = True
        self._is_listed = True
        self._expected: dict[tuple[str, str], float] = {}
        self._news = anyio.Event()
        self._next = anyio.Event()

    @property
    def tools(self) -> Mapping[str, OpenTool]:
        """The tools by their keys."""
        self._join()
        return self._tools

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, by origin, after what the operator should know of the whole."""
        self._join()
        return (*filter(None, self._remarks.values()), *self._notes)

    def remark(self, subject: str, text: str) -> None:
        """Set what the operator should know about a subject; empty if that is nothing."""
        if text != self._remarks.get(subject, ""):
            self._remarks[subject] = text
            self._changed()

    def leave_out(self, origin: str) -> None:
        """A page is open whose tools are not looked for, since no list of the operator has its origin."""
        if origin in self._left_out or len(self._left_out) > _MOST_LEFT_OUT or len(origin) > _MOST_ORIGIN:
            return
        if self.rules.is_left_out(origin) and origin.isascii():
            self._left_out[origin] = None
            names = list(self._left_out)
            shown = f"{', '.join(names[:_MOST_LEFT_OUT])}{' and more' if len(names) > _MOST_LEFT_OUT else ''}"
            self.remark("left out", f"{_LEFT_OUT}: {shown}")

    # --- what links report --------------------------------------------------------------------------------

    def put(self, link: PageLink) -> None:
        """A document has tools, or others than before. One of an origin that is not allowed is ignored."""
        if not self.rules.allows(link.origin):
            return
        self._links[link.key] = link
        place = (link.key.connection, link.key.target)
        self._name_tab(place)
        if link.tools and place in self._expected:
            self._expected[place] = min(self._expected[place], time.monotonic() + _MORE_S)
        self._used.setdefault(link.key, 0)
        self._changed()

    def _name_tab(self, place: tuple[str, str]) -> None:
        """Give a tab a name, which it keeps when its page is loaded again."""
        if place in self._tabs:
            return
        self._named += 1
        self._tabs[place] = f"t{self._named}"
        if len(self._tabs) > _MOST_TABS:
            used = {(key.connection, key.target) for key in self._links}
            self._tabs = {known: name for known, name in self._tabs.items() if known in used}

    def drop(self, key: LinkKey, reason: str) -> None:
        """A document has gone; `reason` is about its page."""
        link = self._links.pop(key, None)
        if link is not None:
            self._used.pop(key, None)
            self._reasons |= {key_name(link.origin, name): reason for name in link.tools}
            self._changed()

    def focus(self, key: LinkKey) -> None:
        """A document was used last: calls that name no tab go to it."""
        if key in self._links:
            self._uses += 1
            self._used[key] = self._uses

    def expect(self, connection: str, target: str) -> None:
        """A client has just opened a page of an allowed origin in a tab; its tools may take a moment."""
        self._expected[connection, target] = time.monotonic() + _EXPECTED_S

    def _changed(self) -> None:
        self._is_current = self._is_listed = False
        self._news.set()
        self._next.set()
        self._next = anyio.Event()

    def _join(self) -> None:
        """Compute the tools of all documents, if any has changed; what went leaves a note."""
        if self._is_current:
            return
        self._is_current = True
        before, self._tools = self._tools, self._joined()
        now = time.monotonic()
        for key in before.keys() - self._tools.keys():
            self._gone[key] = (now, self._reasons.get(key, _NOT_OFFERED))
        self._reasons.clear()
        for key in self._tools:
            self._gone.pop(key, None)
        while len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def _joined(self) -> dict[str, OpenTool]:
        found: dict[str, tuple[PageTool, list[PageLink]]] = {}
        counts: dict[str, int] = {}
        notes: dict[str, None] = {}
        for link in self._links.values():
            notes |= dict.fromkeys(f"{link.origin}: {note}" for note in link.notes)
            for tool in link.tools.values():
                key = key_name(link.origin, tool.name)
                known = found.get(key)
                if known is not None and known[0] == tool:
                    known[1].append(link)
                elif known is not None:
                    notes[f"{link.origin}: two of its tabs have different tools {tool.name!r}"] = None
                elif fault := self._excess(link.origin, tool.name, counts):
                    notes[f"{link.origin}: {fault}"] = None
                else:
                    found[key] = (tool, [link])
        self._notes = tuple(notes)[:_MOST_NOTES]
        return {
            key: OpenTool(
                origin=links[0].origin,
                tool=tool,
                links=tuple(links),
                tabs=tuple(dict.fromkeys(map(self.tab_of, links))),
            )
            for key, (tool, links) in found.items()
        }

    def _excess(self, origin: str, name: str, counts: dict[str, int]) -> str:
        """Why one more tool of an origin is left out; empty if it is not."""
        if origin not in self._origins and len(self._origins) >= _MOST_ORIGINS:
            there = {link.origin for link in self._links.values()}
            self._origins = {known: kept for known, kept in self._origins.items() if known in there}
        if origin not in self._origins and len(self._origins) >= _MOST_ORIGINS:
            return f"its tools were left out, since {_MOST_ORIGINS} origins have tools already"
        known = self._origins.setdefault(origin, _Origin())
        if counts.get(origin, 0) >= MOST_TOOLS:
            return f"further tools were left out; an origin may have {MOST_TOOLS}"
        if name not in known.ever and len(known.ever) >= _MOST_EVER:
            return f"further tools were left out, since it has had {_MOST_EVER} different ones"
        known.ever.add(name)
        counts[origin] = counts.get(origin, 0) + 1
        return ""

    async def announce(self) -> None:
        """Report changes, those within a short time as one; runs until it is cancelled."""
        bucket = TokenBucket(per_s=_REPORTS_S, size=_REPORTS_AT_ONCE, now=time.monotonic())
        while True:
            await self._news.wait()
            await anyio.sleep(max(_SOON_S, bucket.take(1, now=time.monotonic())))
            self._news = anyio.Event()
            self._on_change()

    def listed(self) -> None:
        """The tools that are there now were listed."""
        self._is_listed = True

    async def settle(self, name: str = "") -> bool:
        """Wait for pages that a client opened just now, at most a second, or until there is a tool `name`.

        Returns whether the tools are others now than were listed.
        """
        while not self._has(name) and (rest_s := self._expected_s()) > 0:
            with anyio.move_on_after(rest_s):
                await self._next.wait()
        return not self._is_listed

    def _expected_s(self) -> float:
        """For how many seconds more the tools of a page are waited for."""
        now = time.monotonic()
        self._expected = {place: until for place, until in self._expected.items() if until > now}
        return max(self._expected.values(), default=now) - now

    def _has(self, name: str) -> bool:
        """Whether there is a tool of this name: its key, its published name, or its name in the page."""
        return any(name in (key, _ILLEGAL.sub("_", key), one.tool.name) for key, one in self.tools.items())

    # --- calls --------------------------------------------------------------------------------------------

    async def wait_for(self, keys: Collection[str], limit_s: float) -> None:
        """Wait until there are tools of these keys, for at most `limit_s` seconds."""
        with anyio.move_on_after(limit_s):
            while not self.tools.keys() >= set(keys):
                await self._next.wait()

    def why_gone(self, name: str) -> str:
        """Why a tool is not there any more, by its key or its published name; empty if that is not known."""
        self._join()
        for key, (at, reason) in reversed(self._gone.items()):
            if name in (key, _ILLEGAL.sub("_", key)) and time.monotonic() - at < GONE_S:
                return f"it has gone with its page {key.partition('#')[0]}: {reason}; open the page again"
        return ""

    def choose(self, tool: OpenTool, tab: str, sharer: Sharer) -> PageLink:
        """The document that a call means: in the tab that it names, else in the caller's own, used last.

        Raises:
            BrowserFaultError: The tab does not have the tool, or belongs to another client.
        """
        named = [link for link in tool.links if not tab or self.tab_of(link) == tab]
        if not named:
            raise BrowserFaultError(
                f"no open tab {tab[:_MOST_TAB]!r} has it; it is in {' and '.join(tool.tabs)}"
            )
        usable = [link for link in named if link.owner is None or link.owner.serves(sharer)]
        if not usable:
            owner = named[0].owner
            raise BrowserFaultError(
                f"its tab {self.tab_of(named[0])} belongs to {owner.name if owner else 'another client'};"
                " open the page in a tab of your own"
            )
        return max(usable, key=lambda link: (_nearness(link.owner), self._used[link.key]))

    def tab_of(self, link: PageLink) -> str:
        """The name of a document's tab."""
        return self._tabs[link.key.connection, link.key.target]


def _nearness(owner: Owner | None) -> int:
    """How near a tab is to a client that may use it: its own is nearer than one of no client."""
    return 1 if owner is not None and owner.is_client else 0
