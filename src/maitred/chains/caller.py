"""The caller of a call within a chain: the chain's own client, which answers what servers ask.

The client awaits the answer of the chain. So it gets neither the progress of a call inside, nor an answer
that asks for input.
"""

from maitred.backends.forwarding_caller import ForwardingCaller


class ChainCaller(ForwardingCaller):
    """Passes on what servers ask and log to the client of a chain."""

    takes_rounds = False
    wants_progress = False

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Dropped: the chain reports its own progress."""
