"""Let a call wait for a person if the rules of the operator say so."""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class CallHolder(Protocol):
    """Knows which calls wait, and waits."""

    @property
    def has_rules(self) -> bool:
        """Whether a call may be held at all."""
        ...

    async def admit(self, call: Call) -> None:
        """Return when the call may be made; sets its `approval` if a person approved it.

        Raises:
            CallNotApprovedError: It may not be made; the text says why.
        """
        ...

    def answered(self, call: Call, answer: Answer) -> None:
        """Note the answer of a call that was made."""
        ...


class HoldCall:
    """Asks before the cache: also an answer that is stored already may be what a person has to allow.

    `recheck` raises if a call may not be made any more, since much may change while it waits.
    """

    def __init__(self, holder: CallHolder, recheck: Callable[[Call], object]) -> None:
        self._holder = holder
        self._recheck = recheck

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, at once or after it was approved.

        Raises:
            CallNotApprovedError: A person refused it, or there was no decision in time.
        """
        return self._after_admission(call, proceed) if self._holder.has_rules else proceed(call)

    async def _after_admission(self, call: Call, proceed: Proceed) -> Answer:
        started = time.perf_counter()
        try:
            await self._holder.admit(call)
        finally:
            call.waited_s += time.perf_counter() - started
        if call.approval is not None:
            self._recheck(call)
        answer = await proceed(call)
        self._holder.answered(call, answer)
        return answer
