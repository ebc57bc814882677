"""A real OpenID provider for tests: `oidc-provider` of npm, which `make servers` installs."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.real_servers import ROOT

_PACKAGES = ROOT / ".servers" / "npm" / "node_modules"
_PROGRAM = Path(__file__).with_suffix(".mjs")
CLIENT = {"client_id": "maitred", "client_secret": "a secret of forty characters for the tests"}


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def oidc_provider(pages: str, people: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The provider's issuer; `pages` is the address of the gateway that people sign in to."""
    node = shutil.which("node")
    if node is None or not (_PACKAGES / "oidc-provider").is_dir():
        pytest.skip("oidc-provider is not installed: `make servers`")
    port = free_port()
    client = {
        **CLIENT,
        "redirect_uris": [f"{pages}/ui/login/callback"],
        "post_logout_redirect_uris": [f"{pages}/ui/enter"],
    }
    about = json.dumps({"port": port, "client": client, "people": people})
    command = [node, "--no-warnings", str(_PROGRAM), str(_PACKAGES), about]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == str(port), "the provider did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
