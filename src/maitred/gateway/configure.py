"""Applies settings, and decisions about servers, in the one safe order.

The configuration file and the registry together say which servers exist. So a decision of a person is applied
in the same way as an edit of the file. Only one change is applied at a time.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from maitred.audit.service import AuditService
from maitred.catalog.snapshot import Snapshot
from maitred.config.load import load
from maitred.config.settings import Settings
from maitred.gateway.admission import AdmissionService
from maitred.gateway.mediation import GatewayMediation
from maitred.gateway.parts import GatewayParts
from maitred.gateway.state import GatewayState
from maitred.gateway.visibility import VisibilityService
from maitred.model.servers import EraChoice, ServerFacts
from maitred.model.tools import ToolKey

_SHOWN_S: Final = 10.0
"""For how many seconds a person who changed a file waits until agents see the change."""


class Configuration:
    """Holds the settings as written; `GatewayState.settings` adds all registered servers."""

    def __init__(
        self,
        context: GatewayState,
        parts: GatewayParts,
        visibility: VisibilityService,
        auditing: AuditService,
    ) -> None:
        self._context = context
        self._parts = parts
        self._visibility = visibility
        self.mediation = GatewayMediation(context, auditing, self.mediate_anew)
        self.admission = AdmissionService(
            context,
            parts.gatekeeper,
            parts.allow_list,
            auditing,
            make_front=parts.make_front,
            make_namesakes=parts.make_namesakes,
            on_changed=self.again,
            signals=parts.signals,
        )
        self._written = context.settings
        self._lock = anyio.Lock()
        self._editing = anyio.Lock()

    async def take(self, settings: Settings) -> None:
        """Apply new settings; see `Gateway.configure`."""
        async with self._lock:
            await self._take(settings)

    async def change(self, edit: Callable[[Settings], Path]) -> Path:
        """Change a file of the operator and apply it at once; returns the file. One change at a time.

        `edit` gets the present settings and returns the file that it wrote. It runs in a thread. The section
        `http` stays as it was at the start.

        Raises:
            ConfigError: What `edit` raises, or the configuration cannot be applied.
        """
        async with self._editing:
            settings = self._context.settings
            path = await to_thread.run_sync(edit, settings)
            written = await to_thread.run_sync(load, settings.source)
            await self.take(replace(written, http=settings.http))
            await self._context.keeper.placed(_SHOWN_S)
        return path

    async def again(self) -> None:
        """Apply the decisions about servers since the last time."""
        async with self._lock:
            await self._take(self._written)

    async def mediate_anew(self) -> None:
        """Make another mediation service: the present one lacks a source that may be available now."""
        async with self._lock:
            settings = self._context.settings
            placer = self._parts.make_placer(settings)
            mender = await self._parts.make_mender(settings)
            if mender.is_whole:
                await self._parts.keeper.configure(settings.servers, placer, mender)
                self.mediation.use(mender)

    async def _take(self, written: Settings) -> None:
        self._parts.check_policy(written)
        settings = await self.admission.effective(written)
        placer, mender = self._parts.make_placer(settings), await self._parts.make_mender(settings)
        tables = self._parts.make_tables(settings)
        before = self._context.settings
        self._context.use(settings)
        self._written = written  # even if a later step fails: a decision must not restore the old settings
        self._parts.auditing.use(settings.audit)
        self._parts.credentials.use(settings.access)
        self._parts.observations.allow_examples(allowed=settings.disclosure.real_examples)
        self._visibility.use(tables)
        may_run = {name: spec for name, spec in settings.servers.items() if not spec.withheld}
        known = self._known(settings)
        eras: Mapping[str, EraChoice] = {name: facts.era or "auto" for name, facts in known.items()}
        titles = {name: facts.title for name, facts in known.items()}
        await self._parts.pool.configure(may_run, eras, settings.supervision, titles)
        withheld = _withheld(self._context.snapshot)
        await self.admission.catch_up()
        await self._parts.keeper.configure(settings.servers, placer, mender)
        if judged := withheld ^ _withheld(self._context.snapshot):  # only what is not withheld is mended
            await self._parts.keeper.remend(sorted({key.server for key in judged}))
        self.mediation.use(mender)
        if _shown(before) != _shown(settings):
            self._parts.events.lists_changed()

    def _known(self, settings: Settings) -> Mapping[str, ServerFacts]:
        """What the known servers said of themselves, so that no connection has to try their era."""
        return {
            name: record.facts
            for name, record in self._context.snapshot.servers.items()
            if name in settings.servers and record.fingerprint == settings.servers[name].fingerprint
        }


def _withheld(snapshot: Snapshot) -> set[ToolKey]:
    return {tool.key for tool in snapshot.tools if tool.withheld}


def _shown(settings: Settings) -> object:
    """The settings that affect what clients see."""
    usable = {name: spec.usable for name, spec in settings.servers.items()}
    shown = settings.disclosure, settings.categories, settings.tools, settings.profiles, settings.visibility
    return usable, *shown
