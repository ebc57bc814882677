"""The labelled texts for the scan: reads those written by hand and combines the rest from parts.

`python -m tests.support.scan_pairs FOLDER` writes all as JSON Lines. See tests/data/scan/README.md.
"""

import base64
import codecs
import csv
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "data" / "scan"
LANGUAGES: Final = ("en", "de", "es", "fr", "pt", "ja", "zh", "ru")
SURFACES: Final = ("definition", "answer", "resource", "prompt", "log")
TONES: Final = ("blunt", "polite", "technical", "buried")
IN_ENGLISH: Final = 70
"""Combined pairs of each kind in English, a tenth of them buried."""
IN_OTHERS: Final = 18
"""Combined pairs of each kind in each other language."""
BURIED: Final = 10
PLAIN_IN_ENGLISH: Final = 4
PLAIN_IN_OTHERS: Final = 5
"""Honest texts from each carrier, if there are as many plain sentences in its half."""
_SLOT: Final = "<>"
_WITHOUT_SPACES: Final = ("ja", "zh")
_COMBINED_ELSEWHERE: Final = ("placed", "errors", "changed", "encoded")
_CALLABLE: Final = ("definition", "prompt", "resource", "answer")
_READ: Final = ("answer", "resource", "log", "prompt")
_SURFACES_OF: Final[Mapping[str, Sequence[str]]] = {
    "parameter_out": _CALLABLE,
    "other_tools": _CALLABLE,
    "replaces": _CALLABLE,
    "priority": _CALLABLE,
    "fake_turn": _READ,
    "steering": _READ,
    "changed": ("definition", "prompt"),
}
_GROUP_OF: Final = {"placed": "schema", "errors": "error"}
_ENCODINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "backwards": lambda text: text[::-1],
    "percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "spaced": " ".join,
    "parts": lambda text: " + ".join(f'"{text[at : at + 4]}"' for at in range(0, len(text), 4)),
    "code points": lambda text: " ".join(str(ord(letter)) for letter in text),
}

Row = Mapping[str, str]
Pair = dict[str, Any]


def number(*parts: object) -> int:
    """A number that depends on the parts alone, the same on every machine."""
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:8], "big")


@cache
def table(name: str) -> Sequence[Row]:
    """The rows of a file of parts; `\\n` in a cell is an end of line."""
    with (FOLDER / "parts" / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [{key: cell.replace("\\n", "\n") for key, cell in row.items()} for row in rows]


@cache
def kinds() -> Sequence[str]:
    """The kinds, as `kinds.tsv` lists them."""
    with (FOLDER / "kinds.tsv").open(encoding="utf-8", newline="") as file:
        return [row["kind"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


@cache
def held_back() -> frozenset[str]:
    """The ids of carriers, documents, orders, payloads and texts by hand that no training may read."""
    with (FOLDER / "split.tsv").open(encoding="utf-8", newline="") as file:
        return frozenset(row["id"] for row in csv.DictReader(file, delimiter="\t"))


def is_held_back(row: Mapping[str, Any]) -> bool:
    """Whether a pair or an honest text is of the fixed part that no training may read."""
    return row["id"] in held_back() or row.get("order") in held_back() or row.get("carrier") in held_back()


def leave_out(rows: Sequence[Pair], field: str, value: str) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into those to learn from and those to measure with, where one value is left out.

    `field` is `kind`, `language` or `surface`. The kinds `placed`, `errors` and `changed` use the orders of
    all others, so what uses an order of a kind that is left out is not learned either. What is held back is
    never learned; it is measured where it has the value.
    """
    learned, measured = [], []
    for row in rows:
        if row[field] == value:
            measured.append(row)
        elif not is_held_back(row) and not (field == "kind" and row.get("order", "").startswith(f"{value}-")):
            learned.append(row)
    return learned, measured


# --- what was written by hand -----------------------------------------------------------------------------


def _lines(folder: str) -> Iterator[Pair]:
    for path in sorted((FOLDER / folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def hand_pairs() -> list[Pair]:
    """The pairs that were written one by one."""
    return list(_lines("pairs"))


def honest_texts() -> list[Pair]:
    """Honest texts without any attack: those by hand, then those from carriers and plain sentences."""
    return [*_lines("honest"), *_plain_texts()]


# --- what is combined -------------------------------------------------------------------------------------


def combined_pairs() -> list[Pair]:
    """All pairs from parts, in a fixed order."""
    pairs: list[Pair] = []
    taken: set[str] = set()
    for kind in kinds():
        for language in LANGUAGES:
            pairs.extend(_combine(kind, language, taken))
    return pairs


def _combine(kind: str, language: str, taken: set[str]) -> Iterator[Pair]:
    wanted = IN_ENGLISH if language == "en" else IN_OTHERS
    buried = 1 + wanted // BURIED
    found = 0
    for carriers, until in ((_documents(kind, language), buried), (_carriers(kind, language), wanted)):
        for order, carrier in _meetings(kind, _orders(kind, language), carriers):
            if found == until:
                break
            pair = _pair(kind, order, carrier, found)
            if pair["attack"] in taken or pair["honest"] in taken:
                continue
            taken.update((pair["attack"], pair["honest"]))
            found += 1
            yield {"id": f"c-{kind}-{language}-{found:03}", **pair}


def _carriers(kind: str, language: str) -> Sequence[Row]:
    group = _GROUP_OF.get(kind, "plain")
    surfaces = _SURFACES_OF.get(kind, SURFACES)
    return [
        row
        for row in table("carriers")
        if row["language"] == language and row["group"] == group and row["surface"] in surfaces
    ]


def _documents(kind: str, language: str) -> Sequence[Row]:
    if kind in _COMBINED_ELSEWHERE and kind != "encoded":
        return []
    first = {row["document"]: row for row in table("paragraphs") if row["language"] == language}
    return [
        {"id": name, "surface": row["surface"], "tone": "buried", "language": language, "name": ""}
        for name, row in first.items()
    ]


def _orders(kind: str, language: str) -> Sequence[Row]:
    rows = table("orders")
    if kind == "encoded":
        rows = table("encoded")
    elif kind not in _COMBINED_ELSEWHERE:
        rows = [row for row in rows if row["kind"] == kind]
    return [row for row in rows if row["language"] == language]


def _meetings(kind: str, orders: Sequence[Row], carriers: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Orders and carriers of the same half, each order and each carrier about as often as the others."""
    meetings = [(order, carrier) for order in orders for carrier in carriers if _can_meet(order, carrier)]
    left = sorted(meetings, key=lambda both: number(kind, both[0]["id"], both[1]["id"]))
    used: dict[str, int] = {}
    while left:
        best = min(left, key=lambda both: used.get(both[0]["id"], 0) * 2 + used.get(both[1]["id"], 0))
        left.remove(best)
        for row in best:
            used[row["id"]] = used.get(row["id"], 0) + 1
        yield best


def _can_meet(order: Row, carrier: Row) -> bool:
    """Whether both are of one language and of one half."""
    same_half = (order["id"] in held_back()) == (carrier["id"] in held_back())
    return same_half and order["language"] == carrier["language"]


def _pair(kind: str, order: Row, carrier: Row, turn: int) -> Pair:
    seed = (kind, order["id"], carrier["id"], turn)
    attack, honest = _filled(order, seed)
    form = _opening(carrier["language"], seed)
    pair: Pair = {
        "kind": kind,
        "surface": carrier["surface"],
        "language": carrier["language"],
        "tone": carrier["tone"],
        "attack": _placed(carrier, _opened(form, attack, carrier["language"]), seed),
        "honest": _placed(carrier, _opened(form, honest, carrier["language"]), seed),
        "name": carrier["name"],
        "written": "combined",
        "carrier": carrier["id"],
        "order": order["id"],
    }
    if kind == "changed":
        pair["before"] = " ".join(carrier["text"].replace(_SLOT, "").split(" ")).strip()
    return pair


def _filled(order: Row, seed: Sequence[object]) -> tuple[str, str]:
    attack, honest = order["attack"], order["honest"]
    if "kind" not in order:  # a payload, which needs its frame and its encoding
        half = order["id"] in held_back()
        frames = [
            row
            for row in table("frames")
            if row["language"] == order["language"] and (row["id"] in held_back()) == half
        ]
        frame = frames[number("frame", *seed) % len(frames)]
        how = list(_ENCODINGS)[number("how", *seed) % len(_ENCODINGS)]
        if how == "rot13" and not attack.isascii():
            how = "base64"
        encode = _ENCODINGS[how]
        attack = frame["attack"].replace("{code}", encode(attack)).replace("{how}", how)
        honest = frame["honest"].replace("{code}", encode(honest)).replace("{how}", how)
    for slot in ("tool", "mail", "url", "file", "param", "server", "command"):
        rows = [row for row in table("words") if row["slot"] == slot]
        word = rows[number(slot, *seed) % len(rows)]
        attack = attack.replace(f"{{{slot}}}", word["attack"])
        honest = honest.replace(f"{{{slot}}}", word["honest"])
    return attack, honest


def _opening(language: str, seed: Sequence[object]) -> str:
    """How the sentence begins and ends; every second one stays as it is."""
    chance = number("opening", *seed)
    forms = [row["form"] for row in table("openings") if row["language"] in (language, "*")]
    return _SLOT if chance % 2 else forms[chance // 2 % len(forms)]


def _opened(form: str, text: str, language: str) -> str:
    if not form.startswith("split "):
        return form.replace(_SLOT, text)
    between = {"newline": "\n\n", "item": "\n- ", "quote": "\n> "}[form.removeprefix("split ")]
    if language in _WITHOUT_SPACES:
        return text[: len(text) // 2] + between + text[len(text) // 2 :]
    words = text.split(" ")
    middle = len(words) // 2
    return " ".join(words[:middle]) + between + " ".join(words[middle:])


def _placed(carrier: Row, text: str, seed: Sequence[object]) -> str:
    if carrier["tone"] == "buried":
        return _buried(carrier, text, seed)
    if carrier["text"].startswith("{"):
        text = json.dumps(text, ensure_ascii=False)[1:-1]
    return carrier["text"].replace(_SLOT, text)


def _buried(carrier: Row, text: str, seed: Sequence[object]) -> str:
    """The paragraphs of a document, turned so that another begins, with the text inside of one of them."""
    rows = [row["text"] for row in table("paragraphs") if row["document"] == carrier["id"]]
    first = number("first", *seed) % len(rows)
    rows = rows[first:] + rows[:first]
    at = 1 + number("at", *seed) % (len(rows) - 1)
    ways = (f"{rows[at]} {text}", f"{text} {rows[at]}", f"{rows[at]}\n\n{text}")
    rows[at] = ways[number("way", *seed) % len(ways)]
    return "\n\n".join(rows)


def _plain_texts() -> Iterator[Pair]:
    """Carriers and documents of all languages with a plain sentence, several times each."""
    documents = [row for language in LANGUAGES for row in _documents("encoded", language)]
    found = 0
    for carrier in [*table("carriers"), *documents]:
        sentences = [row for row in table("sentences") if _can_meet(row, carrier)]
        wanted = PLAIN_IN_ENGLISH if carrier["language"] == "en" else PLAIN_IN_OTHERS
        start = number("plain", carrier["id"])
        for turn in range(min(len(sentences), wanted)):
            sentence = sentences[(start + turn) % len(sentences)]
            found += 1
            yield {
                "id": f"n-{found:04}",
                **{key: carrier[key] for key in ("surface", "language", "tone", "name")},
                "text": _placed(carrier, sentence["text"], (carrier["id"], sentence["id"])),
                "written": "combined",
                "carrier": carrier["id"],
                "order": sentence["id"],
            }


# --- bytes ------------------------------------------------------------------------------------------------


def as_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """JSON Lines of rows, the same bytes for the same rows."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def main(folder: Path) -> None:
    """Write pairs and honest texts, and the list of what is held back, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (
        ("hand", hand_pairs()),
        ("combined", combined_pairs()),
        ("honest", honest_texts()),
    ):
        data = as_bytes(rows)
        (folder / f"{name}.jsonl").write_bytes(data)
        held = sum(map(is_held_back, rows))
        sys.stdout.write(f"{name} {len(rows)} held back {held} {hashlib.sha256(data).hexdigest()}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
