"""Say to clients who should read an answer, and how much it matters."""

from collections.abc import Awaitable
from typing import Any

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.annotations import annotate_block


class AnnotateAnswer:
    """Annotates the blocks of answers for models, by the length of the whole answer.

    A block that its server annotated stays as it is. So do all answers that a client gets without
    `call_tool`: those are the server's own.
    """

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, and annotate its answer if the caller passes it to a model."""
        return self._annotated(call, proceed) if call.shorten else proceed(call)

    async def _annotated(self, call: Call, proceed: Proceed) -> Answer:
        answer = await proceed(call)
        content = answer.wire.get("content")
        if not isinstance(content, list):
            return answer  # a surface writes it as text
        characters = sum(map(_characters, content))
        return answer.with_content([annotate_block(block, characters) for block in content])


def _characters(block: Any) -> int:
    """The characters that a model reads of a block."""
    if not isinstance(block, dict):
        return 0
    resource = block.get("resource")
    text = (
        block.get("text") if resource is None else resource.get("text") if isinstance(resource, dict) else ""
    )
    return len(text) if isinstance(text, str) else 0
