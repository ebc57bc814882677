"""Lines as JSON to an address over HTTP, signed as messages about held calls are."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Final

import httpx2

from maitred.audit.destinations.base import DestinationError, Secrets, StreamLine, resolve_secrets
from maitred.signed_post import post

_TIMEOUT_S: Final = 30.0
_TOO_LARGE: Final = 413


class WebhookDestination:
    """Posts batches. `secrets` returns the key of the signature and the headers, each time."""

    def __init__(self, name: str, url: str, secrets: Secrets) -> None:
        self._name = name
        self._url = url
        self._secrets = secrets

    async def send(self, lines: Sequence[StreamLine]) -> str:
        """Post one message with all lines; see `Destination`.

        Raises:
            DestinationError: The answer is no 2xx, or there is none.
        """
        about = {
            "event": "audit.lines",
            "destination": self._name,
            "first": lines[0].seq,
            "last": lines[-1].seq,
        }
        texts = ",".join(line.text for line in lines)
        body = f'{json.dumps(about)[:-1]}, "lines": [{texts}]}}'.encode()
        key, headers = await resolve_secrets(self._secrets)
        return await deliver(self._url, body, {"Content-Type": "application/json", **headers}, key=key)

    def close(self) -> None:
        """Nothing is open between two messages."""


async def deliver(url: str, body: bytes, headers: Mapping[str, str], *, key: bytes = b"") -> str:
    """Post a body.

    Raises:
        DestinationError: The answer is no 2xx, or there is none.
    """
    try:
        status, _ = await post(url, body, headers, timeout_s=_TIMEOUT_S, key=key, at=int(time.time()))
    except TimeoutError as error:
        raise DestinationError("it did not answer in time") from error
    except (httpx2.HTTPError, OSError) as error:
        raise DestinationError(f"it cannot be reached ({type(error).__name__})") from error
    if not httpx2.codes.is_success(status):
        raise DestinationError(f"it answered with status {status}", is_too_large=status == _TOO_LARGE)
    return ""
