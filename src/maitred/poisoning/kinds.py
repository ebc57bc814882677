"""The kinds of findings (`data/kinds.tsv`): what each is in a few words, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maitred.word_lists import read_rows

_FIX: Final = "say what the tool does, and give no orders to the model"


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingKind:
    """A kind; `id` is the `rule` of its findings."""

    id: str
    title: str
    fix: str = _FIX


KINDS: Final[Mapping[str, FindingKind]] = {
    id_: FindingKind(id=id_, title=title, fix=" ".join(fix) or _FIX)
    for id_, title, *fix in read_rows(Path(__file__).with_name("data") / "kinds.tsv")
}
"""Every kind of finding that the scan has, by its id."""
