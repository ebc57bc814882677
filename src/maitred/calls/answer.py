"""The answer of a call on its way to the caller: the JSON object of the result, with what the steps add.

Only this module changes `content` and `_meta` of a result. Afterwards, surfaces adapt a copy to the client's
protocol revision. A server may send both in any shape, so each method accepts any JSON value there. No method
changes an object in place, because the cache may have the same object.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A result as it goes over the wire.

    `cached`: it came from the cache, or from an equal call that was under way. `opened` are the published
    names of tools that the call made available.
    """

    wire: dict[str, Any]
    cached: bool = False
    opened: Sequence[str] = ()

    @property
    def is_error(self) -> bool:
        """Whether the tool says that it failed."""
        return bool(self.wire.get("isError"))

    @property
    def blocks(self) -> list[Any]:
        """The blocks of content. Any value that is not a list counts as one block."""
        return blocks_of(self.wire.get("content"))

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the result; empty if there is none, or it is no object."""
        meta = self.wire.get("_meta")
        return meta if meta and isinstance(meta, Mapping) else {}

    def with_wire(self, wire: dict[str, Any]) -> "Answer":
        """The answer with another result; itself if it is the same object."""
        return self if wire is self.wire else replace(self, wire=wire)

    def with_meta(self, marks: Mapping[str, Any]) -> "Answer":
        """The answer with more keys in `_meta`, in place of those of the same name."""
        return self._changed(_meta={**self.meta, **marks})

    def without_meta(self, unwanted: Callable[[str], bool]) -> "Answer":
        """The answer without some keys of `_meta`; itself if it has none of them."""
        meta = self.meta
        if not any(map(unwanted, meta)):
            return self
        return self._changed(_meta={key: value for key, value in meta.items() if not unwanted(key)})

    def with_content(self, blocks: Sequence[Any]) -> "Answer":
        """The answer with other blocks of content."""
        return self._changed(content=[*blocks])

    def with_first(self, block: Mapping[str, Any]) -> "Answer":
        """The answer with one more block before its content."""
        return self.with_content([block, *self.blocks])

    def with_last(self, block: Mapping[str, Any]) -> "Answer":
        """The answer with one more block after its content."""
        return self.with_content([*self.blocks, block])

    def with_fields(self, fields: Mapping[str, Any]) -> "Answer":
        """The answer with other top-level fields, in place of those of the same name."""
        return self._changed(**fields)

    def without_field(self, name: str) -> "Answer":
        """The answer without one top-level field; itself if it does not have it."""
        if name not in self.wire:
            return self
        return replace(self, wire={key: value for key, value in self.wire.items() if key != name})

    def _changed(self, **fields: Any) -> "Answer":
        return Answer(wire={**self.wire, **fields}, cached=self.cached, opened=self.opened)


def text_block(text: str, **more: Any) -> dict[str, Any]:
    """A block of content that is a text, with further fields such as `annotations`."""
    return {"type": "text", "text": text, **more}


def blocks_of(content: Any) -> list[Any]:
    """The blocks in any value of `content`: the items of a list, or the value itself unless it is empty."""
    return content if isinstance(content, list) else [content] if content else []
