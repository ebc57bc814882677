"""Whether there are jails on this machine, for tests that need one and for those that can do without."""

import os
from functools import lru_cache

import pytest

from maitred.backends.isolation.jail import JailMeans, find_means
from maitred.config.settings import Isolation


@lru_cache(maxsize=1)  # it runs bubblewrap, and the machine stays as it is
def means() -> JailMeans:
    """What this machine has for jails."""
    return find_means(f"tests-{os.getpid()}")


def require_jail() -> None:
    """Skip the test where programs cannot be jailed, and say why."""
    if why := means().why_not:
        pytest.skip(f"no jail here: {why}")


def require_groups() -> None:
    """Skip the test where control groups cannot be made, and say why."""
    require_jail()
    if means().groups is None:
        pytest.skip(f"no limits for all processes together: {means().why_no_groups}")


def isolation() -> Isolation:
    """A jail where there can be one: what is not about jails is then tested on every machine."""
    return Isolation(jail="none" if means().why_not else "auto")
