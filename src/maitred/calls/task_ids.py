"""The ids by which clients know tasks.

An id contains where the task is, and is signed for its principal. So it needs no store: it is valid after a
reconnect, and after a restart of the gateway.
"""

import base64
import binascii
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from maitred.errors import TaskNotFoundError
from maitred.model.tools import ToolKey

_MAC_BYTES: Final = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskAddress:
    """Where a task is: the tool that was called, and the id of the task at the server.

    A `held` task is one of the gateway itself: its server answered at once a caller who asked for a task.
    `instance` is the share key of the server's process, whose ids may be those of another process, too. It is
    no part of the client's id: a client finds the tasks of the instance that serves it.
    """

    tool: ToolKey
    id: str
    held: bool = False
    instance: str = ""


class TaskIds:
    """Makes and reads the ids by which clients know tasks; `key` returns the secret key of this catalog."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def write(self, address: TaskAddress, principal: str) -> str:
        """The id of a task for a principal, in letters that fit into a header of HTTP."""
        parts = [address.tool.server, address.tool.name, address.id, *([1] if address.held else [])]
        body = json.dumps(parts, separators=(",", ":")).encode()
        return f"{_text(body)}.{_text(self._signature(body, principal))}"

    def read(self, task_id: str, principal: str) -> TaskAddress:
        """Where a task is.

        Raises:
            TaskNotFoundError: This gateway gave the principal no such id.
        """
        body, _, signature = task_id.partition(".")
        try:
            data, signed = _bytes(body), _bytes(signature)
        except (ValueError, binascii.Error):
            raise TaskNotFoundError(task_id) from None
        if not hmac.compare_digest(signed, self._signature(data, principal)):
            raise TaskNotFoundError(task_id)
        server, name, own, *held = json.loads(data)
        return TaskAddress(tool=ToolKey(server=server, name=name), id=own, held=bool(held))

    def _signature(self, body: bytes, principal: str) -> bytes:
        signed = json.dumps(principal).encode() + b"\n" + body
        return hmac.digest(self._key(), signed, "sha256")[:_MAC_BYTES]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    padded = text.encode("ascii") + b"=" * (-len(text) % 4)
    return base64.b64decode(padded, altchars=b"-_", validate=True)
