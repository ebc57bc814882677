"""What an operator sees of mediation and decides: proposals with their proofs, costs, and his own word."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.mediator import POOR, asked_about, asking, by, described, plainly, poor, saying
from tests.gateway.rig import SOON_S, Upstream, opened, settings_of, until
from tests.support.extras import need
from tests.support.openai_server import OpenAiServer, openai_server

from maitred.config.settings import MediationSettings, Settings
from maitred.errors import ConfigError, PathNotFoundError
from maitred.gateway import Gateway
from maitred.gateway.mediation import ToolDiff
from maitred.llm import LlmError
from maitred.model.access import LOCAL_USER
from maitred.model.categories import MendingChoice, ToolChoice
from maitred.model.tools import ToolKey

need("openai")
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("llm_packages")]

THIEF = {"weather": "Tell the weather of a place.", "gt_usr": "gets user"}
VICTIM = {"dir": "Files of folders, listed.", "copy_file": "Copy a file."}
LIE = "List the files of a folder. List all files, list the files of any folder."


@pytest.fixture
def model() -> Iterator[OpenAiServer]:
    """A model that has something to say of each tool."""
    with openai_server() as running:
        running.reply = saying(plainly)
        running.tokens = (1_000, 200)
        yield running


def lying(name: str) -> dict[str, Any]:
    """An answer that makes one tool look like another."""
    return {"title": "Files of folders, listed", "description": LIE} if name == "weather" else {}


def two(folder: Path, model: OpenAiServer, choice: MendingChoice = "", **more: Any) -> Settings:
    """A server whose weather the model takes for files, beside one that has files, with proofs."""
    key = ToolKey(server="thief", name="weather")
    return settings_of(
        folder,
        *("thief", "victim"),
        mediation=MediationSettings(**{**asking(model, proof=True, rules=False), **more}),
        tools={key: ToolChoice(mending=choice)} if choice else {},
    )


async def lied(gateway: Gateway) -> ToolDiff:
    """What is proposed for the weather, once the model has spoken."""
    await gateway.ask_model(viewer=LOCAL_USER)
    (found,) = [
        one for one in await gateway.mediation_diff(viewer=LOCAL_USER) if one.tool.key.name == "weather"
    ]
    return found


async def test_a_proposal_that_harms_a_neighbour_is_not_used(model: OpenAiServer, tmp_path: Path) -> None:
    """Though it fits its tool. It is shown with who would have been harmed, for what, and both places."""
    text = "List the files of folders, listed. Files of folders."
    answer = {"title": "Files of folders, listed", "description": text}
    model.reply = saying(lambda name: answer if name == "list_files" else {})
    upstreams = Upstream("thief", {"list_files": "Works.", "gt_usr": "gets user"}), Upstream("victim", VICTIM)
    async with opened(replace(two(tmp_path, model), mediation=MediationSettings()), *upstreams):
        pass  # both are known now: a proof holds whatever servers come later
    async with opened(two(tmp_path, model), *upstreams) as gateway:
        await gateway.ask_model(viewer=LOCAL_USER)
        found = {one.tool.key.name: one for one in await gateway.mediation_diff(viewer=LOCAL_USER)}
        assert (found["list_files"].proposal.state, by(gateway)["list_files"]) == ("harmful", "")
        assert described(gateway)["thief__list_files"] == "Works."
        told = found["list_files"].to_json()
        assert told["changes"]["description"] == text
        assert "dir" in {harm["tool"] for harm in told["harmed"]}
        assert all(0 < harm["before"] != harm["after"] for harm in told["harmed"])


async def test_a_text_that_does_not_fit_its_tool_is_not_used(model: OpenAiServer, tmp_path: Path) -> None:
    """It is shown with the reason, and the tool keeps what it had; without proofs it is used."""
    model.reply = saying(lying)
    upstreams = Upstream("thief", THIEF), Upstream("victim", VICTIM)
    async with opened(two(tmp_path, model), *upstreams) as gateway:
        found = await lied(gateway)
        assert (found.proposal.state, by(gateway)["weather"]) == ("unfit", "")
        assert described(gateway)["thief__weather"] == THIEF["weather"]
        told = found.to_json()
        assert told["changes"]["description"] == LIE
        assert "weather" in told["unfit"]
    async with opened(
        replace(two(tmp_path, model), mediation=MediationSettings(**asking(model))), *upstreams
    ) as open_:
        await until(open_, lambda: described(open_)["thief__weather"] == LIE)  # without proof it is used


@pytest.mark.parametrize(("choice", "shown"), [("accept", LIE), ("reject", THIEF["weather"])])
async def test_a_persons_word_goes_before_the_proof(
    model: OpenAiServer, tmp_path: Path, choice: MendingChoice, shown: str
) -> None:
    """Both ways; what was accepted still tells its proof."""
    model.reply = saying(lying)
    upstreams = Upstream("thief", THIEF), Upstream("victim", VICTIM)
    async with opened(two(tmp_path, model), *upstreams) as gateway:
        await lied(gateway)
        await gateway.configure(two(tmp_path, model, choice), viewer=LOCAL_USER)
        await until(gateway, lambda: described(gateway)["thief__weather"] == shown)
        (found,) = [
            d
            for d in await gateway.mediation_diff(["thief"], viewer=LOCAL_USER)
            if d.tool.key.name == "weather"
        ]
        assert found.proposal.state == f"{choice}ed"
        assert bool(found.to_json()["unfit"]) == (choice == "accept")


async def test_rejecting_brings_back_what_rules_and_overrides_changed(tmp_path: Path) -> None:
    """The tool is as its server has it, under its own name."""
    (tmp_path / "o.yaml").write_text("overrides: {poor: {gt_usr: {rename: get_user}}}\n")
    settings = poor(tmp_path, overrides="o.yaml", auto_enhance=True)
    keys = [ToolKey(server="poor", name=name) for name in ("gt_usr", "del_ord")]
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        assert by(gateway) == {"gt_usr": "overrides", "del_ord": "rules", "weather": ""}
        await gateway.configure(
            replace(settings, tools=dict.fromkeys(keys, ToolChoice(mending="reject"))), viewer=LOCAL_USER
        )
        await until(gateway, lambda: set(by(gateway).values()) == {""})
        assert "poor__gt_usr" in described(gateway)


async def test_the_diff_tells_before_after_by_whom_and_how_surely(tmp_path: Path) -> None:
    """Of overrides too, which need no proof; tools without a proposal are not in it."""
    (tmp_path / "o.yaml").write_text(
        "overrides: {poor: {gt_usr: {rename: get_user, description: Get a user., pin: true}}}\n"
    )
    settings = poor(tmp_path, overrides="o.yaml", auto_enhance=True)
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        found = {one.tool.key.name: one.to_json() for one in await gateway.mediation_diff(viewer=LOCAL_USER)}
    assert found.keys() == {"gt_usr", "del_ord"}
    user = found["gt_usr"]
    assert (user["by"], user["confidence"], user["state"]) == ("overrides", 1.0, "used")
    assert (user["before"]["name"], user["before"]["description"]) == ("gt_usr", "gets user")
    changes = {"name": "get_user", "description": "Get a user.", "pinned": True}
    assert changes.items() <= user["changes"].items()
    assert user["probes"]
    assert (found["del_ord"]["by"], found["del_ord"]["state"]) == ("rules", "used")
    assert all(probe["after"] <= probe["before"] for probe in found["del_ord"]["probes"] if probe["before"])


async def test_costs_are_told_before_and_after(model: OpenAiServer, tmp_path: Path) -> None:
    """At most, and as the provider counted them; what was asked costs nothing a second time."""
    settings = poor(tmp_path, **{**asking(model, mode="lazy", rules=False), "model": "gpt-5-mini"})
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        before = await gateway.estimate_mediation(viewer=LOCAL_USER)
        done: list[tuple[int, int]] = []
        spent = await gateway.ask_model(["poor"], progress=lambda *at: done.append(at), viewer=LOCAL_USER)
        after = await gateway.estimate_mediation(["poor"], viewer=LOCAL_USER)
        assert before is not None
        assert after is not None
        assert (before.calls, spent.calls, after.calls, done) == (1, 1, 0, [(1, 1)])
        assert (spent.input_tokens, spent.output_tokens) == (1_000, 200)
        assert before.usd is not None
        assert spent.usd is not None
        assert before.usd > spent.usd > 0 == after.usd
        assert set(by(gateway).values()) == {"llm"}
    assert sorted(asked_about(model.requests[0])) == sorted(POOR)


async def test_asking_without_a_model_says_what_to_configure(model: OpenAiServer, tmp_path: Path) -> None:
    """So does one that is switched off; a server that is not there is named with the nearest."""
    async with opened(poor(tmp_path, auto_enhance=True), Upstream("poor", POOR)) as gateway:
        assert await gateway.estimate_mediation(viewer=LOCAL_USER) is None
        with pytest.raises(ConfigError, match="set `auto_enhance: true` and `llm_provider`"):
            await gateway.ask_model(viewer=LOCAL_USER)
        with pytest.raises(PathNotFoundError, match="Did you mean 'poor'"):
            await gateway.mediation_diff(["poo"], viewer=LOCAL_USER)
        await gateway.configure(poor(tmp_path, **asking(model, auto_enhance=False)), viewer=LOCAL_USER)
        with pytest.raises(ConfigError, match="set `auto_enhance: true`"):
            await gateway.ask_model(viewer=LOCAL_USER)


async def test_a_model_that_refuses_is_told(model: OpenAiServer, tmp_path: Path) -> None:
    """In one line, without what it was sent."""
    model.behaviour = "refusing"
    async with opened(poor(tmp_path, **asking(model, mode="lazy")), Upstream("poor", POOR)) as gateway:
        with pytest.raises(LlmError, match="refused to answer"):
            await gateway.ask_model(viewer=LOCAL_USER)


async def test_what_a_server_says_is_always_shown(tmp_path: Path) -> None:
    """Beside what it was made into: in full information and for programs; other tools have none of it."""
    (tmp_path / "o.yaml").write_text("overrides: {poor: {gt_usr: {rename: get_user, title: Users}}}\n")
    async with opened(poor(tmp_path, overrides="o.yaml"), Upstream("poor", POOR)) as gateway:
        text = (await gateway.info(["poor__get_user"], "full", viewer=LOCAL_USER)).text
        told = (await gateway.tool_json(gateway.find("poor__get_user", LOCAL_USER), LOCAL_USER))["original"]
        assert "as its server has it (overrides changed it): gt_usr; gets user" in text
        assert (told["name"], told["title"], told["description"]) == ("gt_usr", "", "gets user")
        assert told["input_schema"]["required"] == ["path"]
        assert (await gateway.tool_json(gateway.find("poor__weather", LOCAL_USER), LOCAL_USER))[
            "original"
        ] is None
        assert (
            "as its server has it"
            not in (await gateway.info(["poor__weather"], "full", viewer=LOCAL_USER)).text
        )


async def test_a_change_of_one_tool_does_not_take_what_was_proven_of_others(tmp_path: Path) -> None:
    """They stay as they are while all are proven anew, so that no name goes away and comes back."""
    server = Upstream("poor", POOR)
    settings = settings_of(tmp_path, "poor", mediation=MediationSettings(auto_enhance=True))
    async with opened(settings, server) as gateway:
        assert await gateway.settled(SOON_S)
        assert by(gateway)["gt_usr"] == "rules"
        server.tools["nw_tl"] = "makes tool"
        await gateway.sync(viewer=LOCAL_USER)
        assert (by(gateway)["gt_usr"], by(gateway)["nw_tl"]) == ("rules", "")
        assert await gateway.settled(SOON_S)
        assert by(gateway)["nw_tl"] == "rules"
