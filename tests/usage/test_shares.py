"""Who used how much, and what it cost by the prices of the configuration."""

import json
from pathlib import Path

import anyio
import pytest
from tests.surfaces.cli.rig import runner
from tests.surfaces.http.rig import House, settings_of

from maitred.access.tokens import TokenRequest
from maitred.config.load import parse
from maitred.config.monitoring_settings import ModelPrice, UsageSettings
from maitred.config.settings import AccessSettings, TeamEntry
from maitred.errors import ConfigError
from maitred.gateway.usage_shares import NO_TEAM, NO_TOKEN
from maitred.model.access import LOCAL_USER, Grant, Scope, Viewer
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
PRICES = UsageSettings(
    currency="EUR",
    model="m",
    prices={"m": ModelPrice(read=2, written=1_000)},
    calls={"maps/*": 0.25, "*/*": 1},
)


def as_agent(name: str) -> Viewer:
    return Viewer(grant=Grant(principal=name, role="agent"))


async def test_calls_and_tokens_have_the_prices_of_their_tool_and_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ann has a token and makes two calls, Bob comes from elsewhere and makes one that costs more."""
    houses = {"maps": House("maps", "route"), "mail": House("mail", "send")}
    settings = settings_of(tmp_path, houses)
    object.__setattr__(settings, "usage", PRICES)
    object.__setattr__(settings, "access", AccessSettings(teams={"front": TeamEntry(principals=("ann",))}))
    servers = {name: house.server for name, house in houses.items()}
    arguments = {"path": "x" * 389}  # 400 characters as JSON, which are 100 tokens
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process=servers) as gateway:
            assert await gateway.settled(SOON_S)
            await gateway.make_token(TokenRequest(name="ann", role="agent", scope=Scope()), LOCAL_USER)
            for _ in range(2):
                await gateway.call(ToolCall(name="maps__route", arguments=arguments), viewer=as_agent("ann"))
            answer = await gateway.call(ToolCall(name="mail__send", arguments={}), viewer=as_agent("bob"))
            gateway.count_result({"content": [{"type": "text", "text": "y" * 4_000}]}, as_agent("bob"))
            assert not answer.get("isError")
        async with open_gateway(settings, in_process=servers) as gateway:
            by_name = {one.name: one for one in await gateway.usage_shares(1, "principal", LOCAL_USER)}
            by_role = {one.name: one for one in await gateway.usage_shares(1, "role", LOCAL_USER)}
            by_team = {one.name: one for one in await gateway.usage_shares(1, "team", LOCAL_USER)}
    ann, bob = by_name["ann"], by_name["bob"]
    assert (ann.calls, ann.argument_tokens) == (2, 200)
    assert ann.cost == pytest.approx(2 * 0.25 + 200 * 1_000 / 1e6)
    assert (bob.calls, bob.read_tokens) == (1, 1_000)
    assert bob.cost == pytest.approx(1 + 1_000 * 2 / 1e6)
    assert (by_role["agent"].calls, by_role[NO_TOKEN].calls) == (2, 1)
    assert (by_team["front"].calls, by_team[NO_TEAM].calls) == (2, 1)

    usage = "usage: {currency: EUR, model: m, prices: {m: {read: 2, written: 1000}}}\n"
    (tmp_path / "maitred.yaml").write_text(f"catalog: {{path: c.db}}\nservers: {{}}\n{usage}")
    capsys.readouterr()  # what the gateway above logged
    run = runner(tmp_path, monkeypatch, capsys)
    found = json.loads((await anyio.to_thread.run_sync(run, "stats", "--by", "principal", "--json")).fine)
    assert [one["name"] for one in found["shares"]] == ["bob", "ann"], "the most expensive first"
    shown = (await anyio.to_thread.run_sync(run, "stats", "--by", "role")).fine
    assert "1.70 EUR in 30 days" in shown


@pytest.mark.parametrize(
    ("usage", "fault"),
    [
        ("{model: m}", "'m' has no price"),
        ("{prices: {m: {read: 1}}}", "have no effect without `model`"),
        ("{calls: {maps: 1}}", "is no pattern of `server/tool`"),
        ("{model: m, prices: {m: {read: -1}}}", "must be at least 0"),
    ],
)
async def test_prices_that_cannot_be_are_refused(usage: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse(Path("maitred.yaml"), f"servers: {{}}\nusage: {usage}\n")
