"""Callers of requests, for tests that look at what a server asks and sends them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from maitred.errors import CallerRefusedError
from maitred.model.asking import check_askable
from maitred.model.held_calls import HeldCall
from maitred.model.sharing import NO_SHARER

ALL: Mapping[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}
"""Capabilities of a client that answers everything."""


class Answering:
    """A caller that answers each method as `answers` say, and notes what it is asked and sent."""

    takes_rounds = False
    sharer = NO_SHARER

    def __init__(
        self,
        answers: Mapping[str, Mapping[str, Any] | CallerRefusedError] | None = None,
        *,
        key: str = "answering",
        principal: str = "ann",
        capabilities: Mapping[str, Any] = ALL,
        log_level: str = "",
    ) -> None:
        self.answers = dict(answers or {})
        self.key = key
        self.principal = principal
        self.capabilities = capabilities
        self.log_level = log_level
        self.wants_progress = True
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.reports: list[tuple[float, float | None, str | None]] = []
        self.logs: list[Mapping[str, Any]] = []
        self.noted: list[HeldCall] = []

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        check_askable(method, params, self.capabilities)
        self.asked.append((method, params))
        answer = self.answers[method]
        if isinstance(answer, CallerRefusedError):
            raise answer
        return dict(answer)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, total, message))

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        self.logs.append(params)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.asked.append((method, params))

    def note_held(self, call: HeldCall) -> None:
        self.noted.append(call)


class Reporting(Answering):
    """A caller that hands on progress, and answers nothing."""

    def __init__(self, report: Callable[..., Awaitable[None]]) -> None:
        super().__init__(key="reporting", capabilities={})
        self._report = report

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self._report(progress, total, message)
