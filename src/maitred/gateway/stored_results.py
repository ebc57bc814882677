"""Stored answers for those who made the calls, and the rules by which answers become shorter."""

from typing import Any, Final

import structlog

from maitred.calls.answer import text_block
from maitred.calls.results import AnswerLimit, ResultPage, ResultStore, parse_result_uri
from maitred.config.result_rules import ToolResultRule, rule_for
from maitred.disclosure.budget import estimate
from maitred.errors import StoreError
from maitred.gateway.client_shapes import answer_limit
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.annotations import annotate
from maitred.model.tools import ToolCall, ToolKey
from maitred.storage.shared_state import SharedState

log = structlog.get_logger(__name__)

_LEAST_CHARACTERS: Final = 400
_MOST_SHARED_BYTES: Final = 8 * 1024 * 1024
"""Of one answer; a longer one can be read at the gateway that made the call alone."""


def _fits(text: str, limit: AnswerLimit) -> bool:
    return estimate(text) <= limit.tokens and len(text) <= (limit.characters or len(text))


class StoredResults:
    """Reads answers that were too long, by page or by words; `state` has those of other gateways."""

    def __init__(self, store: ResultStore, state: SharedState) -> None:
        self._store = store
        self._state = state

    async def share(self) -> None:
        """Let other gateways read what was stored since; where that cannot be done, this one alone has it."""
        for result_id, data in self._store.take_unshared():
            if len(data) > _MOST_SHARED_BYTES:
                continue
            try:
                await self._state.put(f"result:{result_id}", data, self._store.ttl_s)
            except StoreError as error:
                log.warning("other gateways cannot read an answer that is kept", reason=error.reason)

    async def fetch(self, result_id: str) -> None:
        """Have an answer here that another gateway stored, if there is one."""
        if not self._state.is_shared or self._store.knows(result_id):
            return
        try:
            data = await self._state.get(f"result:{result_id}")
        except StoreError as error:
            log.warning("an answer that another gateway may keep was not read", reason=error.reason)
            return
        if data is not None:
            self._store.adopt(result_id, data)

    async def fetch_for(self, call: ToolCall) -> None:
        """The same for the answer that a call asks for, if it does."""
        if self._state.is_shared and (asked := parse_result_uri(call.name)) is not None:
            await self.fetch(asked.result_id)

    def page(self, viewer: Viewer, result_id: str, cursor: str = "", find: str = "") -> ResultPage:
        """A page of an answer, or the parts of it that have the words of `find`.

        Raises:
            ResultNotFoundError: It is not stored, or not any more, or not for this principal.
        """
        if find:
            return self._store.find(viewer.principal, result_id, find)
        page, limit = self._store.page(viewer.principal, result_id, cursor), answer_limit(viewer)
        while limit and len(page.text) > _LEAST_CHARACTERS and not _fits(page.text, limit):
            page = self._store.page(viewer.principal, result_id, cursor, len(page.text) // 2)
        return page

    def answer(self, call: ToolCall, viewer: Viewer) -> dict[str, Any] | None:
        """The result of a call whose name is the URI of a stored answer; `None` for any other call.

        Some clients let their models call tools, and read no resources.

        Raises:
            ResultNotFoundError: It is not stored, or not any more, or not for this principal.
        """
        asked = parse_result_uri(call.name)
        if asked is None:
            return None
        page = self.page(viewer, asked.result_id, asked.cursor, asked.find)
        base = call.name.partition("?")[0]
        more = f"\nThere is more: {base}?cursor={page.next_cursor}" if page.next_cursor else ""
        text = page.text + more
        return {"content": [text_block(text, annotations=annotate(len(text)))]}


class RuleChoice:
    """Chooses the rule for a tool from the settings, and from what its server calls itself."""

    def __init__(self, context: GatewayState) -> None:
        self._context = context
        self._revision = -1
        self._rules: dict[tuple[ToolKey, str], ToolResultRule | None] = {}

    def __call__(self, key: ToolKey) -> ToolResultRule | None:
        """The rule for the answers of a tool; `None` if there is none."""
        if self._revision != self._context.revision:
            self._revision = self._context.revision
            self._rules.clear()
        record = self._context.snapshot.servers.get(key.server)
        name = record.facts.title if record else ""
        if (key, name) not in self._rules:
            self._rules[key, name] = rule_for(self._context.settings.results, key.server, key.name, name)
        return self._rules[key, name]
