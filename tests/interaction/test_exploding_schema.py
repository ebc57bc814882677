"""A server whose small schema has one value tried a billion times. Source: issue "What broke", 4."""

import json
from pathlib import Path

import psutil
import pytest
from mcp import types
from tests.interaction.harness import faulty, serving, write_settings

pytestmark = pytest.mark.anyio

CPU_S = 3.0
MEMORY = 200 * 2**20


def nested(depth: int) -> object:
    value: object = "no list"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.alone
async def test_a_small_schema_does_not_stop_the_gateway(tmp_path: Path) -> None:
    """What would take too long to check goes to the server as it is, others are served, and the log tells."""
    config = write_settings(tmp_path, {"evil": faulty("exploding-schema")}, disclosure={"mode": "all"})
    with serving(config) as gateway:
        process = psutil.Process(gateway.process.pid)
        async with gateway.connect("legacy") as client:
            await client.call_tool("evil__echo", {"text": "warm"})
            spent, memory = sum(process.cpu_times()[:2]), process.memory_info().rss
            answer = await client.call_tool("evil__tree", {"x": nested(8)})
            other = await client.call_tool("evil__echo", {"text": "there"})

        assert sum(process.cpu_times()[:2]) - spent < CPU_S
        assert process.memory_info().rss - memory < MEMORY
        assert isinstance(answer.content[0], types.TextContent)
        assert json.dumps(nested(8)) in answer.content[0].text
        assert not other.is_error
        gateway.output.wait_for("arguments go to the server unchecked")
