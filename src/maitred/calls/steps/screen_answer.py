"""Screen answers and errors of servers for orders to the model, and for credentials."""

from collections.abc import Awaitable
from typing import Any, Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.calls.screening import Kind
from maitred.errors import ProtocolError
from maitred.model.tasks import is_task


class Screen(Protocol):
    """Screens answers; see `maitred.calls.screening`."""

    @property
    def is_off(self) -> bool:
        """Whether it passes everything, by its settings."""
        ...

    async def screened(
        self, answer: dict[str, Any], server: str, *, kind: Kind = "result", to_person: bool = False
    ) -> dict[str, Any]:
        """A result as a model may see it; itself if nothing was found."""
        ...

    async def screened_error(self, error: ProtocolError, *, to_person: bool = False) -> ProtocolError:
        """The error as a model may see it; itself if nothing was found."""
        ...


class ScreenAnswer:
    """A chain gets answers and errors unchanged, since its own answer is screened."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._is_off = screen.is_off

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, and screen its answer or error.

        Raises:
            ProtocolError: As a model may see it.
        """
        return proceed(call) if self._is_off or call.chain is not None else self._screened(call, proceed)

    async def _screened(self, call: Call, proceed: Proceed) -> Answer:
        try:
            answer = await proceed(call)
        except ProtocolError as error:
            screened = await self._screen.screened_error(error, to_person=call.to_person)
            if screened is error:
                raise
            raise screened from error
        kind: Kind = "task" if _is_bare_task(answer.wire) else "result"
        wire = await self._screen.screened(answer.wire, call.tool.server, kind=kind, to_person=call.to_person)
        return answer.with_wire(wire)


def _is_bare_task(wire: dict[str, Any]) -> bool:
    """Whether an answer is a new task, and nothing that a model reads as a result."""
    return is_task(wire) and "content" not in wire and "structuredContent" not in wire
