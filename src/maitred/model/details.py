"""The levels of detail at which an agent may ask for tools, one entry a level.

All surfaces read this table: what is not in it is refused. The client process of a background gateway also
reads it, so it imports nothing.

To add a level, write an entry here, and how it shows a tool in `maitred.disclosure.views.DETAIL_VIEWS`.
"""

from typing import Final

Detail = str
"""The name of a level: a key of `DETAILS`."""

DETAILS: Final[dict[str, str]] = {
    "brief": "In search a line to call from; in `tool_info` a few lines with server, category and needs.",
    "full": "The definition with its schemas, then usage and use cases.",
}
"""What each level shows, in one line."""
