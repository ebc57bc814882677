"""Make a corpus of tool definitions with the numbers and oddities of real servers, in words of our own.

`generate` answers records of the shape of `servers.jsonl`, for where the recorded definitions of real
servers (other people's text, never copied here) are missing. The numbers are those of 191 real servers
with 8,586 tools; a smaller corpus keeps the shares and at least one of each oddity. It is not a model
of what servers do: `replay_server.py` serves the records, recorded or made.

Sizes are met in characters (`CHARS_PER_TOKEN`), so generating needs no tokenizer; `tokens` counts.
"""

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.corpus_plan import Planner, fold
from tests.support.corpus_words import (
    BAD_SCHEMAS,
    CHARS_PER_TOKEN,
    DIALECTS,
    ODD_NAMES,
    REAL_SERVERS,
    REAL_TOOLS,
)
from tests.support.corpus_write import Writer, list_facts

from maitred.catalog.token_count import count_tokens

__all__ = [
    "BAD_SCHEMAS", "CHARS_PER_TOKEN", "DIALECTS", "ODD_NAMES", "fold", "generate", "offsets", "read",
    "recorded", "replay_command", "stand_in", "tokens", "write",
]  # fmt: skip

Record = dict[str, Any]

REPLAY_SERVER = Path(__file__).with_name("replay_server.py")


def generate(seed: int = 7, servers: int = REAL_SERVERS, tools: int = REAL_TOOLS) -> list[Record]:
    """Records like the lines of `servers.jsonl`; the same arguments always give the same records.

    Raises:
        ValueError: There are fewer tools than servers, or no servers.
    """
    rng = random.Random(seed)
    planned = Planner(rng, servers, tools).plan()
    writer = Writer(rng)
    facts = list_facts(rng, writer, planned)
    return [writer.record(server, fact) for server, fact in zip(planned, facts, strict=True)]


def stand_in() -> list[Record]:
    """The made records beside the recorded ones: all oddities, and the whole size where none are recorded."""
    return generate() if recorded() is None else generate(servers=REAL_SERVERS // 4, tools=REAL_TOOLS // 4)


def write(records: Sequence[Record], path: Path) -> None:
    """One record a line, in UTF-8."""
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")


def read(path: Path) -> list[Record]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def offsets(path: Path) -> dict[str, int]:
    """Server name -> byte offset of its line, for `replay_server.py --offset`."""
    found: dict[str, int] = {}
    position = 0
    with path.open("rb") as file:
        for line in file:
            found[json.loads(line)["server"]] = position
            position += len(line)
    return found


def recorded() -> Path | None:
    """The recorded definitions of real servers: below `MAITRED_SHARED`, or beside the checkout; else None."""
    shared = os.environ.get("MAITRED_SHARED") or Path(__file__).resolve().parents[3] / "shared"
    path = Path(shared) / "data" / "real_servers" / "servers.jsonl"
    return path if path.is_file() else None


def replay_command(path: Path, server: str, offset: int, *options: str) -> list[str]:
    """The command line that serves one record; its first element is the program."""
    return [
        sys.executable,
        "-I",
        "-S",
        str(REPLAY_SERVER),
        str(path),
        server,
        "--offset",
        str(offset),
        *options,
    ]


def tokens(tool: Record) -> int:
    """The o200k tokens of a definition as compact JSON."""
    text = json.dumps(tool, ensure_ascii=False, separators=(",", ":"))
    return count_tokens([text])[0]
