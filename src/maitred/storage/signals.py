"""News of other processes on the same database: who waits for some is woken, or looks after a pause.

An engine that hears of changes calls `send`, and says by `is_live` whether it hears of them now.
SQLite tells nothing, so there a listener polls.
"""

from collections.abc import Callable
from typing import Final, Literal
from weakref import WeakMethod

import anyio

Topic = Literal["catalog", "decisions", "tokens"]
"""What changed: the generation, the decisions on servers and their registrations, or an access token."""
TOPICS: Final[tuple[Topic, ...]] = ("catalog", "decisions", "tokens")
MESSAGE: Final = "shared "
"""How a message between processes begins; see `maitred.storage.shared_state`."""
POLL_S: Final = 2.0
"""How often a listener looks by itself while the engine tells nothing."""
_LIVE_POLL_S: Final = 30.0
"""The same while it does: one look is cheap, and mends whatever was missed."""


class Signals:
    """Passes news on within one event loop."""

    def __init__(self) -> None:
        self.is_live = False
        self._messages: list[tuple[WeakMethod[Callable[[str], None]], WeakMethod[Callable[[], None]]]] = []
        self._listeners: dict[Topic, list[WeakMethod[Callable[[], None]]]] = {topic: [] for topic in TOPICS}

    def listen(self, topic: Topic, method: Callable[[], None]) -> None:
        """Call a method with each piece of news, as long as its object is there; it must not block."""
        self._listeners[topic].append(WeakMethod(method))

    def send(self, topic: Topic) -> None:
        """Tell all who listen that something changed."""
        listeners = [(one, one()) for one in self._listeners[topic]]
        self._listeners[topic] = [one for one, method in listeners if method is not None]
        for _, method in listeners:
            if method is not None:
                method()

    def send_all(self) -> None:
        """The same for every topic, after a time in which news may have been missed."""
        for topic in TOPICS:
            self.send(topic)
        for _, on_reset in self._messages:
            if (method := on_reset()) is not None:
                method()

    def listen_messages(self, heard: Callable[[str], None], on_reset: Callable[[], None]) -> None:
        """Call methods with each message between processes, and when some may have been missed."""
        self._messages.append((WeakMethod(heard), WeakMethod(on_reset)))

    def pass_message(self, text: str) -> None:
        """Pass a message on, which came without its mark."""
        for heard, _ in self._messages:
            if (method := heard()) is not None:
                method(text)

    def subscribe(self, topic: Topic) -> "SignalSubscription":
        """Remember news from now on, for a task that waits for it again and again."""
        return SignalSubscription(self, topic)


class SignalSubscription:
    """The news of one topic. None is lost between two waits."""

    def __init__(self, signals: Signals, topic: Topic) -> None:
        self._signals = signals
        self._is_new = anyio.Event()
        signals.listen(topic, self._note)

    def _note(self) -> None:
        self._is_new.set()

    async def wait(self) -> bool:
        """Wait for news, or until it is time to look without; whether there was some."""
        waited = 0.0
        while waited < (_LIVE_POLL_S if self._signals.is_live else POLL_S):
            with anyio.move_on_after(POLL_S):
                await self._is_new.wait()
                self._is_new = anyio.Event()
                return True
            waited += POLL_S
        return False
