"""What is remembered of an answer that was costly to get."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """An answer about one tool as JSON (`null`: there was none), and when it was given, in unix seconds."""

    answer: bytes
    at: float
