"""What may cross the border of a chain, in either direction: plain JSON, of bounded size.

With a few bytes a program can build a list that contains itself a billion times. `repr` or `json.dumps`
of it would fill the machine. So this module walks every value first, with its own stack, and a part that
is reached twice counts twice. The copy shares nothing with the original.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import anyio

from maitred.chains.base import ChainLimits

LEAST_INT, MOST_INT = -(2**63), 2**64 - 1
"""Whole numbers that every JSON reader here can hold; unsigned 64-bit identifiers are in use."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_STEP_PARTS = 5_000
_MOST_BITS = 4_096  # writing a longer number takes the square of its length
_CONTAINERS = (dict, list, tuple, set, frozenset)


class TooBigError(ValueError):
    """A value cannot cross: it, or the total so far, is too large or too deep; the text says so."""


class NotPlainError(TooBigError):
    """It cannot cross at any size: it contains something that JSON cannot represent."""


class UnawaitedError(TooBigError):
    """It contains a call that was never awaited."""


def bounded_copy(value: Any, limits: ChainLimits) -> Any:
    """A copy of `value` as plain JSON within `call_bytes`, `nodes` and `depth`.

    Tuples and sets become lists, lone surrogates U+FFFD, keys that are whole numbers text.

    Raises:
        TooBigError: It is too large, too deep or contains itself.
        NotPlainError: It is or contains bytes, a number that is not finite, an object, ...
    """
    walk = _ValueCopy(value, limits)
    while walk.step():
        pass
    return walk.copy


async def crossing(
    value: Any, limits: ChainLimits, *, lenient: bool = False, refused: tuple[str, ...] = ()
) -> tuple[Any, int]:
    """As `bounded_copy`, but yields to other tasks; also returns the size as JSON in bytes, to a few percent.

    Args:
        value: The value that crosses.
        limits: The limits for it.
        lenient: Convert whole numbers of over 64 bits to text, and numbers that are not finite to `None`.
        refused: A text that begins like one of these cannot cross; it raises `UnawaitedError`.
    """
    walk = _ValueCopy(value, limits, lenient=lenient, refused=refused)
    while walk.step():
        await anyio.lowlevel.checkpoint()
    return walk.copy, walk.bytes


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for unpaired surrogates, which no encoding has."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class _ValueCopy:
    """One copy in progress: containers wait on a stack, each with its copy, which is filled in place."""

    def __init__(
        self, value: Any, limits: ChainLimits, *, lenient: bool = False, refused: tuple[str, ...] = ()
    ) -> None:
        self._limits = limits
        self._lenient = lenient
        self._refused = refused
        self._nodes = 0
        self.bytes = 0
        self._root: list[Any] = []
        self._stack: list[tuple[Iterator[Any], Any, int]] = [(iter((value,)), self._root, 0)]

    @property
    def copy(self) -> Any:
        return self._root[0]

    def step(self) -> bool:
        """Copy some thousand more parts; false once all are copied."""
        left = _STEP_PARTS
        while self._stack and left > 0:
            source, target, depth = self._stack.pop()
            chunk = list(islice(source, left))
            if len(chunk) == left:  # there may be more of it
                self._stack.append((source, target, depth))
            left -= len(chunk) + 1
            if isinstance(target, dict):
                self._fill(chunk, target, depth)
            else:
                target.extend([self._plain(item, depth) for item in chunk])
        return bool(self._stack)

    def _fill(self, members: Sequence[tuple[Any, Any]], target: dict[str, Any], depth: int) -> None:
        for key, item in members:
            name = self._key(key)
            if name in target:
                raise NotPlainError(f"two keys of a dict are the same text, {name[:40]!r}")
            target[name] = self._plain(item, depth)

    def _plain(self, item: Any, depth: int) -> Any:
        """A scalar, or the empty copy of a container that is filled later."""
        if isinstance(item, str):
            return self._text(item)
        if item is None or isinstance(item, bool):
            return item
        if isinstance(item, int):
            return self._whole(item)
        if isinstance(item, float):
            return self._real(item)
        if isinstance(item, _CONTAINERS):
            if depth >= self._limits.depth:
                raise TooBigError(f"it is nested over {self._limits.depth} levels deep, or holds itself")
            self._take(len(item))
            copy: Any = {} if isinstance(item, dict) else []
            self._stack.append((iter(item.items() if isinstance(item, dict) else item), copy, depth + 1))
            return copy
        raise NotPlainError(_refusal(item))

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return self._text(key)
        if isinstance(key, int) and not isinstance(key, bool):
            return str(self._whole(key))
        raise NotPlainError(f"a key of a dict is of the type {type(key).__name__}: keys must be text")

    def _whole(self, number: int) -> int | str:
        if not LEAST_INT <= number <= MOST_INT:
            if self._lenient and number.bit_length() <= _MOST_BITS:
                return self._text(str(number))
            raise NotPlainError("it holds a whole number of more than 64 bits; pass it as text")
        self._weigh(number.bit_length() // 3)
        return int(number)

    def _real(self, number: float) -> float | None:
        if not math.isfinite(number):
            if self._lenient:
                return None
            raise NotPlainError("it holds NaN or an infinity, which JSON has no form for; use None")
        self._weigh(16)
        return float(number)

    def _text(self, text: str) -> str:
        if self._refused and text.startswith(self._refused):
            raise UnawaitedError
        self._weigh(len(text) + 2)
        if not text.isascii():
            text = replace_surrogates(text)
            self._weigh(len(text.encode()) - len(text))
        return str.__str__(text)

    def _take(self, parts: int) -> None:
        """Count more parts, each of which takes at least a separator and a character."""
        self._nodes += parts
        if self._nodes > self._limits.nodes:
            raise TooBigError(f"it has over {self._limits.nodes:,} parts")
        self._weigh(2 * parts)

    def _weigh(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self._limits.call_bytes:
            raise TooBigError(f"it is over {self._limits.call_bytes:,} bytes")


def _refusal(item: Any) -> str:
    kind = type(item).__name__
    advice = {
        "bytes": "decode it, or encode it as base64 text",
        "datetime": "use its isoformat()",
        "date": "use its isoformat()",
        "Decimal": "use str() or float() of it",
        "PurePosixPath": "use str() of it",
        "MontyClassProxy": "return its fields as a dict",
    }.get(kind, "use text, numbers, True, False, None, lists and dicts")
    what = "an object of a class" if kind.startswith("Monty") else f"a value of the type {kind[:40]}"
    return f"it holds {what}, which JSON has no form for; {advice}"
