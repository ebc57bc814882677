"""Asks the configured language model for use cases of tools: phrases in which users would ask for them.

It does so only at an operator's request, since it costs money, and names and descriptions of tools leave the
machine. The use cases stay with the tool. Use cases by a person are not changed.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final, Protocol

from maitred.catalog.snapshot import Change, Snapshot
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.gateway.state import GatewayState
from maitred.model.tools import Tool
from maitred.search.base import ToolDocument, document

BATCH: Final = 20


class Writer(Protocol):
    """Writes phrases for tools; see `maitred.search.use_cases`."""

    async def write(self, tools: Sequence[ToolDocument]) -> list[tuple[str, ...]]:
        """Phrases for each tool, or none."""
        ...


OpenWriter = Callable[[Settings], AbstractAsyncContextManager[Writer | None]]


class UseCaseWriting:
    """Writes use cases for a gateway. `open_writer` returns the configured model, or `None`."""

    def __init__(self, context: GatewayState, open_writer: OpenWriter) -> None:
        self._context = context
        self._open_writer = open_writer

    async def write(self, server: str = "", *, progress: Callable[[int, int], None]) -> int:
        """Write use cases for the tools (of one server) that have none; returns for how many tools.

        `progress` gets the number of tools that are done, and of all. Use cases are stored, even if a later
        request fails.

        Raises:
            ConfigError: No model is configured, or it cannot be used as it is.
            MaitredError: The model cannot be reached, or answers with something else.
        """
        tools = [
            tool
            for tool in self._context.visible_tools()
            if not tool.use_cases and server in ("", tool.server)
        ]
        written = 0
        async with self._open_writer(self._context.settings) as writer:
            if writer is None:
                hint = "use_cases.provider: is none; set it to openai or anthropic, with a model and a key"
                raise ConfigError(str(self._context.settings.source), [hint])
            for start in range(0, len(tools), BATCH):
                batch = tools[start : start + BATCH]
                snapshot = self._context.snapshot
                phrases = await writer.write([document(snapshot, tool) for tool in batch])
                written += await self._keep(batch, phrases)
                progress(start + len(batch), len(tools))
        return written

    async def _keep(self, tools: Sequence[Tool], phrases: Sequence[tuple[str, ...]]) -> int:
        by_key = {tool.key: found for tool, found in zip(tools, phrases, strict=True) if found}

        async def planned(snapshot: Snapshot) -> Change:
            fresh = [
                replace(tool, use_cases=by_key[key], use_cases_by="model")
                for key, tool in snapshot.by_key.items()
                if key in by_key and not tool.use_cases
            ]
            return Change(tools=fresh)

        return len((await self._context.catalog.change(planned)).tools)
