"""Where features report what happens, for metrics and traces; without a listener a report costs nothing.

`tracer` begins the spans of requests if a collector is configured.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from maitred.tracing import Tracer, root_span


class ActivityListener(Protocol):
    """What hears of activity; none of its methods may block."""

    def call_ended(self, server: str, outcome: str, overhead_s: float) -> None:
        """A call of a tool has ended, refused or made; `server` is empty if no tool was found."""
        ...

    def requested(self, method: str, error: str, elapsed_s: float) -> None:
        """A request of an MCP client was answered; `error` is empty if it succeeded."""
        ...

    def searched(self, result: str, elapsed_s: float) -> None:
        """A search has ended: `found`, `nothing` or `failed`."""
        ...

    def discovered(self, server: str, outcome: str) -> None:
        """The tools of a server were listed, or could not be: `ok` or `failed`."""
        ...


class Activity:
    """The reports of one gateway. `tracer` is set by `maitred.wiring` before requests come.

    `sessions` are those that are open, by transport; `open_calls` is how many calls have not ended, refused
    ones and those that wait for a person too.
    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        self.tracer = tracer
        self.sessions: Counter[str] = Counter()
        self.open_calls = 0
        self._listeners: list[ActivityListener] = []

    def listen(self, listener: ActivityListener) -> None:
        """Report to a listener from now on."""
        self._listeners.append(listener)

    @property
    def is_observed(self) -> bool:
        """Whether anything traces or counts."""
        return self.tracer is not None or bool(self._listeners)

    def session_opened(self, transport: str) -> None:
        """A client opened a session."""
        self.sessions[transport] += 1

    def session_closed(self, transport: str) -> None:
        """A session has ended."""
        self.sessions[transport] -= 1

    def call_ended(self, server: str, outcome: str, overhead_s: float) -> None:
        """Report the end of a call; see `ActivityListener`."""
        for listener in self._listeners:
            listener.call_ended(server, outcome, overhead_s)

    def requested(self, method: str, error: str, elapsed_s: float) -> None:
        """Report the answer to a request; see `ActivityListener`."""
        for listener in self._listeners:
            listener.requested(method, error, elapsed_s)

    def searched(self, result: str, elapsed_s: float) -> None:
        """Report a search; see `ActivityListener`."""
        for listener in self._listeners:
            listener.searched(result, elapsed_s)

    @contextmanager
    def discovery(self, server: str) -> Iterator[None]:
        """Trace and report that the tools of a server are listed."""
        outcome = "failed"
        with root_span(self.tracer, "discover", "internal", {"maitred.server": server}):
            try:
                yield
                outcome = "ok"
            finally:
                for listener in self._listeners:
                    listener.discovered(server, outcome)
