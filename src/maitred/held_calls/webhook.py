"""Messages about calls that wait in the inbox, to an address of the operator.

A message has no arguments, since these may be secret; who gets it looks into the inbox. It is signed, so that
its receiver can tell that it comes from this gateway. A message that cannot be delivered is logged and lost.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import httpx2
import structlog

from maitred.config.settings import HeldCallSettings
from maitred.model.held_calls import HeldCall
from maitred.model.tools import as_written
from maitred.signed_post import post

log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 10.0


def message_of(held: HeldCall) -> dict[str, Any]:
    """What a message says."""
    return {
        "event": "call.held",
        "id": held.id,
        "tool": held.name,
        "server": held.binding.server,
        "principal": held.binding.principal,
        "client": held.client,
        "why": held.why,
        "by": held.by,
        "held_at": held.held_at,
        "expires_at": held.expires_at,
        "decide": f"maitred calls show {held.id}",
    }


async def send(
    held: HeldCall,
    settings: HeldCallSettings,
    resolve: Callable[[str], str],
    clock: Callable[[], float] = time.time,
) -> None:
    """Send a message about a held call, within ten seconds; never raises.

    `resolve` replaces the references in `webhook_key`.
    """
    body = as_written(message_of(held))
    headers, key = {"Content-Type": "application/json"}, b""
    try:
        if settings.webhook_key:
            resolving = partial(resolve, settings.webhook_key)  # the keyring or a command may take long
            key = (await anyio.to_thread.run_sync(resolving, abandon_on_cancel=True)).encode()
        status, _ = await post(settings.webhook, body, headers, timeout_s=TIMEOUT_S, key=key, at=int(clock()))
        if not httpx2.codes.is_success(status):
            log.warning("the message about a held call was refused", call=held.id, status=status)
    except Exception as error:  # noqa: BLE001  # a message is a courtesy: the call waits all the same
        log.warning("the message about a held call was not sent", call=held.id, reason=type(error).__name__)
