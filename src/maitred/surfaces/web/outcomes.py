"""What an action found out, for the page that follows: kept in the session that asked, and dropped with it.

A form answers with an address. What is too long for an address, such as the answer of a tool, waits here.
Who keeps a value bounds it by `MOST_BYTES`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from maitred.surfaces.web.session import WebSession, never

T = TypeVar("T")

MOST_BYTES: Final = 4 * 1024 * 1024
"""How large one value may be, so that a session cannot fill the memory of the gateway."""


class Outcomes(Generic[T]):
    """The outcomes of one kind; a session has the last few of all kinds."""

    def keep(self, session: WebSession, value: T, goes_on: Callable[[], bool] = never) -> str:
        """Keep a value, in any case while it goes on; returns the id by which the same session finds it."""
        return session.keep_outcome(self, value, goes_on)

    def find(self, session: WebSession, outcome_id: str) -> T | None:
        """The value of an id; `None` if it is not there any more, or belongs to another session."""
        kept = session.outcomes.get(outcome_id)
        return kept.value if kept and kept.kind is self else None

    def every(self, session: WebSession) -> Sequence[tuple[str, T]]:
        """The values of a session with their ids, the newest first."""
        return [(key, one.value) for key, one in reversed(session.outcomes.items()) if one.kind is self]
