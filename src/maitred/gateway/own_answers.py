"""Calls that the gateway answers itself, without a server: category tools, and pages of stored answers.

An agent reads them, so the audit trail has each. They take no step of a call, and change nothing but lists.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from maitred.audit.answers import text_of, tokens_of
from maitred.audit.service import AuditService, known_id
from maitred.calls.results import parse_result_uri
from maitred.errors import MaitredError
from maitred.gateway.lists import MenuLists
from maitred.gateway.stats import LEDGER_KEY
from maitred.gateway.stored_results import StoredResults
from maitred.model.access import Viewer
from maitred.model.tools import ToolCall

_CATEGORY: Final = "category"
_PAGE: Final = "page"


class OwnAnswers:
    """Answers such calls, and records them."""

    def __init__(self, lists: MenuLists, results: StoredResults, auditing: AuditService) -> None:
        self._lists = lists
        self._results = results
        self._auditing = auditing

    def answer(self, call: ToolCall, viewer: Viewer) -> dict[str, Any] | None:
        """The answer; `None` for a call of a tool.

        Raises:
            CursorError: The gateway did not make the cursor of a category.
            ResultNotFoundError: The answer is not stored, or not any more, or not for this principal.
        """
        started = time.perf_counter()
        try:
            found = self._lists.answer(call, viewer) or self._results.answer(call, viewer)
        except MaitredError as error:
            error.request_id = known_id(call.request_id, call.meta)
            result = {"content": [{"text": str(error)}]}
            self._record(call, viewer, started, result, outcome=error.code)
            raise
        if found is not None:
            self._record(call, viewer, started, found)
        return found

    def _record(
        self,
        call: ToolCall,
        viewer: Viewer,
        started: float,
        result: Mapping[str, Any],
        *,
        outcome: str = "ok",
    ) -> None:
        entry = result.get("_meta", {}).get(LEDGER_KEY)
        of_tool = parse_result_uri(call.name) is not None
        is_kept = self._auditing.keeps_tool_answers if of_tool else self._auditing.keeps_menu_answers
        self._auditing.menu(
            viewer,
            _PAGE if of_tool else _CATEGORY,
            request=call,
            published=call.name,
            arguments=dict(call.arguments),
            outcome=outcome,
            ms=(time.perf_counter() - started) * 1_000,
            tokens=entry["answer"] if entry else tokens_of(result),
            shown=[str(tool.get("name", "")) for tool in result.get("tools", ())],
            text=text_of(result) if is_kept else "",
        )
