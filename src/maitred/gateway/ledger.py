"""The token ledger: what finding tools cost a principal today, beside what the raw list would have cost.

Tokens are estimated (an upper bound, see `maitred.disclosure.budget`) and written off the path of a request.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from maitred.catalog.usage import UsageRecorder
from maitred.disclosure.budget import estimate, for_model
from maitred.gateway.context import Context
from maitred.gateway.menu import Menu
from maitred.model.tools import Tool

LEDGER_KEY: Final = "maitred/tokens"
"""Where the ledger stands in the `_meta` of an answer."""

_CHARACTERS_PER_TOKEN = 4


class Ledger:
    """Writes down what each principal is given."""

    def __init__(self, context: Context, menu: Menu, usage: UsageRecorder) -> None:
        self._context = context
        self._menu = menu
        self._usage = usage
        self.menu_tokens = 0
        """What the menu cost when it was last given out."""

    @property
    def raw_tokens(self) -> int:
        """What a list of all tools that a list may have would cost."""
        return self._menu.kept("raw", self._raw)

    def _raw(self) -> int:
        return sum(tool.cost_tokens for tool in self._context.listable())

    def listed(self, principal: str, definitions: Sequence[Mapping[str, Any]]) -> None:
        """The menu was given out as a list of definitions."""
        self.menu_tokens = self._menu.kept("list", lambda: _size(definitions))
        raw = self.raw_tokens
        self._usage.spent(principal, lists=1, list_tokens=self.menu_tokens, raw_tokens=raw)

    def listed_raw(self, principal: str, tokens: int) -> None:
        """A page of raw definitions was given out."""
        self._usage.spent(principal, lists=1, list_tokens=tokens, raw_tokens=tokens)

    def listed_categories(
        self, principal: str, own: Sequence[Mapping[str, Any]], tools: Sequence[Tool]
    ) -> None:
        """A page of a list of categories was given out: definitions of `own` on the first page, and tools."""
        tokens = sum(tool.cost_tokens for tool in tools) + (_size(own) if own else 0)
        raw = self.raw_tokens if own else 0
        self._usage.spent(principal, lists=1, list_tokens=tokens, raw_tokens=raw)

    def answered(self, principal: str, text: str) -> dict[str, Any]:
        """A meta-tool answered of its own; the entry for the answer's `_meta`."""
        tokens = estimate(text)
        self._usage.spent(principal, answers=1, answer_tokens=tokens)
        return self._entry(principal, tokens)

    def relayed(self, principal: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """A tool's own answer was passed on; counted by its length alone, since it may be long."""
        content = result.get("content")  # as its server sent it, and so perhaps of another shape
        blocks = content if isinstance(content, list) else ()
        texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
        tokens = sum(len(text) for text in texts if isinstance(text, str)) // _CHARACTERS_PER_TOKEN
        self._usage.spent(principal, results=1, result_tokens=tokens)
        return self._entry(principal, tokens)

    def _entry(self, principal: str, tokens: int) -> dict[str, Any]:
        today = self._usage.today(principal)
        return {
            "answer": tokens,
            "spent_today": today.spent,
            "raw_list": self.raw_tokens,
            "raw_today": today.raw_tokens,
            "break_even": today.break_even,
        }


def _size(definitions: Sequence[Mapping[str, Any]]) -> int:
    return estimate(for_model(definitions))
