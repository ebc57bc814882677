"""Which tool is in which row of the index, and which rows a search may use."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Tool, ToolKey
from maitred.search.results import Filter
from maitred.search.tokenize import normalise_name

Mask = NDArray[np.bool_]

_KEPT_MASKS = 256


class Rows:
    """A row for each tool. Numbers rise and are never used again, so that arrays by row stay correct."""

    def __init__(self) -> None:
        self.capacity = 0
        self.tools: dict[int, Tool] = {}
        self._rows: dict[ToolKey, int] = {}
        self._by_server: Mapping[str, Sequence[Tool]] = {}
        self._exact: dict[str, int | tuple[int, ...]] = {}
        """The rows of each name. Most names have one, and a number takes less memory than a tuple."""
        self._server_numbers: dict[str, int] = {}
        self._server_names: dict[str, list[int]] = {}
        self._masks: dict[Filter, tuple[Mask, Mask]] = {}
        self._servers: NDArray[np.int32] = np.full(64, -1, np.int32)
        self._read_only: Mask = np.zeros(64, np.bool_)
        self._hidden: Mask = np.zeros(64, np.bool_)

    def detach(self) -> None:
        """Share no table with the rows that these are a shallow copy of."""
        self.tools, self._rows, self._exact = dict(self.tools), dict(self._rows), dict(self._exact)
        self._server_numbers = dict(self._server_numbers)
        self._server_names = {name: list(numbers) for name, numbers in self._server_names.items()}
        self._servers, self._read_only = self._servers.copy(), self._read_only.copy()
        self._hidden, self._masks = self._hidden.copy(), {}

    def row(self, key: ToolKey) -> int | None:
        """Return the row of a tool, if it has one."""
        return self._rows.get(key)

    def step(self, snapshot: Snapshot) -> tuple[list[int], list[tuple[int, Tool]]]:
        """Bring the rows to a snapshot; return the removed rows and the new rows.

        Only servers are looked at whose tools the snapshot does not share with the one before.
        """
        before, now = self._by_server, snapshot.by_server
        servers = before.keys() | now.keys()
        changed = [server for server in servers if before.get(server) is not now.get(server)]
        known = [self._rows[tool.key] for server in changed for tool in before.get(server, ())]
        removed = [row for row in known if snapshot.by_key.get(self.tools[row].key) != self.tools[row]]
        for row in removed:
            self._drop(row)
        added = [tool for server in changed for tool in now.get(server, ()) if tool.key not in self._rows]
        fresh = [(self._take(tool), tool) for tool in sorted(added, key=lambda tool: tool.name)]
        self._by_server = now
        self._masks.clear()
        return removed, fresh

    def _take(self, tool: Tool) -> int:
        row, self.capacity = self.capacity, self.capacity + 1
        if row >= len(self._servers):
            self._servers = np.concatenate([self._servers, np.full_like(self._servers, -1)])
            self._read_only = np.concatenate([self._read_only, np.zeros_like(self._read_only)])
            self._hidden = np.concatenate([self._hidden, np.zeros_like(self._hidden)])
        self.tools[row] = tool
        self._rows[tool.key] = row
        if tool.server not in self._server_numbers:
            number = self._server_numbers[tool.server] = len(self._server_numbers)
            self._server_names.setdefault(normalise_name(tool.server), []).append(number)
        self._servers[row] = self._server_numbers[tool.server]
        self._read_only[row] = tool.read_only
        self._hidden[row] = bool(tool.withheld) or (tool.mending is not None and tool.mending.hidden)
        for name in _names(tool):
            self._put(name, (*self._named(name), row))
        return row

    def _drop(self, row: int) -> None:
        tool = self.tools.pop(row)
        del self._rows[tool.key]
        self._servers[row] = -1
        for name in _names(tool):
            self._put(name, tuple(one for one in self._named(name) if one != row))

    def _named(self, name: str) -> tuple[int, ...]:
        rows = self._exact.get(name, ())
        return (rows,) if isinstance(rows, int) else rows

    def _put(self, name: str, rows: tuple[int, ...]) -> None:
        if rows:
            self._exact[name] = rows[0] if len(rows) == 1 else rows
        else:
            self._exact.pop(name, None)

    @property
    def unused(self) -> int:
        """The number of rows that no longer have a tool."""
        return self.capacity - len(self.tools)

    def mask(self, limits: Filter) -> tuple[Mask, Mask]:
        """Return the rows that a search may show, and the rows that fit but may not be shown."""
        if limits not in self._masks:
            if len(self._masks) >= _KEPT_MASKS:
                self._masks.clear()
            self._masks[limits] = self._mask(limits)
        return self._masks[limits]

    def _mask(self, limits: Filter) -> tuple[Mask, Mask]:
        fits = np.zeros(len(self._server_numbers) + 1, np.bool_)  # the last is for rows without tool (-1)
        shown_servers = np.zeros_like(fits)
        for server, number in self._server_numbers.items():
            fits[number] = server == limits.server or not limits.server
            shown_servers[number] = fits[number] and server in limits.visible
        servers = self._servers[: self.capacity]
        kind = self._read_only[: self.capacity] if limits.read_only else np.ones(self.capacity, np.bool_)
        if limits.asks_each:
            kind = kind & self._fitting(limits)
        may = shown_servers[servers] & ~self._hidden[: self.capacity]
        may[[self._rows[key] for key in limits.outside if key in self._rows]] = False
        return may & kind, fits[servers] & ~may & kind

    def _fitting(self, limits: Filter) -> Mask:
        """Return the rows of tools that a filter names, in its categories and with its tags."""
        mask = np.zeros(self.capacity, np.bool_)
        for row, tool in self.tools.items():
            if limits.only is not None and tool.key not in limits.only:
                continue
            place = tool.placement
            of_category = not limits.categories or place.category in limits.categories
            of_part = limits.subcategory in ("", place.subcategory)
            of_group = not limits.group or (place.group is not None and place.group.name == limits.group)
            mask[row] = of_category and of_part and of_group and limits.tags.issubset(place.tags)
        return mask

    def rows_of_name(self, phrase: str, mask: Mask) -> list[int]:
        """Return the rows whose published or raw name is the phrase, in any spelling, sorted by name."""
        name = normalise_name(phrase)
        rows = [row for row in self._named(name) if name and mask[row]]
        return sorted(rows, key=lambda row: self.tools[row].name)

    def of_server(self, phrase: str, mask: Mask) -> AbstractSet[int]:
        """Return the rows of the servers whose name is the phrase."""
        name = normalise_name(phrase)
        numbers = self._server_names.get(name, [])
        if not name or not numbers:
            return frozenset()
        return set(np.flatnonzero(np.isin(self._servers[: self.capacity], numbers) & mask).tolist())


def _names(tool: Tool) -> set[str]:
    return {normalise_name(tool.name), normalise_name(tool.key.name)}
