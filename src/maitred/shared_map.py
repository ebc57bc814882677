"""An immutable map whose next state shares what did not change.

A copy of a plain dictionary costs as much as all that it has. This map is cut into buckets by the hash of the
key, and `updated` copies only the buckets of changed keys.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Final, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_SHIFT: Final = 20
"""The bits of a hash above these choose the bucket; the lower ones choose the place in it."""
_FILL: Final = 128
"""Entries of a bucket, on average, of a new map; a map that grows to four times its size is made again."""


class SharedMap(Mapping[K, V]):
    """A map in no particular order, except that one with a single bucket has the order of insertion."""

    __slots__ = ("_buckets", "_most", "_size")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        table = dict(items)
        count = 1 << (len(table) // _FILL).bit_length()
        self._size = len(table)
        self._most = 4 * count * _FILL
        self._buckets: list[dict[K, V]] = [table]
        if count > 1:
            self._buckets = [{} for _ in range(count)]
            for key, value in table.items():
                self._bucket(key)[key] = value

    @staticmethod
    def of(items: Mapping[K, V]) -> "SharedMap[K, V]":
        """The same map if it is one of these, or else one with its entries."""
        return items if isinstance(items, SharedMap) else SharedMap(items)

    def updated(self, fresh: Mapping[K, V], removed: Iterable[K] = ()) -> "SharedMap[K, V]":
        """The map without some keys, which it need not have, and with other entries."""
        after: SharedMap[K, V] = SharedMap.__new__(SharedMap)
        after._buckets, after._most = list(self._buckets), self._most
        own: set[int] = set()
        for key in removed:
            after._own(key, own).pop(key, None)
        for key, value in fresh.items():
            after._own(key, own)[key] = value
        before = (len(self._buckets[at]) for at in own)
        after._size = self._size + sum(len(after._buckets[at]) for at in own) - sum(before)
        return after if after._size <= after._most else SharedMap(after.items())

    def _own(self, key: K, own: set[int]) -> dict[K, V]:
        """The bucket of a key, which is copied if it is not among its own buckets yet."""
        at = (hash(key) >> _SHIFT) & (len(self._buckets) - 1)
        if at not in own:
            own.add(at)
            self._buckets[at] = dict(self._buckets[at])
        return self._buckets[at]

    def _bucket(self, key: object) -> dict[K, V]:
        return self._buckets[(hash(key) >> _SHIFT) & (len(self._buckets) - 1)]

    def __getitem__(self, key: K) -> V:
        return self._bucket(key)[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: D | None = None) -> V | D | None:
        """The value of a key, or the default."""
        return self._bucket(key).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._bucket(key)

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._buckets)

    def __len__(self) -> int:
        return self._size

    def items(self) -> ItemsView[K, V]:
        """All entries."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """All values."""
        return _SharedValues(self)

    def __repr__(self) -> str:
        return f"SharedMap({dict(self.items())!r})"


class _Items(ItemsView[K, V]):
    """Entries, a bucket at a time."""

    _mapping: SharedMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(bucket.items() for bucket in self._mapping._buckets)  # noqa: SLF001


class _SharedValues(ValuesView[V]):
    """Values, a bucket at a time."""

    _mapping: "SharedMap[object, V]"

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(bucket.values() for bucket in self._mapping._buckets)  # noqa: SLF001
