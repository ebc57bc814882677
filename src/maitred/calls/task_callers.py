"""Whom a server asks about a task: a client that waits for the result, or one that looks for questions.

In the handshake era a server asks while `tasks/result` waits. A client of the stateless era finds the
questions in the state of the task, and answers them by `tasks/update`. So the gateway waits in its place, and
keeps the questions until they are answered.
"""

from collections.abc import Mapping
from typing import Any, Final

import anyio

from maitred.backends.base import Caller
from maitred.backends.forwarding_caller import ForwardingCaller
from maitred.errors import CallerRefusedError
from maitred.model.asking import check_askable
from maitred.model.held_calls import HeldCall
from maitred.model.sharing import NO_SHARER
from maitred.model.tasks import RELATED_KEY

_INTERNAL_ERROR: Final = -32603


class RelatedCaller(ForwardingCaller):
    """A caller that is asked about a task: the question names the task by the id that the client knows.

    Without an id, the question names none, since the client made a call and knows of no task.
    """

    def __init__(self, caller: Caller, task_id: str = "") -> None:
        super().__init__(caller)
        self._task_id = task_id
        self._under_way = 0

    @property
    def is_asking(self) -> bool:
        """Whether the client has a question to answer."""
        return self._under_way > 0

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client; see `Caller`."""
        meta = params.get("_meta")
        others = {k: v for k, v in meta.items() if k != RELATED_KEY} if isinstance(meta, Mapping) else {}
        if self._task_id:
            others[RELATED_KEY] = {"taskId": self._task_id}
        asked = {key: value for key, value in params.items() if key != "_meta"}
        self._under_way += 1
        try:
            return await super().ask(method, asked | ({"_meta": others} if others else {}))
        finally:
            self._under_way -= 1


class QuestionKeeper:
    """Keeps the questions of one task for a client that looks for them; it is the `Caller` of the task."""

    log_level = ""
    takes_rounds = False
    wants_progress = False
    sharer = NO_SHARER

    def __init__(self, key: str, principal: str, capabilities: Mapping[str, Any]) -> None:
        self.key = key
        self.principal = principal
        self.capabilities = capabilities
        self._asked: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, Any] = {}
        self._number = 0
        self._news = anyio.Event()

    @property
    def questions(self) -> dict[str, Any]:
        """The questions without an answer, by keys that are never used again."""
        return dict(self._asked)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a question until it is answered; see `Caller`."""
        check_askable(method, params, self.capabilities)
        self._number += 1
        key = f"question-{self._number}"
        own = {name: value for name, value in params.items() if name not in ("_meta", "task")}
        self._asked[key] = {"method": method, "params": own}
        self._changed()
        try:
            while key not in self._answers:
                await self._news.wait()
        finally:
            self._asked.pop(key, None)
        answer = self._answers.pop(key)
        if not isinstance(answer, dict):
            raise CallerRefusedError(_INTERNAL_ERROR, f"the client's answer to {method} is no object")
        return answer

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Answer questions; others than those without an answer are ignored."""
        for key in responses.keys() & self._asked.keys():
            self._answers[key] = responses[key]
            del self._asked[key]
        self._changed()

    async def asked(self, within_s: float) -> None:
        """Wait until there is a question, but no longer than some seconds."""
        with anyio.move_on_after(within_s):
            while not self._asked:
                await self._news.wait()

    def _changed(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Dropped: the state of the task says how far it is."""

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Dropped: no request of the client is under way."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Dropped: the client looks for the state of the task."""

    def note_held(self, call: HeldCall) -> None:
        """Dropped: a call is held before its task begins."""
