"""Send a call to its server, and return the answer: the only step that leaves the process."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from maitred.backends.base import Connections
from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.calls.rounds import RecordedCaller, ViewerCaller, finish_rounds
from maitred.errors import ConnectionLostError
from maitred.model.servers import ServerSpec
from maitred.model.sharing import sharer_of


class Relay:
    """The last step.

    `spec_of` returns the present specification of a server. `recheck` raises if a call may not be made any
    more. It runs last, since a start of the server for this call may have changed the tool in the catalog.
    """

    def __init__(
        self,
        connections: Connections,
        spec_of: Callable[[str], ServerSpec],
        recheck: Callable[[Call], Awaitable[None]],
    ) -> None:
        self._connections = connections
        self._spec_of = spec_of
        self._recheck = recheck

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:  # nothing comes after it
        """Make the call, and once more if the server ended before it can have read it.

        Raises:
            MaitredError: What `recheck` raises.
            ServerError: The server could not be reached, or did not answer.
        """
        started = time.perf_counter()
        try:
            return await self._relay(call)
        except ConnectionLostError as error:
            if not error.unread or call.asked:  # no person is asked twice
                raise
            return await self._relay(call)
        finally:
            call.server_s += time.perf_counter() - started

    async def _relay(self, call: Call) -> Answer:
        tool = call.tool
        timeout_s = self._spec_of(tool.server).timeouts.call_s
        caller = RecordedCaller(ViewerCaller(call.caller, call.viewer), call.note_question)
        async with self._connections.connection(tool.server, sharer_of(call.viewer)) as connection:
            await self._recheck(call)

            send = partial(connection.call_tool, tool.key.name, timeout_s=timeout_s, caller=caller)
            result = await send(call.request)
            if result.get("resultType") == "input_required":

                async def again(responses: Mapping[str, Any], state: str | None) -> dict[str, Any]:
                    return await send(replace(call.request, input_responses=responses, request_state=state))

                result = await finish_rounds(tool.server, result, caller, again)
        return Answer(wire=result)
