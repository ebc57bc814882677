"""Texts of answers beside the audit trail: what an agent read, masked, for a few days, in a bounded space.

A line of the trail has the digest of its text. So a text can be deleted without a break of the chain, and a
text that was changed is noticed. The texts have no order and no names; equal ones are stored once.
"""

import hashlib
import hmac
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from maitred.audit.masking import masked_beginning
from maitred.storage.database import DriverConnection

KeptAnswers = Literal["none", "menu", "all"]
"""Of which acts texts are kept: none, those that the menu answers itself, or also those of tools."""

MOST_CHARACTERS: Final = 50_000
"""How much of one answer is kept."""
MEBIBYTE: Final = 1024 * 1024
_CHARACTERS_PER_TOKEN: Final = 4
"""By which the tokens of answers of tools are estimated: they may be long, so they are not counted."""
_DIGEST_CHARS: Final = 32
_ROW_BYTES: Final = 200
"""What a row takes beside its body."""
_LOOK_AFTER: Final = 256 * 1024
"""After so many bytes it is looked how much space all texts take."""
_LEFT_SHARE: Final = 0.9
"""How full the space is after old texts were deleted from a full one."""
_AT_ONCE: Final = 200

_ADD: Final = (
    "INSERT INTO audit_answers (digest, at, bytes, body) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (digest) DO UPDATE SET at = excluded.at"
)
_GET: Final = (
    "SELECT audit_answers.body FROM audit_answers WHERE audit_answers.digest = ? AND audit_answers.at >= ?"
)
_TOTAL: Final = "SELECT sum(audit_answers.bytes) AS sum_1 FROM audit_answers"
_OLDEST: Final = (
    "SELECT audit_answers.at, audit_answers.bytes FROM audit_answers ORDER BY audit_answers.at LIMIT ?"
)
_DROP: Final = "DELETE FROM audit_answers WHERE audit_answers.at < ?"
_DROP_UP_TO: Final = "DELETE FROM audit_answers WHERE audit_answers.at <= ?"


@dataclass(frozen=True, kw_only=True)
class KeptText:
    """A text as it was kept. `is_whole` is false if its end was cut off; `is_same` if it fits its line."""

    text: str
    is_whole: bool = True
    is_same: bool = True


def tokens_of(answer: Mapping[str, Any]) -> int:
    """The tokens of the texts of a result of `tools/call`, by their length alone."""
    content = answer.get("content")  # as its server sent it, perhaps in a wrong shape
    characters = 0
    for block in content if isinstance(content, list) else ():
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str):
            characters += len(text)
    return characters // _CHARACTERS_PER_TOKEN


def text_of(answer: Mapping[str, Any]) -> str:
    """What a model reads of a result of `tools/call`: its texts, and a mark for each other block."""
    content = answer.get("content")
    blocks = content if isinstance(content, list) else ()
    parts = [_text_of_block(block) for block in blocks if isinstance(block, Mapping)]
    if not parts and "structuredContent" in answer:
        return json.dumps(answer["structuredContent"], ensure_ascii=False)
    return "\n\n".join(parts)


def _text_of_block(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    if isinstance(text, str):
        return text
    kind = " ".join(str(block[name])[:100] for name in ("type", "mimeType", "uri") if block.get(name))
    return f"[{kind}: only its kind is kept]"


def masked_text(text: str) -> str:
    """The beginning of a text without its secrets; an `…` at the end says that more followed."""
    return masked_beginning(text, MOST_CHARACTERS)


def digest_of_text(masked: str, key: bytes) -> str:
    """What a line has of its text, in hex; an HMAC if there is a key."""
    data = masked.encode("utf-8", "surrogatepass")
    whole = hmac.digest(key, data, "sha256").hex() if key else hashlib.sha256(data).hexdigest()
    return whole[:_DIGEST_CHARS]


class AnswerTexts:
    """Writes texts of answers, and deletes the oldest ones where they take more than `most_bytes`."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._since_look = _LOOK_AFTER
        self.most_bytes = 0

    def add(self, connection: DriverConnection, texts: Sequence[tuple[str, str]]) -> Sequence[str]:
        """Store texts, each as `(when, text)`; returns what their lines have of them."""
        rows = [self._row(at, text) for at, text in texts]
        connection.executemany(_ADD, rows)
        self._since_look += sum(row[2] for row in rows)
        if self._since_look >= _LOOK_AFTER:
            self._since_look = 0
            _make_room(connection, self.most_bytes)
        return [row[0] for row in rows]

    def _row(self, at: str, text: str) -> tuple[str, str, int, bytes]:
        masked = masked_text(text)
        body = zlib.compress(masked.encode("utf-8", "surrogatepass"), 1)
        return digest_of_text(masked, self._key), at, len(body) + _ROW_BYTES, body

    def get(self, connection: DriverConnection, digests: Sequence[str], since: str) -> Mapping[str, KeptText]:
        """The texts of some lines that are still there, by digest; none of those older than a time."""
        found: dict[str, KeptText] = {}
        for digest in dict.fromkeys(digests):
            row = connection.execute(_GET, (digest, since)).fetchone()
            if row is not None:
                found[digest] = self._kept(digest, bytes(row[0]))
        return found

    def _kept(self, digest: str, body: bytes) -> KeptText:
        try:
            text = zlib.decompress(body).decode("utf-8", "surrogatepass")
        except (zlib.error, UnicodeDecodeError):
            return KeptText(text="", is_same=False)
        is_same = hmac.compare_digest(digest_of_text(text, self._key), digest)
        return KeptText(text=text, is_whole=not text.endswith("…"), is_same=is_same)


def drop_before(connection: DriverConnection, at: str) -> int:
    """Delete the texts that are older than a time; returns how many."""
    return connection.execute(_DROP, (at,)).rowcount


def _make_room(connection: DriverConnection, most_bytes: int) -> None:
    """Delete the oldest texts if all take more space than they may."""
    total = int(connection.execute(_TOTAL).fetchone()[0] or 0)
    if total <= most_bytes:
        return
    for at, size in _oldest(connection):
        total -= size
        connection.execute(_DROP_UP_TO, (at,))
        if total <= most_bytes * _LEFT_SHARE:
            return


def _oldest(connection: DriverConnection) -> Iterator[tuple[str, int]]:
    """Times and sizes of texts, the oldest first, while the reader deletes them."""
    while rows := connection.execute(_OLDEST, (_AT_ONCE,)).fetchall():
        yield rows[-1][0], sum(row[1] for row in rows)
