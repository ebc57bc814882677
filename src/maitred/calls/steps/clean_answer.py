"""Remove from an answer what its server may not send: marks of the gateway, and forbidden links."""

from collections.abc import Callable, Collection

from maitred.calls.answer import Answer
from maitred.calls.cache import is_own_mark
from maitred.calls.pipeline import Call, Proceed
from maitred.calls.screening import only_links_to


class CleanAnswer:
    """`allowed_origins` returns the origins to which links of a server may lead; none is no limit."""

    def __init__(self, allowed_origins: Callable[[str], Collection[str]]) -> None:
        self._allowed_origins = allowed_origins

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and clean its answer."""
        answer = (await proceed(call)).without_meta(is_own_mark)
        if allowed := self._allowed_origins(call.tool.server):
            return Answer(wire=only_links_to(allowed, answer.wire))
        return answer
