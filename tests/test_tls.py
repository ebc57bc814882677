"""One TLS context for all HTTP servers of a process."""

import gc
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from tests.backends.rig import RESOLVE, http_server, options

from maitred.backends.http import HttpBackend
from maitred.config.settings import Limits
from maitred.model.servers import ServerSpec
from maitred.tls import tls_context

SOON_S = 120.0


@pytest.mark.anyio
async def test_many_http_servers_cost_one_tls_context() -> None:
    """A context is 0.8 MiB and takes 20 ms, so each server had that price. Source: issue 17."""
    before = during = 0
    with anyio.fail_after(SOON_S), http_server("http") as server:
        async with AsyncExitStack() as stack:
            for number in range(6):
                spec = ServerSpec(name=f"s{number}", transport="http", url=server.url)
                backend = HttpBackend(spec, resolve=RESOLVE, limits=Limits())
                await stack.enter_async_context(backend.connect(options()))
                before = before or contexts()  # after the first one
            during = contexts()

    assert during <= before + 1  # five more servers; another part may have made one of its own meanwhile


def contexts() -> int:
    gc.collect()
    return sum(isinstance(one, ssl.SSLContext) for one in gc.get_objects())


def test_the_first_use_reads_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates that cannot be read are an error, and the next use tries again. Source: maitred."""
    empty = tmp_path / "empty.pem"
    empty.touch()
    tls_context.cache_clear()
    with monkeypatch.context() as changed:
        changed.setenv("SSL_CERT_FILE", str(empty))
        with pytest.raises(OSError, match=r".+"):
            tls_context()

    assert tls_context() is tls_context()
