"""Compare the categories of tools with a person's labels: how often right, how sure, and how wrong.

A label may allow an alternative if two readings are possible: strictly only the first counts, leniently both.
The module only compares; its caller places the tools. Tools that a person placed count like all others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from maitred.errors import ConfigError
from maitred.model.categories import Placement
from maitred.model.tools import ToolKey

BANDS: Final = (0.0, 0.5, 0.7, 0.85, 0.95)
"""The beginnings of the bands of confidence; the last band ends at 1."""

_HEAD = ("server", "tool", "category", "alternative")
_MOST_CONFUSIONS = 10
_MAX_FAULTS = 20


@dataclass(frozen=True, kw_only=True)
class Label:
    """A person's label of a tool; `alternative` is empty, or a category that is also right."""

    key: ToolKey
    category: str
    alternative: str = ""

    def allows(self, category: str) -> bool:
        """Return whether the tool may be in this category."""
        return category in (self.category, self.alternative) and bool(category)


@dataclass(frozen=True, kw_only=True)
class CategoryAgreement:
    """One category: the numbers of tools labelled so and placed so, and of those that agree (strictly)."""

    category: str
    labelled: int
    placed: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share of the placed ones that are labelled so; `None` if none is placed."""
        return self.right / self.placed if self.placed else None

    @property
    def recall(self) -> float | None:
        """The share of the labelled ones that are placed so; `None` if none is labelled."""
        return self.right / self.labelled if self.labelled else None


@dataclass(frozen=True, kw_only=True)
class BandAgreement:
    """The tools with confidence from `start` to the next band: their number, and how many are right."""

    start: float
    tools: int
    right: int
    lenient: int


@dataclass(frozen=True, kw_only=True)
class PlacementAgreement:
    """The agreement of placements with labels.

    `confusions` are `(labelled, placed, count)` of tools that are wrong even leniently. `missing` are labels
    of tools that do not exist; they count nowhere else.
    """

    tools: int
    missing: int
    right: int
    lenient: int
    categories: Sequence[CategoryAgreement]
    confusions: Sequence[tuple[str, str, int]]
    bands: Sequence[BandAgreement]

    @property
    def strict_share(self) -> float:
        """The share of tools in the category of their label, 0 to 1."""
        return self.right / self.tools if self.tools else 0.0

    @property
    def lenient_share(self) -> float:
        """The same share, with alternatives."""
        return self.lenient / self.tools if self.tools else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return all fields, for programs."""
        categories = [
            asdict(one) | {"precision": one.precision, "recall": one.recall} for one in self.categories
        ]
        shares = {"strict_share": self.strict_share, "lenient_share": self.lenient_share}
        return asdict(self) | shares | {"categories": categories}


def read_labels(path: Path) -> list[Label]:
    """Read labels from a tab-separated file with the columns `server`, `tool`, `category`, `alternative`.

    It skips a first line with these names; the last column may be missing.

    Raises:
        ConfigError: The file cannot be read, is empty, or has faults; the error names each with its line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), ["is not UTF-8 text"]) from error
    faults: list[str] = []
    labels = list(_labels(text, faults))
    if faults or not labels:
        raise ConfigError(str(path), faults[:_MAX_FAULTS] or ["holds no labels"])
    return labels


def _labels(text: str, faults: list[str]) -> Iterator[Label]:
    first_lines: dict[ToolKey, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        cells = tuple(cell.strip() for cell in line.split("\t"))
        if not line.strip() or (number == 1 and cells == _HEAD):
            continue
        if len(cells) not in (3, 4) or not all(cells[:3]):
            faults.append(f"line {number}: must be server, tool, category and alternative, with tabs between")
            continue
        key = ToolKey(server=cells[0], name=cells[1])
        if key in first_lines:
            faults.append(
                f"line {number}: {key.server} {key.name} is given twice, first in line {first_lines[key]}"
            )
        first_lines.setdefault(key, number)
        yield Label(key=key, category=cells[2], alternative="".join(cells[3:]))


def judge(labels: Sequence[Label], placements: Mapping[ToolKey, Placement]) -> PlacementAgreement:
    """Compare labels with the categories of the tools."""
    pairs = [(label, placements[label.key]) for label in labels if label.key in placements]
    right = [label for label, placement in pairs if placement.category == label.category]
    wrong = Counter(
        (label.category, placement.category)
        for label, placement in pairs
        if not label.allows(placement.category)
    )
    return PlacementAgreement(
        tools=len(pairs),
        missing=len(labels) - len(pairs),
        right=len(right),
        lenient=len(pairs) - wrong.total(),
        categories=_of_categories(pairs),
        confusions=[
            (*pair, count) for pair, count in sorted(wrong.items(), key=_by_count)[:_MOST_CONFUSIONS]
        ],
        bands=_of_bands(pairs),
    )


def _by_count(item: tuple[tuple[str, str], int]) -> tuple[int, tuple[str, str]]:
    return -item[1], item[0]


def _of_categories(pairs: Sequence[tuple[Label, Placement]]) -> list[CategoryAgreement]:
    label_counts = Counter(label.category for label, _ in pairs)
    placement_counts = Counter(placement.category for _, placement in pairs)
    right = Counter(label.category for label, placement in pairs if label.category == placement.category)
    return [
        CategoryAgreement(
            category=name, labelled=label_counts[name], placed=placement_counts[name], right=right[name]
        )
        for name in sorted(label_counts | placement_counts)
    ]


def _of_bands(pairs: Sequence[tuple[Label, Placement]]) -> list[BandAgreement]:
    ends = [*BANDS[1:], 2.0]
    bands = []
    for start, end in zip(BANDS, ends, strict=True):
        members = [
            (label, placement.category) for label, placement in pairs if start <= placement.confidence < end
        ]
        bands.append(
            BandAgreement(
                start=start,
                tools=len(members),
                right=sum(label.category == category for label, category in members),
                lenient=sum(label.allows(category) for label, category in members),
            )
        )
    return bands
