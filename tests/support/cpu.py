"""Bounds on work that hold on a busy machine, where the clock on the wall says nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_within(seconds: float) -> Iterator[None]:
    """Fail if the block costs this process more processor time than that, in all of its threads."""
    started = time.process_time()
    yield
    spent = time.process_time() - started
    assert spent < seconds, f"{spent:.2f} s of processor time instead of {seconds:g}"
