"""Cut an answer that is longer than a model should read."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from maitred.calls.answer import Answer, blocks_of
from maitred.calls.pipeline import Call, Proceed
from maitred.calls.results import AnswerLimit, Shortener
from maitred.model.access import Viewer

MOST_OF_PAGE: Final = 65_536
"""The most bytes of text of a web page's answer that anybody reads at once, but for programs and people."""
PAGE_TOKENS: Final = 5_000
"""How much an agent reads of a longer one."""


class ShortenAnswer:
    """`shortener` cuts a result, and stores the whole result for the principal.

    A web page may answer anything to anybody. So its long answers are cut to `PAGE_TOKENS` for each caller
    but a chain and a person. `is_page` says of a server whether its tools are those of web pages.

    `limit_of` says how much the client of a viewer passes on to its model. What is longer would be lost
    there, so it is cut here, also for a client that calls the tool by its own name. The lists of such a
    client declare no form of answers, which it would check.
    """

    def __init__(
        self,
        shortener: Shortener,
        is_page: Callable[[str], bool],
        limit_of: Callable[[Viewer], AnswerLimit | None],
    ) -> None:
        self._shortener = shortener
        self._of_pages = shortener.limited_to(PAGE_TOKENS)
        self._is_page = is_page
        self._limit_of = limit_of

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, and cut its answer if the caller wants that, or if it is a page's."""
        is_bounded = call.chain is None and call.viewer.surface != "cli" and self._is_page(call.tool.server)
        limit = self._limit_of(call.viewer) if call.chain is None else None
        if not (call.shorten or is_bounded or limit is not None):
            return proceed(call)
        return self._shortened(call, proceed, limit, is_bounded=is_bounded)

    async def _shortened(
        self, call: Call, proceed: Proceed, limit: AnswerLimit | None, *, is_bounded: bool
    ) -> Answer:
        answer = await proceed(call)
        if is_bounded and _text_bytes(answer.wire) > MOST_OF_PAGE:
            shortener = self._of_pages.within(limit)
        elif call.shorten:
            shortener = self._shortener.within(limit)
        elif limit is not None:
            shortener = self._shortener.only_within(limit)
        else:
            return answer
        return answer.with_wire(shortener.shorten(call.viewer.principal, answer.wire))


def _text_bytes(wire: dict[str, Any]) -> int:
    """The bytes of the texts of a result; structured content repeats them."""
    texts = (block.get("text") for block in blocks_of(wire.get("content")) if isinstance(block, dict))
    return sum(len(text.encode(errors="surrogatepass")) for text in texts if isinstance(text, str))
