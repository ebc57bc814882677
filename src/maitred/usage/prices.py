"""What use costs, by the operator's prices: tokens by the model that reads and writes them, calls by tool.

Money is counted in millionths of the currency, so that sums are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from cachetools import LRUCache

from maitred.config.monitoring_settings import UsageSettings
from maitred.model.tools import ToolKey
from maitred.model.usage import Spending

MICROS = 1_000_000
_MOST_KNOWN = 10_000


class PriceList:
    """The prices of a configuration; without any, everything costs nothing."""

    def __init__(self, settings: UsageSettings) -> None:
        self.currency = settings.currency
        self._calls: Mapping[str, float] = settings.calls
        self._price = settings.prices.get(settings.model)
        self._of_tool: LRUCache[ToolKey, int] = LRUCache(_MOST_KNOWN)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has a price."""
        return not self._calls and self._price is None

    def of_call(self, key: ToolKey) -> int:
        """The price of one call in millionths: that of the first pattern of `server/tool` that fits."""
        if not self._calls:
            return 0
        known = self._of_tool.get(key)
        if known is None:
            name = f"{key.server}/{key.name}"
            prices = (price for pattern, price in self._calls.items() if fnmatchcase(name, pattern))
            known = self._of_tool[key] = round(next(prices, 0.0) * MICROS)
        return known

    def of_tokens(self, row: Spending) -> int:
        """The price in millionths of the tokens that an agent read, and wrote as arguments."""
        if self._price is None:
            return 0
        return round(row.read_tokens * self._price.read + row.argument_tokens * self._price.written)


@dataclass(frozen=True, kw_only=True)
class UsageShare:
    """What a principal, or all of one role, used in some days. `cost` is in the currency of the prices."""

    name: str
    calls: int
    read_tokens: int
    argument_tokens: int
    raw_tokens: int
    cost: float
