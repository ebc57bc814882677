"""A transport that nobody knows: whoever meets it refuses, and nothing is opened by it."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.admission.layers import POLICY

from maitred.admission.checks.base import ManifestReading, decide
from maitred.admission.manifest import Manifest
from maitred.admission.review import CHECKS
from maitred.config.load import parse
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.wiring import open_gateway

INVENTED = cast("Any", "carrier-pigeon")


@pytest.mark.parametrize("layer", ["schema", "allowlist", "network", "resources"])
def test_every_layer_that_asks_for_the_transport_refuses_what_it_does_not_know(layer: str) -> None:
    """Also one that somebody adds later, and forgets here."""
    manifest = replace(
        Manifest(name="x", transport="http", url="https://mcp.example.com/mcp"), transport=INVENTED
    )

    decision = decide(ManifestReading(file="x.yml", manifest=manifest), POLICY, CHECKS)

    assert decision.outcome == "refused"
    assert (layer, "refuse", "transport") in {(f.layer, f.severity, f.key) for f in decision.findings}


@pytest.mark.anyio
async def test_a_gateway_opens_nothing_by_it_and_says_so(tmp_path: Path) -> None:
    """Even where it stands in the settings, past all checks: it is no HTTP because it is nothing else."""
    spec = ServerSpec(name="x", transport=INVENTED, url="http://127.0.0.1:9/mcp")
    settings = Settings(source=tmp_path / "maitred.yaml", servers={"x": spec})
    async with open_gateway(settings) as gateway:
        assert await gateway.settled(120)

        assert "its transport 'carrier-pigeon' is unknown" in _error(gateway)


def _error(gateway: Gateway) -> str:
    [status] = gateway.servers(LOCAL_USER)
    return status.error


def test_a_configuration_that_names_it_is_told_which_there_are(tmp_path: Path) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigError, match="transport"):
        parse(
            tmp_path / "maitred.yaml", "servers: {x: {url: 'https://a.example', transport: carrier-pigeon}}"
        )
