"""Which labelled queries are held back. `maitred eval` uses the same formula."""

import hashlib

_EVERY = 5


def is_held_back(set_name: str, query_id: str) -> bool:
    """Whether a query is never trained on: about one in five, chosen by its name alone."""
    digest = hashlib.sha256(f"{set_name}/{query_id}".encode()).hexdigest()
    return int(digest, 16) % _EVERY == 0
