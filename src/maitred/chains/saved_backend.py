"""Saved chains as a server among the others: its tools are the chains that an operator reviewed.

The catalog, the search and the menu see an ordinary server; its specification holds the names, hashes and
files. Only a call takes another way, since a chain runs for a viewer (`Chains.run_saved`).
A file is read when it is needed, and checked against its hash each time. A changed chain is neither shown
nor run.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from anyio import to_thread

from maitred.backends.base import Backend, Caller, Connection, ConnectOptions, Listing
from maitred.backends.built_in import BuiltInConnection
from maitred.chains.saved_chain import SavedChain, parse_saved
from maitred.config.sections import SavedFile, files_of
from maitred.errors import ConfigError, ServerUnavailableError, ToolWithheldError
from maitred.model.servers import ServerSpec
from maitred.model.tools import RawTool, ToolCall, ToolKey

_MOST_BYTES = 1_000_000  # far over a chain's limit, so that the error of a longer one names its length
_ABOUT = "Chains that the operator of this gateway saved: each calls several tools and answers once."


def read_saved(spec: ServerSpec, name: str) -> SavedChain:
    """Read a saved chain as it was reviewed.

    Raises:
        ToolWithheldError: It is not configured, cannot be read, or was changed since.
    """
    found = next((one for one in files_of(spec) if one.name == name), None)
    if found is None:
        raise ToolWithheldError(name, "no chain is saved under this name")
    return _read(spec, found)


def why_not_saved(spec: ServerSpec, name: str) -> str:
    """Why a saved chain cannot be called; empty if it can, or could as soon as it is listed."""
    try:
        read_saved(spec, name)
    except ToolWithheldError as error:
        return error.reason
    return ""


def _read(spec: ServerSpec, found: SavedFile) -> SavedChain:
    path = Path(spec.cwd) / Path(found.file).expanduser()
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ToolWithheldError(found.name, f"its file cannot be read: {reason}") from None
    chain = _parsed(found.name, text)
    if isinstance(chain, ConfigError):
        reason = f"this saved chain was changed since it was reviewed, and has faults: {chain}"
        raise ToolWithheldError(found.name, reason)
    chain.verify(found.hash)
    return chain


@lru_cache(maxsize=256)  # of a pure function: the same text is parsed at every call of the chain
def _parsed(name: str, text: str) -> SavedChain | ConfigError:
    try:
        return parse_saved(name, text)
    except ConfigError as error:
        return error


class SavedBackend(Backend):
    """Offers saved chains as the tools of a server; starts nothing."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec

    def why_not_callable(self, tool: str) -> str:
        """Why a saved chain is not what the operator reviewed; empty also for a name that is not saved."""
        is_saved = any(one.name == tool for one in files_of(self.spec))
        return why_not_saved(self.spec, tool) if is_saved else ""

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Return a connection; nothing has to be opened."""
        yield _Connection(self.spec)


class _Connection(BuiltInConnection):
    """The session of this server: it lists chains, which only the gateway calls."""

    def __init__(self, spec: ServerSpec) -> None:
        super().__init__(spec, "Saved chains", _ABOUT)

    async def list_tools(self) -> Listing:
        return await to_thread.run_sync(self._listing)

    def _listing(self) -> Listing:
        tools, notes = [], []
        for found in files_of(self._spec):
            try:
                chain = _read(self._spec, found)
            except ToolWithheldError as error:
                notes.append(f"{found.name!r} is left out: {error.reason}")
            else:
                tools.append(_tool(self._spec.name, chain))
        return Listing(tools=tools, notes=tuple(notes))

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        raise ServerUnavailableError(self._spec.name, f"{name} can be called by a gateway only")


def _tool(server: str, chain: SavedChain) -> RawTool:
    return RawTool(
        key=ToolKey(server=server, name=chain.name),
        description=chain.description,
        input_schema={"additionalProperties": False, **chain.parameters},
        annotations={"readOnlyHint": chain.read_only},
    )
