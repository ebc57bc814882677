"""Automatic categories beside labels: the arithmetic, the file of labels, and recorded real servers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.evaluation.test_commands import maitred
from tests.interaction.harness import faulty, write_settings
from tests.support import corpus

from maitred.backends.listing import read_tools
from maitred.catalog.snapshot import Snapshot
from maitred.catalog.sync import DiscoveredServer, plan
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.evaluation.categories import Label, PlacementAgreement, judge, read_labels
from maitred.model.categories import Placement
from maitred.model.servers import ServerFacts, ServerSpec
from maitred.model.tools import ToolKey
from maitred.wiring import make_placer

LABELS = Path(__file__).parents[1] / "data" / "categories" / "labels.tsv"
STRICT, LENIENT, SURE = 0.65, 0.70, 0.85
"""Floors, some points below what was measured; SURE is of the most surely placed tools, leniently."""
PARTS = LABELS.with_name("subcategories.tsv")
PARTS_STRICT, PARTS_LENIENT = 0.70, 0.80
"""Floors of sub-categories, among the tools that are in a right category."""


def key(name: str) -> ToolKey:
    return ToolKey(server="s", name=name)


def judged(rows: Sequence[tuple[str, str, str, float]]) -> PlacementAgreement:
    """Each row: label, alternative, where it was placed, and how surely."""
    labels = [Label(key=key(str(n)), category=row[0], alternative=row[1]) for n, row in enumerate(rows)]
    placements = {
        key(str(n)): Placement(category=row[2], confidence=row[3], by="rules") for n, row in enumerate(rows)
    }
    return judge([*labels, Label(key=key("gone"), category="data")], placements)


def test_alternatives_count_leniently_only() -> None:
    """A label that is not there counts nowhere else."""
    found = judged(
        [("data", "", "data", 0.9), ("data", "ai", "ai", 0.9), ("ai", "", "data", 0.2), ("ai", "", "", 0.1)]
    )

    assert (found.tools, found.missing, found.right, found.lenient) == (4, 1, 1, 2)
    assert (found.strict_share, found.lenient_share) == (0.25, 0.5)
    assert found.confusions == [("ai", "", 1), ("ai", "data", 1)]


def test_categories_have_precision_and_recall() -> None:
    """A category in which nothing is placed has no precision, and one without labels no recall."""
    found = judged([("data", "", "data", 0.9), ("data", "", "web", 0.9), ("ai", "", "data", 0.9)])

    of = {one.category: (one.precision, one.recall) for one in found.categories}
    assert of == {"ai": (None, 0.0), "data": (0.5, 0.5), "web": (0.0, None)}


def test_every_tool_is_in_one_band_of_confidence() -> None:
    """Bounds belong to the band above them, and 1 to the last."""
    found = judged([("ai", "", "ai", c) for c in (0.0, 0.49, 0.5, 0.7, 0.85, 0.95, 1.0)])

    assert [(band.start, band.tools) for band in found.bands] == [
        (0.0, 2), (0.5, 1), (0.7, 1), (0.85, 1), (0.95, 2),
    ]  # fmt: skip
    assert sum(band.right for band in found.bands) == found.right


def test_labels_are_read_with_and_without_a_first_line(tmp_path: Path) -> None:
    """The alternative may be empty or missing."""
    path = tmp_path / "labels.tsv"
    path.write_text("server\ttool\tcategory\talternative\ns\ta\tdata\t\ns\tb\tdata\tai\ns\tc\tai\n")

    assert [(one.key.name, one.category, one.alternative) for one in read_labels(path)] == [
        ("a", "data", ""), ("b", "data", "ai"), ("c", "ai", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no labels"),
        ("s a data\n", "line 1"),
        ("s\ta\tdata\ns\ta\tai\n", "given twice, first in line 1"),
    ],
)
def test_a_file_of_labels_with_faults_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """Each fault is named with its line."""
    path = tmp_path / "labels.tsv"
    path.write_text(text)

    with pytest.raises(ConfigError, match=says):
        read_labels(path)


def test_the_command_judges_the_tools_of_a_configuration(tmp_path: Path) -> None:
    """A table for people, shares for programs, and a missing file is an error. Source: docs/cli.md."""
    config = write_settings(tmp_path, {"counter": faulty("count")})
    labels = tmp_path / "labels.tsv"
    labels.write_text("counter\tadd\tutilities\t\ncounter\tpid\tai\tinfrastructure\ncounter\tgone\tai\t\n")

    table = maitred("eval", "categories", labels, "-c", config)
    found = json.loads(maitred("eval", "categories", labels, "-c", config, "--json").stdout)
    missing = maitred("eval", "categories", tmp_path / "none.tsv", "-c", config)

    assert table.returncode == 0, table.stderr
    assert "2 labelled tools, 1 more not there" in table.stdout
    assert (found["tools"], found["missing"]) == (2, 1)
    assert found["right"] <= found["lenient"] <= 2
    assert missing.returncode == 2
    assert "cannot be read" in missing.stderr


# --- recorded servers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def placed() -> Mapping[ToolKey, Placement]:
    """The placements of all recorded tools."""
    path = corpus.recorded()
    if path is None:
        pytest.skip("the recorded definitions of real servers are not here")
    return anyio.run(place_all, path)


async def place_all(path: Path) -> Mapping[ToolKey, Placement]:
    placements: dict[ToolKey, Placement] = {}
    placer = make_placer(Settings(source=Path("maitred.yaml")))
    for record in corpus.read(path):
        snapshot = await discovered(record)
        about = f"{snapshot.servers[record['server']].facts.title}. {record['instructions'] or ''}"
        for tool in placer.place(snapshot.tools, snapshot.schema, about):
            placements[tool.key] = tool.placement
    return placements


@pytest.mark.xdist_group("placements")
def test_recorded_tools_stand_where_a_person_put_them(placed: Mapping[ToolKey, Placement]) -> None:
    """Hand labels (tests/data/categories/RULES.md) beside the rules; the surest are right most often."""
    found = judge(read_labels(LABELS), placed)

    for line in figures(found):
        print(line)  # noqa: T201  # for whoever reads the log
    assert found.missing == 0
    assert found.strict_share >= STRICT
    assert found.lenient_share >= LENIENT
    surest = found.bands[-1]
    assert surest.lenient / surest.tools >= SURE


@pytest.mark.xdist_group("placements")
def test_recorded_tools_are_in_the_part_of_their_category_where_a_person_put_them(
    placed: Mapping[ToolKey, Placement],
) -> None:
    """Of other tools, labelled by another reader. Source: design document 004, hierarchical menu."""
    right_category = right = lenient = 0
    rows = [line.split("\t") for line in PARTS.read_text(encoding="utf-8").splitlines()[1:]]
    for server, name, label, others in rows:
        place = placed[ToolKey(server=server, name=name)]
        allowed = [label, *filter(None, others.split(", "))]
        if place.category in {one.partition("/")[0] for one in allowed}:
            part = f"{place.category}/{place.subcategory}".rstrip("/")
            right_category += 1
            right += part == label
            lenient += part in allowed

    print(  # noqa: T201  # the figures for docs/benchmarks.md
        f"\n{len(rows)} tools: {right_category} in a right category; of these {right / right_category:.1%}"
        f" in the right sub-category, {lenient / right_category:.1%} with other right ones"
    )
    assert right / right_category >= PARTS_STRICT
    assert lenient / right_category >= PARTS_LENIENT


async def discovered(record: Mapping[str, Any]) -> Snapshot:
    """One recorded server as a discovery leaves it in the catalog."""
    name, info = record["server"], record["serverInfo"] or {}
    facts = ServerFacts(
        era="handshake",
        title=info.get("title") or info.get("name") or "",
        instructions=record["instructions"] or "",
    )
    tools, _ = read_tools(name, record["tools"])
    found = DiscoveredServer(spec=ServerSpec(name=name, command="none"), facts=facts, tools=tools)
    change = await plan(Snapshot(), found, uncounted)
    return Snapshot().after(change, 1)


async def uncounted(texts: Sequence[str]) -> Sequence[int]:
    return [0] * len(texts)


def figures(found: PlacementAgreement) -> Iterator[str]:
    yield f"\n{found.tools} tools: {found.strict_share:.1%} strictly, {found.lenient_share:.1%} leniently"
    for one in found.categories:
        shares = [f"{share:.0%}" if share is not None else "-" for share in (one.precision, one.recall)]
        yield f"{one.category:16} {one.labelled:3} labelled, precision {shares[0]}, recall {shares[1]}"
    for labelled, was, count in found.confusions:
        yield f"{labelled} placed in {was}: {count}"
    for band in found.bands:
        yield f"confidence from {band.start}: {band.right} of {band.tools} right, {band.lenient} leniently"
