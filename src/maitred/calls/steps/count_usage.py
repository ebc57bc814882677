"""Count each call that reached its server, how long it took, and whether it succeeded."""

import time
from collections.abc import Callable, Sequence

import structlog

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.errors import ServerError
from maitred.model.tools import ToolKey
from maitred.usage.recorder import UsageRecorder

log = structlog.get_logger(__name__)

CallWatcher = Callable[[str, bool, float], None]
"""Called with `(server, whether the call succeeded, seconds)`; must not block."""


class CountUsage:
    """`succeeded` is called with each tool that answered without error. Refused calls are not counted."""

    def __init__(
        self, usage: UsageRecorder, watchers: Sequence[CallWatcher], succeeded: Callable[[ToolKey], None]
    ) -> None:
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
        for watcher in self._watchers:
            watcher(key.server, ok, elapsed_s)
