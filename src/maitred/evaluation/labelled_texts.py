"""Texts that people labelled as attacks or as honest, to measure the scan by and to train its scorer.

A file has one JSON object a line: a pair, with an `attack` and the `honest` text nearest to it, or a single
text with its `label`. `docs/cli.md` lists the keys. A text of the surface `definition` that is a JSON object
is the definition of a tool, or the schema of its arguments; any other text is the description of one.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from maitred.errors import ConfigError

Label = Literal["attack", "honest"]
Surface = Literal["definition", "answer", "resource", "prompt", "log"]

SURFACES: Final[tuple[str, ...]] = get_args(Surface)
LABELS: Final[tuple[str, ...]] = get_args(Label)
_TEXTS: Final = (
    "id",
    "kind",
    "surface",
    "language",
    "tone",
    "name",
    "written",
    "carrier",
    "order",
    "label",
    "before",
)
_KEYS: Final = frozenset({*_TEXTS, *LABELS, "text", "definition", "finding", "note"})
_PARTS: Final = frozenset(
    {
        "name",
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "_meta",
        "arguments",
        "tool",
    }
)
"""Keys of the definition of a tool or prompt; an object without any is a schema."""
_ENDINGS: Final = ("*.jsonl", "*.jsonl.gz")
_MAX_FAULTS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledText:
    """One text with its label. `pair` is the id of its line; both texts of a pair have it.

    `definition` is empty unless the text is the definition of a tool, as its server sends it.
    """

    pair: str
    is_attack: bool
    text: str
    kind: str = ""
    surface: str = "definition"
    language: str = ""
    tone: str = ""
    name: str = ""
    carrier: str = ""
    order: str = ""
    definition: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """The id of its line, and which text of a pair it is."""
        return f"{self.pair}:{'attack' if self.is_attack else 'honest'}"


def read_labelled_texts(places: Sequence[Path]) -> list[LabelledText]:
    """Read files, and all files of folders that end in `.jsonl` or `.jsonl.gz`, those of inner folders too.

    Raises:
        ConfigError: A file cannot be read or has faults, or there are no texts; each fault names its line.
    """
    texts = [text for place in places for path in _files(place) for text in _read(path)]
    if not texts:
        raise ConfigError(", ".join(map(str, places)), ["holds no labelled texts"])
    return texts


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    return sorted(path for ending in _ENDINGS for path in place.rglob(ending))


def _read(path: Path) -> Iterator[LabelledText]:
    try:
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8").split("\n")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    except (EOFError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), ["is not text, or its compression is damaged"]) from error
    faults: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            faults.append(f"line {number}: is not JSON")
            continue
        if fault := _fault(entry):
            faults.append(f"line {number}: {fault}")
        else:
            yield from read_entry(entry, f"{path.name}:{number}")
    if faults:
        raise ConfigError(str(path), faults[:_MAX_FAULTS])


def _fault(entry: Any) -> str:
    if not isinstance(entry, dict):
        return "must be an object"
    if unknown := sorted(entry.keys() - _KEYS):
        return f"{unknown[0]} is not a key of a labelled text"
    texts = (*_TEXTS, *LABELS, "text")
    if wrong := next((key for key in texts if not isinstance(entry.get(key, ""), str)), ""):
        return f"{wrong} must be text"
    if entry.get("surface", "definition") not in SURFACES:
        return f"surface must be one of {', '.join(SURFACES)}"
    return _pair_fault(entry) if entry.keys() & set(LABELS) else _single_fault(entry)


def _pair_fault(entry: Mapping[str, Any]) -> str:
    more = next((key for key in ("text", "definition", "label") if key in entry), "")
    return f"has a pair, and {more} as well" if more else ""


def _single_fault(entry: Mapping[str, Any]) -> str:
    if entry.get("label") not in LABELS:
        return "needs attack and honest, or a text with the label attack or honest"
    if ("text" in entry) == ("definition" in entry):
        return "needs either a text or a definition"
    is_object = isinstance(entry.get("definition", {}), dict)
    return "" if is_object else "definition must be an object"


def read_entry(entry: Mapping[str, Any], place: str) -> Iterator[LabelledText]:
    """Yield the texts of an entry without faults; `place` is its id if it has none."""
    pair = entry.get("id") or place
    given = {
        key: entry[key]
        for key in ("kind", "surface", "language", "tone", "name", "carrier", "order")
        if key in entry
    }
    if "label" in entry:
        parts = [(entry["label"], entry.get("text", ""), entry.get("definition"))]
    else:
        parts = [(label, entry[label], None) for label in LABELS if label in entry]
    for label, text, definition in parts:
        whole = definition or (
            _object_in(text) if given.get("surface", "definition") == "definition" else None
        )
        yield LabelledText(pair=pair, is_attack=label == "attack", text=text, definition=whole, **given)


def _object_in(text: str) -> Mapping[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return value if value.keys() & _PARTS else {"inputSchema": value}
