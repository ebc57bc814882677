"""Name the tools in an answer which the call has made available."""

from collections.abc import Callable
from typing import Final

from maitred.calls.answer import Answer, text_block
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer

AVAILABLE_KEY: Final = "maitred/available"
"""Where the `_meta` of an answer names the tools that became available by the call."""
_MOST_NAMES: Final = 20


class AnnounceTools:
    """Adds a text for models and a list for clients. A chain is not informed: it names its tools itself.

    `shown_name` is the name that the list of a viewer's client has for a published one.
    """

    def __init__(self, shown_name: Callable[[str, Viewer], str]) -> None:
        self._shown_name = shown_name

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and announce what `FollowVisibility` saw."""
        answer = await proceed(call)
        if not answer.opened or call.chain is not None:
            return answer
        opened = [self._shown_name(name, call.viewer) for name in answer.opened]
        more = f" and {len(opened) - _MOST_NAMES} more" if len(opened) > _MOST_NAMES else ""
        news = f"Now available: {', '.join(opened[:_MOST_NAMES])}{more}"
        return answer.with_last(text_block(news)).with_meta({AVAILABLE_KEY: opened})
