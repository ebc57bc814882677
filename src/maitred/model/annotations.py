"""What the gateway says to clients about a text: who should read it, and how much it matters.

Clients may use it to choose what to show or to drop. A model never reads it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

LONG_CHARACTERS: Final = 2_000
FOR_AGENTS: Final = ("assistant",)
FOR_BOTH: Final = ("user", "assistant")
_USUAL: Final = 0.7
_LONG: Final = 0.3


def annotate(
    characters: int, *, audience: Sequence[str] = FOR_AGENTS, is_part: bool = False, modified: str = ""
) -> dict[str, Any]:
    """The `annotations` of a text of so many characters; `modified` is a time in ISO 8601.

    The priority is 0.3 for a text of more than 2,000 characters or the beginning of one, else 0.7.
    """
    priority = _LONG if is_part or characters > LONG_CHARACTERS else _USUAL
    return {"audience": list(audience), "priority": priority} | (
        {"lastModified": modified} if modified else {}
    )


def annotate_block(block: Any, characters: int) -> Any:
    """A block of an answer of so many characters, with annotations; itself if it has some.

    People see pictures and sounds too. Only kinds of blocks that can have annotations get them.
    """
    audience = _AUDIENCES.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    if audience is None or "annotations" in block:
        return block
    return {**block, "annotations": annotate(characters, audience=audience)}


_AUDIENCES: Final[Mapping[str, Sequence[str]]] = {
    "text": FOR_AGENTS,
    "resource": FOR_AGENTS,
    "resource_link": FOR_BOTH,
    "image": FOR_BOTH,
    "audio": FOR_BOTH,
}
