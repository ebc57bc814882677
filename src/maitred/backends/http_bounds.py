"""A bound on the body of an HTTP answer, which a server could otherwise send without end.

Streams of events are exempt: their reader bounds each event itself.
"""

from collections.abc import AsyncGenerator
from typing import Any

import httpx2

_EVENTS = "text/event-stream"


class BoundedClient(httpx2.AsyncClient):
    """A client that reads at most `most` bytes of an answer, after decompression."""

    def __init__(self, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """See `httpx2.AsyncClient`."""
        response = await super().send(request, stream=True, **options)
        if not response.headers.get("content-type", "").lower().startswith(_EVENTS):
            response = _Bounded(response, self._most)
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


class _Bounded(httpx2.Response):
    """An answer that is read up to a bound; `httpx2.StreamError` says that there was more."""

    def __init__(self, whole: httpx2.Response, most: int) -> None:
        super().__init__(
            whole.status_code,
            headers=whole.headers,
            stream=whole.stream,
            request=whole.request,
            extensions=whole.extensions,
            history=whole.history,
            default_encoding=whole.default_encoding,
        )
        self.next_request = whole.next_request
        self._most = most

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        """See `httpx2.Response`; counts the bytes after decompression."""
        left = self._most
        async for chunk in super().aiter_bytes(chunk_size):
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(
                    f"it sent a message of more than {self._most:,} bytes (limits.max_message_bytes)"
                )
            yield chunk
