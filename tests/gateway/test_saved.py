"""Saved chains: found and called like any other tool, and never run unless they are what was reviewed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.gateway.rig import Upstream, opened, settings_of
from tests.support.viewers import agent

from maitred.chains.saved_chain import parse_saved
from maitred.config.edit_choices import save_chain, unsave_chain
from maitred.config.load import parse
from maitred.config.sections import saved_spec
from maitred.config.settings import SAVED, Chain, SavedEntry, Settings
from maitred.errors import ArgumentsError, ConfigError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Grant, Scope, Viewer
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolCall, ToolKey

pytestmark = pytest.mark.anyio

FILES = {"read_file": "Read a file from disk."}
CODE = "import files\nawait files.read_file(path=where)"
INDIRECT = "await call_tool('chains__fetch', {'where': '/'})"
PARAMETERS = "parameters: {type: object, properties: {where: {type: string}}, required: [where]}\n"


def text_of(code: str, parameters: str = "", more: str = "") -> str:
    lines = "".join(f"  {line}\n" for line in code.split("\n"))
    return f"description: Fetch the quarterly ledger.\n{parameters}{more}code: |\n{lines}"


def saved_in(folder: Path, **texts: str) -> Settings:
    """Settings with a server of files, and with these chains, reviewed as they are written."""
    entries = {}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
        entries[name] = SavedEntry(file=f"{name}.yaml", hash=parse_saved(name, text).hash)
    settings = settings_of(folder, "files", chains=entries)
    spec = saved_spec(settings.source, entries)
    return replace(settings, servers={**settings.servers, SAVED: spec})


async def called(gateway: Gateway, name: str = "fetch", /, **arguments: Any) -> dict[str, Any]:
    """The result of a saved chain that is called as a tool."""
    return await gateway.call(ToolCall(name=f"chains__{name}", arguments=arguments), viewer=LOCAL_USER)


def said(result: dict[str, Any]) -> Any:
    return result["structuredContent"]["result"]


async def test_a_saved_chain_is_found_described_and_called_like_any_tool(tmp_path: Path) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        found = await gateway.search(["fetch the quarterly ledger"], viewer=LOCAL_USER)
        page = gateway.browse("server/chains", viewer=LOCAL_USER)
        result = await gateway.call(
            ToolCall(name="chains__fetch", arguments={"where": "/a"}), viewer=LOCAL_USER
        )

    assert found.results[0].tool.name == "chains__fetch"
    assert "chains__fetch(where: str)" in page.text
    assert not result.get("isError")
    assert said(result) == "files/read_file"


async def test_arguments_that_do_not_fit_are_refused_with_the_parameters(tmp_path: Path) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        for wrong in ({}, {"where": 1}, {"where": "/", "more": 1}):
            with pytest.raises(ArgumentsError):
                await called(gateway, **wrong)


async def test_a_chain_that_changed_while_it_was_listed_is_not_run(tmp_path: Path) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        (tmp_path / "fetch.yaml").write_text(text_of("1", PARAMETERS))
        with pytest.raises(ToolWithheldError, match="changed since it was reviewed"):
            await called(gateway, where="/a")


async def test_a_dry_run_says_that_a_chain_was_changed_before_anything_calls_it(tmp_path: Path) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        (tmp_path / "fetch.yaml").write_text(text_of("1", PARAMETERS))
        answer = await gateway.run_chain(INDIRECT, viewer=agent("ann"), dry_run=True)

    assert not answer.ok
    assert "changed since it was reviewed" in answer.text


@pytest.mark.parametrize(
    ("text", "why"), [(text_of("1"), "changed since it was reviewed"), ("code: [", "has faults")]
)
async def test_a_chain_that_changed_before_is_not_listed_and_a_call_says_why(
    tmp_path: Path, text: str, why: str
) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS), other=text_of("2"))
    (tmp_path / "fetch.yaml").write_text(text)
    async with opened(settings, Upstream("files", FILES)) as gateway:
        assert [tool.name for tool in gateway.visible_tools(LOCAL_USER) if tool.server == SAVED] == [
            "chains__other"
        ]
        (status,) = [one for one in gateway.servers(LOCAL_USER) if one.name == SAVED]
        assert why in status.notes[0]
        with pytest.raises(ToolWithheldError, match=why):
            await called(gateway, where="/a")


async def test_a_program_may_call_a_saved_chain_but_a_saved_chain_no_other(tmp_path: Path) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS), twice=text_of(INDIRECT))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        direct = await gateway.run_chain(INDIRECT, viewer=agent("local"))
        nested = await gateway.call(ToolCall(name="chains__twice", arguments={}), viewer=LOCAL_USER)

    assert direct.ok, direct.text
    assert direct.result == "files/read_file"
    assert nested["isError"]
    assert "a saved chain cannot call another saved chain" in nested["content"][0]["text"]


async def test_a_chain_that_was_saved_as_reading_cannot_write(tmp_path: Path) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS, "read_only: true\n"))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        call = ToolCall(name="chains__fetch", arguments={"where": "/a"})
        result = await gateway.call(call, read_only=True, viewer=LOCAL_USER)

    assert result["isError"]
    assert "saved as read-only cannot call what may write" in result["content"][0]["text"]


async def test_a_chain_that_is_reviewed_again_is_taken_over_at_once(tmp_path: Path) -> None:
    settings = saved_in(tmp_path, fetch=text_of(CODE, PARAMETERS))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        await gateway.configure(
            saved_in(tmp_path, fetch=text_of("'new'"), other=text_of("2")), viewer=LOCAL_USER
        )
        assert await gateway.settled(120)
        result = await called(gateway)
        assert {tool.name for tool in gateway.visible_tools(LOCAL_USER)} >= {"chains__fetch", "chains__other"}
        await gateway.configure(settings_of(tmp_path, "files"), viewer=LOCAL_USER)
        assert SAVED not in gateway.snapshot.servers

    assert said(result) == "new"


def test_the_file_keeps_its_remarks_when_chains_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    before = "# ours\nservers:\n  a: {command: x}  # first\n"
    path.write_text(before)
    save_chain(path, "fetch", tmp_path / "c" / "fetch.yaml", "12")
    save_chain(path, "other", Path("/elsewhere/o.yaml"), "34")
    assert path.read_text().startswith(before)
    settings = parse(path, path.read_text())
    assert settings.chains["fetch"] == SavedEntry(file="c/fetch.yaml", hash="12")
    with pytest.raises(ConfigError, match="--replace"):
        save_chain(path, "fetch", tmp_path / "f.yaml", "56")
    save_chain(path, "fetch", tmp_path / "f.yaml", "56", replace=True)
    assert parse(path, path.read_text()).chains["fetch"] == SavedEntry(file="f.yaml", hash="56")
    unsave_chain(path, "fetch")
    unsave_chain(path, "other")
    assert parse(path, path.read_text()).chains == {}
    assert path.read_text().startswith(before)
    with pytest.raises(ConfigError, match="no chain is saved"):
        unsave_chain(path, "other")


def test_a_server_of_the_name_of_the_saved_chains_is_a_fault_only_beside_them() -> None:
    servers = "servers:\n  chains: {command: x}\n"
    assert list(parse(Path("maitred.yaml"), servers).servers) == ["chains"]
    with pytest.raises(ConfigError, match=r"line 2: servers\.chains: is the server of the saved chains"):
        parse(Path("maitred.yaml"), servers + "chains: {a: {file: a.yaml, hash: '1'}}\n")


LOOP = "import files\nfor n in range({n}):\n    x = await files.read_file(path=str(n))\nreturn [x]"
ASK = "await call_tool('chains__loop', {})"
INSIDE = f"return {ASK}"


async def test_a_saved_chain_inside_gives_its_value_and_lists_its_calls(tmp_path: Path) -> None:
    """What it did is what the chain did."""
    settings = saved_in(tmp_path, loop=text_of(LOOP.format(n=3)))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        answer = await gateway.run_chain(f"return ({ASK})[0]", viewer=agent("ann"))

    assert answer.result == "files/read_file"
    assert [call.tool for call in answer.calls] == ["chains__loop", *["files__read_file"] * 3]


async def test_saved_chains_inside_share_the_limits_of_the_chain(tmp_path: Path) -> None:
    """Or every call of one would be worth a hundred; no error that is caught changes that."""
    settings = replace(saved_in(tmp_path, loop=text_of(LOOP.format(n=4))), chain=Chain(max_calls=10))
    code = f"while True:\n    try:\n        {ASK}\n    except RuntimeError:\n        pass"
    async with opened(settings, Upstream("files", FILES)) as gateway:
        answer = await gateway.run_chain(code, viewer=agent("ann"))

    assert answer.fault is not None
    assert answer.fault.kind == "calls"
    assert len(answer.calls) == 10


@pytest.mark.parametrize("name", ["chains__loop", "chains.loop", "loop"])
async def test_many_saved_chains_at_once_do_not_wait_for_each_other_for_ever(
    tmp_path: Path, name: str
) -> None:
    """Each waits for calls of its own while it is itself a call, by whichever name."""
    settings = replace(saved_in(tmp_path, loop=text_of(LOOP.format(n=2))), chain=Chain(max_in_flight=1))
    ask = f"call_tool('{name}', {{}})"
    code = f"import asyncio\nreturn await asyncio.gather(*[{ask} for n in range(8)])"
    async with opened(settings, Upstream("files", FILES)) as gateway:
        answer = await gateway.run_chain(code, viewer=agent("ann"))

    assert answer.result == [["files/read_file"]] * 8, answer.text


async def test_a_saved_chain_that_fails_inside_says_where(tmp_path: Path) -> None:
    """Its line, within the line that called it."""
    settings = saved_in(tmp_path, loop=text_of("x = 1\nreturn x['a']"))
    async with opened(settings, Upstream("files", FILES)) as gateway:
        answer = await gateway.run_chain(f"y = 1\n{INSIDE}", viewer=agent("ann"))

    assert answer.fault is not None
    assert answer.fault.line == 2
    assert "chains__loop failed: line 2: TypeError" in answer.fault.message


async def test_a_fault_of_a_saved_chain_suggests_no_server_that_its_caller_may_not_see(
    tmp_path: Path,
) -> None:
    """The chain may be called by whoever may not see the servers that it was written for."""
    settings = saved_in(tmp_path, fetch=text_of("import fles\nreturn 1"))
    scope = Scope(servers=frozenset({SAVED}))
    part = Viewer(grant=Grant(principal="ann", role="agent", scope=scope))
    call = ToolCall(name="chains__fetch", arguments={})
    async with opened(settings, Upstream("files", FILES)) as gateway:
        whole = await gateway.call(call, viewer=agent("ann"))
        scoped = await gateway.call(call, viewer=part)

    assert "`files`" in str(whole)
    assert scoped["isError"]
    assert "files" not in str(scoped)


async def test_a_saved_chain_may_be_kept_and_has_its_form_for_each_caller(tmp_path: Path) -> None:
    """From outside an answer, inside of a chain the value, whoever came first."""
    settings = saved_in(tmp_path, loop=text_of(LOOP.format(n=1), more="read_only: true\n"))
    settings = replace(settings, tools={ToolKey(server=SAVED, name="loop"): ToolChoice(cache_s=60)})
    files = Upstream("files", FILES)
    files.hints = types.ToolAnnotations(read_only_hint=True)
    async with opened(settings, files) as gateway:
        outside = [said(await called(gateway, "loop")) for _ in range(2)]
        inside = [await gateway.run_chain(INSIDE, viewer=LOCAL_USER) for _ in range(2)]
        (tmp_path / "loop.yaml").write_text(text_of("1", more="read_only: true\n"))
        with pytest.raises(ToolWithheldError, match="changed since it was reviewed"):
            await called(gateway, "loop")

    assert outside == [["files/read_file"]] * 2
    assert [answer.result for answer in inside] == [["files/read_file"]] * 2
    assert [answer.calls[0].cached for answer in inside] == [False, True]
