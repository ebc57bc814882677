"""Restart servers and list them again, on the word of an operator.

`ServerControlMethods` has the methods of `Gateway` for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maitred.audit.service import AuditService
from maitred.backends.base import ServerPool
from maitred.catalog.discovery import Discoverer
from maitred.catalog.name_forms import servers_named
from maitred.catalog.snapshot import Snapshot
from maitred.gateway.authorization import Authorization
from maitred.gateway.lookup import PathLookup
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.tools import Tool
from maitred.replicas.forwarding import Replicas


@dataclass(frozen=True, kw_only=True)
class ServerRefresh:
    """What listing a server again found: names of tools as the gateway publishes them, or the fault."""

    server: str
    tools: int = 0
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    error: str = ""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "server": self.server,
            "tools": self.tools,
            "added": list(self.added),
            "changed": list(self.changed),
            "removed": list(self.removed),
            "error": self.error,
            "notes": list(self.notes),
        }


class ServerControlMethods:
    """The methods of a gateway that act on running servers."""

    _access: Authorization
    _auditing: AuditService
    _context: GatewayState
    _keeper: Discoverer
    _paths: PathLookup
    _pool: ServerPool
    _replicas: Replicas

    async def refresh(self, names: Sequence[str], viewer: Viewer) -> list[ServerRefresh]:
        """List servers again (all that may run by default), and say what changed.

        Raises:
            PathNotFoundError: There is no such server; the text names the nearest. No server was asked.
            NotAllowedError: The viewer may not operate them.
        """
        if not names:
            self._access.check(viewer, "operate")
        every = self._context.settings.servers
        wanted = [self._paths.server(name, viewer, "operate").name for name in dict.fromkeys(names)]
        wanted = wanted or [name for name, spec in every.items() if spec.usable]
        return await self._list_again(wanted)

    def authorize_restart(self, names: Sequence[str], viewer: Viewer) -> list[str]:
        """The servers of these names, each once, if the viewer may restart them all.

        Raises:
            PathNotFoundError: There is no such server; the text names the nearest.
            NotAllowedError: The viewer may not operate them.
        """
        return [self._paths.server(name, viewer, "operate").name for name in dict.fromkeys(names)]

    async def restart(self, names: Sequence[str], viewer: Viewer) -> list[ServerRefresh]:
        """End servers, start them again and list them; calls that they were carrying out fail.

        Raises:
            PathNotFoundError: There is no such server; the text names the nearest. None was ended.
            NotAllowedError: The viewer may not operate them.
        """
        wanted = self.authorize_restart(names, viewer)
        usable = [name for name in wanted if self._context.settings.servers[name].usable]
        for name in usable:
            await self._pool.restart(name)
            await self._replicas.ask_others("server.restart", {"server": name})
            await self._auditing.record(viewer, "server.restart", server=name)
        return await self._list_again(wanted)

    @property
    def listing_first(self) -> frozenset[str]:
        """The servers that are being listed for the first time."""
        return frozenset(self._keeper.discovering)

    async def list_failed_for(self, name: str, viewer: Viewer) -> None:
        """List servers that failed when they were asked last, if one of them may have the tool of a name.

        It does nothing for a viewer who may not call: the call is refused, and says why.
        """
        if self._access.why_not(viewer, "call"):
            return
        snapshot, failed = self._context.snapshot, self._keeper.failed()
        if not failed or name in snapshot.by_name or any(key.name == name for key in snapshot.by_key):
            return
        named = servers_named(name, self._context.settings.servers)
        await self._keeper.sync_all([server for server in failed if server in named or not named])

    async def _list_again(self, names: Sequence[str]) -> list[ServerRefresh]:
        """List servers at once; one that may not run is not asked, and the reason is its fault."""
        before, specs = self._context.snapshot, self._context.settings.servers
        usable = [name for name in names if specs[name].usable]
        reports = {report.server: report for report in await self._keeper.sync_all(usable)}
        found = []
        for name in names:
            report = reports.get(name)
            if report is None:
                why = specs[name].withheld or "is disabled in the configuration"  # it begins with a verb
                found.append(ServerRefresh(server=name, error=f"it {why}"))
            elif report.error:
                found.append(ServerRefresh(server=name, error=report.error, notes=report.notes))
            else:
                found.append(_difference(name, before, self._context.snapshot, report.notes))
        return found


def _difference(server: str, before: Snapshot, after: Snapshot, notes: tuple[str, ...]) -> ServerRefresh:
    old = {tool.key: tool for tool in before.by_server.get(server, ())}
    new = {tool.key: tool for tool in after.by_server.get(server, ())}
    return ServerRefresh(
        server=server,
        tools=len(new),
        added=tuple(tool.name for key, tool in new.items() if key not in old),
        changed=tuple(
            tool.name for key, tool in new.items() if key in old and _written(tool) != _written(old[key])
        ),
        removed=tuple(tool.name for key, tool in old.items() if key not in new),
        notes=notes,
    )


def _written(tool: Tool) -> tuple[object, ...]:
    """What the server wrote of a tool."""
    own = tool.raw
    texts = own.title, own.description, own.input_hash, own.output_hash
    return *texts, dict(own.annotations), dict(own.extra)
