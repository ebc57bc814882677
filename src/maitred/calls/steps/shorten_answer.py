"""Cut an answer that is longer than a model should read."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from maitred.calls.answer import Answer, blocks_of
from maitred.calls.pipeline import Call, Proceed

MOST_OF_PAGE: Final = 65_536
"""The most bytes of text of a web page's answer that anybody reads at once, but for programs and people."""
PAGE_TOKENS: Final = 5_000
"""How much an agent reads of a longer one."""
Shorten = Callable[[str, dict[str, Any]], dict[str, Any]]


class ShortenAnswer:
    """`shorten` cuts a result, and stores the whole result for the principal.

    A web page may answer anything to anybody. So its long answers are cut by `shorten_page` for each caller
    but a chain and a person. `is_page` says of a server whether its tools are those of web pages.
    """

    def __init__(self, shorten: Shorten, shorten_page: Shorten, is_page: Callable[[str], bool]) -> None:
        self._shorten = shorten
        self._shorten_page = shorten_page
        self._is_page = is_page

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, and cut its answer if the caller wants that, or if it is a page's."""
        is_bounded = call.chain is None and call.viewer.surface != "cli" and self._is_page(call.tool.server)
        if not (call.shorten or is_bounded):
            return proceed(call)
        return self._shortened(call, proceed, is_bounded=is_bounded)

    async def _shortened(self, call: Call, proceed: Proceed, *, is_bounded: bool) -> Answer:
        answer = await proceed(call)
        if is_bounded and _text_bytes(answer.wire) > MOST_OF_PAGE:
            return answer.with_wire(self._shorten_page(call.viewer.principal, answer.wire))
        if not call.shorten:
            return answer
        return answer.with_wire(self._shorten(call.viewer.principal, answer.wire))


def _text_bytes(wire: dict[str, Any]) -> int:
    """The bytes of the texts of a result; structured content repeats them."""
    texts = (block.get("text") for block in blocks_of(wire.get("content")) if isinstance(block, dict))
    return sum(len(text.encode(errors="surrogatepass")) for text in texts if isinstance(text, str))
