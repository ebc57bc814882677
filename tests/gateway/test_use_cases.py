"""Use cases that a language model writes: kept with the tool, found by search, and asked for only once."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.rig import Upstream, opened, settings_of
from tests.support.extras import need
from tests.support.openai_server import OpenAiServer, openai_server

from maitred.config.settings import Settings, UseCases
from maitred.errors import ConfigError, MaitredError
from maitred.gateway import Gateway
from maitred.gateway.use_cases import BATCH
from maitred.model.access import LOCAL_USER
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolKey

need("openai")
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("llm_packages")]

MOLE = "I want to dig out the mole in my garden"
MANY = {f"tool_{n:02}": "Does something." for n in range(BATCH + 5)}
FEW = {"alpha": "Does something.", "beta": "Does another thing."}


@pytest.fixture
def model() -> Iterator[OpenAiServer]:
    """A model that has a phrase for the second tool of each request."""
    with openai_server(reply=json.dumps({"2": [MOLE]})) as running:
        yield running


def settings_for(model: OpenAiServer, folder: Path) -> Settings:
    cases = UseCases(provider="openai", model="some-model", url=model.url, key="sk-key")
    return settings_of(folder, "garden", use_cases=cases)


async def write(gateway: Gateway, server: str = "") -> tuple[int, list[tuple[int, int]]]:
    """How many tools got use cases, and what was told on the way."""
    told: list[tuple[int, int]] = []
    written = await gateway.write_use_cases(
        server, viewer=LOCAL_USER, progress=lambda done, of: told.append((done, of))
    )
    return written, told


def cases(gateway: Gateway) -> dict[str, tuple[str, ...]]:
    return {tool.key.name: tool.use_cases for tool in gateway.snapshot.tools if tool.use_cases}


async def test_what_a_model_wrote_stays_with_the_tool_and_is_found_by_search(
    model: OpenAiServer, tmp_path: Path
) -> None:
    """By the next process too, and after a change of the tool's description."""
    settings = settings_for(model, tmp_path)
    upstream = Upstream("garden", FEW)
    async with opened(settings, upstream) as gateway:
        assert (await gateway.search(["mole in the garden"], viewer=LOCAL_USER)).band != "strong"
        assert await write(gateway) == (1, [(2, 2)])
        answer = await gateway.search(["mole in the garden"], viewer=LOCAL_USER)
        assert answer.results[0].tool.name == "garden__beta"
    upstream.tools["beta"] = "Does something else altogether."
    async with opened(settings, upstream) as gateway:
        await gateway.sync(viewer=LOCAL_USER)
        assert gateway.find("beta", LOCAL_USER).description == "Does something else altogether."
        assert cases(gateway) == {"beta": (MOLE,)}
        assert MOLE in (await gateway.info(["garden__beta"], "full", viewer=LOCAL_USER)).text


async def test_what_has_use_cases_is_not_asked_for_again(model: OpenAiServer, tmp_path: Path) -> None:
    """What got none is."""
    async with opened(settings_for(model, tmp_path), Upstream("garden", FEW)) as gateway:
        await write(gateway)
        await write(gateway)

    first, second = (request.body["messages"][-1]["content"] for request in model.requests)
    assert ("alpha" in first, "beta" in first) == (True, True)
    assert ("alpha" in second, "beta" in second) == (True, False)


async def test_what_a_person_wrote_is_neither_asked_for_nor_replaced(
    model: OpenAiServer, tmp_path: Path
) -> None:
    """Taken out of the configuration, it makes way."""
    own = {ToolKey(server="garden", name="beta"): ToolChoice(use_cases=("I want to water the roses",))}
    settings = settings_for(model, tmp_path)
    async with opened(replace(settings, tools=own), Upstream("garden", FEW)) as gateway:
        assert (await write(gateway))[0] == 0
        assert cases(gateway) == {"beta": ("I want to water the roses",)}
    assert "beta" not in model.requests[0].body["messages"][-1]["content"]
    async with opened(settings, Upstream("garden", FEW)) as gateway:
        await write(gateway)
        assert cases(gateway) == {"beta": (MOLE,)}


async def test_a_batch_that_fails_leaves_what_was_written_before(model: OpenAiServer, tmp_path: Path) -> None:
    """It was paid for; the next run goes on from there."""
    async with opened(settings_for(model, tmp_path), Upstream("garden", MANY)) as gateway:

        def fail(done: int, _: int) -> None:
            assert done == BATCH
            model.behaviour = "failing"

        with pytest.raises(MaitredError, match="HTTP 500"):
            await gateway.write_use_cases(viewer=LOCAL_USER, progress=fail)
        assert cases(gateway) == {"tool_01": (MOLE,)}
        model.behaviour = "good"
        assert await write(gateway) == (2, [(BATCH, BATCH + 4), (BATCH + 4, BATCH + 4)])


async def test_use_cases_can_be_written_for_one_server_alone(model: OpenAiServer, tmp_path: Path) -> None:
    """The tools of others are not shown to the model."""
    settings = settings_for(model, tmp_path)
    settings = replace(settings, servers=settings_of(tmp_path, "garden", "house").servers)
    async with opened(settings, Upstream("garden", FEW), Upstream("house", {"gamma": "Do."})) as gateway:
        assert await write(gateway, "house") == (0, [(1, 1)])
    assert "garden" not in model.requests[0].body["messages"][-1]["content"]


async def test_without_a_model_the_answer_says_what_to_configure(tmp_path: Path) -> None:
    """And nothing is sent anywhere."""
    async with opened(settings_of(tmp_path, "garden"), Upstream("garden", FEW)) as gateway:
        with pytest.raises(ConfigError, match=r"use_cases\.provider: is none; set it to openai or anthropic"):
            await write(gateway)
