"""`maitred.config.load`: what a configuration file may say, and how its faults are told."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.config.document import strict_json
from maitred.config.load import catalog_path, entry_faults, load, parse, server_kinds
from maitred.config.paths import default_path
from maitred.config.settings import Limits, Settings
from maitred.errors import ConfigError
from maitred.model.servers import ServerSpec, Timeouts
from maitred.wording import one_of

TRANSPORTS = one_of([kind.name for kind in server_kinds()])
BY_URL = one_of([kind.name for kind in server_kinds() if kind.key == "url"])

YAML = Path("maitred.yaml")
JSON = Path("mcp.json")
COMMAND_OR_URL = "needs either `command` (a program to start) or `url` (a server to reach), and not both"
NAME = "line 2: servers.a.env.A=B: is not a name that an environment variable can have"
NUL = "holds NUL or half of a surrogate pair, which cannot be passed on"
UNKNOWN = "is not a known key; did you mean"


def faults_of(path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(path, text)
    return caught.value.faults


def test_a_server_is_read_with_every_key_it_may_have() -> None:
    text = """
servers:
  files:
    command: npx
    args: [-y, "@scope/files", /data]
    env: {ROOT: /data, TOKEN: "${TOKEN}"}
    cwd: /srv
    era: handshake
    enabled: false
    start_timeout_s: 5
    call_timeout_s: 1.5
  remote:
    url: https://example.com/mcp
    headers: {Authorization: "Bearer ${TOKEN}"}
    transport: sse
limits: {list_timeout_s: 7}
"""
    servers = parse(YAML, text).servers
    assert servers["files"] == ServerSpec(
        name="files",
        command="npx",
        args=("-y", "@scope/files", "/data"),
        env={"ROOT": "/data", "TOKEN": "${TOKEN}"},
        cwd="/srv",
        era="handshake",
        enabled=False,
        timeouts=Timeouts(start_s=5.0, list_s=7.0, call_s=1.5),
    )
    assert servers["remote"].transport == "sse"
    assert servers["remote"].headers == {"Authorization": "Bearer ${TOKEN}"}


@pytest.mark.parametrize("value", ["1.10", "007", "0x1F", "1e3", "2020-01-01", "true", "off", "1_000"])
def test_what_looks_like_a_number_or_a_date_reaches_the_server_as_it_was_written(value: str) -> None:
    spec = parse(
        YAML, f"servers:\n  a:\n    command: x\n    args: [{value}]\n    env:\n      V: {value}\n"
    ).servers["a"]
    assert (spec.args, spec.env) == ((value,), {"V": value})


def test_all_faults_of_a_file_are_told_at_once_in_the_order_of_their_lines() -> None:
    text = """\
servers:
  a:
    command: [x]
    args: -y
    env: {N: , M: {}}
  b: {command: x, url: "https://example.com"}
  c: {url: ftp://example.com, transport: stdio}
  d: {command: x, transport: pigeon}
  e: {command: x, enabled: perhaps, start_timeout_s: 0}
  f: just text
limits:
  call_timeout_s: soon
  max_pages: 1.5
  max_tools: 0
disclosure: {mode: some}
"""
    assert faults_of(YAML, text) == (
        "line 3: servers.a.command: must be text",
        "line 4: servers.a.args: must be a list",
        "line 5: servers.a.env.M: must be text",
        "line 5: servers.a.env.N: must be text",
        f"line 6: servers.b: {COMMAND_OR_URL}",
        "line 7: servers.c.transport: stdio does not fit; a server with `command` is stdio, one with `url` is"
        f" {BY_URL}",
        "line 7: servers.c.url: must start with http:// or https://",
        f"line 8: servers.d.transport: 'pigeon' is not a transport; use {TRANSPORTS}",
        "line 9: servers.e.enabled: must be true or false",
        "line 9: servers.e.start_timeout_s: must be more than 0",
        "line 10: servers.f: must be a mapping of keys to values",
        "line 12: limits.call_timeout_s: must be a number",
        "line 13: limits.max_pages: must be a whole number",
        "line 14: limits.max_tools: must be at least 1",
        "line 15: disclosure.mode: must be 'auto', 'menu', 'all' or 'categories'",
    )


@pytest.mark.parametrize("more", ["", ", pages: {allow: [https://app.example]}", ", url: ws://host"])
def test_a_wrong_name_of_a_transport_is_one_fault(more: str) -> None:
    """What else a server needs depends on the transport, so nothing is said of that."""
    text = f"servers:\n  web: {{transport: page{more}}}\n"
    fault = f"line 2: servers.web.transport: 'page' is not a transport; use {TRANSPORTS}"
    assert faults_of(YAML, text) == (fault,)


def test_every_key_that_is_for_servers_of_another_transport_is_named_with_its_line() -> None:
    """A key that does nothing is a mistake of the operator. Source: docs/configuration.md, servers."""
    text = """\
servers:
  program:
    command: x
    headers: {Authorization: secret}
  address:
    url: https://example.com/mcp
    args: [-y]
    env: {A: b}
    cwd: /srv
  stream: {url: "https://example.com/sse", transport: sse, args: [a]}
  silent: {command: x, headers: {}, url: }
"""
    for_programs, for_addresses = "it is for stdio: leave it out", "it is for http or sse: leave it out"
    assert faults_of(YAML, text) == (
        f"line 4: servers.program.headers: does not fit the transport stdio; {for_addresses}",
        f"line 7: servers.address.args: does not fit the transport http; {for_programs}",
        f"line 8: servers.address.env: does not fit the transport http; {for_programs}",
        f"line 9: servers.address.cwd: does not fit the transport http; {for_programs}",
        f"line 10: servers.stream.args: does not fit the transport sse; {for_programs}",
    )


def test_a_fault_of_one_key_hides_no_fault_of_another_key_of_the_server() -> None:
    """An operator corrects a file once, not once for each fault."""
    text = """\
servers:
  a: {command: x, transport: pigeon, enabled: perhaps, comand: y, env: {A=B: c}}
  b: {command: x, headers: {A: b}, start: never, auth: oauth}
  c: {command: x, url: "https://example.com", start: never}
  d: {url: [x], transport: pigeon, auth: oauth, args: [a]}
  e: {comand: x, auth: oauth}
"""
    own_login = "is for servers with `url`; a program gets its credentials by `env`"
    assert faults_of(YAML, text) == (
        "line 2: servers.a.comand: is not a known key; did you mean `command`?",
        "line 2: servers.a.enabled: must be true or false",
        NAME,
        f"line 2: servers.a.transport: 'pigeon' is not a transport; use {TRANSPORTS}",
        f"line 3: servers.b.auth: {own_login}",
        "line 3: servers.b.headers: does not fit the transport stdio; it is for http or sse: leave it out",
        "line 3: servers.b.start: must be 'on_demand' or 'always'",
        "line 4: servers.c.start: must be 'on_demand' or 'always'",
        f"line 4: servers.c: {COMMAND_OR_URL}",
        f"line 5: servers.d.transport: 'pigeon' is not a transport; use {TRANSPORTS}",
        "line 5: servers.d.url: must be text",
        "line 6: servers.e.comand: is not a known key; did you mean `command`?",
    )


def test_keys_of_another_transport_in_the_json_of_a_client_are_ignored() -> None:
    """The file is the client's, which accepts them: such entries are common. Source: docs/import.md."""
    text = """{"mcpServers": {
  "a": {"type": "http", "url": "https://example.com/mcp", "args": ["x"], "env": {"A": "b"}, "timeout": 5},
  "b": {"type": "stdio", "command": "x", "headers": {"A": "b"}, "disabled": false}
}}"""
    servers = parse(JSON, text).servers
    assert (servers["a"].transport, servers["b"].transport) == ("http", "stdio")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("server:\n  a: {command: x}\n", f"line 1: server: {UNKNOWN} `servers`?"),
        ("limits: {call_timeout: 3}\n", f"line 1: limits.call_timeout: {UNKNOWN} `call_timeout_s`?"),
        ("zebra: 1\n", "line 1: zebra: is not a known key; `maitred docs configuration` lists them all"),
        ("servers:\n  a: {command: x, comand: y}\n", f"line 2: servers.a.comand: {UNKNOWN} `command`?"),
        ("servers: [a]\n", "line 1: servers: must be a mapping of server names to servers"),
        ("limits: 3\n", "line 1: limits: must be a mapping of keys to values"),
        ("servers:\n  ' ': {command: x}\n", "line 2: servers. : a server needs a name"),
        ("servers:\n  a: {command: x, args: [a, [b]]}\n", "line 2: servers.a.args[1]: must be text"),
        ("servers:\n  a: {command: x, env: {'A=B': c}}\n", NAME),
        ("servers:\n  a: {command: !shell x}\n", "line 2: the tag !shell means nothing here"),
        ('servers:\n  a: {command: "x\\0"}\n', f"line 2: {NUL}"),
        ("? [a]\n: 1\n", "line 1: a key must be text"),
    ],
)  # fmt: skip
def test_a_fault_names_its_line_its_key_and_what_to_do(text: str, fault: str) -> None:
    assert fault in faults_of(YAML, text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("servers:\n\ta: 1\n", "line 2: a tab cannot indent YAML; use spaces"),
        ("servers: 'x\n", "line 2: while scanning a quoted scalar: found unexpected end of stream"),
        ("a: \x01\n", "line 1: holds a control character that YAML does not allow"),
        ("servers: *x\n", "line 1: found undefined alias 'x'"),
        ("- a\n", "the top level must be a mapping with `servers` or `mcpServers`"),
        ("[" * 3000, "is nested too deeply"),
        (
            "servers: {}\n---\nservers: {}\n",
            "line 2: expected a single document in the stream: but found another document",
        ),
    ],
)
def test_broken_yaml_is_told_in_one_line(text: str, fault: str) -> None:
    assert faults_of(YAML, text) == (fault,)


def test_every_key_that_is_given_twice_is_told_without_its_values() -> None:
    text = "servers:\n  a: {command: x}\n  a:\n    command: y\n    env:\n      K: secret\n      K: hidden\n"
    faults = faults_of(YAML, text)
    assert faults == (
        "line 3: a: is given twice, first in line 2",
        "line 7: K: is given twice, first in line 6",
    )


def test_sections_and_keys_without_value_count_as_not_given() -> None:
    settings = parse(YAML, "servers:\n  a:\n    command: x\n    args:\n    env:\nlimits:\n")
    assert settings.servers["a"].args == ()
    assert settings.limits == Limits()
    for text in ("", "# nothing yet\n", "servers:\n"):
        assert parse(YAML, text) == Settings(source=YAML)


def test_anchors_and_merge_keys_work_between_servers() -> None:
    text = "servers:\n  a: &base {command: x, env: {K: v}}\n  b: {<<: *base, command: y}\n"
    servers = parse(YAML, text).servers
    assert (servers["b"].command, servers["b"].env) == ("y", {"K": "v"})


def test_a_value_that_refers_to_itself_is_a_fault_and_no_endless_loop() -> None:
    assert faults_of(YAML, "servers:\n  a: {command: x, args: &me [*me]}\n") == (
        "line 2: servers.a.args[0]: must be text",
    )


def test_the_json_of_a_client_is_read_and_the_keys_of_the_client_are_ignored() -> None:
    text = """{
\t// a comment, and a tab before it
\t"theme": "dark",
\t"mcpServers": {
\t\t"a": {"type": "stdio", "command": "x", "args": ["http://h//p", "/* no */"], "alwaysAllow": ["t"]},
\t\t"b": {"serverUrl": "https://example.com/mcp", "headers": {"K": null, "L": 1}, "disabled": true,},
\t},
}"""
    servers = parse(JSON, text).servers
    assert servers["a"].args == ("http://h//p", "/* no */")
    assert (servers["b"].url, servers["b"].headers, servers["b"].enabled) == (
        "https://example.com/mcp",
        {"L": "1"},
        False,
    )


def test_the_mcp_json_of_vs_code_is_known_by_its_inputs() -> None:
    text = '{"inputs": [], "servers": {"a": {"type": "http", "url": "https://example.com", "gallery": true}}}'
    assert parse(JSON, text).servers["a"].transport == "http"


def test_json_faults_have_lines_too() -> None:
    text = """{
  "mcpServers": {
    "a": {
      "args": "x"
    },
    "a": {"command": "x"},
    "b": {}
  },
  "servers": {}
}"""
    assert faults_of(JSON, text) == (
        "line 6: a: is given twice, first in line 3",
        f"line 7: mcpServers.b: {COMMAND_OR_URL}",
        "line 9: servers: is not allowed beside `mcpServers`; keep one of the two",
    )
    assert faults_of(JSON, '{\n  "mcpServers": nothing\n}') == ("line 2: is not valid JSON: Expecting value",)


def test_a_character_that_json_escapes_in_two_halves_is_read_as_one() -> None:
    text = json.dumps({"mcpServers": {"a": {"command": "x", "args": ["\N{GRINNING FACE}"]}}})
    assert parse(JSON, text).servers["a"].args == ("\N{GRINNING FACE}",)
    assert faults_of(JSON, text.replace("\\ude00", ""))[0].startswith(
        "line 1: holds NUL or half of a surrogate pair"
    )


def test_a_byte_order_mark_does_not_matter() -> None:
    assert "a" in parse(JSON, '\ufeff{"mcpServers": {"a": {"command": "x"}}}').servers
    assert "a" in parse(YAML, "\ufeffservers: {a: {command: x}}").servers


def test_a_file_that_cannot_be_read_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"servers: {a: {command: caf\xe9}}")
    for path, word in (
        (tmp_path / "no.yaml", "maitred import"),
        (tmp_path, "cannot"),
        (tmp_path / "latin.yaml", "UTF-8"),
    ):
        with pytest.raises(ConfigError, match=word):
            load(path)


def test_the_file_is_looked_for_in_the_environment_and_never_in_the_working_directory() -> None:
    assert default_path({"MAITRED_CONFIG": "~/m.yaml"}) == Path.home() / "m.yaml"
    assert default_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/maitred/maitred.yaml")
    assert default_path({}) == Path.home() / ".config" / "maitred" / "maitred.yaml"


def test_each_configuration_file_has_a_catalog_of_its_own() -> None:
    environ = {"XDG_STATE_HOME": "/state"}
    paths = {
        catalog_path(Settings(source=Path(name)), environ) for name in ("/a/maitred.yaml", "/b/maitred.yaml")
    }
    assert len(paths) == 2
    assert all(path.parent == Path("/state/maitred") for path in paths)
    relative = parse(Path("/etc/maitred.yaml"), "catalog: {path: c.db}")
    assert catalog_path(relative, environ) == Path("/etc/c.db")


def test_an_entry_can_be_checked_before_it_stands_in_a_file() -> None:
    assert entry_faults("a", {"command": "x", "enabled": False}) == []
    assert entry_faults("a", {"args": 3}) == ["servers.a.args: must be a list"]


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from(["//", "/*", "*/", '"', "\\", ",}", "http://x//y", "\\\"//"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
GAPS = st.sampled_from(["", " ", "\n", "\t", '// a, b: "c\n', '/* ,] " */', "/**/ // }\n", "\r\n"])


@st.composite
def commented_json(draw: st.DrawFn) -> tuple[Any, str]:
    """A value, and JSON for it with comments and trailing commas wherever they may stand."""

    def write(value: Any) -> str:
        gap = draw(GAPS)
        if isinstance(value, list):
            parts, ends = [write(item) for item in value], "[]"
        elif isinstance(value, dict):
            parts = [
                f"{draw(GAPS)}{json.dumps(key)}{draw(GAPS)}:{write(item)}" for key, item in value.items()
            ]
            ends = "{}"
        else:
            return f"{gap}{json.dumps(value, ensure_ascii=draw(st.booleans()))}{draw(GAPS)}"
        trailing = "," + draw(GAPS) if bool(parts) and draw(st.booleans()) else ""
        return f"{gap}{ends[0]}{','.join(parts)}{trailing}{gap}{ends[1]}{draw(GAPS)}"

    value = draw(JSON_VALUES)
    return value, write(value)


@given(commented_json())
def test_comments_and_trailing_commas_change_neither_values_nor_offsets(sample: tuple[Any, str]) -> None:
    value, text = sample
    plain = strict_json(text)
    assert json.loads(plain) == value
    assert [m for m in plain if m in "\r\n"] == [m for m in text if m in "\r\n"]
    assert len(plain) == len(text)


@given(JSON_VALUES)
def test_strict_json_stays_as_it_is(value: Any) -> None:
    for indent in (None, 2):
        text = json.dumps(value, indent=indent)
        assert strict_json(text) == text


def test_many_comments_are_read_in_reasonable_time() -> None:
    assert json.loads(strict_json("[1, " + "/* y */ " * 20_000 + "2]")) == [1, 2]


@given(st.sampled_from([YAML, JSON]), JSON_VALUES | st.dictionaries(st.just("servers"), JSON_VALUES))
def test_any_json_value_is_either_settings_or_a_list_of_faults(path: Path, value: Any) -> None:
    try:
        outcome: object = parse(path, json.dumps(value))
    except ConfigError as error:
        outcome = error.faults
    assert outcome


@given(st.text(alphabet="ab:-{}[]&*!|>'\"#\n \t,?%@`", max_size=60))
def test_any_text_is_either_settings_or_a_list_of_faults(text: str) -> None:
    for path in (YAML, JSON):
        with contextlib.suppress(ConfigError):
            assert parse(path, text).source == path
