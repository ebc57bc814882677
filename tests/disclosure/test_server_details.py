"""What a caller learns of the server of a tool, and what not."""

import json

import pytest

from maitred.disclosure.server_details import server_details
from maitred.model.servers import Cage, ServerSpec

IMAGE = ServerSpec(name="a", transport="container", image="ghcr.io/acme/tool:1.2", registered=True)
PROGRAM = ServerSpec(name="b", command="tool", args=("--key", "s3cret"), env={"KEY": "s3cret"})


@pytest.mark.parametrize(
    ("spec", "isolation", "network"),
    [
        (IMAGE, "container", "none"),
        (
            ServerSpec(name="a", transport="container", image="x", cage=Cage(network=True)),
            "container",
            "granted",
        ),
        (PROGRAM, "", "unlimited"),
        (ServerSpec(name="b", command="tool", registered=True), "jail", "none"),
        (ServerSpec(name="c", transport="http", url="https://user:s3cret@c.example/"), "", "remote"),
        (ServerSpec(name="d", transport="memory"), "", "internal"),
    ],
)
def test_image_network_and_isolation(spec: ServerSpec, isolation: str, network: str) -> None:
    """Neither command line nor address nor environment is told."""
    found = server_details(spec, jails_programs=True)

    assert (found["isolation"], found["network"]) == (isolation, network)
    assert found["image"] == spec.image
    assert "s3cret" not in json.dumps(dict(found))
    assert ("memory_bytes" in found["limits"]) is (isolation != "")


def test_a_program_without_a_jail_is_not_said_to_be_limited() -> None:
    """Where the operator switched the jail off."""
    found = server_details(ServerSpec(name="b", command="tool", registered=True), jails_programs=False)

    assert (found["isolation"], found["network"]) == ("", "unlimited")
