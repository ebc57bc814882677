"""One document as the browser reports it: its origin, its frame, the client of its tab, and its session."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from maitred.browser.browsers import Browser, Owner
from maitred.browser.cdp import Handler, Params
from maitred.browser.pages.links import LinkKey
from maitred.browser.pages.reports import report_bucket
from maitred.model.pages import OriginRules
from maitred.model.sharing import owner_name

MOST_FRAMES: Final = 100
"""The most frames of a tab, beside its top one, that may have tools."""
_DEEPEST: Final = 20


@dataclass(kw_only=True, eq=False)
class DocumentContext:
    """A document of a tab. `unique` is the browser's name for the place where its scripts run."""

    browser: Browser
    tab: str
    session: str
    frame: str
    unique: str
    origin: str
    gone: str = ""
    """Why the document has gone, or nothing is called in it any more."""

    @property
    def key(self) -> LinkKey:
        """Which document it is."""
        return LinkKey(self.browser.address, self.tab, self.frame, self.unique)

    @property
    def owner(self) -> Owner | None:
        """Whose tab it is in: that of a client, or of the principal for whom its browser was started."""
        tab = self.browser.tabs.get(self.tab)
        if (tab is not None and tab.owner is not None) or not self.browser.pid:
            return tab.owner if tab else None
        return _principal_owner(self.browser.principal)

    @property
    def blocked(self) -> str:
        """Why nothing can be called in it now."""
        tab = self.browser.tabs.get(self.tab)
        return "its page is paused by a debugger; call debugger_resume" if tab and tab.is_paused else ""

    def on_blocked(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function when nothing can be called in it any more; returns what ends that."""
        tab = self.browser.tabs.get(self.tab)
        listeners = tab.on_pause if tab else []
        listeners.append(listener)

        def remove() -> None:
            with suppress(ValueError):
                listeners.remove(listener)

        return remove

    async def send(self, method: str, params: Params, *, timeout_s: float) -> dict[str, Any]:
        """Send a command to its session; see `CdpConnection.send`."""
        return await self.browser.connection.send(method, params, self.session, timeout_s=timeout_s)

    def on(self, method: str, handler: Handler) -> Callable[[], None]:
        """Call a handler for each event of its session; returns what ends that."""
        return self.browser.connection.on(self.session, method, handler)

    def post(self, method: str, params: Params) -> None:
        """Send a command without waiting for its answer."""
        self.browser.connection.post(method, params, self.session)


def _principal_owner(principal: str) -> Owner:
    """The owner of the tabs that no client uses, in a browser that was started for a principal."""
    return Owner(
        name=principal or "the local user",
        principal=principal,
        serves=lambda sharer: owner_name(sharer) == principal,
        is_client=False,
    )


class TabFrames:
    """The frames of a tab: which frame each is in, and the origin of its document.

    `addresses` has the origins by the addresses of the documents, which are known before a document is looked
    at. `origins` has those that documents really have: that of a sandbox is opaque.
    `on_origin` has what is called when a document is known. Frames over the most do not count.
    """

    def __init__(self, top: str) -> None:
        self.top = top
        self.parents: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        self.origins: dict[str, str] = {}
        self._documents: dict[str, str] = {}
        self.on_origin: list[Callable[[], None]] = []
        self.reports = report_bucket()

    def learn(self, tree: Mapping[str, Any]) -> Iterator[str]:
        """Take a tree of frames, as the browser lists it; returns all that are in it."""
        frame = tree["frame"]
        if self.add(frame["id"], frame.get("parentId", "")):
            self.addresses.setdefault(frame["id"], frame.get("securityOrigin", ""))
            yield frame["id"]
        for child in tree.get("childFrames", ()):
            yield from self.learn(child)

    def add(self, frame: str, parent: str) -> bool:
        """A frame is in another one; returns whether it counts."""
        if frame == self.top or frame in self.parents:
            return True
        if not parent or len(self.parents) >= MOST_FRAMES:
            return False
        self.parents[frame] = parent
        return True

    def forget(self, frame: str) -> None:
        """A frame has gone."""
        for known in (self.parents, self.addresses, self.origins, self._documents):
            known.pop(frame, None)

    def end_document(self, frame: str, document: str) -> None:
        """A document of a frame has ended. Another one may have begun before, also in another process."""
        if self._documents.get(frame) == document:
            del self._documents[frame], self.origins[frame]

    def learn_origin(self, frame: str, origin: str, document: str) -> None:
        """The browser says which origin the document of a frame has; `document` is its name for that."""
        self.origins[frame], self._documents[frame] = origin, document
        for listener in list(self.on_origin):
            listener()

    def may_allow(self, frame: str, rules: OriginRules) -> bool:
        """Whether the document of a frame may be looked at, by the addresses of all frames around it."""
        return self._is_each(frame, self.addresses, rules)

    def allows(self, frame: str, rules: OriginRules) -> bool:
        """Whether a document may have tools: its own origin and those of all frames around are allowed."""
        return self._is_each(frame, self.origins, rules)

    def _is_each(self, frame: str, known: Mapping[str, str], rules: OriginRules) -> bool:
        for _ in range(_DEEPEST):
            if not rules.allows(known.get(frame, "")):
                return False
            if frame == self.top:
                return True
            frame = self.parents.get(frame, "")
        return False
