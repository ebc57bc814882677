"""The screens of the web interface, in the order of the navigation."""

from collections.abc import Sequence
from typing import Final

from maitred.surfaces.web import (
    access,
    activity,
    approvals,
    call,
    clients,
    ledger,
    replay,
    search,
    servers,
    settings,
    today,
    tools,
)
from maitred.surfaces.web.screen import WebScreen

SCREENS: Final[Sequence[WebScreen]] = (
    today.SCREEN,
    ledger.SCREEN,
    approvals.SCREEN,
    servers.SCREEN,
    tools.SCREEN,
    search.SCREEN,
    call.SCREEN,
    activity.SCREEN,
    replay.SCREEN,
    access.SCREEN,
    clients.SCREEN,
    settings.SCREEN,
)
