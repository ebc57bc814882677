"""The key of a client, by which servers behind the gateway are asked and notified for it; see `Caller`."""

from itertools import count

from maitred.model.access import Viewer

_numbers = count(1)


def key_of(viewer: Viewer, client: str = "") -> str:
    """The key of a client; a request that nothing connects with others has a key of its own."""
    return f"{viewer.principal} {viewer.connection or client or f'request {next(_numbers)}'}"
