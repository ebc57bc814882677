"""Count each call that reached its server, how long it took, and whether it succeeded."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.errors import ServerError
from maitred.model.tools import ToolKey, as_written
from maitred.usage.recorder import UsageRecorder

_BYTES_PER_TOKEN: Final = 4
log = structlog.get_logger(__name__)

CallWatcher = Callable[[str, bool, float], None]
"""Called with `(server, whether the call succeeded, seconds)`; must not block."""


class CountUsage:
    """`succeeded` is called with each tool that answered without error. Refused calls are not counted.

    `price_of` returns what a call of a tool costs, in millionths of a currency.
    """

    def __init__(
        self,
        usage: UsageRecorder,
        watchers: Sequence[CallWatcher],
        succeeded: Callable[[ToolKey], None],
        price_of: Callable[[ToolKey], int],
    ) -> None:
        self._price_of = price_of
        self._usage = usage
        self._watchers = watchers
        self._succeeded = succeeded

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and count it."""
        started = time.perf_counter()
        try:
            answer = await proceed(call)
        except ServerError:
            self._count(call, ok=False, elapsed_s=time.perf_counter() - started)
            raise
        ok = not answer.is_error
        self._count(call, ok=ok, elapsed_s=time.perf_counter() - started)
        if ok:
            self._succeeded(call.tool.key)
        return answer

    def _count(self, call: Call, *, ok: bool, elapsed_s: float) -> None:
        key = call.tool.key
        if call.chain is not None:
            log.debug("called", tool=f"{key.server}/{key.name}", ok=ok, chain=call.chain.id)
        self._usage.called(key, ok=ok, elapsed_ms=elapsed_s * 1_000)
        self._usage.spent(
            call.viewer.principal,
            calls=1,
            argument_tokens=_tokens_of(call.arguments),
            cost_micros=self._price_of(key),
        )
        for watcher in self._watchers:
            watcher(key.server, ok, elapsed_s)


def _tokens_of(arguments: Mapping[str, Any]) -> int:
    """The tokens of arguments, by the length of their JSON alone."""
    return len(as_written(arguments)) // _BYTES_PER_TOKEN if arguments else 0
