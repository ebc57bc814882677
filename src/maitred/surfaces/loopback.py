"""Whether a request came under a name of this machine: only then may a caller do without a token."""

from functools import lru_cache

from maitred.config.sections import is_loopback


@lru_cache(maxsize=64)
def is_of_this_machine(host_header: bytes) -> bool:
    """Whether a request came under a name of loopback; by any other name it came through a proxy."""
    host = host_header.decode("latin-1")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return not host or is_loopback(name.strip("[]"))
