"""The files of MCP clients on the machine of this gateway: what is in them, and its own entry there.

A person reads names of servers, no values. What would change is shown first; it is written only if the file
is as it was then. `ClientFileMethods` has the methods of `Gateway` for it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

import anyio

from maitred.audit.service import AuditService
from maitred.config.clients.connection import (
    STALE,
    ClientChange,
    ClientState,
    look_at,
    own_profile,
    plan_connect,
    plan_disconnect,
    write_connection,
    write_disconnection,
)
from maitred.config.clients.entries import program_path, start_command
from maitred.config.clients.files import UserMachine
from maitred.config.clients.table import KnownClient, find_client, known_clients
from maitred.config.clients.takeover import TakeoverPlan, configured_servers, plan_takeover
from maitred.errors import ConfigError
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.model.access import LOCAL_GRANT, Viewer
from maitred.model.profiles import narrow_to_profile

ClientWay = Literal["connect", "disconnect"]
_ACTION: Final = "client."


@dataclass(frozen=True, kw_only=True)
class ClientFileState:
    """The file of one client: the names of its servers, and whether it has this gateway.

    `doubled` are those of its servers that this gateway has, too; `profile` is that of its entry.
    """

    client: KnownClient
    path: Path
    names: Sequence[str] = ()
    doubled: Sequence[str] = ()
    is_connected: bool = False
    profile: str = ""
    is_present: bool = True
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class ClientFileChange:
    """A change of a client's file that a person may order; `seen` is the digest of the file as it was shown.

    `entry` is the text of the entry that is written, `added` and `removed` are names, and `way` says how the
    file is given back.
    """

    client: KnownClient
    path: Path
    kind: ClientWay
    takes_out: bool
    profile: str
    seen: str
    entry: str = ""
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    way: str = ""
    is_empty: bool = False


class ClientFiles:
    """Reads and changes files of clients. Who calls it has checked what the viewer may do."""

    def __init__(self, context: GatewayState, auditing: AuditService) -> None:
        self._context = context
        self._auditing = auditing
        self._lock = anyio.Lock()

    async def states(self) -> Sequence[ClientFileState]:
        """The clients that seem to be installed; see `Gateway.client_files`."""
        return await anyio.to_thread.run_sync(self._states)

    async def plan(self, client: str, kind: ClientWay, *, takes_out: bool, profile: str) -> ClientFileChange:
        """What a change would do; see `Gateway.plan_client_file`."""
        if profile:  # a mistyped one would only show when the client starts
            narrow_to_profile(LOCAL_GRANT, profile, self._context.settings.profiles)
        planned = partial(self._plan, client, kind, takes_out=takes_out, profile=profile)
        return await anyio.to_thread.run_sync(planned)

    async def write(self, change: ClientFileChange, viewer: Viewer) -> Path:
        """Write a change; see `Gateway.write_client_file`."""
        about = {"client": change.client.id, "path": str(change.path), "removed": list(change.removed)}
        outcome = "cancelled"
        async with self._lock:
            try:
                await anyio.to_thread.run_sync(self._write, change)
                outcome = "ok"
            except ConfigError as error:
                outcome = error.code
                raise
            finally:
                if outcome != "ok":
                    detail = change.client.id
                    self._auditing.note(
                        viewer, _ACTION + change.kind, arguments=about, outcome=outcome, detail=detail
                    )
            await self._auditing.record(
                viewer, _ACTION + change.kind, arguments=about, detail=f"{change.client.id}: {change.path}"
            )
        return change.path

    def _states(self) -> Sequence[ClientFileState]:
        found = []
        for client in known_clients():
            try:
                state = look_at(_machine(), client)
            except ConfigError:  # it has no such file on this platform
                continue
            if state.is_installed or state.is_remembered:
                found.append(self._state(state))
        return found

    def _state(self, state: ClientState) -> ClientFileState:
        fault, doubled = state.fault, list[str]()
        try:
            doubled = list(self._takeover(state).present)
        except ConfigError as error:
            fault = "; ".join(error.faults)
        return ClientFileState(
            client=state.client,
            path=state.path,
            names=state.names,
            doubled=doubled,
            is_connected=bool(state.own),
            profile=own_profile(state),
            is_present=state.content is not None or bool(state.fault),
            fault=fault,
        )

    def _plan(self, client: str, kind: ClientWay, *, takes_out: bool, profile: str) -> ClientFileChange:
        known = find_client(client)
        change = self._change(known, kind, takes_out=takes_out, profile=profile)
        words = self._words(profile)
        return ClientFileChange(
            client=known,
            path=change.path,
            kind=kind,
            takes_out=takes_out,
            profile=profile,
            seen=_digest(change),
            entry=known.text(known.stdio(words)) if kind == "connect" and change.added else "",
            added=change.added,
            removed=change.removed,
            way=change.way,
            is_empty=not change.is_needed,
        )

    def _change(self, client: KnownClient, kind: ClientWay, *, takes_out: bool, profile: str) -> ClientChange:
        state = look_at(_machine(), client)
        if kind == "disconnect":
            return plan_disconnect(state)
        out = list(self._takeover(state).present) if takes_out else ()
        return plan_connect(state, client.stdio(self._words(profile)), out)

    def _takeover(self, state: ClientState) -> TakeoverPlan:
        source = self._context.settings.source
        return plan_takeover(state, source, configured_servers(source))

    def _write(self, change: ClientFileChange) -> None:
        now = self._change(change.client, change.kind, takes_out=change.takes_out, profile=change.profile)
        if _digest(now) != change.seen:
            raise ConfigError(str(now.path), [STALE])
        (write_connection if change.kind == "connect" else write_disconnection)(now)

    def _words(self, profile: str) -> Sequence[str]:
        return start_command(program_path(), self._context.settings.source, profile)


class ClientFileMethods:
    """The methods of a gateway about the files of clients on its machine."""

    _access: Authorization
    _client_files: ClientFiles

    async def client_files(self, viewer: Viewer) -> Sequence[ClientFileState]:
        """The clients that seem to be installed on the machine of the gateway, with their files.

        Raises:
            NotAllowedError: The viewer may not configure.
        """
        self._access.check(viewer, "configure")
        return await self._client_files.states()

    async def plan_client_file(
        self, client: str, kind: ClientWay, viewer: Viewer, *, takes_out: bool = False, profile: str = ""
    ) -> ClientFileChange:
        """What connecting or disconnecting a client would change; nothing is written.

        With `takes_out`, servers that this gateway has leave the file of the client. With `profile`, the
        client has the tools of that profile alone.

        Raises:
            NotAllowedError: The viewer may not configure.
            ConfigError: The client or the profile is unknown, or its file cannot be changed.
        """
        self._access.check(viewer, "configure")
        return await self._client_files.plan(client, kind, takes_out=takes_out, profile=profile)

    async def write_client_file(self, change: ClientFileChange, viewer: Viewer) -> Path:
        """Write a change of the file of a client; returns the file.

        Raises:
            NotAllowedError: The viewer may not configure.
            ConfigError: The file has changed since, or cannot be written. It is as it was.
            StoreError: It is written, but its record is not yet.
        """
        self._access.check(viewer, "configure")
        return await self._client_files.write(change, viewer)


def _machine() -> UserMachine:
    return UserMachine.here(cwd=Path.home())


def _digest(change: ClientChange) -> str:
    """A digest of the change as a whole: of the file before it, and of the file after it."""
    digest = hashlib.sha256(str(change.path).encode("utf-8", "surrogateescape"))
    for content in (change.before, change.after):
        digest.update(b"\0none" if content is None else b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()
