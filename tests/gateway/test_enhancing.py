"""When a language model is asked: before or after rules, at once or at need, and never in the way."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.gateway.mediator import POOR, asked_about, asking, by, described, hearing, plainly, poor, saying
from tests.gateway.rig import SOON_S, Upstream, call, opened, until
from tests.support.extras import need
from tests.support.openai_server import OpenAiServer, free_port, openai_server

from maitred.config.settings import MediationSettings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolKey
from maitred.wiring import open_gateway

need("openai")
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("llm_packages")]

ALL = dict.fromkeys(POOR, "llm")
WITH_RULES = {"gt_usr": "rules", "del_ord": "rules", "weather": "llm"}


@pytest.fixture
def model() -> Iterator[OpenAiServer]:
    """A model that has something to say of each tool."""
    with openai_server() as running:
        running.reply = saying(plainly)
        yield running


async def was_asked(model: OpenAiServer, times: int = 1) -> None:
    """Wait for so many questions."""
    with anyio.fail_after(SOON_S):
        while len(model.requests) < times:
            model.asked.clear()
            if len(model.requests) < times:
                await anyio.to_thread.run_sync(model.asked.wait, 0.5)


async def test_hybrid_has_the_model_go_before_the_rules(model: OpenAiServer, tmp_path: Path) -> None:
    """It is asked once for the whole server, in the background; until it answers, rules hold."""
    async with opened(poor(tmp_path, **asking(model)), Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)
        assert described(gateway)["poor__weather"] == "The model says what weather is for."
    assert [sorted(asked_about(request)) for request in model.requests] == [sorted(POOR)]


async def test_what_the_model_leaves_as_it_was_is_left_to_the_rules(
    model: OpenAiServer, tmp_path: Path
) -> None:
    """It is told to leave out what needs no change, and may have nothing to say but where a tool belongs."""
    model.reply = saying(lambda _: {"category": "data", "confidence": 0.8})
    server = Upstream("poor", POOR)
    async with opened(poor(tmp_path, auto_enhance=True, proof=False), server) as gateway:
        ruled = described(gateway)
    async with opened(poor(tmp_path, **asking(model)), server) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)
        assert described(gateway) == ruled
        assert ruled["poor__del_ord"] != ""


async def test_what_was_answered_is_not_asked_for_again(model: OpenAiServer, tmp_path: Path) -> None:
    """Not by the next process, and of a changed server only what changed."""
    settings = poor(tmp_path, **asking(model))
    server = Upstream("poor", POOR)
    async with opened(settings, server) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)
    async with opened(settings, server) as gateway:
        assert by(gateway) == ALL
        server.tools["new_tl"] = "News."
        await gateway.sync(viewer=LOCAL_USER)
        await until(gateway, lambda: by(gateway).get("new_tl") == "llm")
    assert [asked_about(request) for request in model.requests[1:]] == [["new_tl"]]


async def test_an_override_is_neither_asked_about_nor_replaced(model: OpenAiServer, tmp_path: Path) -> None:
    """What a person wrote holds; what he rejected is not paid for either."""
    (tmp_path / "o.yaml").write_text("overrides: {poor: {gt_usr: {description: Get a user.}}}\n")
    tools = {ToolKey(server="poor", name="weather"): ToolChoice(mending="reject")}
    settings = replace(poor(tmp_path, **asking(model, overrides="o.yaml")), tools=tools)
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway)["del_ord"] == "llm")
        assert by(gateway) == {"gt_usr": "overrides", "del_ord": "llm", "weather": ""}
    assert [asked_about(request) for request in model.requests] == [["del_ord"]]


async def test_eager_asks_about_what_rules_leave(model: OpenAiServer, tmp_path: Path) -> None:
    """In the order of document 000: overrides, rules, model."""
    async with opened(poor(tmp_path, **asking(model, mode="eager")), Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway) == WITH_RULES)
    assert [asked_about(request) for request in model.requests] == [["weather"]]


async def test_without_rules_the_model_is_asked_about_everything(model: OpenAiServer, tmp_path: Path) -> None:
    """`rules: false` leaves it alone with the tools."""
    settings = poor(tmp_path, **asking(model, mode="eager", rules=False))
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)


async def looked_at(gateway: Gateway, how: str) -> None:
    if how == "search":
        await gateway.search(["weather"], viewer=LOCAL_USER)
    elif how == "info":
        await gateway.info(["poor__weather"], viewer=LOCAL_USER)
    elif how == "page":
        gateway.browse("server/poor", viewer=LOCAL_USER)
    else:
        await call(gateway, "poor__weather")


@pytest.mark.parametrize("how", ["search", "info", "page", "call"])
async def test_lazy_asks_when_tools_are_first_needed(model: OpenAiServer, tmp_path: Path, how: str) -> None:
    """The menu is no need; who needs the tools is not kept waiting; once is enough."""
    model.behaviour = "slow"
    async with opened(poor(tmp_path, **asking(model, mode="lazy")), Upstream("poor", POOR)) as gateway:
        gateway.browse(viewer=LOCAL_USER)
        await gateway.sync(viewer=LOCAL_USER)
        assert model.requests == []
        await looked_at(gateway, how)
        await was_asked(model)
        model.behaviour = "good"
        await looked_at(gateway, how)
    assert len(model.requests) == 1


async def test_lazy_shows_the_answer_when_it_has_come(model: OpenAiServer, tmp_path: Path) -> None:
    """And clients are told of the change."""
    async with opened(poor(tmp_path, **asking(model, mode="lazy")), Upstream("poor", POOR)) as gateway:
        await gateway.info(["poor__weather"], viewer=LOCAL_USER)
        await until(gateway, lambda: by(gateway) == WITH_RULES)


async def test_a_model_that_fails_is_asked_again_after_growing_pauses(
    model: OpenAiServer, tmp_path: Path
) -> None:
    """Tools stay as the rules have them; no need of them shortens the pause."""
    model.behaviour = "failing"
    async with opened(poor(tmp_path, **asking(model, mode="lazy")), Upstream("poor", POOR)) as gateway:
        enhancing = gateway._mediation.enhancing
        enhancing.pauses_s = (0.01, 0.02)
        await gateway.info(["poor__weather"], viewer=LOCAL_USER)
        await was_asked(model, 3)
        assert by(gateway) == {**WITH_RULES, "weather": ""}
        enhancing.pauses_s = (600.0, 600.0)
        with hearing(in_s=600) as put_off, anyio.fail_after(SOON_S):
            await put_off.wait()
        count = len(model.requests)
        await gateway.info(["poor__weather"], viewer=LOCAL_USER)
        assert enhancing.paused == ["poor"]
        model.behaviour = "good"
        await gateway.configure(
            poor(tmp_path, **asking(model)), viewer=LOCAL_USER
        )  # an operator does not wait for a pause
        await until(gateway, lambda: by(gateway) == ALL)
    assert len(model.requests) == count + 1


async def test_a_model_that_is_not_there_disturbs_nothing(tmp_path: Path) -> None:
    """The gateway opens, serves and closes."""
    with openai_server() as gone:
        gone.origin = f"http://127.0.0.1:{free_port()}"
        settings = poor(tmp_path, **asking(gone))
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        assert set(described(gateway)) == {f"poor__{name}" for name in POOR}
        assert "user" in described(gateway)["poor__gt_usr"].lower()


async def test_groups_of_the_model_become_tags_and_its_categories_places(
    model: OpenAiServer, tmp_path: Path
) -> None:
    """With more tools than the threshold it groups them; what it wishes for is found by search."""
    wish = "I want to know whether to take an umbrella"

    def reply(name: str) -> dict[str, object]:
        return {"category": "data", "use_cases": [wish] if name == "weather" else [], "confidence": 0.7}

    model.reply = saying(reply)
    async with opened(poor(tmp_path, **asking(model)), Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)
        place = gateway.find("poor__gt_usr", LOCAL_USER).placement
        assert (place.category, place.confidence, place.by) == ("data", 0.7, "mediation")
        assert (await gateway.search(["umbrella"], viewer=LOCAL_USER)).results[0].tool.key.name == "weather"

        def grouped(request: object) -> str:
            del request
            return (
                '{"tools": {"1": {"tool": "del_ord"}, "2": {"tool": "gt_usr"}, "3": {"tool": "weather"}},'
                ' "groups": [{"name": "shop_floor", "tools": [1, 2]}]}'
            )

        model.reply = grouped
        await gateway.configure(poor(tmp_path, **asking(model, grouping_threshold=2)), viewer=LOCAL_USER)
        await until(
            gateway, lambda: "group:shop_floor" in gateway.find("poor__gt_usr", LOCAL_USER).placement.tags
        )
        assert gateway.find("poor__weather", LOCAL_USER).use_cases == ()
        found = await gateway.search(["user"], tags=["group:shop_floor"], viewer=LOCAL_USER)
        assert {one.tool.key.name for one in found.results} <= {"gt_usr", "del_ord"}


async def test_a_stale_answer_serves_until_the_next_has_come(model: OpenAiServer, tmp_path: Path) -> None:
    """`cache_ttl` says when it is stale."""
    settings = poor(tmp_path, **asking(model, cache_ttl=1e-9))
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)
    model.behaviour = "slow"
    count = len(model.requests)
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        await was_asked(model, count + 1)
        assert described(gateway)["poor__weather"] == "The model says what weather is for."


async def test_a_new_answer_replaces_an_old_one(model: OpenAiServer, tmp_path: Path) -> None:
    """Also where it differs in nothing but the category."""
    model.reply = saying(lambda _: {"description": "Same.", "category": "data"})
    settings = poor(tmp_path, **asking(model, cache_ttl=1e-9, mode="lazy", rules=False))
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        await gateway.info(["poor__weather"], viewer=LOCAL_USER)
        await until(gateway, lambda: gateway.find("weather", LOCAL_USER).placement.category == "data")
        model.reply = saying(lambda _: {"description": "Same.", "category": "security"})
        await gateway.ask_model(viewer=LOCAL_USER)
        await until(gateway, lambda: gateway.find("weather", LOCAL_USER).placement.category == "security")
        model.reply = saying(lambda _: {"description": "Same.", "category": "ai"})
        gateway._mediation.enhancing.noticed("poor")
        await gateway.info(["poor__weather"], viewer=LOCAL_USER)
        await until(gateway, lambda: gateway.find("weather", LOCAL_USER).placement.category == "ai")


async def test_a_gateway_that_ends_at_once_asks_nobody(model: OpenAiServer, tmp_path: Path) -> None:
    """As a command does: it would pay for an answer that it does not read."""
    settings = poor(tmp_path, **asking(model))
    servers = {"poor": Upstream("poor", POOR).sdk()}
    async with open_gateway(settings, in_process=servers, asks_models=False) as gateway:
        assert await gateway.settled(SOON_S)
        await gateway.search(["weather"], viewer=LOCAL_USER)
    assert model.requests == []


async def test_without_auto_enhance_nobody_is_asked(model: OpenAiServer, tmp_path: Path) -> None:
    """It is the switch for all of it; what was answered goes with it, and comes back."""
    settings = poor(tmp_path, **asking(model))
    off = replace(settings, mediation=MediationSettings(**asking(model, auto_enhance=False)))
    async with opened(settings, Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)
        await gateway.configure(off, viewer=LOCAL_USER)
        await until(gateway, lambda: set(by(gateway).values()) == {""})
        await gateway.configure(settings, viewer=LOCAL_USER)
        await until(gateway, lambda: by(gateway) == ALL)
    assert len(model.requests) == 1


async def test_a_gateway_that_runs_for_weeks_asks_anew_about_what_is_stale(
    model: OpenAiServer, tmp_path: Path
) -> None:
    """Also where nothing changes; what is fresh is not asked about."""
    stale = poor(tmp_path, **asking(model, cache_ttl=1e-9))
    async with opened(stale, Upstream("poor", POOR)) as gateway:
        await until(gateway, lambda: by(gateway) == ALL)
        count = len(model.requests)
        gateway._mediation.enhancing.refresh()
        await was_asked(model, count + 1)
