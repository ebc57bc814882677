"""The page on mediation is true: what it writes is used, and what it prints is printed."""

import hashlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from tests.support.mediation_page import (
    SOON_S,
    TOOLS,
    install,
    is_hidden,
    prints,
    published,
    said,
    serving,
    shown_by,
    write,
)
from tests.support.openai_server import OpenAiServer, openai_server

from maitred.config.load import load
from maitred.config.settings import MediationSettings
from maitred.errors import ConfigError, ToolWithheldError
from maitred.mediation import (
    LlmTransformer,
    Mediator,
    Memo,
    MemoryStore,
    Middleware,
    OverrideTransformer,
    RuleTransformer,
    SourceTool,
    ToolContext,
    ToolOverride,
    load_overrides,
    middleware,
)
from maitred.mediation.llm_answer import SUREST
from maitred.model.access import LOCAL_USER
from maitred.model.tools import Tool, ToolCall

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mediation.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(PAGE) if kind == language]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


QUICK, OVERRIDDEN, OVERRIDES, DOMAIN_SETTINGS, FAULTY, COMMUNITY, ANTHROPIC, LOCAL = blocks("yaml")
DOMAIN_OVERRIDES, OVERRIDES_JSON = blocks("json")
DOMAIN_FAULT, FAULTS = blocks("")
LOOK, CHOOSE, RENAMED, INFERRED, COSTS, HARM, FIGURES = blocks("console")
LIBRARY, HOUSE_WORDS, OWN, PROGRAM, HOOK = blocks("python")
LIBRARY_PRINTS, OWN_PRINTS = blocks("text")


@pytest.fixture
def model() -> Iterator[OpenAiServer]:
    """A language model over HTTP that counts tokens as the page does."""
    with openai_server() as server:
        server.reply, server.tokens = said, (2_312, 904)
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder in which the server of the page is an installed program."""
    install(tmp_path)
    return tmp_path


# --- quick start ------------------------------------------------------------------------------------------


def test_the_quick_start_prints_what_the_page_says(home: Path) -> None:
    """From two lines of configuration to a tool accepted and another rejected."""
    write(home, maitred__yaml=QUICK)
    prints(home, LOOK)
    prints(home, CHOOSE)


async def test_what_the_server_says_is_back_when_mediation_is_off(tmp_path: Path) -> None:
    """Originals are kept, and the server hears its own names in any case."""
    called: list[str] = []
    texts = []
    for text in (QUICK, QUICK.replace("true", "false")):
        async with serving(tmp_path, text, called) as gateway:
            texts.append(published(gateway)["shr-doc"].description)
            await gateway.call(ToolCall(name="backoffice__shr-doc", arguments={}), viewer=LOCAL_USER)

    assert texts == ["Share a document by ID. Takes email and permission.", "IMPORTANT!!! SHARE DOC"]
    assert called == ["shr-doc", "shr-doc"]


def test_the_priorities_are_those_of_the_table() -> None:
    """They decide who is asked first."""
    remembered = Memo(LlmTransformer.__new__(LlmTransformer), MemoryStore())
    priorities = (OverrideTransformer.priority, RuleTransformer.priority, remembered.priority)

    assert [f"| {priority} " in section("Who is asked first") for priority in priorities] == [True] * 3


# --- overrides --------------------------------------------------------------------------------------------


def test_a_renamed_tool_is_found_and_called_as_the_page_says(home: Path) -> None:
    """By both names, with the server's own name upstream."""
    write(home, maitred__yaml=OVERRIDDEN, overrides__yaml=OVERRIDES)
    prints(home, RENAMED)


async def test_every_key_of_an_override_does_what_the_table_says(tmp_path: Path) -> None:
    """With the file of the page."""
    write(tmp_path, overrides__yaml=OVERRIDES)
    async with serving(tmp_path, OVERRIDDEN) as gateway:
        tools = published(gateway)
        hot = gateway.browse("", viewer=LOCAL_USER).text
        with pytest.raises(ToolWithheldError):
            await gateway.call(ToolCall(name="backoffice__rst_pwd", arguments={}), viewer=LOCAL_USER)
        same = [gateway.find(name, LOCAL_USER).name for name in ("gt_usr", "backoffice__gt_usr")]

    user, orders = tools["gt_usr"], tools["lst_ords"]
    assert same == ["backoffice__get_user"] * 2
    assert (user.name, user.title) == ("backoffice__get_user", "Customer record")
    assert user.mending is not None
    assert orders.mending is not None
    assert (user.mending.pinned, user.mending.category) == (True, "data")
    assert user.mending.use_cases == ("who is customer 4711",)
    assert hot.splitlines()[1].startswith("backoffice__get_user(number?: int)")
    assert (orders.description, orders.mending.category) == ("list", "data")
    assert tools["crt_evt"].mending is None


def test_the_table_names_every_key() -> None:
    """A new one cannot be left out."""
    table = section("Overrides").partition("| key | does |")[2]

    assert [one.name for one in fields(ToolOverride) if f"`{one.name}`" not in table] == []


async def test_the_json_form_does_the_same(tmp_path: Path) -> None:
    """By the name of the file."""
    write(tmp_path, overrides__json=OVERRIDES_JSON)
    async with serving(tmp_path, OVERRIDDEN.replace(".yaml", ".json")) as gateway:
        tools = published(gateway)

    assert tools["gt_usr"].name == "backoffice__get_user"
    assert is_hidden(tools["rst_pwd"])


async def test_the_form_by_domain_is_read_and_refused_as_the_page_says(tmp_path: Path) -> None:
    """By the setting above it, for a server at an address of the domain."""
    write(tmp_path, maitred__yaml=DOMAIN_SETTINGS)
    path = tmp_path / "tool-overrides.json"
    path.write_text(DOMAIN_OVERRIDES)
    settings = load(tmp_path / "maitred.yaml")
    url = settings.servers["users"].url
    context = ToolContext(source="users", source_type="api", metadata={"url": url})
    transformer = OverrideTransformer(load_overrides(tmp_path / settings.mediation.overrides))
    [tool] = await transformer.transform([SourceTool(name="gt_usr")], context) or [None]
    path.write_text(DOMAIN_OVERRIDES.replace('"description"', '"descripton"'))
    with pytest.raises(ConfigError) as caught:
        load_overrides(path)

    assert tool is not None
    assert (tool.name, tool.input_schema and tool.input_schema["required"]) == ("get_user", ["userId"])
    assert f"{path.name}: {caught.value.faults[0]}" == DOMAIN_FAULT.strip()


async def test_an_inferred_schema_is_shown_as_the_page_says(tmp_path: Path) -> None:
    """In the line of a search."""
    rules = RuleTransformer()
    text = "Finds documents. query: the search text (required); limit: how many (default 10)"
    context = ToolContext(source="docs", source_type="api")
    [tool] = await rules.transform([SourceTool(name="find_docs", description=text)], context) or [None]

    assert tool is not None
    assert tool.inferred == ("query", "limit")
    assert "docs__find_docs(query: any, limit?: int) (inferred) - Finds documents." in INFERRED


async def test_the_faults_that_are_shown_are_those_of_the_file_above_them(tmp_path: Path) -> None:
    """All at once, at the start of a gateway."""
    write(tmp_path, overrides__yaml=FAULTY)
    with pytest.raises(ConfigError) as caught:
        async with serving(tmp_path, OVERRIDDEN):
            pass

    assert list(caught.value.faults) == FAULTS.splitlines()


async def test_overrides_of_others_are_used_from_their_address_and_then_from_the_copy(tmp_path: Path) -> None:
    """Pinned by their checksum; another version is refused."""
    write(tmp_path, shared__yaml=OVERRIDES)
    handler = partial(_Quiet, directory=str(tmp_path))
    own = (tmp_path / "own").absolute()
    own.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
        thread = Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        text = COMMUNITY.replace(
            "https://example.com/overrides.yaml", f"http://127.0.0.1:{listener.server_port}/shared.yaml"
        )
        try:
            with pytest.raises(ConfigError, match="instead of 9f86d0818"):
                async with serving(own, text):
                    pass
            pinned = re.sub(r"\b[0-9a-f]{64}\b", hashlib.sha256(OVERRIDES.encode()).hexdigest(), text)
            async with serving(own, pinned) as gateway:
                assert published(gateway)["gt_usr"].name == "backoffice__get_user"
        finally:
            listener.shutdown()
            thread.join()
    async with serving(own, pinned) as gateway:
        assert published(gateway)["gt_usr"].name == "backoffice__get_user"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's signature
        """Tests say what went wrong."""


# --- rules ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "title"), re.findall(r"`(\w+)` (?:is )?\*([a-z ]+)\*", section("Rules")), ids=str
)
async def test_rules_read_names_as_the_page_says(name: str, title: str) -> None:
    """Written out in the title; the name stays."""
    context = ToolContext(source="backoffice", source_type="api")
    [answer] = await RuleTransformer().transform([SourceTool(name=name)], context) or [None]

    assert answer is not None
    assert (answer.name, answer.title.lower()) == (name, title)


# --- a language model -------------------------------------------------------------------------------------


def to(model: OpenAiServer, text: str) -> str:
    """An example with the model of the test in place of a vendor's."""
    local = text.replace("http://localhost:11434", model.origin)
    return local.replace("llm_provider: anthropic", f"llm_provider: anthropic\n  url: {model.origin}")


def test_costs_are_told_before_and_after_and_harm_with_both_places(home: Path, model: OpenAiServer) -> None:
    """With Anthropic's protocol; what was answered is not asked for again."""
    write(home, maitred__yaml=to(model, ANTHROPIC))
    prints(home, COSTS)
    prints(home, HARM)

    assert [request.path for request in model.requests] == ["/v1/messages"]
    assert model.requests[0].credentials.endswith("secret")


async def test_a_local_model_is_asked_in_the_background(tmp_path: Path, model: OpenAiServer) -> None:
    """Hybrid: about every tool. What speaks to its reader is refused, and the tool goes to the rules."""
    async with serving(tmp_path, to(model, LOCAL)) as gateway:
        await anyio.to_thread.run_sync(model.asked.wait, SOON_S)
        await gateway.ask_model(viewer=LOCAL_USER)
        found = {one.tool.key.name: one.proposal for one in await gateway.mediation_diff(viewer=LOCAL_USER)}

    assert len(model.requests) == 1
    assert all(f'"tool":"{tool["name"]}"' in str(model.requests[0].body["messages"]) for tool in TOOLS)
    assert (found["upl_fl"].after.enhanced_by, found["upl_fl"].state) == ("llm", "unfit")
    assert found["del"].after.enhanced_by == "rules"


async def test_in_the_mode_lazy_nobody_is_asked_before_tools_are_looked_at(
    tmp_path: Path, model: OpenAiServer
) -> None:
    """And in eager nobody about tools that rules mend, as they do all of this server."""
    lazy = to(model, LOCAL).replace("auto_enhance: true", "auto_enhance: true\n  rules: false\n  mode: lazy")
    async with serving(tmp_path, lazy) as gateway:
        assert not model.requests
        await gateway.info(["backoffice__del"], viewer=LOCAL_USER)
        await anyio.to_thread.run_sync(model.asked.wait, SOON_S)
    eager = to(model, LOCAL).replace("auto_enhance: true", "auto_enhance: true\n  mode: eager")
    async with serving(tmp_path, eager) as gateway:
        assert (estimate := await gateway.estimate_mediation(viewer=LOCAL_USER)) is not None

    assert (len(model.requests), estimate.calls) == (1, 0)


def test_the_limits_on_the_page_are_the_real_ones() -> None:
    """A changed figure cannot stay."""
    told, own = " ".join(section("A language model").split()), MediationSettings()
    parameters = inspect.signature(LlmTransformer).parameters

    assert f"more than `grouping_threshold` tools ({own.grouping_threshold})" in told
    assert f"for {own.cache_ttl / 24:g} days (`cache_ttl`, in hours)" in told
    assert (parameters["max_tools"].default, "a hundred tools a question" in told) == (100, True)
    assert f"at most {SUREST} |" in section("Who is asked first")


# --- figures ----------------------------------------------------------------------------------------------


def test_the_figures_are_those_of_this_version(home: Path) -> None:
    """As the command prints them."""
    prints(home, FIGURES.replace("tests/data", str(ROOT / "tests" / "data")))


# --- as a library -----------------------------------------------------------------------------------------


def test_the_example_of_the_library_prints_what_is_below_it(home: Path, model: OpenAiServer) -> None:
    """Each transformer has the tool that is left for it; the model is asked about one."""
    write(home, overrides__yaml=OVERRIDES)

    assert shown_by(home, to(model, LIBRARY)) == LIBRARY_PRINTS.splitlines()
    assert len(model.requests) == 1


def test_the_overrides_of_the_page_are_read_by_the_library(tmp_path: Path) -> None:
    """A server and a domain in one file."""
    write(tmp_path, overrides__yaml=OVERRIDES)
    found = load_overrides(tmp_path / "overrides.yaml")

    assert found.find("https://example.com/page", "gt_usr") == ToolOverride(rename="get_user")


def test_a_transformer_of_ones_own_is_used_by_a_mediator(home: Path) -> None:
    """A stranger can paste both files."""
    write(home, house_words__py=HOUSE_WORDS)

    assert shown_by(home, OWN) == OWN_PRINTS.splitlines()


def test_a_transformer_of_ones_own_is_used_by_a_program_that_embeds_maitred(home: Path) -> None:
    """Through the hook, beside the rules of the configuration."""
    write(home, maitred__yaml=QUICK, house_words__py=HOUSE_WORDS)
    printed = "\n".join(shown_by(home, PROGRAM))

    assert (
        "Check availability. Takes user, date and duration. About the list of approved suppliers." in printed
    )
    assert "Send a message." in printed


async def hooked(folder: Path, hook: Middleware) -> Mapping[str, Tool]:
    """The tools under the overrides of the page and a hook."""
    write(folder, overrides__yaml=OVERRIDES)
    async with serving(folder, OVERRIDDEN, hook=hook) as gateway:
        return published(gateway)


async def test_a_hook_without_a_mediator_changes_what_it_likes(tmp_path: Path) -> None:
    """Other tools keep what overrides say of them."""
    names: dict[str, Any] = {}
    exec(HOOK.replace("AVL", "list"), names)
    tools = await hooked(tmp_path, names["hook"])

    assert tools["lst_ords"].description == "approved suppliers"
    assert is_hidden(tools["rst_pwd"])


async def test_a_mediator_in_the_hook_leaves_the_tools_that_it_has_nothing_to_say_of(tmp_path: Path) -> None:
    """What an override hides stays hidden."""
    names: dict[str, Any] = {}
    exec(HOUSE_WORDS, names)
    mediator = Mediator()
    mediator.use(names["HouseWords"]({"avl": "the list of approved suppliers"}))
    context = ToolContext(source="our program", source_type="manual")
    tools = await hooked(tmp_path, middleware(mediator, context))

    assert is_hidden(tools["rst_pwd"])
    assert (user := tools["gt_usr"].mending) is not None
    assert (user.pinned, user.category, user.by) == (True, "data", "overrides")
