"""Which tool stands in which row of the index, and which rows a search may look at."""

from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Tool, ToolKey
from maitred.search.results import Filter
from maitred.search.tokenize import normalised

Mask = NDArray[np.bool_]

_KEPT_MASKS = 256


class Rows:
    """A row for each tool. Numbers are given upwards and never again, so that arrays by row stay true."""

    def __init__(self) -> None:
        self.capacity = 0
        self.tools: dict[int, Tool] = {}
        self._rows: dict[ToolKey, int] = {}
        self._exact: dict[str, list[int]] = {}
        self._server_numbers: dict[str, int] = {}
        self._server_names: dict[str, list[int]] = {}
        self._masks: dict[Filter, tuple[Mask, Mask]] = {}
        self._servers: NDArray[np.int32] = np.full(64, -1, np.int32)
        self._read_only: Mask = np.zeros(64, np.bool_)
        self._hidden: Mask = np.zeros(64, np.bool_)

    def step(self, snapshot: Snapshot) -> tuple[list[int], list[tuple[int, Tool]]]:
        """Agree with a snapshot; the rows that are gone and the rows that are new."""
        known = snapshot.by_key
        gone = [row for key, row in self._rows.items() if known.get(key) != self.tools[row]]
        for row in gone:
            self._drop(row)
        fresh = [(self._take(tool), tool) for tool in snapshot.tools if tool.key not in self._rows]
        self._masks.clear()
        return gone, fresh

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
            self._server_names.setdefault(normalised(tool.server), []).append(number)
        self._servers[row] = self._server_numbers[tool.server]
        self._read_only[row] = tool.read_only
        self._hidden[row] = bool(tool.withheld) or (tool.mending is not None and tool.mending.hidden)
        for name in _names(tool):
            self._exact.setdefault(name, []).append(row)
        return row

    def _drop(self, row: int) -> None:
        tool = self.tools.pop(row)
        del self._rows[tool.key]
        self._servers[row] = -1
        for name in _names(tool):
            self._exact[name].remove(row)

    @property
    def wasted(self) -> int:
        """How many rows belong to no tool any more."""
        return self.capacity - len(self.tools)

    def mask(self, wanted: Filter) -> tuple[Mask, Mask]:
        """Rows that may be shown, and rows that would be wanted but may not."""
        if wanted not in self._masks:
            if len(self._masks) >= _KEPT_MASKS:
                self._masks.clear()
            self._masks[wanted] = self._mask(wanted)
        return self._masks[wanted]

    def _mask(self, wanted: Filter) -> tuple[Mask, Mask]:
        fits = np.zeros(len(self._server_numbers) + 1, np.bool_)  # one more: rows without a tool have -1
        shown = np.zeros_like(fits)
        for server, number in self._server_numbers.items():
            fits[number] = server == wanted.server or not wanted.server
            shown[number] = fits[number] and server in wanted.visible
        servers = self._servers[: self.capacity]
        kind = self._read_only[: self.capacity] if wanted.read_only else np.ones(self.capacity, np.bool_)
        if wanted.asks_placement:
            kind = kind & self._placed(wanted)
        may = shown[servers] & ~self._hidden[: self.capacity]
        may[[self._rows[key] for key in wanted.outside if key in self._rows]] = False
        return may & kind, fits[servers] & ~may & kind

    def _placed(self, wanted: Filter) -> Mask:
        """The rows of tools that stand in the wanted categories and have the wanted tags."""
        mask = np.zeros(self.capacity, np.bool_)
        for row, tool in self.tools.items():
            place = tool.placement
            of_category = not wanted.categories or place.category in wanted.categories
            mask[row] = of_category and wanted.tags.issubset(place.tags)
        return mask

    def named(self, phrase: str, mask: Mask) -> list[int]:
        """The rows whose published or raw name a phrase is, in whatever spelling, by name."""
        wanted = normalised(phrase)
        found = [row for row in self._exact.get(wanted, ()) if wanted and mask[row]]
        return sorted(found, key=lambda row: self.tools[row].name)

    def of_server(self, phrase: str, mask: Mask) -> AbstractSet[int]:
        """The rows of the servers whose name a phrase is."""
        wanted = normalised(phrase)
        numbers = self._server_names.get(wanted, [])
        if not wanted or not numbers:
            return frozenset()
        return set(np.flatnonzero(np.isin(self._servers[: self.capacity], numbers) & mask).tolist())


def _names(tool: Tool) -> set[str]:
    return {normalised(tool.name), normalised(tool.key.name)}
