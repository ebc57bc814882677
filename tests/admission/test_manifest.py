"""Reading manifests: all faults at once, one normal form, one hash, and the JSON Schema that agrees."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from tests.admission import evil_reach, evil_shapes
from tests.admission.layers import FILE, POLICY, found, judge

from maitred.admission.manifest import MIB, Manifest, manifest_schema, to_spec
from maitred.admission.manifest_reader import read_manifest
from maitred.admission.review import CHECKS
from maitred.config.settings import Limits
from maitred.model.servers import Cage, OAuth, ServerSpec, Timeouts

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "manifests").glob("*.yml"))
SCHEMA = jsonschema_rs.Draft202012Validator(manifest_schema())
DIGEST = "sha256:" + "a" * 64

FAULTY = """\
nam: x
name: Time
comand: uvx
args: -c
memory: lots
pids: 0
filesystem:
  - path: ../x
    mod: write
timeouts: {start: 1, call_s: soon}
env:
  A: [1]
  "a b": 1
tags: [language:pythn]
transport: ftp
result_tools: maybe
network:
"""


def read(text: str) -> Manifest:
    """A manifest that has no faults."""
    reading = read_manifest(FILE, text)
    assert reading.manifest is not None, reading.findings
    assert not reading.findings
    return reading.manifest


def as_editor_reads(text: str) -> Any:
    """What an editor hands to a JSON Schema."""
    return YAML(typ="safe", pure=True).load(text)


def test_all_faults_of_a_manifest_are_told_at_once_each_with_its_line_and_what_to_do() -> None:
    """File, line, key, reason and fix."""
    told = [str(finding) for finding in read_manifest(FILE, FAULTY).findings]

    assert told == [
        "server.yml:1: nam: is not a known key (did you mean `name`?)",
        "server.yml:2: name: is no name for a server (use a-z and 0-9, words joined by one `-` or `_`)",
        "server.yml:3: comand: is not a known key (did you mean `command`?)",
        "server.yml:4: args: must be a list (write [a, b], or one line with `- ` each)",
        "server.yml:5: memory: is no size (write bytes, or a number with k, m or g such as 512m)",
        "server.yml:6: pids: must be more than 0 (choose a larger number)",
        "server.yml:8: filesystem[0].path: is no absolute path (begin with `/` "
        "and leave out `.`, `..` and empty parts)",
        "server.yml:9: filesystem[0].mod: is not a known key (there are path, mode, at)",
        "server.yml:10: timeouts.call_s: must be a number (write digits, with a point if need be)",
        "server.yml:10: timeouts.start: is not a known key "
        "(there are start_s, list_s, call_s, longest_call_s, idle_stop_s)",
        "server.yml:12: env.A: must be text (write one value, in quotes if need be)",
        "server.yml:13: env.a b: is no name of a variable (use letters, digits and `_`)",
        "server.yml:14: tags[0]: tag 'language:pythn' is not in the vocabulary "
        "(near it: language:python, framework:pytorch)",
        "server.yml:15: transport: must be 'stdio', 'http' or 'container' (choose one of them)",
        "server.yml:16: result_tools: must be true or false (write true or false)",
        "server.yml:17: network: has no value (give it one or leave it out)",
    ]


def test_what_can_be_read_is_looked_at_by_every_layer() -> None:
    """A fault of layer 1 does not hide those of the others."""
    decision = judge("name: evil\nimage: Evil/X\nnetwork: host\nmemory: 99g\nenv: {TOKEN: abc}\npids: many\n")

    assert found(decision) == {
        ("schema", "refuse", "pids"),
        ("allowlist", "refuse", "image"),
        ("network", "refuse", "network"),
        ("resources", "refuse", "memory"),
        ("secrets", "refuse", "env.TOKEN"),
    }
    assert {finding.key: finding.line for finding in decision.findings} == {
        "pids": 6,
        "image": 2,
        "network": 3,
        "memory": 4,
        "env.TOKEN": 5,
    }


@pytest.mark.parametrize(
    "text",
    [
        "image: mcp/time:latest\nname: time\n",
        "# hello\nname: 'time' # there\nimage: docker.io/mcp/time\n",
        "{name: time, image: index.docker.io/mcp/time:latest}",
        '{"name": "time", "image": "mcp/time", "transport": "container"}',
        "name: time\nimage: mcp/time\nmemory: 512m\ncpu: 1.0\npids: 128\nnetwork: none\noutput: 8 MiB",
        "name: time\nimage: mcp/time\nmemory: 0.5g\ncpu: 1\nargs: []\ntimeouts: {}\nresult_tools: false",
        "name: time\nimage: mcp/time\ntitle: ''\ntags: []\nvisibility: {}\nallowed_origins: []",
        "name: &x time\nimage: mcp/time\n",
    ],
)
def test_the_hash_does_not_depend_on_how_a_manifest_is_spelled(text: str) -> None:
    """Comments, the order of keys, defaults, units and the image's spelling do not count."""
    manifest = read(text)

    assert manifest.normal == {"name": "time", "transport": "container", "image": "docker.io/mcp/time:latest"}
    assert manifest.hash == read("name: time\nimage: mcp/time").hash


@pytest.mark.parametrize(
    "change",
    [
        "memory: 1g",
        "cpu: 2",
        "cpu_shares: 2",
        "pids: 64",
        "output: 1m",
        "network: pages",
        "args: [x]",
        "args: ['']",
        "env: {A: b}",
        "filesystem: [{path: /srv/x}]",
        "timeouts: {call_s: 1}",
        "category: data",
        "title: T",
        "description: D",
        "tags: [language:python]",
        "visibility: {facts: {a: 1}}",
        "overrides: {a: {hide: true}}",
        "allowed_origins: ['https://a.example']",
        "result_tools: true",
    ],
)
def test_every_key_counts_for_the_hash(change: str) -> None:
    """An approval does not cover what was changed after it."""
    base = "name: time\nimage: mcp/time\n"

    assert read(base + change).hash != read(base).hash


def test_a_digest_counts_and_the_tag_beside_it_does_not() -> None:
    """An image runs by its digest."""
    hashes = {read(f"name: x\nimage: a/b{tag}@{DIGEST}").hash for tag in ("", ":1", ":latest")}

    assert len(hashes) == 1
    assert read(f"name: x\nimage: a/b@{DIGEST.replace('a', 'b')}").hash not in hashes


def test_the_order_of_arguments_counts_and_that_of_grants_and_tags_does_not() -> None:
    """What means the same is the same."""
    base = "name: x\nimage: a/b\n"
    grants = "filesystem: [{{path: /srv/{}}}, {{path: /srv/{}/}}]"

    assert read(base + "args: [a, b]").hash != read(base + "args: [b, a]").hash
    assert read(base + grants.format("a", "b")).hash == read(base + grants.format("b", "a")).hash
    assert read(base + "tags: [language:python, language:go]").hash == (
        read(base + "tags: [language:go, language:python]").hash
    )


def test_a_size_is_read_in_every_usual_spelling() -> None:
    """Units are powers of 1,024 as in Docker."""
    spelled = {
        "1048576": MIB,
        "1m": MIB,
        "1M": MIB,
        "1MB": MIB,
        "1 MiB": MIB,
        "1024k": MIB,
        "1.5g": 1536 * MIB,
    }

    for text, count in spelled.items():
        assert read(f"name: x\nimage: a/b\nmemory: {text}").memory == count


def test_arguments_reach_the_server_as_they_were_written() -> None:
    """`1.10` is no number here."""
    assert read("name: x\ncommand: y\nargs: [1.10, 0x10, true, 08, ~x]").args == (
        "1.10",
        "0x10",
        "true",
        "08",
        "~x",
    )


def test_a_program_becomes_the_specification_that_the_backends_know() -> None:
    """Time limits that are left out come from the operator's."""
    text = "name: t\ncommand: uvx\nargs: [a]\nenv: {A: b}\ncwd: /srv/x\ntimeouts: {call_s: 5}"

    assert to_spec(read(text), Limits(start_timeout_s=7)) == ServerSpec(
        name="t",
        command="uvx",
        args=("a",),
        env={"A": "b"},
        cwd="/srv/x",
        timeouts=Timeouts(start_s=7, call_s=5),
        registered=True,
        cage=Cage(),
    )


def test_a_url_becomes_the_specification_that_the_backends_know() -> None:
    """With its headers, references unresolved."""
    text = "name: t\nurl: https://a.example/mcp\nheaders: {Authorization: 'Bearer ${T}'}"

    assert to_spec(read(text), Limits()) == ServerSpec(
        name="t",
        transport="http",
        url="https://a.example/mcp",
        headers={"Authorization": "Bearer ${T}"},
        registered=True,
    )


def test_a_container_becomes_a_specification_with_its_image() -> None:
    """A person recognises it by that."""
    assert to_spec(read("name: t\nimage: a/b"), Limits()).target == "a/b"


def test_a_text_that_is_far_too_long_is_a_finding_and_no_exception() -> None:
    """Nothing else of it is read."""
    reading = read_manifest(FILE, "#" * 1_000_000)

    assert reading.manifest is None
    assert [finding.severity for finding in reading.findings] == ["refuse"]
    assert reading.findings[0].file == str(FILE)


# --- examples and the published schema --------------------------------------------------------------------


def test_there_are_examples() -> None:
    """At least eight, one of each transport."""
    transports = {read(path.read_text(encoding="utf-8")).transport for path in EXAMPLES}

    assert len(EXAMPLES) >= 8
    assert transports == {"stdio", "http", "container"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_registers(path: Path) -> None:
    """No layer refuses it, and it fits the schema that editors use."""
    text = path.read_text(encoding="utf-8")

    decision = judge(text)

    assert decision.outcome != "refused", [str(finding) for finding in decision.findings]
    assert [report.layer for report in decision.layers] == [check.layer for check in CHECKS]
    assert list(SCHEMA.iter_errors(as_editor_reads(text))) == []


def test_trusted_examples_are_approved_without_a_person() -> None:
    """A listed command, and a listed image with its digest."""
    outcomes = {path.stem: judge(path.read_text(encoding="utf-8")).outcome for path in EXAMPLES}

    assert {name for name, outcome in outcomes.items() if outcome == "approved"} == {"time", "my-analyzer"}
    assert POLICY.images


# What only a whole file or a neighbouring key gives away, no JSON Schema can see.
_BEYOND = {
    "two grants for one place",
    "a name of maitred",
    "a key given twice",
    "a grant with NUL",
    "a command with NUL",
    "an object of Python",
}


def schema_faults() -> dict[str, str]:
    """The manifests that layer 1 refuses for a key, and that an editor can read at all."""
    both = evil_shapes.EVIL | evil_reach.EVIL
    texts = {name: text for name, (text, told) in both.items() if told.startswith("schema refuse ")}
    return {
        name: text
        for name, text in texts.items()
        if both[name][1] != "schema refuse " and name not in _BEYOND
    }


@pytest.mark.parametrize("threat", schema_faults())
def test_what_layer_1_refuses_the_published_schema_refuses_too(threat: str) -> None:
    """An editor and `maitred register` agree."""
    text = schema_faults()[threat]
    try:
        value = as_editor_reads(text)
    except (YAMLError, ValueError):  # neither can the editor
        return

    assert not SCHEMA.is_valid(json.loads(json.dumps(value, default=str).replace("Infinity", '"inf"')))


def test_the_published_schema_is_a_schema() -> None:
    """JSON Schema of 2020-12, with a description for every key."""
    schema = manifest_schema()

    assert jsonschema_rs.meta.is_valid(schema)
    assert all(own.get("description") for own in schema["properties"].values())
    assert json.loads(json.dumps(schema)) == schema


def test_a_server_that_wants_a_login_has_it_in_its_specification() -> None:
    """The person who approved it logs in with `maitred login`."""
    spec = to_spec(read("name: t\nurl: https://a.example/mcp\nauth: oauth"), Limits())
    assert spec.auth == OAuth()
