"""What the script in a page reports of its tools, and how it packs the answer of a call; see `bridge.js`.

A page can send the same itself, so nothing else is believed of it, and all of it has limits.
"""

import json
import math
import time
from collections.abc import Mapping
from typing import Any, Final

from maitred.browser.pages.definitions import read_page_tools
from maitred.browser.pages.links import PageCallError, PageTool
from maitred.token_bucket import TokenBucket

MOST_MESSAGE: Final = 262_144
"""The longest message of a script, in characters; for a page that dials in, in bytes."""
_REPORTS_S: Final = 20.0
_REPORTS_AT_ONCE: Final = 100
_MOST_SIZE: Final = 10**12


def report_bucket() -> TokenBucket:
    """How often the documents of one page may report."""
    return TokenBucket(per_s=_REPORTS_S, size=_REPORTS_AT_ONCE, now=time.monotonic())


class ReportedTools:
    """The tools of one document, as its script reports them.

    `bucket` may be that of several documents; one that reports when it is empty has no tools any more.
    """

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket
        self.is_muted = False
        self.tools: Mapping[str, PageTool] = {}
        self.notes: tuple[str, ...] = ()

    def take(self, message: Mapping[str, Any]) -> str:
        """Take a report; returns its kind, `tools` or `focus`, and nothing if it does not count."""
        if self.is_muted:
            return ""
        if self._bucket.take(1, now=time.monotonic()) > 0:
            self.is_muted, self.tools = True, {}
            self.notes = ("its tools were left out, since they change too often; load the page again",)
            return "tools"
        kind = message.get("kind")
        if kind == "tools" and isinstance(message.get("tools"), list):
            self.tools, self.notes = read_page_tools(message["tools"])
            return "tools"
        if kind == "fault":
            self.tools, self.notes = {}, ("its tools were left out, since they are too large together",)
            return "tools"
        return "focus" if kind == "focus" else ""


def read_message(payload: str) -> Mapping[str, Any]:
    """What a script said; empty if that cannot be read."""
    try:
        message = json.loads(payload, parse_constant=_refuse_constant, parse_float=_read_float)
    except (ValueError, RecursionError):
        message = None
    return message if isinstance(message, dict) else {}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _read_float(text: str) -> float | None:
    """A number; nothing for one that is too large, as browsers write what is no finite number."""
    value = float(text)
    return value if math.isfinite(value) else None


def is_focus(payload: str) -> bool:
    """Whether the script says that a person has just turned to its document."""
    return len(payload) <= MOST_MESSAGE and read_message(payload).get("kind") == "focus"


def unpack_answer(packed: Any) -> Any:
    """What a tool answered, from what the script packed.

    Raises:
        PageCallError: The tool failed, or the page answered in another way than the script does.
    """
    if not isinstance(packed, dict) or not packed:
        raise PageCallError("the page does not run its tools any more; load it again")
    if packed.get("fault") == "deep":
        raise PageCallError("the tool failed: its answer has too many levels")
    if packed.get("fault") == "missing":
        raise PageCallError("the page does not offer it any more")
    if "fault" in packed:
        why = packed.get("why")
        raise PageCallError("the tool failed in the page", page_text=why if isinstance(why, str) else "")
    if isinstance(packed.get("cut"), str):
        size = packed.get("size")
        is_size = isinstance(size, int) and 0 <= size < _MOST_SIZE
        return f"{packed['cut']}…{f' ({size:,} characters in all)' if is_size else ''}"
    return packed.get("value")
