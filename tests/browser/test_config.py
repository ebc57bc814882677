"""The section of a browser server in a configuration file, and what `maitred doctor` says of the browser."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.chromium import OPTIONS, chromium

from maitred.backends.process import Warden
from maitred.browser.report import look_at_browser
from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.model.browsers import BrowserOptions
from maitred.model.sharing import sharing_of

pytestmark = pytest.mark.anyio


def servers(text: str) -> BrowserOptions | None:
    return parse(Path("maitred.yaml"), f"servers: {{chrome: {text}}}").servers["chrome"].browser


def test_a_browser_server_needs_nothing_but_its_transport() -> None:
    """Each client has an instance of its own, as with other servers that drive a browser."""
    assert servers("{transport: browser}") == BrowserOptions()
    assert servers("{browser: {sandbox: false}}") == BrowserOptions(sandbox=False)
    spec = parse(Path("maitred.yaml"), "servers: {chrome: {transport: browser}}").servers["chrome"]
    assert sharing_of(spec) == ("client", "it drives a browser")
    assert sharing_of(replace(spec, share="all")).share == "all"
    assert spec.target == "Chrome on this machine"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{transport: browser, browser: {sandbx: true}}", "browser.sandbx: is not a known key; did you mean"),
        ("{transport: browser, browser: 3}", "browser: must be a mapping"),
        ("{transport: browser, browser: {sandbox: perhaps}}", "browser.sandbox: must be true or false"),
        ("{transport: browser, browser: {profile: ../x}}", "browser.profile: must be a name"),
        ("{transport: browser, browser: {args: [x]}}", "'x' is no flag of a browser"),
        ("{transport: browser, browser: {flags: [--user-data-dir]}}", "is set by maitred itself"),
        ("{transport: browser, browser: {consent_s: 0}}", "browser.consent_s: must be more than 0"),
        (
            "{transport: browser, browser: {max_connections: 0}}",
            "max_connections: must be at least 1",
        ),
        ("{transport: browser, command: x}", "command: does not fit the transport browser"),
        ("{transport: browser, url: 'http://x'}", "url: does not fit the transport browser"),
        ("{command: x, browser: {sandbox: false}}", "browser: does not fit the transport stdio"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line_and_key(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        servers(text)
    assert "line 1: servers.chrome." in str(caught.value)
    assert fault in str(caught.value)


async def test_the_browser_is_looked_at_with_and_without_webmcp() -> None:
    """Found, version, sandbox, WebMCP there or not; a missing one is a fault with advice."""
    chromium()
    processes = Warden()
    found = await look_at_browser("chrome", OPTIONS, processes)
    processes.close()
    assert not found.fault
    assert found.version.split()[0] in found.text
    assert ("in its sandbox" in found.text) == OPTIONS.sandbox
    assert found.webmcp, "Chromium 149 to 156 have it behind a flag: has it gone?"
    missing = await look_at_browser("chrome", BrowserOptions(executable="no-such-browser"), processes)
    assert missing.text == "there is no program 'no-such-browser'; correct `executable`"


def test_doctor_names_the_browser(tmp_path: Path) -> None:
    """One line, and an entry of its JSON; a browser that cannot be started is a fault."""
    chromium()
    file = tmp_path / "maitred.yaml"
    sandbox = str(OPTIONS.sandbox).lower()
    file.write_text(
        f"catalog: {{path: {tmp_path / 'c.db'}}}\n"
        f"servers: {{chrome: {{transport: browser, browser: {{sandbox: {sandbox}}}}}}}\n"
    )
    doctor = [sys.executable, "-m", "maitred", "doctor", "--config", str(file)]
    done = subprocess.run(doctor, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "browser of chrome: Chromium" in done.stdout or "browser of chrome: Google" in done.stdout
    assert "chrome: 23 tools" in done.stdout
    file.write_text(file.read_text().replace("sandbox:", "executable: no-such-browser, sandbox:"))
    done = subprocess.run([*doctor, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["browsers"][0]["fault"].startswith("there is no program")
    [chrome] = report["servers"]
    assert (chrome["ok"], chrome["error"]) == (False, report["browsers"][0]["fault"])


def test_without_any_server_doctor_says_which_browser_there_is(tmp_path: Path) -> None:
    """One line, and no fault: nothing needs one yet."""
    chromium()
    file = tmp_path / "maitred.yaml"
    file.write_text(f"catalog: {{path: {tmp_path / 'c.db'}}}\n")
    doctor = [sys.executable, "-m", "maitred", "doctor", "--config", str(file)]
    done = subprocess.run(doctor, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [line] = [line for line in done.stdout.replace("\n ", " ").splitlines() if line.startswith("browser: ")]
    assert re.match(r"browser: (Chromium|Google) ", line)
    empty = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(doctor, capture_output=True, text=True, check=False, env=empty)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "browser: no browser is installed: install Chromium" in done.stdout.replace("\n ", " ")


def test_doctor_names_a_server_of_pages_that_can_find_none(tmp_path: Path) -> None:
    """It has neither a browser nor a port for pages: with one of them it has none of that fault."""
    file = tmp_path / "maitred.yaml"
    head = f"catalog: {{path: {tmp_path / 'c.db'}}}\n"
    pages = "servers: {web: {transport: pages, pages: {allow: ['http://localhost:*']}}}\n"
    doctor = [sys.executable, "-m", "maitred", "doctor", "--json", "--config", str(file)]
    for text, is_fine in ((pages, False), (pages.replace("{allow", "{dial_in: 0, allow"), True)):
        file.write_text(head + text)
        done = subprocess.run(doctor, capture_output=True, text=True, check=False)
        [web] = json.loads(done.stdout)["servers"]
        assert (done.returncode == 0, web["ok"]) == (is_fine, is_fine), done.stdout
        assert is_fine or "it can find no page" in web["error"]
        assert is_fine or "dial_in: 0" in web["advice"]
