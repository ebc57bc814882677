"""Chooses the known orders that explain findings of the scorer: from pairs, a few of each kind."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.scan_pairs import combined_pairs, hand_pairs, is_held_back

from maitred.evaluation.labelled_texts import read_entry
from training.scan_texts import sentences_of

OF_A_KIND = 24
SHORTEST, LONGEST = 30, 150


def write_examples(path: Path) -> int:
    """Write the examples, a line each: kind, order, the honest sentence nearest to it; returns how many."""
    lines = [f"{kind}\t{order}\t{honest}" for kind, order, honest in _chosen()]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return len(lines)


def _chosen() -> Iterator[tuple[str, str, str]]:
    of_kind: dict[str, dict[str, tuple[str, str]]] = {}
    for row in (*hand_pairs(), *combined_pairs()):
        if is_held_back(row):
            continue
        attack, honest = (
            [_one_line(one.shown) for one in sentences_of(text)] for text in read_entry(row, row["id"])
        )
        orders, others = (
            [one for one in part if one not in rest] for part, rest in ((attack, honest), (honest, attack))
        )
        if len(orders) == len(others) == 1 and all(
            SHORTEST <= len(one) <= LONGEST for one in (*orders, *others)
        ):
            of_kind.setdefault(row["kind"], {}).setdefault(
                row.get("order", row["id"]), (orders[0], others[0])
            )
    for kind, pairs in sorted(of_kind.items()):
        by_hash = sorted(pairs.items(), key=lambda item: hashlib.sha256(item[0].encode()).hexdigest())
        yield from ((kind, *pair) for _, pair in by_hash[:OF_A_KIND])


def _one_line(sentence: str) -> str:
    return " ".join(sentence.split())
