"""The arithmetic of a rate: a burst passes, more is held back, and nothing is counted twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.token_bucket import TokenBucket


def test_a_burst_of_one_second_passes_at_once_and_the_next_bytes_wait() -> None:
    """For as long as they take at the rate."""
    bucket = TokenBucket(per_s=1000, size=1000, now=5.0)

    assert bucket.take(1000, now=5.0) == 0
    assert bucket.take(500, now=5.0) == pytest.approx(0.5)


def test_what_was_not_used_is_not_kept_for_longer_than_a_second() -> None:
    """A server that was silent for an hour may not flood then."""
    bucket = TokenBucket(per_s=1000, size=1000, now=0.0)

    assert bucket.take(3000, now=3600.0) == pytest.approx(2.0)


def test_a_rate_of_nothing_is_no_rate() -> None:
    """It would hold a server up for ever."""
    with pytest.raises(ValueError, match="at least 1 token"):
        TokenBucket(per_s=0, size=0, now=0.0)


@given(
    rate=st.integers(min_value=1, max_value=10**9),
    chunks=st.lists(st.integers(min_value=1, max_value=300_000), min_size=1, max_size=50),
)
def test_whoever_waits_as_told_never_passes_more_than_the_rate(rate: int, chunks: list[int]) -> None:
    """Beside one second's worth and the last chunk, whatever the sizes."""
    bucket, now, passed = TokenBucket(per_s=rate, size=rate, now=0.0), 0.0, 0
    for chunk in chunks:
        wait = bucket.take(chunk, now=now)
        passed += chunk
        assert passed <= rate * (now + 1) + chunk + 1
        now += wait
