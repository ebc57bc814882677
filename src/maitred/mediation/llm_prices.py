"""Prices of language models, as their vendors published them until November 2026: USD per million tokens.

A model without a certain price is not in the table and has no price. These are the plain rates, without
discounts for cached tokens and batches.
"""

import re
from collections.abc import Mapping

PRICES: Mapping[str, tuple[float, float]] = {
    "claude-fable-5-1": (10.0, 50.0),
    "claude-opus-5-5": (4.0, 20.0),
    "claude-opus-5": (5.0, 25.0),
    "claude-opus-4-5": (5.0, 25.0),
    "claude-sonnet-5-5": (2.0, 10.0),
    "claude-sonnet-4-5": (3.0, 15.0),
    "claude-haiku-4-5": (1.0, 5.0),
    "gpt-5": (1.25, 10.0),
    "gpt-5-mini": (0.25, 2.0),
    "gpt-5-nano": (0.05, 0.40),
    "gpt-4.1": (2.0, 8.0),
    "gpt-4.1-mini": (0.40, 1.60),
    "gpt-4.1-nano": (0.10, 0.40),
    "gpt-4o": (2.50, 10.0),
    "gpt-4o-2024-05-13": (5.0, 15.0),
    "gpt-4o-mini": (0.15, 0.60),
}
"""Model -> price of input tokens and price of output tokens."""

_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}\Z")
_MILLION = 1_000_000


def usd(model: str, input_tokens: int, output_tokens: int) -> float | None:
    """The price of tokens; `None` if the model's price is unknown. A date after its name is ignored."""
    price = PRICES.get(model) or PRICES.get(_DATE.sub("", model))
    if price is None:
        return None
    return (price[0] * input_tokens + price[1] * output_tokens) / _MILLION
