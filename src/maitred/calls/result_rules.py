"""Apply the rules for a tool to its answers: leave parts out, show only what changed, stay within a budget.

The whole answer is stored first, and the agent gets its address; without room for it the answer stays as it
is. Errors and answers of a form that no rule understands stay as they are, too. What an agent got last is
remembered for a while, in bounded memory: a lost memory costs tokens, never truth.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cachetools import TTLCache

from maitred.calls.answer import Answer, text_block
from maitred.calls.changes import changes
from maitred.calls.indentation import cut, fold, to_blocks
from maitred.calls.json_fields import parse_json, without_fields
from maitred.calls.outline import MOST_CHARS_PER_TOKEN, Estimate, compact, truncate
from maitred.calls.results import ResultStore, repeats_structure, result_uri
from maitred.calls.sections import Section, matches_heading, to_sections
from maitred.config.result_rules import ToolResultRule
from maitred.model.access import Viewer
from maitred.model.tools import ToolKey
from maitred.wording import count_of

_MINUTE = 60
_MOST_NEW_SHARE = 0.8
_FOOTER_TOKENS = 30
_FOOTER_CHARS = 60
_LEAST_COMPARED_CHARS = 400
_MOST_COMPARED_CHARS = 1_000_000
_UNCHANGED = "(as before)"

Choose = Callable[[ToolKey], ToolResultRule | None]
"""Returns the rule for the answers of a tool."""


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """A part of an answer on its way to the agent.

    If the piece is a JSON text, `value` is what `json` means. Otherwise it has `lines`, of which those at the
    places `new` may be folded, all for `None`. What a rule drops is in neither.
    """

    name: str
    heading: str = ""
    lines: Sequence[str] = ()
    value: Any = None
    json: str = ""
    new: frozenset[int] | None = None
    is_change: bool = False

    @property
    def text(self) -> str:
        """The piece as the agent would read it, uncut."""
        if self.value is not None:
            return self.json
        return "\n".join([self.heading, *self.lines] if self.heading else self.lines)


class ResultRules:
    """Applies rules; `choose` says which is for a tool."""

    def __init__(
        self,
        choose: Choose,
        store: ResultStore,
        *,
        estimate: Estimate,
        max_bytes: int,
    ) -> None:
        self._choose = choose
        self._store = store
        self._estimate = estimate
        self._last: TTLCache[tuple[str, ...], Sequence[str]] = TTLCache(
            max_bytes, store.ttl_s, timer=store.clock, getsizeof=lambda lines: 64 + sum(map(len, lines))
        )

    def has_rule(self, key: ToolKey) -> bool:
        """Whether a rule is for the answers of a tool."""
        return self._choose(key) is not None

    def apply(
        self, viewer: Viewer, key: ToolKey, arguments: Mapping[str, Any], result: dict[str, Any]
    ) -> dict[str, Any]:
        """The answer of a tool as an agent gets it; itself if no rule changes it."""
        rule = self._choose(key)
        if rule is None or result.get("isError"):
            return result
        answer = Answer(wire=result)
        blocks = [block for block in answer.blocks if isinstance(block, Mapping)]
        texts = [block["text"] for block in blocks if _is_text(block)]
        others = [block for block in blocks if not _is_text(block)]
        if "structuredContent" in result and not repeats_structure(result):
            texts.append(compact(result["structuredContent"]))
        pieces = [piece for number, text in enumerate(texts) for piece in _pieces(number, text, rule)]
        caller = (viewer.principal, viewer.connection or viewer.start.client, key.server)
        if rule.changes_only and caller[1]:
            pieces = [
                self._changed(piece, (*caller, *_kind_of(piece, key, arguments)), rule) for piece in pieces
            ]
        shown = "\n".join(text for text in self._within(pieces, rule) if text.strip())
        if sum(map(len, texts)) <= len(shown) + _FOOTER_CHARS:
            return result
        result_id = self._store.keep(viewer.principal, result)
        if not result_id:
            return result
        footer = self._footer(caller, result_id, changed=any(piece.is_change for piece in pieces))
        made = [text_block(f"{shown}\n{footer}".lstrip()), *others]
        return answer.without_field("structuredContent").with_content(made).wire

    def _changed(self, piece: _Piece, key: tuple[str, ...], rule: ToolResultRule) -> _Piece:
        """What changed of a piece since the caller's last one, if that is shorter. It becomes the last."""
        lines = _lines(piece)
        old = self._last.get(key)
        self._remember(key, lines)
        if old is None or not lines or len(piece.text) > _MOST_COMPARED_CHARS:
            return piece
        if list(old) == list(lines):
            if not piece.heading and len(piece.text) < _LEAST_COMPARED_CHARS:
                return piece
            view = f"{piece.heading} {_UNCHANGED}".strip()
            return replace(piece, value=None, lines=(), heading=view, is_change=True)
        if len(piece.text) < _LEAST_COMPARED_CHARS:
            return piece
        found = changes(old, lines, _expression(rule.ids) if rule.ids else None)
        view_of = replace(piece, value=None, lines=found.lines, new=found.new, is_change=True)
        return view_of if len(view_of.text) < _MOST_NEW_SHARE * len(piece.text) else piece

    def _remember(self, key: tuple[str, ...], lines: Sequence[str]) -> None:
        self._last.pop(key, None)
        if self._last.getsizeof(lines) <= self._last.maxsize:
            self._last[key] = lines

    def _within(self, pieces: Sequence[_Piece], rule: ToolResultRule) -> list[str]:
        """The texts of the pieces, cut to the budget: the shortest stay whole, the others share the rest."""
        if rule.budget is None:
            return [self._folded(piece, rule, None) for piece in pieces]
        left = rule.budget - _FOOTER_TOKENS
        texts = [self._folded(piece, rule, None) for piece in pieces]
        most = MOST_CHARS_PER_TOKEN * rule.budget
        costs = [self._estimate(text) + 1 if len(text) <= most else len(text) for text in texts]
        for done, place in enumerate(sorted(range(len(pieces)), key=costs.__getitem__)):
            share = max(left // (len(pieces) - done), 0)
            if costs[place] > share:
                texts[place] = self._folded(pieces[place], rule, share - 1)
            left -= min(costs[place], share)
        return texts

    def _folded(self, piece: _Piece, rule: ToolResultRule, budget: int | None) -> str:
        """The text of a piece, with its folded parts, within a budget if there is one."""
        if piece.value is not None:
            return piece.json if budget is None else compact(truncate(piece.value, budget, self._estimate)[0])
        blocks = to_blocks(piece.lines)
        if rule.fold:
            patterns = [_expression(pattern) for pattern in rule.fold]
            blocks = fold(
                blocks,
                lambda block: (
                    (piece.new is None or block.place in piece.new)
                    and any(pattern.search(block.line) for pattern in patterns)
                ),
            )
        most = None if budget is None else budget - self._estimate(piece.heading)
        text = cut(blocks, most, self._estimate)
        return "\n".join(part for part in (piece.heading, text) if part)

    def _footer(self, caller: tuple[str, ...], result_id: str, *, changed: bool) -> str:
        """Where the whole is. The first time, a caller also learns how to read it.

        Behind a caller without a connection there may be several agents, so it learns that each time.
        """
        uri = result_uri(result_id)
        is_first = not caller[1] or self._last.get(("known", *caller)) is None
        self._remember(("known", *caller), ("",))
        what = "Only what changed since the last answer" if changed else "Shortened"
        if not is_first:
            return f"[{what.replace(' since the last answer', '')}; whole: {uri}]"
        minutes = count_of(max(round(self._store.ttl_s / _MINUTE), 1), "minute")
        return (
            f"[{what}. Whole for {minutes}: {uri} (pages). Parts of it with some words: {uri}?find=WORDS, or"
            " ?find=WORDS|OTHER WORDS. Read them with resources/read, or call_read_only_tool with the URI as"
            " name.]"
        )


def _pieces(number: int, text: str, rule: ToolResultRule) -> Iterator[_Piece]:
    """The pieces of a text without what a rule drops: a JSON value is one, and each section."""
    name = str(number or "")
    value = parse_json(text)
    if value is not None:
        less = without_fields(value, rule.drop.fields)
        yield _Piece(name=name, value=less, json=text if less == value else compact(less))
        return
    drop = [_expression(pattern) for pattern in rule.drop.text]
    for section in to_sections(text):
        if section.heading and matches_heading(section.heading, rule.drop.sections):
            continue
        lines = _without_text(section, drop)
        if any(line.strip() for line in lines) or not section.lines:
            yield _Piece(name=name, heading=section.heading, lines=lines)


def _without_text(section: Section, drop: Sequence[re.Pattern[str]]) -> Sequence[str]:
    """The lines of a section without what the expressions match, and without lines that are then empty."""
    made = section.lines
    for pattern in drop:
        left = [(line, pattern.sub("", line)) for line in made]
        made = [after for line, after in left if after.strip() or not line.strip()]
    return made


def _lines(piece: _Piece) -> Sequence[str]:
    return piece.lines if piece.value is None else compact(piece.value, indent=1).splitlines()


def _kind_of(piece: _Piece, key: ToolKey, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """What a piece is compared with: the last section of this heading, or the last answer to this call.

    Without a heading nothing says that two answers show the same thing but that they were asked the same.
    """
    if piece.heading:
        return ("section", piece.heading.casefold())
    asked = hashlib.sha256(json.dumps(arguments, sort_keys=True, default=str).encode()).hexdigest()
    return (key.name, piece.name, asked)


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
