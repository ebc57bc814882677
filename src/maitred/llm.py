"""Ask a language model: Anthropic, OpenAI, or any endpoint that speaks OpenAI's protocol.

The extra `llm` brings the vendors' SDKs. A worker thread imports them with the first question, so the start
costs nothing. Servers wrote most of what a model reads, so neither that nor its answer is trusted:
`plain_text` and `json_objects` clean both. The prompts are in `maitred.search` and `maitred.mediation`.
Errors never quote an SDK, whose texts may contain a key.
"""

import json
import re
import threading
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from maitred.config.interpolate import UnresolvedReferenceError
from maitred.errors import ConfigError, MaitredError
from maitred.extras import install_command

OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"

REFUSED: Final = "refused to answer"
CUT: Final = "gave an answer that was cut short"

_SOURCE = "the configuration"
_MAX_STARTS = 100  # opening braces that are tried in a long answer
_BRACE = re.compile(r"\{")
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]")
_BREAKS = frozenset({"Cc", "Zl", "Zp"})
_UNSEEN = frozenset({"Cf", "Cs", "Co", "Cn"})
_JOINERS = frozenset("\u200c\u200d")  # Persian, Indic scripts and emoji need them


class LlmError(MaitredError):
    """The model gave no answer. The text is one short line, without keys and without a server's text."""

    code: ClassVar[str] = "llm_failed"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a model is served. An empty key means that the endpoint needs none."""

    url: str
    model: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A model's answer. `fault` is `REFUSED` or `CUT` if the text is not a whole answer, else empty.

    Tokens are the provider's count, 0 if it gave none; they cost money even if there is a fault.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class _PendingQuestion:
    model: str
    rules: str
    prompt: str
    max_tokens: int


@dataclass(frozen=True, kw_only=True)
class _Vendor:
    """The differences between vendors; `ask` gets the client and the question."""

    package: str
    client: str
    url: str
    ask: Callable[[Any, _PendingQuestion], Awaitable[Reply]]


async def _ask_openai(client: Any, question: _PendingQuestion) -> Reply:
    messages = [{"role": "system", "content": question.rules}, {"role": "user", "content": question.prompt}]
    answer = await client.chat.completions.create(model=question.model, messages=messages)
    choice, usage = answer.choices[0], answer.usage
    is_refused = choice.message.refusal or choice.finish_reason == "content_filter"
    return Reply(
        text=choice.message.content or "",
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        fault=REFUSED if is_refused else CUT if choice.finish_reason == "length" else "",
    )


async def _ask_anthropic(client: Any, question: _PendingQuestion) -> Reply:
    answer = await client.messages.create(
        model=question.model,
        system=question.rules,
        messages=[{"role": "user", "content": question.prompt}],
        max_tokens=question.max_tokens,
    )
    is_cut = answer.stop_reason in {"max_tokens", "model_context_window_exceeded"}
    return Reply(
        text="".join(block.text for block in answer.content if block.type == "text"),
        input_tokens=_count(answer.usage, "input_tokens"),
        output_tokens=_count(answer.usage, "output_tokens"),
        fault=REFUSED if answer.stop_reason == "refusal" else CUT if is_cut else "",
    )


def _count(usage: Any, name: str) -> int:
    count = getattr(usage, name, None)
    return count if isinstance(count, int) and count > 0 else 0


_OPENAI = _Vendor(package="openai", client="AsyncOpenAI", url=OPENAI_URL, ask=_ask_openai)
_VENDORS = {
    "openai": _OPENAI,
    "anthropic": _Vendor(package="anthropic", client="AsyncAnthropic", url=ANTHROPIC_URL, ask=_ask_anthropic),
    "local": replace(_OPENAI, url=""),
}


class LanguageModel:
    """One model at one endpoint; `name` is the model's, `aclose` ends its connections.

    The first question also imports the SDK, which takes a second or two; the import goes on in its thread if
    the question is cancelled. A question that fails is not repeated.
    """

    def __init__(self, vendor: str, endpoint: Endpoint, *, patience_s: float = 300.0) -> None:
        """`vendor` is "openai", "anthropic" or "local"; the extra `llm` must be installed.

        `patience_s` limits one question in seconds, including the import of the SDK.
        """
        self.name = endpoint.model
        self.vendor = vendor
        self._by = _VENDORS[vendor]
        self._endpoint = endpoint
        self._patience_s = patience_s
        self._client: Any = None
        self._connecting = threading.Lock()

    async def load(self) -> None:
        """Import the SDK in a thread, so that the next question need not wait for that."""
        if self._client is None:
            await to_thread.run_sync(self._connect, abandon_on_cancel=True)

    async def ask(self, rules: str, prompt: str, *, max_tokens: int) -> Reply:
        """The model's answer; a partial answer or a refusal has a fault.

        `max_tokens` limits the answer at Anthropic, which requires a limit. OpenAI's protocol gets none: its
        endpoints disagree on the name, and reasoning models count their thoughts too.

        Raises:
            LlmError: The endpoint cannot be reached, refuses the question, does not answer in time, or
                answers with something that is no text.
        """
        question = _PendingQuestion(model=self.name, rules=rules, prompt=prompt, max_tokens=max_tokens)
        try:
            with anyio.fail_after(self._patience_s):
                client = self._client or await to_thread.run_sync(self._connect, abandon_on_cancel=True)
                return await self._by.ask(client, question)
        except Exception as error:  # noqa: BLE001  # SDKs raise many types, and their texts may quote the key
            raise LlmError(f"{self.vendor} {self._reason(error)}") from None

    async def aclose(self) -> None:
        """Close the connections; the next question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connect(self) -> Any:
        with self._connecting:
            if self._client is None:
                from maitred.tls import tls_context  # noqa: PLC0415  # imports httpx2

                sdk = import_module(self._by.package)
                self._client = getattr(sdk, self._by.client)(
                    api_key=self._endpoint.key or "none",  # the SDK requires one, the endpoint may not
                    base_url=self._endpoint.url,
                    max_retries=0,
                    timeout=self._patience_s,
                    http_client=sdk.DefaultAsyncHttpxClient(verify=tls_context()),
                )
            return self._client

    def _reason(self, error: Exception) -> str:
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            return f"answered with HTTP {status}"
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if kinds & {"APITimeoutError", "TimeoutError"}:
            return f"did not answer within {self._patience_s:g} s"
        if "APIConnectionError" in kinds:
            return "could not be reached"
        return f"gave an answer that cannot be read ({type(error).__name__})"


def make_language_model(
    section: str,
    provider: str,
    written: Endpoint,
    resolve: Callable[[str], str],
    *,
    patience_s: float = 300.0,
) -> LanguageModel | None:
    """The model that an operator chose in a section of the settings. Opens and imports nothing yet.

    Args:
        section: The section, which has `llm_provider`, `model`, `url` and `api_key`.
        provider: "none", "anthropic", "openai", or "local", which needs a URL.
        written: The other settings as written; an empty URL means the vendor's own.
        resolve: Replaces references such as `${OPENAI_API_KEY}`.
        patience_s: How many seconds one question may take.

    Raises:
        ConfigError: The extra is not installed, or the model, key or URL is missing or wrong.
    """
    if provider == "none":
        return None
    require_vendor(f"{section}.llm_provider", provider)
    endpoint = read_endpoint(
        section, written, default_url=vendor_url(provider), resolve=resolve, joint=".", key="api_key"
    )
    return LanguageModel(provider, endpoint, patience_s=patience_s)


def require_vendor(setting: str, vendor: str) -> None:
    """Refuse a vendor whose SDK is not installed.

    Raises:
        ConfigError: The SDK is missing; the text says how to install it.
    """
    require(f"{setting}: {vendor}", [_VENDORS[vendor].package], extra="llm")


def vendor_url(vendor: str) -> str:
    """The vendor's own endpoint; empty for "local", which has none."""
    return _VENDORS[vendor].url


def require(setting: str, packages: Sequence[str], *, extra: str) -> None:
    """Refuse a setting whose packages are not installed.

    Raises:
        ConfigError: A package is missing; the text says how to install it.
    """
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        fault = f"{setting} needs the package {' and '.join(missing)}; `{install_command(extra)}` installs it"
        raise ConfigError(_SOURCE, [fault])


def read_endpoint(
    setting: str,
    written: Endpoint,
    *,
    default_url: str,
    resolve: Callable[[str], str],
    joint: str = "_",
    key: str = "key",
) -> Endpoint:
    """Turn the operator's settings into an endpoint: resolve references, fill in the URL, check the rest.

    An empty URL means the vendor's own endpoint, `default_url`, which requires a key. Without a `default_url`
    the operator must write a URL. Faults name a setting as `setting`, `joint` and `url`, `model` or `key`;
    `key` is the name of the key's setting.

    Raises:
        ConfigError: A value is missing or wrong. It lists every fault, and never contains a key.
    """
    faults: list[str] = []

    def read(suffix: str, value: str) -> str:
        try:
            return resolve(value).strip()
        except UnresolvedReferenceError as error:
            faults.append(f"{setting}{joint}{suffix}: {error}")
            return value

    endpoint = Endpoint(
        url=read("url", written.url) or default_url,
        model=read("model", written.model),
        key=read(key, written.key),
    )
    if not endpoint.model:
        faults.append(f"{setting}{joint}model: is empty; name the model to ask")
    if not endpoint.url:
        faults.append(f"{setting}{joint}url: is empty; write where the model is served")
    elif not _is_http(endpoint.url):
        faults.append(f"{setting}{joint}url: is no address that begins with http:// or https://")
    if not endpoint.key and endpoint.url and endpoint.url == default_url:
        faults.append(f"{setting}{joint}{key}: is empty; write a reference such as `${{API_KEY}}`")
    if not (endpoint.key.isascii() and endpoint.key.isprintable() and " " not in endpoint.key):
        faults.append(
            f"{setting}{joint}{key}: has characters that no key has; HTTP headers carry printable ASCII only"
        )
    if faults:
        raise ConfigError(_SOURCE, faults)
    return endpoint


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bad port or bracket
        return False


def plain_text(text: str) -> str:
    """The text on one line, without invisible characters."""
    return " ".join("".join(map(_visible, _INVISIBLE.sub("", text))).split())


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in _BREAKS:
        return " "
    return "" if category in _UNSEEN and character not in _JOINERS else character


def json_objects(text: str) -> Iterator[Any]:
    """The JSON objects in a text, in order; models write prose around them, or wrap them in fences."""
    decoder = json.JSONDecoder()
    end = 0
    for brace in islice(_BRACE.finditer(text), _MAX_STARTS):
        if brace.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):  # prose in braces, or a thousand of them
            continue
        yield value
