"""How fast a server may write: the arithmetic of a limit in bytes a second, without any clock or waiting.

Whoever reads a server's output takes what came, asks how long to read nothing more, and does so: the server's
pipe fills up, and it waits. Nothing that it wrote is lost.
"""


class Meter:
    """A bucket of `rate` bytes that fills up at `rate` bytes a second; what is taken may empty it and more.

    So a burst of one second's worth passes at once, and over a longer time no more than `rate` a second does.
    """

    def __init__(self, rate: int, *, now: float) -> None:
        if rate < 1:
            raise ValueError(f"a rate is at least 1 byte a second, not {rate}")
        self._rate = rate
        self._left = float(rate)
        self._at = now

    def take(self, count: int, *, now: float) -> float:
        """Account for bytes that came, and return the seconds for which nothing more may be read.

        `now` is in seconds by a clock that never goes back. 0 while there is something left.
        """
        self._left = min(self._rate, self._left + (now - self._at) * self._rate) - count
        self._at = now
        return max(0.0, -self._left / self._rate)
