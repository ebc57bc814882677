"""Stops the clock of a chain while one of its calls waits for a person.

Time limits of a chain are there for programs that run too long. A person may take minutes, in which the chain
only waits.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final

import anyio

_NEVER: Final = float("inf")


class Pauses:
    """The cancel scopes of a chain whose deadlines move. For one event loop."""

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, float] = {}
        self._count = 0
        self._contexts: list[Callable[[], AbstractContextManager[None]]] = []
        self._entered = ExitStack()

    @contextmanager
    def entering(self, context: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Be in a new `context` during every pause that begins before this one is left."""
        self._contexts.append(context)
        try:
            yield
        finally:
            self._contexts.remove(context)

    @contextmanager
    def moving(self, scope: anyio.CancelScope) -> Iterator[None]:
        """Move the deadline of a scope by every pause that comes before the context is left."""
        self._scopes[scope] = _NEVER
        if self._count:
            self._stop(scope)
        try:
            yield
        finally:
            del self._scopes[scope]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass until the context is left; pauses may overlap."""
        self._count += 1
        if self._count == 1:
            for scope in self._scopes:
                self._stop(scope)
            for context in self._contexts:
                self._entered.enter_context(context())
        try:
            yield
        finally:
            self._count -= 1
            if self._count == 0:
                self._entered.close()
                for scope, left_s in self._scopes.items():
                    if scope.deadline == _NEVER:  # else it was set meanwhile, to end the chain
                        scope.deadline = anyio.current_time() + left_s

    def _stop(self, scope: anyio.CancelScope) -> None:
        self._scopes[scope] = scope.deadline - anyio.current_time()
        scope.deadline = _NEVER
