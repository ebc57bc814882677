"""Post a message to an address of the operator, signed so that its receiver knows the sender."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

import anyio
import httpx2

from maitred.tls import tls_context

SIGNATURE: Final = "X-Maitred-Signature"
_MOST_ANSWER: Final = 64 * 1024


def sign(body: bytes, key: bytes, at: int) -> str:
    """The signature of a body: the time, and an HMAC-SHA-256 of the time, a dot and the body."""
    return f"t={at},v1={hmac.new(key, str(at).encode() + b'.' + body, hashlib.sha256).hexdigest()}"


async def post(
    url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, key: bytes = b"", at: int = 0
) -> tuple[int, bytes]:
    """Post a body, with its signature of the time `at` if there is a key; no redirection is followed.

    Returns the status of the answer, and its beginning.

    Raises:
        httpx2.HTTPError: The address cannot be reached.
        TimeoutError: There was no answer in time.
    """
    signed = {**headers, SIGNATURE: sign(body, key, at)} if key else headers
    with anyio.fail_after(timeout_s):
        async with (
            httpx2.AsyncClient(verify=tls_context(), timeout=timeout_s) as client,
            client.stream("POST", url, content=body, headers=dict(signed)) as response,
        ):
            answer = b""
            async for part in response.aiter_bytes():
                answer += part
                if len(answer) > _MOST_ANSWER:
                    break
            return response.status_code, answer
