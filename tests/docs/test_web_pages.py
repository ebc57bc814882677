"""The page on tools of web pages is true: its choices, its limits, and its example in a real browser."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest
from tests.browser.dialing import dialed_house, file_of
from tests.support.chromium import Running, browser, chromium, hub
from tests.support.pages import NO, YES, house, person
from tests.support.web_site import Site, serve_site

from maitred.browser.pages import definitions, dial_in, open_pages, reports
from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.model.pages import PageOptions, origin_pattern

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pages.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = _BLOCK.findall(PAGE)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site() as made:
        yield made


def figures(text: str) -> list[tuple[str, str, str, str, int]]:
    """The rows of the table of tokens: page, categories, tools, share that is saved, tokens with answers."""
    cells = r"(\d+ tools[^|]*) \| ([^|]+) \| (\d+) \| ([\d,]+) \| ([\d,]+) \| (-?\d+ %)"
    rows = re.findall(rf"^\| {cells} \|$", text, re.MULTILINE)
    return [(*row[:3], row[5], sum(int(cell.replace(",", "")) for cell in row[3:5])) for row in rows]


def test_the_table_of_tokens_is_what_its_command_prints() -> None:
    """Design document 000 has 97 %, 87 % and 0 %: none opened, one of five opened, a page of ten tools."""
    chromium()
    [command] = [text for kind, text in BLOCKS if kind == "console" and "bench" in text]
    arguments = shlex.split(command.removeprefix("$ python").partition("--update")[0])
    done = subprocess.run(
        [sys.executable, *arguments, "--markdown"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    printed, written = figures(done.stdout), figures(PAGE)
    assert [row[:4] for row in printed] == [row[:4] for row in written]
    assert [row[4] for row in printed] == pytest.approx([row[4] for row in written], rel=0.01)
    saved = {row[:2]: row[3] for row in written}
    assert saved["50 tools, labels", "none opened"] == "97 %"
    assert saved["50 tools, labels", "the one of 5 opened"] == "87 %"
    assert saved["10 tools", "none, below the break-even"] == "0 %"


def pages(text: str) -> PageOptions | None:
    return parse(Path("maitred.yaml"), f"servers: {{web: {text}}}").servers["web"].pages


def test_every_choice_is_described_with_its_default() -> None:
    section = PAGE.partition("\n## Choices\n")[2].partition("\n## ")[0]
    described = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]+)`)? ?\|", section, re.MULTILINE))
    options = PageOptions()
    said = {one.name: getattr(options, one.name) for one in fields(options)}
    written = {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}
    as_texts = {
        key: f"{value:g}" if isinstance(value, float) else str("" if value is None else value)
        for key, value in written.items()
    }
    assert described == {key: text.lower() for key, text in as_texts.items()}


def test_the_limits_are_those_of_the_code() -> None:
    assert f"{definitions.MOST_TOOLS} of one origin at a time, 256 different ones in all, 64 origins" in PAGE
    assert f"{definitions.MOST_SCHEMA // 1024} KB, {definitions.MOST_DEPTH} levels" in PAGE
    assert f"up to {definitions.MOST_DESCRIPTION:,} characters" in PAGE
    assert open_pages.GONE_S == 5 * 60
    pages = f"There may be {dial_in.MOST_PAGES} pages,\n{dial_in.MOST_OF_ORIGIN} of one origin"
    assert pages in PAGE
    assert f"messages of {reports.MOST_MESSAGE // 1024} KiB" in PAGE


def test_the_configuration_is_read_and_starts_with_the_gateway() -> None:
    """Pages offer tools at any time, so the server is there from the start."""
    [text] = [text for kind, text in BLOCKS if kind == "yaml"]
    spec = parse(Path("maitred.yaml"), text).servers["web"]
    allow = ("https://app.example", "http://localhost:*")
    assert spec.pages == PageOptions(allow=allow, ask=("https://bank.example",))
    assert spec.start == "always"
    assert spec.target == "web pages in the browsers of this gateway"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{transport: pages}", "pages.allow: is missing; list the origins"),
        ("{pages: {allow: ['*']}}", "pages.allow: '*' is no origin"),
        ("{pages: {allow: ['https://*']}}", "'https://*' is no origin"),
        ("{pages: {allow: ['https://*.com']}}", "'https://*.com' means all of 'com'"),
        ("{pages: {allow: ['http://app.example']}}", "'http://app.example' is not encrypted"),
        ("{pages: {allow: ['https://a.example/x']}}", "is no origin"),
        ("{pages: {allow: ['file:///']}}", "is no origin"),
        ("{pages: {allow: ['https://a.example'], call_s: 0}}", "pages.call_s: must be more than 0"),
        ("{pages: {allow: ['https://a.example'], dial_in: true}}", "dial_in: must be a whole number"),
        ("{pages: {allow: ['https://a.example'], dial_in: 80}}", "dial_in: must be 0 for a free port, or"),
        ("{pages: {allow: ['https://a.example'], dial_in: x}}", "pages.dial_in: must be a whole number"),
        ("{pages: {alow: []}}", "pages.alow: is not a known key; did you mean"),
        ("{pages: {allow: ['https://a.example']}, share: client}", "share: does not fit the transport pages"),
        ("{pages: {allow: ['https://a.example']}, start: on_demand}", "start: is always `always` for the"),
        ("{pages: {allow: ['https://a.example']}, command: x}", "pages: does not fit the transport stdio"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pages(text)
    assert fault in str(caught.value)


def test_no_port_is_opened_by_a_word_of_json() -> None:
    """`false` would be 0, a free port."""
    text = '{"servers": {"web": {"pages": {"allow": ["https://a.example"], "dial_in": false}}}}'
    with pytest.raises(ConfigError, match="dial_in: must be a whole number"):
        parse(Path("maitred.json"), text)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("https://app.example", ["https://app.example"], ["https://app.example:8443", "http://app.example"]),
        (
            "https://*.app.example",
            ["https://a.b.app.example"],
            ["https://app.example", "https://xapp.example"],
        ),
        (
            "http://localhost:*",
            ["http://localhost", "http://localhost:3000"],
            ["http://localhost.evil.example"],
        ),
        ("http://[::1]:80", ["http://[::1]"], ["http://[::2]", "null", "://", "file://", "data:"]),
        (
            "https://app.example/",
            ["https://app.example"],
            ["https://app.example.evil", "https://a@app.example"],
        ),
    ],
)
def test_patterns_mean_these_origins_and_no_others(
    pattern: str, fitting: list[str], other: list[str]
) -> None:
    assert all(origin_pattern(pattern).fits(one) for one in fitting)
    assert not any(origin_pattern(pattern).fits(one) for one in other)


async def test_the_examples_for_authors_work(tmp_path: Path, running: Running, web: Site) -> None:
    """The script and the page of the documentation, in a browser without WebMCP."""
    [script] = [text for kind, text in BLOCKS if kind == "js" and "registerTool" in text]
    [page] = [text for kind, text in BLOCKS if kind == "html"]
    web.pages["/tool-categories.js"] = (files("maitred.surfaces.http") / "tool_categories.js").read_text()
    web.pages["/console"] = page
    async with house(tmp_path, running, f'{{allow: ["{web.origin}"]}}') as one:
        await one.open(web.page("script", script))
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"add_to_cart"})
        assert '"article": "4711"' in await one.call("add_to_cart", article="4711")
        await one.open(f"{web.origin}/console")
        await one.until(lambda: set(one.known) == {f"{web.origin}#admin_tools"})
        await one.approve()
        await one.until(lambda: one.names() == {"admin_tools"})
        assert "- create_user: Create a user." in await one.call("admin_tools")
        await one.until(lambda: len(one.known) == 3)


def maitred(folder: Path, *arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "maitred", "browser", "dial-in", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def example(folder: Path, address: Path) -> Iterator[str]:
    """The address of the example app, which runs as its page says."""
    app = folder / "app"
    shutil.copytree(ROOT / "examples" / "dial-in", app)
    (app / "maitred.js").write_text(maitred(folder, "--script"))
    command = [sys.executable, str(app / "app.py"), str(address), "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def test_the_example_app_dials_in(tmp_path: Path, running: Running) -> None:
    """Its page offers tools from a browser that the gateway does not know; the command names the file."""
    rules = '{allow: ["http://localhost:*"], dial_in: 0}'
    file = tmp_path / "maitred.yaml"
    file.write_text(f"servers:\n  web: {{transport: pages, pages: {rules}}}\ncatalog: {{path: c.db}}\n")
    assert "web: no gateway listens now, " in maitred(tmp_path, "--config", str(file))
    async with dialed_house(tmp_path, pages=rules) as one, hub() as clients:
        known = json.loads(maitred(tmp_path, "--config", str(file), "--json"))["web"]
        assert known["file"] == str(file_of(tmp_path))
        assert json.loads(file_of(tmp_path).read_text())["url"] == known["url"]
        assert known["url"] in maitred(tmp_path, "--config", str(file))
        with example(tmp_path, Path(known["file"])) as address:
            client = clients.client()
            await client.do("chrome_connect", port=running.port)
            await client.do("navigate", url=address, include_context=False)
            await one.until(lambda: len(one.known) == 2)
            await one.approve()
            await one.until(lambda: one.names() == {"add_note", "delete_notes"})
            assert (await one.call("add_note", text="tea")).endswith('{"notes": 1}')
            assert "did not agree" in await one.call("delete_notes", caller=person(NO))
            assert (await one.call("delete_notes", caller=person(YES))).endswith("deleted")
            assert "Notes" in await client.do("list_targets")


def test_without_a_server_that_pages_dial_in_to_the_command_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "maitred.yaml"
    file.write_text("servers: {}\n")
    command = [sys.executable, "-m", "maitred", "browser", "dial-in", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no server lets pages dial in; set `pages: {allow: [...], dial_in: 0}`" in done.stderr
