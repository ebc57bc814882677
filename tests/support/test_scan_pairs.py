"""The labelled texts for the scan have their published form, counts and bytes.

A figure of the scan is only worth something if these texts are frozen: tests/data/scan/README.md.
"""

import hashlib
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest
from tests.support import scan_pairs

Row = dict[str, Any]
FIELDS = {"id", "kind", "surface", "language", "tone", "attack", "honest", "name", "written"}
HONEST = {"id", "surface", "language", "tone", "name", "text", "written"}
PARTS = {"carrier", "order"}
LEAST_PAIRS, LEAST_BY_HAND, LEAST_HONEST, LEAST_SHORT = 4000, 800, 1500, 500
LARGEST = 6_000_000
INVISIBLE = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")


@cache
def _pairs() -> list[Row]:
    return [*scan_pairs.hand_pairs(), *scan_pairs.combined_pairs()]


@cache
def _honest() -> list[Row]:
    return scan_pairs.honest_texts()


@cache
def _texts() -> list[str]:
    both = [pair[half] for pair in _pairs() for half in ("attack", "honest")]
    return [*both, *(row["text"] for row in _honest())]


def test_every_pair_has_the_documented_fields_and_known_values() -> None:
    """A reader of the files meets no other field, kind, surface, language or tone."""
    for pair in _pairs():
        extra = PARTS if pair["written"] == "combined" else set()
        before = {"before"} if pair["kind"] == "changed" else set()
        assert set(pair) == FIELDS | extra | before, pair["id"]
        assert pair["kind"] in scan_pairs.kinds()
        assert pair["attack"].strip()
        assert pair["honest"].strip()
        assert pair["attack"] != pair["honest"]
    for row in _honest():
        assert set(row) == HONEST | (PARTS if row["written"] == "combined" else set()), row["id"]
    for row in [*_pairs(), *_honest()]:
        assert row["surface"] in scan_pairs.SURFACES
        assert row["language"] in scan_pairs.LANGUAGES
        assert row["tone"] in scan_pairs.TONES
        assert row["written"] in ("hand", "combined")


def test_no_id_and_no_text_occurs_twice() -> None:
    """A text that is counted twice, or on both sides, makes every figure wrong."""
    ids = Counter(row["id"] for row in [*_pairs(), *_honest()])
    assert [name for name, times in ids.items() if times > 1] == []
    assert [text for text, times in Counter(_texts()).items() if times > 1] == []


def test_the_counts_are_those_that_were_asked_for() -> None:
    """Enough of each kind by hand and in all, in each language, on each surface and in each tone."""
    pairs, by_hand = _pairs(), scan_pairs.hand_pairs()
    assert len(pairs) >= LEAST_PAIRS
    assert len(by_hand) >= LEAST_BY_HAND
    assert len(_honest()) >= LEAST_HONEST
    short = [row for row in _honest() if row["id"].startswith("s-")]
    assert len(short) >= LEAST_SHORT
    assert max(len(row["text"].split()) for row in short) <= 25
    for field, values, least in (
        ("kind", scan_pairs.kinds(), 180),
        ("language", scan_pairs.LANGUAGES, 300),
        ("surface", scan_pairs.SURFACES, 200),
        ("tone", scan_pairs.TONES, 200),
    ):
        counts = Counter(pair[field] for pair in pairs)
        assert all(counts[value] >= least for value in values), counts
    kinds = Counter(pair["kind"] for pair in by_hand)
    assert all(kinds[kind] >= 40 for kind in scan_pairs.kinds()), kinds


def test_no_slot_is_left_and_no_sign_is_invisible() -> None:
    """What the parts stand for is filled in; invisible signs are the business of exact rules."""
    slots = re.compile(r"<>|\{(?:tool|mail|file|param|server|command|code|how)\}")
    for pair in _pairs():
        if pair["written"] == "combined":
            assert not slots.search(pair["attack"] + pair["honest"]), pair["id"]
    assert [text for text in _texts() if INVISIBLE.search(text)] == []


def test_both_halves_of_a_pair_are_of_like_length() -> None:
    """Length tells nothing about the label."""
    attacks = sum(len(pair["attack"]) for pair in _pairs())
    honest = sum(len(pair["honest"]) for pair in _pairs())
    assert 0.9 < attacks / honest < 1.1


def test_what_is_held_back_is_a_part_of_each_kind_and_shares_nothing_with_the_rest() -> None:
    """Neither a carrier nor an order of the held-back part occurs in what a scorer may learn from."""
    held = [pair for pair in _pairs() if scan_pairs.is_held_back(pair)]
    free = [pair for pair in _pairs() if not scan_pairs.is_held_back(pair)]
    assert 0.1 < len(held) / len(_pairs()) < 0.25
    assert {pair["kind"] for pair in held} == set(scan_pairs.kinds())
    assert {pair["language"] for pair in held} == set(scan_pairs.LANGUAGES)
    for part in PARTS:
        seen = {pair[part] for pair in free if part in pair}
        assert seen.isdisjoint({pair[part] for pair in held if part in pair})


@pytest.mark.parametrize("field", ["kind", "language", "surface"])
def test_what_is_left_out_in_turn_is_not_learned(field: str) -> None:
    """A figure for a kind that was left out is of orders that no other kind taught."""
    for value in sorted({pair[field] for pair in _pairs()}):
        learned, measured = scan_pairs.leave_out(_pairs(), field, value)
        assert measured
        assert {pair[field] for pair in measured} == {value}
        assert value not in {pair[field] for pair in learned}
        assert not any(scan_pairs.is_held_back(pair) for pair in learned)
        if field == "kind":
            assert not any(pair.get("order", "").startswith(f"{value}-") for pair in learned)


def test_all_that_the_split_names_exists() -> None:
    """No line of `split.tsv` is left over from parts that were taken out."""
    known = {row["id"] for row in [*_pairs(), *_honest()]}
    for name in ("carriers", "orders", "encoded", "frames", "sentences"):
        known |= {row["id"] for row in scan_pairs.table(name)}
    known |= {row["document"] for row in scan_pairs.table("paragraphs")}
    assert scan_pairs.held_back() - known == set()


@pytest.mark.parametrize("name", ["hand", "combined", "honest"])
def test_the_bytes_are_the_frozen_ones(name: str) -> None:
    """A scorer was measured on exactly these; a change needs new figures. See README.md there."""
    rows = _honest() if name == "honest" else [pair for pair in _pairs() if pair["written"] == name]
    sums = (scan_pairs.FOLDER / "checksums.tsv").read_text(encoding="utf-8").splitlines()
    frozen = dict(line.split("\t") for line in sums)
    assert hashlib.sha256(scan_pairs.as_bytes(rows)).hexdigest() == frozen[name]


def test_the_folder_is_small() -> None:
    """Parts and a generator are kept instead of what they make."""
    size = sum(path.stat().st_size for path in scan_pairs.FOLDER.rglob("*") if path.is_file())
    assert size < LARGEST
