"""Cut texts that nest by indentation, such as the snapshot of a page, by their structure.

A line belongs to the nearest line above it that is indented less. Where lines are left out, a mark says how
many, and the names in quotation marks that they have, so that a reader knows what there is to ask for.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from maitred.calls.outline import MOST_CHARS_PER_TOKEN, Estimate, fit
from maitred.wording import count_of

_NAME = re.compile(r'"([^"\n]{2,60})"')
_NO_NAMES = ("?", "/", "http")  # addresses
_MARK_SHARE = 3  # a third of the room of a list is for the names of what does not fit
_LEAST_MARK_CHARS = 24
_MOST_LEVELS = 100  # lines that nest deeper stand beside each other
_MOST_MARK_CHARS = 240
_LEAST_PIECE_CHARS = 100
_FOLD_CHARS = 90
_LEAST_FOLDED = 2
_BESIDE = 3  # so many neighbours share the room evenly; of a longer list, only the first are shown


@dataclass(slots=True)
class Block:
    """A line with the lines below it that are indented more; `chars` counts all of them."""

    line: str
    depth: int
    place: int = -1
    below: "list[Block]" = field(default_factory=list)
    chars: int = 0
    count: int = 1

    def lines(self) -> Iterator["Block"]:
        """The block and all blocks in it, from top to bottom."""
        stack = [self]
        while stack:
            block = stack.pop()
            yield block
            stack.extend(reversed(block.below))


def depth_of(line: str) -> int:
    """How far a line is indented, in characters."""
    return len(line) - len(line.lstrip())


def to_blocks(lines: Sequence[str]) -> list[Block]:
    """The outermost blocks of some lines. A blank line belongs to the block of the line before."""
    top: list[Block] = []
    path: list[Block] = []
    for place, line in enumerate(lines):
        depth = depth_of(line) if line.strip() or not path else path[-1].depth + 1
        block = Block(line=line, depth=depth, place=place, chars=len(line) + 1)
        while path and (path[-1].depth >= depth or len(path) >= _MOST_LEVELS):
            _close(path)
        (path[-1].below if path else top).append(block)
        path.append(block)
    while path:
        _close(path)
    return top


def _close(path: list[Block]) -> None:
    """Take the last block of a path, and count it with the block around it."""
    done = path.pop()
    if path:
        path[-1].chars += done.chars
        path[-1].count += done.count


def fold(blocks: Sequence[Block], is_folded: Callable[[Block], bool]) -> list[Block]:
    """The blocks; of those that are folded, the first line and a mark with the names below it."""
    made: list[Block] = []
    for block in blocks:
        one = Block(line=block.line, depth=block.depth, place=block.place, chars=len(block.line) + 1)
        if block.count > _LEAST_FOLDED + 1 and is_folded(block):
            one.below = [_mark(block.below, block.below[0].depth, _FOLD_CHARS)]
        else:
            one.below = fold(block.below, is_folded)
        for part in one.below:
            one.chars += part.chars
            one.count += part.count
        made.append(one)
    return made


def cut(blocks: Sequence[Block], budget_tokens: int | None, estimate: Estimate) -> str:
    """The text of the blocks within a budget, if any: the first lines of each block, marks for the others."""
    whole = _text(blocks)
    if budget_tokens is None:
        return whole
    if len(whole) <= MOST_CHARS_PER_TOKEN * budget_tokens and estimate(whole) <= budget_tokens:
        return whole
    return fit(lambda chars: _text(_cut(blocks, chars)), str, budget_tokens, estimate)


def _text(blocks: Sequence[Block]) -> str:
    return "\n".join(part.line for block in blocks for part in block.lines())


def _cut(blocks: Sequence[Block], room: int) -> list[Block]:
    """The first blocks, each cut to its share of about as many characters, and a mark for the others."""
    if sum(block.chars for block in blocks) <= room:
        return list(blocks)
    least = room // min(len(blocks), _BESIDE)
    number = _most(blocks, room, least)
    if number < len(blocks):
        mark_room = max(room // _MARK_SHARE, _LEAST_MARK_CHARS)
        number = _most(blocks, room - mark_room, least)
    if not number and room > _LEAST_PIECE_CHARS:
        return _beginning(blocks, room)
    shown = blocks[:number]
    left = room - (0 if number == len(blocks) else max(room // _MARK_SHARE, _LEAST_MARK_CHARS))
    made = [_cut_block(block, share) for block, share in zip(shown, _shares(shown, left), strict=True)]
    rest = blocks[number:]
    return [*made, _mark(rest, rest[0].depth, room - sum(block.chars for block in made))] if rest else made


def _beginning(blocks: Sequence[Block], room: int) -> list[Block]:
    """The beginning of the first line, which is too long, and a mark for all lines after it."""
    first, *others = blocks
    rest = [*first.below, *others]
    end = max(min(len(first.line), room - 2 * _LEAST_MARK_CHARS), 0)
    left = f"…+{count_of(len(first.line) - end, 'character')}" if end < len(first.line) else ""
    made = Block(line=first.line[:end] + left, depth=first.depth)
    made.chars = len(made.line) + 1
    return [made, _mark(rest, first.depth, room - made.chars)] if rest else [made]


def _most(blocks: Sequence[Block], room: int, least: int) -> int:
    """How many of the first blocks fit, if each gets what it needs, but not more than `least`."""
    spent = 0
    for number, block in enumerate(blocks):
        spent += min(block.chars, max(least, len(block.line) + 1))
        if spent > room:
            return number
    return len(blocks)


def _cut_block(block: Block, room: int) -> Block:
    if block.chars <= room:
        return block
    own = len(block.line) + 1
    below = _cut(block.below, max(room - own, 0)) if block.below else []
    return Block(
        line=block.line, depth=block.depth, below=below, chars=own + sum(part.chars for part in below)
    )


def _shares(blocks: Sequence[Block], room: int) -> list[int]:
    """Divide room: small blocks get what they need, the others share the rest evenly."""
    shares = [0] * len(blocks)
    order = sorted(range(len(blocks)), key=lambda place: blocks[place].chars)
    for done, place in enumerate(order):
        shares[place] = min(blocks[place].chars, room // (len(blocks) - done))
        room -= shares[place]
    return shares


def _mark(blocks: Sequence[Block], depth: int, room: int) -> Block:
    """A line in place of some blocks: how many lines they have, and the names in them, as far as they fit."""
    text = f"{' ' * depth}…+{count_of(sum(block.count for block in blocks), 'line')}"
    room = min(room, _MOST_MARK_CHARS)
    line = with_names(text, (part.line for block in blocks for part in block.lines()), room)
    return Block(line=line, depth=depth, chars=len(line) + 1)


def with_names(text: str, lines: Iterable[str], room: int) -> str:
    """A text, then the names in quotation marks that some lines have, in `room` characters together."""
    names: dict[str, None] = {}
    spent = len(text)
    for line in lines:
        for name in _NAME.findall(line):
            if name in names or name.startswith(_NO_NAMES):
                continue
            spent += len(name) + 2
            if spent > room:
                return f"{text}: {', '.join(names)}, …" if names else text
            names[name] = None
    return f"{text}: {', '.join(names)}" if names else text
