"""Calls tools in one document by the script in it, in which no other document can take its place.

The browser's own command to call a tool names a frame, and would run in whatever page the frame has by then.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from maitred.browser.browsers import Owner
from maitred.browser.cdp import CdpClosedError, CdpError, CdpTimeoutError
from maitred.browser.pages.documents import DocumentContext
from maitred.browser.pages.links import LinkKey, PageCallError
from maitred.browser.pages.reports import read_message, unpack_answer

NAVIGATED: Final = "the page navigated away during the call"
MOST_PACKED: Final = 2_500_000
"""The most characters that the script answers with; a page that answers more does not run it."""
_CALL: Final = "function(key, id, name, text) { return globalThis[key].call(id, name, text); }"
_CANCEL: Final = "function(key, id) { globalThis[key]?.cancel(id); }"


class DocumentLink:
    """A document that the gateway reaches by its script; see `PageLink`. A subclass knows the tools of it."""

    def __init__(self, context: DocumentContext, key: str) -> None:
        self._context = context
        self._key = key

    @property
    def key(self) -> LinkKey:
        """Which document it is."""
        return self._context.key

    @property
    def origin(self) -> str:
        """The origin, as the browser reports it."""
        return self._context.origin

    @property
    def owner(self) -> Owner | None:
        """The client whose tab it is in."""
        return self._context.owner

    @property
    def blocked(self) -> str:
        """Why its tools cannot be called now."""
        return self._context.blocked

    def on_blocked(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function when its tools cannot be called any more."""
        return self._context.on_blocked(listener)

    async def call(self, name: str, arguments: Mapping[str, Any], *, timeout_s: float) -> Any:
        """Call a tool; see `PageLink`."""
        if self._context.gone:
            raise PageCallError(f"the page has gone during the call: {self._context.gone}")
        number = secrets.token_hex(8)
        try:
            written = json.dumps(arguments)
            answer = await self._run(_CALL, self._key, number, name, written, timeout_s=timeout_s)
        except CdpTimeoutError:
            self._cancel(number)
            raise PageCallError(f"the page did not answer within {timeout_s:g} s; it may be busy") from None
        except CdpClosedError as error:
            raise PageCallError(f"the page has gone during the call: {error.reason}") from None
        except CdpError as error:
            raise PageCallError(self._why_ended(error)) from error
        except BaseException:  # the caller waits no more
            self._cancel(number)
            raise
        return unpack_answer(_packed(answer))

    def _why_ended(self, error: CdpError) -> str:
        if "larger than" in error.message:
            return f"the tool failed: {error.message}"
        gone = self._context.gone
        return f"the page has gone during the call: {gone}" if gone else NAVIGATED

    async def _run(self, function: str, *arguments: str, timeout_s: float) -> dict[str, Any]:
        params = {**self._function(function, *arguments), "awaitPromise": True, "returnByValue": True}
        return await self._context.send("Runtime.callFunctionOn", params, timeout_s=timeout_s)

    def _cancel(self, number: str) -> None:
        self._context.post("Runtime.callFunctionOn", self._function(_CANCEL, self._key, number))

    def _function(self, function: str, *arguments: str) -> dict[str, Any]:
        values = [{"value": one} for one in arguments]
        return {
            "functionDeclaration": function, "uniqueContextId": self.key.document, "arguments": values,
        }  # fmt: skip


def _packed(answer: Mapping[str, Any]) -> Any:
    """What the script packed; `None` if another one than it did that."""
    text = answer.get("result", {}).get("value")
    if not isinstance(text, str) or len(text) > MOST_PACKED or "exceptionDetails" in answer:
        return None
    return read_message(text) or {"fault": "deep"}
