"""A credential that a server was given comes back from it: nobody is told, and nothing is written down."""

import base64
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from tests.backends.rig import http_server
from tests.faults.telltale_server import FORMS
from tests.interaction.harness import Json, cli, serving, write_settings
from tests.support import prefork

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("telltale_server.py")
CREDENTIAL = 'k7/Qe+1 "zR&9=mW\\x8Lp4vT'
PIECES = (CREDENTIAL[:12], CREDENTIAL[-12:], CREDENTIAL[6:18])


def telltale(way: str, form: str = "plain", **keys: object) -> Json:
    """The entry of the server; the credential is a reference, as it should be."""
    args = ["-I", "-S", str(SERVER), way, form]
    entry = {"command": sys.executable, "args": args, "era": "handshake", "env": {"CREDENTIAL": "${SECRET}"}}
    return entry | keys


def said(config: Path, *words: str, secret: str = CREDENTIAL) -> str:
    """All that a command writes."""
    done = cli(config, *words, env={"SECRET": secret})
    return done.stdout + done.stderr


def holds(text: str, secret: str = CREDENTIAL) -> bool:
    """Whether a text has the credential in it, or much of it, in any form that it is written in here."""
    raw = secret.encode()
    encoded = [base64.b64encode(b"\0" * n + raw).decode()[n + 2 : -5] for n in range(3)]
    whole = (secret, quote(secret, safe=""), json.dumps(secret)[1:-1], raw.hex(), *encoded)
    return any(one in text for one in (*whole, *PIECES))


def kept(folder: Path) -> str:
    """All that stands in the files of a catalog."""
    return "".join(path.read_bytes().decode("latin-1") for path in folder.glob("catalog.db*"))


@pytest.mark.parametrize("form", FORMS)
def test_a_credential_in_the_last_words_of_a_server_is_told_to_nobody(tmp_path: Path, form: str) -> None:
    """Not by doctor, not in the log, not to programs; nor is it in the catalog, in whichever form."""
    config = write_settings(tmp_path, {"t": telltale("dies", form)})

    told = said(config, "doctor", "t") + said(config, "doctor", "--json", "t")

    assert "***" in told
    assert "its last words: " in told
    assert not holds(told)
    assert not holds(said(config, "list", "--json") + said(config, "search", "look"))
    assert not holds(kept(tmp_path))


async def test_a_gateway_tells_it_neither_in_its_status_nor_its_log_nor_over_http(tmp_path: Path) -> None:
    """Whoever watches a gateway need not know what its servers know."""
    config = write_settings(tmp_path, {"t": telltale("dies")})

    with serving(config, "--token", "t", env={"SECRET": CREDENTIAL}) as gateway:
        await gateway.says_after(0, "server failed")
        status = said(config, "status") + said(config, "status", "--json")
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer t"}, timeout=120) as client:
            answer = await client.get(gateway.url.replace("/mcp", "/api/v1/servers"))
    logged = "\n".join(gateway.output.lines)

    for told in (status, answer.text, logged):
        assert "cannot log in with ***" in told
        assert not holds(told)


def test_a_credential_in_an_error_of_a_server_is_not_told_to_the_caller(tmp_path: Path) -> None:
    """Neither as the message nor in its data; the rest of what the server says stays."""
    config = write_settings(tmp_path, {"t": telltale("refuses")})

    told = said(config, "call", "t__look")

    assert "answered with error -32000: cannot log in with ***, giving up" in told
    assert not holds(told + said(config, "audit", "--json") + kept(tmp_path))


def test_a_credential_in_the_reason_for_a_missing_list_is_not_kept(tmp_path: Path) -> None:
    """It would stand in the catalog as a note on the server."""
    config = write_settings(tmp_path, {"t": telltale("lists")})

    told = said(config, "doctor", "t")

    assert "resources/list failed with error -32000: cannot log in with ***" in told
    assert not holds(told + said(config, "list", "--json") + kept(tmp_path))


@pytest.mark.parametrize(
    "env",
    [
        {"CREDENTIAL": "k7Qe1zR9mW8Lp4vT", "API_KEY": "k7Qe1zR9mW8Lp4vT"},
        {"CREDENTIAL": "${NOWHERE:-k7Qe1zR9mW8Lp4vT}", "DB_PASSWORD": "k7Qe1zR9mW8Lp4vT"},
    ],
)
def test_a_credential_that_stands_in_the_configuration_is_not_told_either(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    """Known by the name that it goes by, as an import writes them."""
    config = write_settings(tmp_path, {"t": telltale("dies", env=env)})

    told = said(config, "doctor", "t")

    assert "cannot log in with ***, giving up" in told
    assert "k7Qe1zR9mW8Lp4vT" not in told + kept(tmp_path)


def test_an_answer_is_told_as_it_came_unless_secrets_are_to_be_masked(tmp_path: Path) -> None:
    """What tools answer is for callers; an operator may have credentials taken out, known ones too."""
    server = {"t": telltale("answers")}

    assert CREDENTIAL in said(write_settings(tmp_path, server), "call", "t__look")
    config = write_settings(tmp_path, server, results={"mask_secrets": True})
    assert "cannot log in with ***, giving up" in said(config, "call", "t__look")


@pytest.mark.parametrize("secret", ["prod", "true", "localhost", "/tmp"])  # a folder that is there
def test_what_is_no_credential_stays_in_messages(tmp_path: Path, secret: str) -> None:
    """A short value, a common word, a path that is there: without them nobody could tell what went wrong."""
    config = write_settings(tmp_path, {"t": telltale("dies")})

    assert f"cannot log in with {secret}, giving up" in said(config, "doctor", "t", secret=secret)


@pytest.mark.parametrize("reference", ["${HOME}", "${env:HOME}"])
def test_what_everybody_knows_of_this_machine_stays_in_messages(tmp_path: Path, reference: str) -> None:
    """Whose home it is stands in every path."""
    config = write_settings(tmp_path, {"t": telltale("dies", env={"CREDENTIAL": reference})})

    assert "***" not in said(config, "doctor", "t")


def verbosely(config: Path, secret: str, *words: str) -> str:
    """All that a command writes that tells what happens."""
    head, *rest = words
    env = {**os.environ, "SECRET": secret}
    done = prefork.run(["--verbose", head, "--config", str(config), *rest], env=env, timeout=120)
    return done.stdout + done.stderr


def test_a_log_that_tells_everything_tells_no_credential(tmp_path: Path) -> None:
    """Libraries log the addresses that they ask for: not who logs in there, nor what stands in the query."""
    secret = "k7Qe1zR9mW8Lp4vT"
    with http_server("http") as server:
        host = server.url.partition("://")[2]
        address = f"http://me:${{SECRET}}@{host}?key=${{SECRET}}&other=not-for-the-log"
        config = write_settings(tmp_path, {"t": {"url": address, "headers": {"X-Key": "${SECRET}"}}})

        told = verbosely(config, secret, "doctor", "t")

    assert f"{host}?***" in told
    assert not holds(told, secret)
    assert "not-for-the-log" not in told
