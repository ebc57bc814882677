"""Which categories a session has opened, for all gateways that may serve its next request.

Before a list or a call of a category tool, a gateway reads what others opened. Afterwards it writes what is
open now, and a message makes the gateway at which the client listens compare its list.
"""

import json
from collections.abc import Mapping
from typing import Final

import structlog

from maitred.errors import StoreError
from maitred.gateway.lists import MenuLists, Opened
from maitred.model.access import SHARED_CONNECTION, Viewer
from maitred.model.tools import ToolKey
from maitred.storage.shared_state import MOST_MESSAGE_BYTES, SharedState

log = structlog.get_logger(__name__)

_KEPT_S: Final = 86_400.0


class SharedCategories:
    """Keeps the open categories of `lists` equal at all gateways; `replica` is the name of this process."""

    def __init__(self, state: SharedState, lists: MenuLists, *, replica: str) -> None:
        self._state = state
        self._lists = lists
        self._replica = replica
        state.listen(self._heard, self._lost)

    def concerns(self, viewer: Viewer) -> bool:
        """Whether other gateways may serve the connection of a viewer, whose list has categories."""
        return (
            self._state.is_shared
            and viewer.connection.startswith(SHARED_CONNECTION)
            and self._lists.mode(viewer) == "categories"
        )

    async def catch_up(self, viewer: Viewer) -> None:
        """Read what was opened at other gateways; while the store is away, what was opened here counts."""
        try:
            data = await self._state.get(_key(viewer.scope))
        except StoreError as error:
            log.info("categories that other gateways opened are not known", reason=error.reason)
            return
        if data is not None:
            self._lists.open_as_elsewhere(viewer.scope, _from_wire(data))

    async def share(self, viewer: Viewer) -> None:
        """Write what is open now."""
        data = _to_wire(self._lists.opened(viewer))
        text = json.dumps(["opened", self._replica, viewer.scope, data.decode()])
        try:
            await self._state.put(_key(viewer.scope), data, _KEPT_S)
            if len(text) <= MOST_MESSAGE_BYTES:
                await self._state.publish(text)
        except StoreError as error:
            log.warning("other gateways do not know which categories are open", reason=error.reason)

    def _heard(self, text: str) -> None:
        if text.startswith('["opened"'):
            _, sender, scope, data = json.loads(text)
            if sender != self._replica:
                self._lists.open_as_elsewhere((scope[0], scope[1]), _from_wire(data))

    def _lost(self) -> None:
        """Nothing: each list is read after `catch_up`."""


def _key(scope: tuple[str, str]) -> str:
    return f"opened:{json.dumps(scope)}"


def _to_wire(opened: Mapping[str, Opened]) -> bytes:
    said = {
        name: None if keys is None else sorted([key.server, key.name] for key in keys)
        for name, keys in opened.items()
    }
    return json.dumps(said, separators=(",", ":")).encode()


def _from_wire(data: bytes | str) -> dict[str, Opened]:
    return {
        name: None if keys is None else frozenset(ToolKey(server=server, name=own) for server, own in keys)
        for name, keys in json.loads(data).items()
    }
