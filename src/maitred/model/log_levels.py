"""The levels of log messages between servers and clients, as the protocol orders them (RFC 5424)."""

from typing import Final, Literal, get_args

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)
"""From the least severe to the most severe."""

DEFAULT_LEVEL: Final = "info"
"""What a client of the handshake era gets as long as it sets no level."""


def reaches(level: object, least: str) -> bool:
    """Whether a message of a level goes to a client that wants `least` and above.

    A message of an unknown level counts as `info`; a client that wants an unknown level, or none, gets none.
    """
    if least not in LEVELS:
        return False
    known = level if level in LEVELS else DEFAULT_LEVEL
    return LEVELS.index(known) >= LEVELS.index(least)
