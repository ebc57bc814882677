"""Chains: programs that call tools, with one answer; these are methods of `Gateway`."""

from typing import Any

from maitred.backends.base import NOT_ASKED, Caller
from maitred.chains.answer import MAX_OUTPUT_SIZE, ChainAnswer
from maitred.gateway.chains import DEFAULT_MS, Chains
from maitred.gateway.stored_results import StoredResults
from maitred.model.access import Viewer


class ChainMethods:
    """The methods of a gateway that run chains."""

    _chains: Chains
    _results: StoredResults

    async def run_chain(
        self,
        code: str,
        *,
        viewer: Viewer,
        timeout_ms: int = DEFAULT_MS,
        max_output_size: int = MAX_OUTPUT_SIZE,
        dry_run: bool = False,
        keep: bool = True,
        caller: Caller = NOT_ASKED,
        request_id: str = "",
    ) -> ChainAnswer:
        """Run a program that calls tools, or calls in a short form; with `dry_run` check it alone.

        All faults of the chain are in the answer. The part of the result that is not shown is stored for the
        principal if `keep` is true.

        Raises:
            NotAllowedError: The viewer may call nothing.
        """
        answer = await self._chains.run(
            code,
            viewer=viewer,
            timeout_ms=timeout_ms,
            max_output_size=max_output_size,
            dry_run=dry_run,
            keep=keep,
            caller=caller,
            request_id=request_id,
        )
        await self._results.share()
        return answer

    async def chain_answer(
        self,
        code: str,
        *,
        viewer: Viewer,
        timeout_ms: int,
        max_output_size: int,
        dry_run: bool,
        caller: Caller,
        request_id: str,
    ) -> dict[str, Any]:
        """The same for an agent: the result of `tools/call`, marked as data of the servers that were called.

        Raises:
            NotAllowedError: The viewer may call nothing.
        """
        answer = await self._chains.answer(
            code,
            viewer=viewer,
            timeout_ms=timeout_ms,
            max_output_size=max_output_size,
            dry_run=dry_run,
            caller=caller,
            request_id=request_id,
        )
        await self._results.share()
        return answer

    def chain_guide(self, viewer: Viewer) -> str:
        """How to write a chain, for agents, with the modules that there are now."""
        return self._chains.guide(viewer)

    async def chain_isolation_fault(self, viewer: Viewer) -> str:
        """Why chains run outside of bubblewrap; empty if they run inside. Starts the engine.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        return await self._chains.cage(viewer)
