"""What a configuration file is shown without: literal secrets, wherever a person wrote them."""

import re
from pathlib import Path

import pytest

from maitred.config.document import read_document
from maitred.gateway.settings_masking import find_secrets, without_secrets

YAML = """\
# api_key: SECRET-comment
servers:
  a:
    command: run
    env: {A: SECRET-env, B: "SECRET-quoted", C: 'SECRET-single', D: "${D:-SECRET-default}"}
    args: [--token, SECRET-arg, "--api-key=SECRET-flag", -e, PASS_TOKEN=SECRET-pair]
    url: https://me:SECRET-user@host.example/x?key=SECRET-query
    headers:
      Authorization: Bearer SECRET-bearer
      X-Lines: |
        SECRET-line1
        SECRET-line2
      X-Folded: SECRET-one
        SECRET-two
    auth: {client_id: open, client_secret: SECRET-client}
    # headers: {Authorization: Bearer SECRET-remark}
  b: {command: run, env: &shared {X: SECRET-anchored}}
  c: {command: run, env: {<<: *shared, Y: SECRET-merged}}
  d: {command: run, env: *alias}
mediation: {api_key: SECRET-api, url: "https://host/v1"}
search:
  embedder_key: SECRET-embedder
  reranker_key: "SECRET-reranker"
use_cases: {key: SECRET-use}
held_calls: {webhook_key: SECRET-hook}
http: {token: SECRET-token}
catalog: {url: "postgresql://me:SECRET-database@db/m?password=SECRET-parameter"}
tools: {a: {t: {use_cases: [ghp_SECRETabcdefghijklmnopqrstuvwxyz0123]}}}
""".replace("env: *alias", "env: {Z: SECRET-last}")


def shown(text: str, name: str = "maitred.yaml") -> str:
    document = read_document(Path(name), text)
    return without_secrets(text, 0, find_secrets(document, text))


def test_no_literal_secret_is_shown() -> None:
    assert re.findall(r"\S*SECRET\S*", shown(YAML)) == []


def test_no_literal_secret_of_a_clients_file_is_shown() -> None:
    text = """{"mcpServers": {"a": {"command": "x", "env": {"A": "SECRET-env"}, // token: SECRET-remark
      "args": ["--password", "SECRET-arg"], "headers": {"X": "SECRET-header"}, /* api_key=SECRET-block */
      "url": "https://h.example/?t=SECRET-query",},}, "http": {"token": "SECRET-http"}}"""
    assert re.findall(r"\S*SECRET\S*", shown(text, "mcp.json")) == []


def test_what_follows_a_secret_stays() -> None:
    text = 'servers: {a: {url: "https://h.example/x", headers: {Authorization: Bearer SECRET}}}  # far\n'
    assert shown(text) == text.replace("SECRET", "***")


def test_references_and_what_is_no_secret_stay_as_they_are() -> None:
    text = """\
# What the team uses; ask Ann (tokens: see below).
servers:
  a:
    command: "uvx"   # installed by pipx
    args: [mcp-server, --verbose, "--port=80"]
    env: {API_KEY: "${API_KEY}", F: '${file:~/.key}', DEBUG: true, PORT: 8080, NONE:}
    headers: {Authorization: "Bearer ${TOKEN}"}
  far: {url: "https://far.example/mcp", headers: {Authorization: 'Bearer ${TOKEN}'}}
  env: {command: x}
results: {mask_secrets: true, max_tokens: 9000}
admission: {secret_folders: [/run/secrets], references: [API_*]}
categories: {secrets: {title: Secrets, words: [password, token]}}
"""
    assert shown(text) == text


@pytest.mark.parametrize(
    "address",
    [
        "https://hooks.slack.example/services/T0SECRET24/B0SECRET77Q/SECRETabcdefghijklmnopqr",
        "https://mcp.example/s/SECRET-4f1c9a7b2d3e4f60/mcp",
        "https://discord.example/api/webhooks/123456/aSECRETb1-C2dEfGhIjKlMnOp",
        "https://api.example/bot/SECRETxq7k2m9v4/send?x=1",
        "https://mcp.example/SECRETe2f0a1c4-93b5-4d1e-8a77-5f2c9d01be34/sse",
    ],
)
def test_a_secret_in_the_path_of_an_address_is_not_shown(address: str) -> None:
    """In the address of a server, in an argument, in that of messages, and in a remark."""
    text = f"""\
servers:
  far: {{url: "{address}"}}
  near: {{command: npx, args: [mcp-remote, "{address}"]}}
# it was {address}
held_calls: {{webhook: "{address}"}}
"""
    read = shown(text)
    assert "SECRET" not in read
    assert read.count("example/") == 4


def test_the_path_of_a_plain_address_is_shown() -> None:
    text = """\
servers:
  a: {url: "https://api.githubcopilot.example/mcp/v1/read-only/2024-11-05"}
  b: {url: "https://host.example/organizations/acme_tools/servers/issue-tracker.v2/sse"}
  c: {url: "https://host.example/${TENANT_OF_THE_TEAM}/mcp", command: "/usr/lib/server-everything-2024x"}
"""
    assert shown(text) == text


def test_what_other_programs_keep_in_a_clients_file_is_not_shown() -> None:
    """Whatever its name is; small values and switches stay, and so do our own sections."""
    text = """{"mcpServers": {"a": {"command": "x"}}, "account": {"mail": "SECRET-mail", "n": 5, "on": true},
      "projects": {"/home": {"mcpServers": {"b": {"env": {"FOO": "SECRET"}}}}}, "last": ["SECRET-word"],
      "disclosure": {"mode": "menu"}}"""
    read = shown(text, "claude.json")
    assert "SECRET" not in read
    assert '"n": 5, "on": true' in read
    assert '"disclosure": {"mode": "menu"}' in read
    asked = '"inputs": [{"id": "key", "type": "promptString", "default": "SECRET"}]'
    code = f'{{"servers": {{"a": {{"command": "x"}}}}, {asked}}}'
    assert shown(code, "mcp.json") == code.replace('"SECRET"', "***")


def test_an_entry_that_is_commented_out_is_not_shown() -> None:
    """In its block, with its block, with its server, behind a value, and in a client's file."""
    text = """\
servers:
  a:
    command: run
    env:
      SHOWN: "${SHOWN}"
      # shop_name: SECRET-in-block
      #- other: SECRET-in-block
    args: [x]   # SHOP_NAME=SECRET-behind
    # env: {shop: SECRET-flow}
    # headers:
    #   X-Shop: SECRET-below
    # TODO: write more
  # b:
  #   command: run
  #   env:
  #     shop_name: SECRET-of-server
  #     DEBUG: true
  #   args: [shown]
# SHOP_NAME: SECRET-alone
disclosure:
  # MODE: shown
  mode: menu
"""
    read = shown(text)
    assert "SECRET" not in read
    for line in ("# TODO: write more", "#     DEBUG: true", "#   args: [shown]", "# MODE: shown"):
        assert f"{line}\n" in read
    client = """{"mcpServers": {"a": {"command": "x",
      "env": {
        // "SHOP": "SECRET-remark",
        "A": "${A}"
      }
    }}}"""
    assert "SECRET" not in shown(client, "mcp.json")


@pytest.mark.parametrize(
    "remark",
    [
        "the token: see the manual",
        "the token: …",
        "each token: counted in o200k words",
        "of the password: none",
    ],
)
def test_prose_about_a_secret_is_shown(remark: str) -> None:
    text = f"disclosure:\n  # {remark}\n  mode: menu\n"
    assert shown(text) == text


@pytest.mark.parametrize(
    "remark",
    [
        "my token: SECRETword",
        "the password: hunter2SECRET for ann",
        "token: SECRET of ann",
        "--token SECRET1x=y1",
    ],
)
def test_a_secret_in_prose_is_not(remark: str) -> None:
    assert "SECRET" not in shown(f"disclosure:\n  # {remark}\n  mode: menu\n")


@pytest.mark.parametrize("start", [0, 17, 200])
def test_pieces_are_masked_as_the_whole(start: int) -> None:
    """A piece begins where a section does; values at its edges are whole."""
    document = read_document(Path("m.yaml"), YAML)
    start = YAML.find("\n", start) + 1
    piece = YAML[start:]
    assert shown(YAML).endswith(without_secrets(piece, start, find_secrets(document, YAML))[-400:])
