"""What surfaces count: the tokens that agents were sent, and who got them; these are methods of `Gateway`."""

from collections.abc import Mapping, Sequence
from typing import Any

from maitred.audit.answers import text_of
from maitred.audit.service import AuditService
from maitred.calls.outline import outline
from maitred.disclosure.budget import estimate
from maitred.gateway.client_register import ClientRegister
from maitred.gateway.stats import LEDGER_KEY, SpendingLedger
from maitred.model.access import Viewer
from maitred.model.tools import Tool, ToolCall


class TokenCounts:
    """The methods of a gateway by which surfaces count what they send to agents."""

    _ledger: SpendingLedger
    _clients: ClientRegister
    _auditing: AuditService

    def tokens_of(self, text: str) -> int:
        """The tokens of a text, as estimated from above; nothing is recorded."""
        return estimate(text)

    def outline_of(self, value: Any, budget_tokens: int = 300) -> str:
        """The shape of a JSON value or the kind of a text, with its beginning; nothing is recorded."""
        return outline(value, budget_tokens, estimate)

    def raw_tokens(self, viewer: Viewer) -> int:
        """What a list of all tools that a list of this viewer may have would cost."""
        return self._ledger.raw_tokens(viewer)

    def count_menu(self, definitions: Sequence[Mapping[str, Any]], viewer: Viewer) -> None:
        """Record that a viewer received the menu as a list of definitions."""
        self._clients.note(viewer)
        self._ledger.listed(viewer, definitions)

    def count_tools(self, tools: Sequence[Tool], viewer: Viewer) -> None:
        """Record that a viewer received a page of tools."""
        self._clients.note(viewer)
        self._ledger.listed_raw(viewer, sum(tool.cost_tokens for tool in tools))

    def count_categories(
        self, own: Sequence[Mapping[str, Any]], tools: Sequence[Tool], viewer: Viewer
    ) -> None:
        """Record that a viewer received a page of tools and, on the first page, the definitions `own`."""
        self._clients.note(viewer)
        self._ledger.listed_categories(viewer, own, tools)

    def count_answer(self, text: str, viewer: Viewer) -> dict[str, Any]:
        """Record the own answer of a meta-tool; returns the entry for the answer's `_meta`."""
        self._clients.note(viewer)
        return self._ledger.answered(viewer, text)

    def count_result(self, result: Mapping[str, Any], viewer: Viewer) -> dict[str, Any]:
        """Record the answer of a tool; returns the entry for the answer's `_meta`."""
        self._clients.note(viewer)
        return self._ledger.relayed(viewer, result)

    def record_menu_answer(
        self,
        action: str,
        call: ToolCall,
        viewer: Viewer,
        result: Mapping[str, Any],
        *,
        arguments: Any,
        outcome: str,
        ms: float,
        tools: Sequence[str],
    ) -> None:
        """Record an own answer of a meta-tool, which was counted before, in the audit trail.

        Args:
            action: What it did, as a word of the trail.
            call: The call of the meta-tool.
            viewer: Who called.
            result: The answer, with the ledger's entry.
            arguments: What was asked.
            outcome: `ok`, `nothing_found`, or the code of an error.
            ms: How long it took.
            tools: The published names of the tools in the answer, in their order.
        """
        self._auditing.menu(
            viewer,
            action,
            request=call,
            published=call.name,
            arguments=arguments,
            outcome=outcome,
            ms=ms,
            tokens=result["_meta"][LEDGER_KEY]["answer"],
            shown=tools,
            text=text_of(result) if self._auditing.keeps_menu_answers else "",
        )
