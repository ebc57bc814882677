"""The section `replica`: which addresses other replicas can use, and what a wrong one is answered."""

import json
from pathlib import Path

import pytest

from maitred.config.load import parse
from maitred.errors import ConfigError


@pytest.mark.parametrize(
    "address", ["", "http://10.0.0.7:8420", "https://[fd00::1]:1/", "http://${POD_IP}:8420"]
)
def test_an_address_of_a_replica(address: str) -> None:
    document = json.dumps({"replica": {"role": "runner", "address": address}})
    assert parse(Path("maitred.yaml"), document).replica.address == address


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.0.0.7:8420", "must be http:// or https://"),
        ("ftp://host", "must be http:// or https://"),
        ("http://", "must be http:// or https://"),
        ("http://host/path", "no path"),
        ("http://me:secret@host", "no path, query or password"),
        ("http://host:99999", "is no address"),
    ],
)
def test_a_wrong_address_is_refused_with_the_reason(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"replica.address: .*{why}"):
        parse(Path("maitred.yaml"), json.dumps({"replica": {"address": address}}))
