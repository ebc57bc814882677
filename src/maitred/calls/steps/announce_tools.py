"""Name the tools in an answer which the call has made available."""

from typing import Final

from maitred.calls.answer import Answer, text_block
from maitred.calls.pipeline import Call, Proceed

AVAILABLE_KEY: Final = "maitred/available"
"""Where the `_meta` of an answer names the tools that became available by the call."""
_MOST_NAMES: Final = 20


class AnnounceTools:
    """Adds a text for models and a list for clients. A chain is not informed: it names its tools itself."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and announce what `FollowVisibility` saw."""
        answer = await proceed(call)
        opened = answer.opened
        if not opened or call.chain is not None:
            return answer
        more = f" and {len(opened) - _MOST_NAMES} more" if len(opened) > _MOST_NAMES else ""
        news = f"Now available: {', '.join(opened[:_MOST_NAMES])}{more}"
        return answer.with_last(text_block(news)).with_meta({AVAILABLE_KEY: list(opened)})
