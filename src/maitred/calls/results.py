"""Give an agent the beginning of a result that is too long, and store the whole result to read in pages.

The store keeps results in memory, for a time, each for the principal of its call. The module knows only the
JSON of a `tools/call` answer. Pictures and sounds do not count: clients show them as such. A structured
answer that must be cut goes into the text, where no client checks it against a schema.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, unquote_plus

from cachetools import TTLCache

from maitred.calls.answer import Answer, blocks_of, text_block
from maitred.calls.finding import find_parts
from maitred.calls.json_fields import parse_json
from maitred.calls.outline import MOST_CHARS_PER_TOKEN, Estimate, break_at, clip, compact, outline, truncate
from maitred.errors import ResultNotFoundError
from maitred.model.annotations import annotate
from maitred.model.pages import MARK_KEY, leading_mark
from maitred.wording import count_of

HEADER_TOKENS = 500
LEAST_LIMIT_TOKENS = 400
_SCHEME = "maitred://result/"
_MEDIA = ("image", "audio")
_MOST_PARTS = 8
_SMALLEST_FIRST_LINE_TOKENS = 40
_BYTES_PER_CHAR = 4
_LEADING_BITS, _CONTINUES = 0xC0, 0x80  # of a byte inside a character
_MINUTE = 60


@dataclass(frozen=True, kw_only=True)
class ResultPage:
    """A page of a stored result; `next_cursor` is empty on the last page."""

    text: str
    next_cursor: str
    total_chars: int
    mime_type: str


@dataclass(frozen=True, kw_only=True)
class _StoredResult:
    principal: str
    data: bytes
    chars: int
    mime_type: str
    mark: str = ""
    """Whose text it is, if a web page wrote it: each page of the result says so."""

    def marked(self, text: str) -> str:
        """A part of it that is not its beginning."""
        return f"{self.mark}\n{text}" if self.mark else text


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of an answer to summarise: a text (parsed if it is JSON), a resource, the structured content."""

    label: str
    value: Any


@dataclass(frozen=True, kw_only=True)
class ResultRequest:
    """What the URI of a stored result asks for: a page of it, or the parts that have some words."""

    result_id: str
    cursor: str = ""
    find: str = ""


def parse_result_uri(uri: str) -> ResultRequest | None:
    """What a URI asks for; `None` if it is not the URI of a stored result, or has another query."""
    if not uri.startswith(_SCHEME):
        return None
    result_id, asked, query = uri.removeprefix(_SCHEME).partition("?")
    name, _, value = query.partition("=")
    value = unquote_plus(value) if name == "find" else unquote(value)
    if not result_id or "/" in result_id or (asked and (name not in ("cursor", "find") or not value.strip())):
        return None
    return ResultRequest(result_id=unquote(result_id), **({name: value} if asked else {}))


def result_uri(result_id: str, cursor: str = "") -> str:
    """The address of a page of a stored result."""
    return f"{_SCHEME}{result_id}?cursor={cursor}" if cursor else f"{_SCHEME}{result_id}"


class ResultStore:
    """Stores results in memory as UTF-8, so that it counts the bytes that it holds.

    With `shares`, it remembers which results other gateways do not have yet.
    """

    def __init__(
        self,
        *,
        ttl_s: float,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] = lambda: secrets.token_urlsafe(12),
        shares: bool = False,
    ) -> None:
        self._shares = shares
        self._unshared: list[str] = []
        self.ttl_s = ttl_s
        self.max_bytes = max_bytes
        self.clock = clock
        self._new_id = new_id
        self._results: TTLCache[str, _StoredResult] = TTLCache(
            max_bytes, ttl_s, timer=clock, getsizeof=lambda result: len(result.data)
        )

    def keep(self, principal: str, result: Mapping[str, Any]) -> str:
        """Store a result and return its id; "" if it alone exceeds the size of the store.

        Those that were read longest ago make room. A result that is one text is kept as that text, any other
        as indented JSON.
        """
        text = only_text(result)
        shown = compact(result, indent=2) if text is None else text
        data = shown.encode("utf-8", "surrogatepass")
        if len(data) > self.max_bytes:
            return ""
        result_id = self._new_id()
        self._results[result_id] = _StoredResult(
            principal=principal,
            data=data,
            chars=len(shown),
            mime_type="application/json" if text is None else "text/plain",
            mark=_mark_of(_blocks(result)),
        )
        if self._shares:
            self._unshared.append(result_id)
        return result_id

    def knows(self, result_id: str) -> bool:
        """Whether it has a result, of whichever principal."""
        return result_id in self._results

    def take_unshared(self) -> Sequence[tuple[str, bytes]]:
        """The results that other gateways do not have yet, by id, in a form that `adopt` reads."""
        taken, self._unshared = self._unshared, []
        return [(one, _packed(self._results[one])) for one in taken if one in self._results]

    def adopt(self, result_id: str, data: bytes) -> None:
        """Store a result that another gateway shared."""
        result = _unpacked(data)
        if len(result.data) <= self.max_bytes:
            self._results[result_id] = result

    def page(self, principal: str, result_id: str, cursor: str = "", size_chars: int = 20_000) -> ResultPage:
        """A page of at most `size_chars` characters (at least 1), up to a line end if one is near.

        Raises:
            ResultNotFoundError: It is unknown, expired or of another principal, or the cursor is wrong.
        """
        self._results.expire()  # frees the memory of others too
        kept = self._results.get(result_id)
        start = int(cursor or "0") if re.fullmatch(r"[0-9]{0,15}", cursor) else -1
        if kept is None or kept.principal != principal or not _begins_at(kept.data, start):
            raise ResultNotFoundError(result_id)
        end = min(start + (size_chars + 1) * _BYTES_PER_CHAR, len(kept.data))
        while not _begins_at(kept.data, end) and end < len(kept.data):
            end -= 1
        text = kept.data[start:end].decode("utf-8", "surrogatepass")
        text = text[: break_at(text, size_chars)]
        after = start + len(text.encode("utf-8", "surrogatepass"))
        return ResultPage(
            text=kept.marked(text) if start else text,
            next_cursor=str(after) if after < len(kept.data) else "",
            total_chars=kept.chars,
            mime_type=kept.mime_type,
        )

    def find(self, principal: str, result_id: str, query: str, size_chars: int = 4_000) -> ResultPage:
        """The parts of a stored result that have some words, at most `size_chars` characters of them.

        Raises:
            ResultNotFoundError: It is unknown, expired or of another principal.
        """
        self._results.expire()
        kept = self._results.get(result_id)
        if kept is None or kept.principal != principal:
            raise ResultNotFoundError(result_id)
        text = find_parts(kept.data.decode("utf-8", "surrogatepass"), query)
        end = break_at(text, size_chars)
        more = "" if end == len(text) else "…\nMore parts match; ask for more words."
        shown = kept.marked(text[:end] + more)
        return ResultPage(text=shown, next_cursor="", total_chars=kept.chars, mime_type="text/plain")


@dataclass(frozen=True, kw_only=True)
class AnswerLimit:
    """The longest text of an answer for one client: estimated o200k tokens, and characters if not 0."""

    tokens: int
    characters: int = 0


class Shortener:
    """Shortens results above a limit of estimated tokens, at least 400: a shorter one would say nothing."""

    def __init__(self, store: ResultStore, *, estimate: Estimate, limit_tokens: int) -> None:
        if limit_tokens < LEAST_LIMIT_TOKENS:
            raise ValueError(f"a limit of {limit_tokens} tokens is below {LEAST_LIMIT_TOKENS}")
        self._store = store
        self._estimate = estimate
        self._limit = limit_tokens

    @property
    def limit_tokens(self) -> int:
        """The limit, in estimated tokens."""
        return self._limit

    def limited_to(self, limit_tokens: int) -> "Shortener":
        """One for the same store, with a lower limit."""
        limit = min(self._limit, limit_tokens)
        return Shortener(self._store, estimate=self._estimate, limit_tokens=limit)

    def within(self, limit: AnswerLimit | None) -> "Shortener":
        """One for the same store, with a limit of a client besides its own."""
        return self if limit is None else self._for(limit, min(self._limit, limit.tokens))

    def only_within(self, limit: AnswerLimit) -> "Shortener":
        """One for the same store, with the limit of a client in place of its own."""
        return self._for(limit, limit.tokens)

    def _for(self, limit: AnswerLimit, tokens: int) -> "Shortener":
        estimate, most = self._estimate, limit.characters
        if not most:
            return Shortener(self._store, estimate=estimate, limit_tokens=tokens)
        tokens = min(tokens, most)

        def by_both(text: str) -> int:
            return max(estimate(text), -(-len(text) * tokens // most))

        return Shortener(self._store, estimate=by_both, limit_tokens=tokens)

    def shorten(self, principal: str, result: dict[str, Any]) -> dict[str, Any]:
        """The result itself if it fits; else a result with a summary, its pictures, sounds and links.

        A small answer takes microseconds, without an estimate, if its number of characters decides. A text of
        12 characters for each token of the limit is over it, even if it is mostly blanks.
        """
        blocks = _blocks(result)
        texts = [_counted_text(block) for block in blocks]
        if "structuredContent" in result:
            texts.append(compact(result["structuredContent"]))
        if sum(_at_most(text) for text in texts) <= self._limit:
            return result
        if repeats_structure(result):  # clients show the texts or the structured content, not both
            texts = texts[-1:]
        chars = sum(map(len, texts))
        if chars <= MOST_CHARS_PER_TOKEN * self._limit and self._estimate("\n".join(texts)) <= self._limit:
            return result
        kept = self._kept_blocks(blocks)
        text, mark = self._summary(principal, result, chars, kept), _mark_of(blocks)
        text = f"{mark}\n{text}" if mark else text
        block = text_block(text, annotations=annotate(len(text), is_part=True))
        return Answer(wire=result).without_field("structuredContent").with_content([block, *kept]).wire

    def _kept_blocks(self, blocks: Sequence[Any]) -> list[Any]:
        """Pictures and sounds, and the first links, as many as fit into a quarter of the limit."""
        kept, spent = [], 0
        for block in blocks:
            if _type(block) in _MEDIA:
                kept.append(block)
            elif _type(block) == "resource_link" and spent <= self._limit // 4:
                spent += self._estimate(compact(block))
                if spent <= self._limit // 4:
                    kept.append(block)
        return kept

    def _summary(self, principal: str, result: dict[str, Any], chars: int, kept: Sequence[Any]) -> str:
        parts = _parts(result, kept)
        result_id = self._store.keep(principal, result)
        header = self._header(parts, chars, kept, lost=not result_id)
        footer = self._footer(principal, result_id) if result_id else ""
        links = sum(self._estimate(compact(block)) for block in kept if _type(block) == "resource_link")
        budget = self._limit - links - self._estimate(f"{header}\n\n{footer}") - 2
        for _ in range(_MOST_PARTS):
            text = "\n\n".join(piece for piece in (header, self._details(parts, budget), footer) if piece)
            if self._estimate(text) <= self._limit - links:
                return text
            budget = budget * 3 // 4
        return f"{header}\n\n{footer}"

    def _header(self, parts: Sequence[_Part], chars: int, kept: Sequence[Any], *, lost: bool) -> str:
        """A description of the answer, without a blank line: the details begin after the first one."""
        lines = [f"The answer has {count_of(chars, 'character')}, too many to show; this is its beginning."]
        if lost:
            most = count_of(self._store.max_bytes, "byte")
            lines.append(
                f"The rest is lost: it is more than the {most} that are kept. Ask for less at a time."
            )
        if kept:
            types = [_type(block) for block in kept]
            named = [count_of(types.count(one), one.replace("_", " ")) for one in dict.fromkeys(types)]
            lines.append(f"As they were, after this text: {', '.join(named)}.")
        budget = min(HEADER_TOKENS, self._limit // 2) - sum(map(self._estimate, lines)) - len(lines)
        for place, part in enumerate(parts):
            label = f"{part.label}: " if part.label else ""
            share = budget // (len(parts) - place) - self._estimate(label) - 1
            told = label + outline(part.value, max(share, 0), self._estimate)
            budget -= self._estimate(told) + 1
            lines.append(told)
        told = re.sub(r"\n\s*\n", "\n", "\n".join(lines))
        return clip(told, min(HEADER_TOKENS, self._limit // 2), self._estimate)[0]

    def _details(self, parts: Sequence[_Part], budget: int) -> str:
        """The parts in their order, each cut to its share. The shortest take first, and leave the rest."""
        told: dict[int, str] = {}
        shortest = sorted(range(len(parts)), key=lambda place: _length(parts[place].value))
        for done, place in enumerate(shortest):
            part = parts[place]
            share = budget // (len(parts) - done) - 1
            label = f"{part.label}:\n" if part.label else ""
            share -= self._estimate(label)
            if share < _SMALLEST_FIRST_LINE_TOKENS:
                continue
            if isinstance(part.value, str):
                shown = clip(part.value, share, self._estimate)[0]
            else:
                shown = compact(truncate(part.value, share, self._estimate)[0])
            told[place] = label + shown
            budget -= self._estimate(told[place]) + 1
        return "\n\n".join(told[place] for place in sorted(told))

    def _footer(self, principal: str, result_id: str) -> str:
        page = self._store.page(principal, result_id, size_chars=2)
        seconds = round(self._store.ttl_s)
        time_left = (
            count_of(seconds // _MINUTE, "minute") if seconds >= _MINUTE else count_of(seconds, "second")
        )
        return (
            f"Whole result: {result_uri(result_id)} ({count_of(page.total_chars, 'character')}, kept for"
            f" {time_left}). Read it with resources/read; each page names the next, ?cursor=…"
        )


def _packed(result: _StoredResult) -> bytes:
    about = [result.principal, result.chars, result.mime_type, result.mark]
    return json.dumps(about).encode() + b"\n" + result.data


def _unpacked(data: bytes) -> _StoredResult:
    about, _, body = data.partition(b"\n")
    principal, chars, mime_type, mark = json.loads(about)
    return _StoredResult(principal=principal, data=body, chars=chars, mime_type=mime_type, mark=mark)


def _begins_at(data: bytes, place: int) -> bool:
    """Whether a character begins at a position; in empty data, one begins at 0."""
    return place == 0 or (0 < place < len(data) and data[place] & _LEADING_BITS != _CONTINUES)


def _blocks(result: Mapping[str, Any]) -> list[Any]:
    return blocks_of(result.get("content"))


def _mark_of(blocks: Sequence[Any]) -> str:
    """The mark of a web page's answer; empty for any other answer."""
    return next(filter(None, (leading_mark(_text(block) or "") for block in blocks)), "")


def _type(block: Any) -> str:
    return str(block.get("type")) if isinstance(block, dict) else ""


def _text(block: Any) -> str | None:
    """The text of a text block or of an embedded resource."""
    kind = _type(block)
    holder = block.get("resource") if kind == "resource" else block
    text = holder.get("text") if isinstance(holder, dict) else None
    return text if isinstance(text, str) and kind in ("text", "resource") else None


def _counted_text(block: Any) -> str:
    """The text of a block that counts for the limit."""
    text = _text(block)
    return text if text is not None else "" if _type(block) in _MEDIA else compact(block)


def _at_most(text: str) -> int:
    """The most tokens that a text can have, also by an estimate: each has at least a byte of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def only_text(result: Mapping[str, Any]) -> str | None:
    """The text of a result that is nothing but one text."""
    blocks = _blocks(result)
    alone = len(blocks) == 1 and _type(blocks[0]) == "text"
    return (
        _text(blocks[0])
        if alone and ("structuredContent" not in result or repeats_structure(result))
        else None
    )


def repeats_structure(result: Mapping[str, Any]) -> bool:
    """Whether the texts repeat the structured content, as servers do for clients that know only texts."""
    if "structuredContent" not in result:
        return False
    blocks = [block for block in _blocks(result) if _type(block) not in _MEDIA]
    texts = [block.get("text") for block in blocks if _type(block) == "text"]
    if not texts or len(texts) < len(blocks):
        return False
    value = result["structuredContent"]
    if mark := _mark_of(blocks):
        texts = [str(texts[0]).removeprefix(f"{mark}\n"), *texts[1:]]
        value = _without_mark(value)
    said = [_parse_or_text(text) for text in texts]
    bare = _bare(value)
    try:
        return texts == [bare] or said in ([value], [bare], bare)
    except RecursionError:  # nested too deep to compare
        return False


def _without_mark(value: Any) -> Any:
    """Structured content without the key that says which page wrote it."""
    is_marked = isinstance(value, dict) and MARK_KEY in value
    return {key: item for key, item in value.items() if key != MARK_KEY} if is_marked else value


def _bare(value: Any) -> Any:
    """The value inside the object in which SDKs wrap an answer that is not an object."""
    return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value


def _parse_or_text(text: Any) -> Any:
    """The value of a text that is a JSON object or list, else the text."""
    value = parse_json(text) if isinstance(text, str) else None
    return text if value is None else value


def _parts(result: Mapping[str, Any], kept: Sequence[Any]) -> list[_Part]:
    """The parts to summarise. More than a few blocks become one list of blocks."""
    stay = {id(block) for block in kept}
    if repeats_structure(result):
        return [_Part(label="", value=_bare(result["structuredContent"]))]
    blocks = [block for block in _blocks(result) if id(block) not in stay]
    parts = [_Part(label=_label(block), value=_value(block)) for block in blocks]
    if len(parts) > _MOST_PARTS:
        parts = [_Part(label=f"{len(parts):,} blocks", value=[part.value for part in parts])]
    if "structuredContent" in result:
        parts.append(_Part(label="structured content", value=_bare(result["structuredContent"])))
    return [_Part(label="", value=parts[0].value)] if len(parts) == 1 and not parts[0].label else parts


def _value(block: Any) -> Any:
    """The value of a block to summarise: its text, parsed if it is JSON, or the size of binary data."""
    resource = block.get("resource") if _type(block) == "resource" else None
    if isinstance(resource, dict) and isinstance(resource.get("blob"), str):
        return {**resource, "blob": f"…+{count_of(len(resource['blob']), 'character')} of base64"}
    text = _text(block)
    return block if text is None else _parse_or_text(text)


def _label(block: Any) -> str:
    resource = block.get("resource") if _type(block) == "resource" else None
    return (
        f"resource {' '.join(str(resource.get('uri')).split())[:200]}" if isinstance(resource, dict) else ""
    )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(compact(value))
