"""The token bucket: so much at once, and so much a second on average.

Pure arithmetic. The caller says what time it is, and decides whether to refuse or to wait.
"""


class TokenBucket:
    """Holds at most `size` tokens, is full at first, and gains `per_s` tokens a second.

    It may be overdrawn. `now` is in seconds of a clock; where the clock goes back, nothing is gained.
    """

    __slots__ = ("_at", "_per_s", "_size", "left")

    def __init__(self, *, per_s: float, size: float, now: float) -> None:
        self._at = now
        self.resize(per_s=per_s, size=size)
        self.left = float(size)
        """The tokens that there are; negative if it is overdrawn."""

    def resize(self, *, per_s: float, size: float) -> None:
        """Go by another rate and another size; what is above `size` is lost with the next refill.

        Raises:
            ValueError: It would hold less than one token, or lose tokens with time.
        """
        if size < 1 or per_s < 0:
            raise ValueError(
                f"a token bucket holds at least 1 token and gains no fewer than 0, not {size} and {per_s}"
            )
        self._per_s, self._size = per_s, size

    def refill(self, *, now: float) -> None:
        """Gain the tokens of the time since the last refill or skip."""
        self.left = min(self._size, self.left + max(0.0, now - self._at) * self._per_s)
        self._at = now

    def skip(self, *, now: float) -> None:
        """Let the time since the last refill or skip pass without gaining anything."""
        self._at = now

    def since_s(self, *, now: float) -> float:
        """The seconds since the last refill or skip."""
        return now - self._at

    def spend(self, count: float) -> None:
        """Take tokens, as many as there are or more."""
        self.left -= count

    def wait_s(self, count: float = 0.0) -> float:
        """The seconds until it holds `count` tokens; 0 if it does. Its rate must be above 0."""
        return max(0.0, (count - self.left) / self._per_s)

    def take(self, count: float, *, now: float) -> float:
        """Refill, spend, and return for how many seconds the caller must pause: until it is not overdrawn."""
        self.refill(now=now)
        self.spend(count)
        return self.wait_s()
