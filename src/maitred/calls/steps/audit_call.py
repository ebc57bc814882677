"""Give a call an entry in the audit trail, and record how the call ends.

The outcome is that of `AuditOutcome`, below; what the caller reads of the answer is known only here.
"""

from collections.abc import Callable

from maitred.audit.service import UNWRITTEN, Entry, origin_marks
from maitred.calls.answer import Answer, text_block
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer
from maitred.model.tools import ToolCall

MakeEntry = Callable[[ToolCall, Viewer, str], Entry]
"""Makes the entry of a call by `(request, viewer, id of the chain)`."""


class AuditCall:
    """Opens the entry. For a model, `_meta` of the answer names the request, and the server of the data."""

    def __init__(self, make_entry: MakeEntry) -> None:
        self._make_entry = make_entry

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on with its entry."""
        chain_id = call.chain.id if call.chain else ""
        call.entry = entry = self._make_entry(call.request, call.viewer, chain_id)
        try:
            answer = await proceed(call)
            await entry.written(answer.wire)
        except BaseException as error:
            await entry.failed(error)
            raise
        if entry.unwritten:
            answer = answer.with_last(text_block(UNWRITTEN))
        if call.shorten:
            answer = answer.with_meta(origin_marks(entry.request_id, {"server": entry.server}))
        return answer
