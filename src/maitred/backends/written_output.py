"""What a server wrote to standard error, over all the processes that it had since the gateway began.

A backend has one `Tail` for all its processes. If a server is restarted, a new backend takes it over from the
one that ends, so that no line is lost in between.
"""

from collections.abc import Sequence

from maitred.backends.base import Backend
from maitred.backends.process import Tail


class OutputWriter:
    """A part of a backend whose server writes to standard error; each process begins with `tail.begin`."""

    def __init__(self) -> None:
        self.tail = Tail()

    def last_output(self, *, earlier: bool = False) -> Sequence[str]:
        """The last lines of standard error, of the running process or of the last one."""
        return self.tail.lines(earlier=earlier)


def continue_output(backend: Backend, earlier: Backend) -> None:
    """Let the output of a backend go on where that of an earlier one of the same server ends."""
    if isinstance(backend, OutputWriter) and isinstance(earlier, OutputWriter):
        backend.tail = earlier.tail
