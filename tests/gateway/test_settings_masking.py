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


@pytest.mark.parametrize("start", [0, 17, 200])
def test_pieces_are_masked_as_the_whole(start: int) -> None:
    """A piece begins where a section does; values at its edges are whole."""
    document = read_document(Path("m.yaml"), YAML)
    start = YAML.find("\n", start) + 1
    piece = YAML[start:]
    assert shown(YAML).endswith(without_secrets(piece, start, find_secrets(document, YAML))[-400:])
