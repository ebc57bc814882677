"""Durations as every page writes them, rounded in this one place.

*Work time* is the sum of what acts took, without the time in which a person decided. *Elapsed time* is from
the beginning of the first act to the end of the last one, with all pauses.
"""

from typing import Final

_SECOND_MS: Final = 1_000
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600


def duration_text(ms: float) -> str:
    """A duration of some milliseconds to read, such as `12 ms`, `1.2 s` or `3 min 5 s`."""
    if 0 < ms < 1:
        return "<1 ms"
    if round(ms) < _SECOND_MS:
        return f"{round(ms)} ms"
    if round(ms / _SECOND_MS, 1) < _MINUTE_S:
        return f"{ms / _SECOND_MS:.1f} s"
    seconds = round(ms / _SECOND_MS)
    if seconds < _HOUR_S:
        return _two(seconds // _MINUTE_S, "min", seconds % _MINUTE_S, "s")
    minutes = round(seconds / _MINUTE_S)
    return _two(minutes // _MINUTE_S, "h", minutes % _MINUTE_S, "min")


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large:,} {unit} {small} {part}" if small else f"{large:,} {unit}"
