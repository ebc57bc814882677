"""Language models over HTTP, through the vendors' SDKs: what comes back, what it cost and what goes wrong."""

import traceback
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from tests.support.extras import need
from tests.support.openai_server import OpenAiServer, free_port, openai_server

from maitred.config.interpolate import resolver
from maitred.errors import ConfigError
from maitred.llm import CUT, REFUSED, Endpoint, LanguageModel, LlmError, Reply, make_language_model

WHY = "the extra `llm` is not installed"
need("openai", "anthropic", reason=WHY)
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("llm_packages")]

KEY = "sk-very-secret-key"


@pytest.fixture(params=["openai", "anthropic", "local"])
def provider(request: pytest.FixtureRequest) -> str:
    """Each test runs with every provider."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with openai_server(reply="Yes.") as running:
        running.tokens = (120, 30)
        yield running


def make(provider: str, origin: str, *, patience_s: float = 25.0) -> LanguageModel:
    url = origin if provider == "anthropic" else f"{origin}/v1"
    written = Endpoint(url=url, model="some-model", key="" if provider == "local" else "${THE_KEY}")
    resolve = resolver({"THE_KEY": KEY})
    model = make_language_model("mediation", provider, written, resolve, patience_s=patience_s)
    assert model is not None
    return model


async def ask(model: LanguageModel) -> Reply:
    with anyio.fail_after(120):
        try:
            return await model.ask("Be brief.", "Is it?", max_tokens=500)
        finally:
            await model.aclose()


async def test_a_reply_has_the_text_and_the_tokens_that_the_provider_counted(
    provider: str, server: OpenAiServer
) -> None:
    """What a question cost is known exactly."""
    model = make(provider, server.origin)

    assert await ask(model) == Reply(text="Yes.", input_tokens=120, output_tokens=30)
    assert await ask(model) == Reply(text="Yes.", input_tokens=120, output_tokens=30)
    assert model.name == "some-model"
    request = server.requests[0]
    rules = request.body.get("system") or request.body["messages"][0]["content"]
    assert (rules, request.body["messages"][-1]["content"]) == ("Be brief.", "Is it?")
    assert request.body["model"] == "some-model"
    assert (KEY in request.credentials) == (provider != "local")
    assert request.body.get("max_tokens") == (500 if provider == "anthropic" else None)


@pytest.mark.parametrize(
    ("behaviour", "reply"),
    [
        ("refusing", Reply(text="", input_tokens=120, output_tokens=30, fault=REFUSED)),
        ("cut", Reply(text="Yes.", input_tokens=120, output_tokens=30, fault=CUT)),
    ],
)
async def test_a_refusal_and_a_part_of_an_answer_are_told_from_whole_ones(
    provider: str, server: OpenAiServer, behaviour: str, reply: Reply
) -> None:
    """They are paid for all the same."""
    server.behaviour = behaviour

    assert await ask(make(provider, server.origin)) == reply


async def test_an_endpoint_that_counts_no_tokens_is_no_failure(provider: str, server: OpenAiServer) -> None:
    """Some local servers do not."""
    server.behaviour = "uncounted"

    assert await ask(make(provider, server.origin)) == Reply(text="Yes.")


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("failing", "answered with HTTP 500"),
        ("limited", "answered with HTTP 429"),
        ("garbage", "gave an answer that cannot be read"),
        ("empty", "gave an answer that cannot be read"),
    ],
)
async def test_what_goes_wrong_is_said_without_the_key_and_not_tried_again(
    provider: str, server: OpenAiServer, behaviour: str, reason: str
) -> None:
    """The endpoint quotes the key, the error does not; and nobody pays twice."""
    server.behaviour = behaviour
    model = make(provider, server.origin)

    with pytest.raises(LlmError, match=f"^{provider} {reason}") as caught:
        await ask(model)

    assert KEY not in "".join(traceback.format_exception(caught.value)) + repr(model)
    assert len(server.requests) == 1


async def test_a_model_that_takes_too_long_is_given_up(provider: str, server: OpenAiServer) -> None:
    """The error says how long it was waited for."""
    server.behaviour = "slow"

    with pytest.raises(LlmError, match=f"^{provider} did not answer within 0.2 s$"):
        await ask(make(provider, server.origin, patience_s=0.2))


async def test_an_endpoint_that_is_not_there_is_said(provider: str) -> None:
    """A wrong port is not taken for a bad answer."""
    with pytest.raises(LlmError, match=f"^{provider} could not be reached$"):
        await ask(make(provider, f"http://127.0.0.1:{free_port()}"))


def faults(provider: str, **written: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make_language_model(
            "mediation", provider, Endpoint(**{"url": "", "model": "", **written}), resolver({})
        )
    return str(caught.value)


def test_no_provider_is_no_model() -> None:
    """Nobody is asked without having been chosen."""
    assert make_language_model("mediation", "none", Endpoint(url="", model=""), resolver({})) is None


def test_everything_that_is_missing_is_said_at_once() -> None:
    """By the names that stand in the file; a local model has no address that could be meant, and no key."""
    text = faults("anthropic")
    assert "2 faults" in text
    assert "mediation.model: is empty" in text
    assert "mediation.api_key: is empty" in text

    text = faults("local")
    assert "2 faults" in text
    assert "mediation.model: is empty" in text
    assert "mediation.url: is empty; write where the model is served" in text


def test_a_wrong_setting_is_named() -> None:
    """So that the operator finds it."""
    assert "mediation.url: is no address" in faults("local", model="m", url="localhost:8080")
    assert "mediation.api_key: ${UNSET} is not set" in faults("openai", model="m", key="${UNSET}")
    assert "mediation.api_key: has characters that no key has" in faults("openai", model="m", key="a b")
