"""One server as a page prints it for a client's file: pasted JSON becomes an entry of ours.

Unlike an import it refuses what it does not know, since the user is there to correct it. References such as
`${KEY}` stay as they are, and mean a variable here, too.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from maitred.config.clients.discovery import HARMLESS, is_maitred, is_sse_address, variable_of_input
from maitred.config.clients.files import UnusableError, as_object, parse_content
from maitred.config.clients.table import known_clients
from maitred.config.load import entry_faults, server_kinds
from maitred.errors import ConfigError
from maitred.model.transports import default_kind, named_kind
from maitred.wording import quote_input

_OUR_NAMES: Final = {
    "httpUrl": "url",
    "serverUrl": "url",
    "http_headers": "headers",
    "environment": "env",
    "type": "transport",
}
_INPUT: Final = re.compile(r"\$\{input:([^{}]+)\}")
_KINDS_OF_COMMAND: Final = ("local", "command")
_TIMEOUT: Final = (
    "clients mean different things by it; write `start_timeout_s` or `call_timeout_s`, in seconds"
)


def read_json_entry(name: str, text: str) -> tuple[dict[str, Any], list[str]]:
    """An entry of ours for the server in a text, and what was changed in it.

    Raises:
        ConfigError: The text is not JSON, has not exactly one such server, or the server has faults.
    """
    try:
        raw = _server_in(name, parse_content("JSON", text))
        entry, notes = _converted(raw)
    except UnusableError as error:
        raise ConfigError(f"the JSON of {name!r}", [str(error)]) from None
    faults = [fault.removeprefix(f"servers.{name}").lstrip(".: ") for fault in entry_faults(name, entry)]
    if "timeout" in entry:
        faults = [f"timeout: {_TIMEOUT}" if fault.startswith("timeout:") else fault for fault in faults]
    if not faults and is_maitred(entry, name):
        faults = ["this is maitred itself"]
    if faults:
        raise ConfigError(f"the JSON of {name!r}", faults)
    return entry, notes


def _server_in(name: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The server itself, out of the file of a client, out of a mapping of names, or as it is."""
    servers: Mapping[str, Any] = data
    for key in dict.fromkeys(client.key for client in known_clients()):
        inner: Any = data
        for part in key.split("."):
            inner = inner.get(part) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and not _is_server(data):
            servers = inner
            break
    if _is_server(servers) or not all(isinstance(one, dict) for one in servers.values()):
        return servers
    if name in servers:
        return as_object(servers[name], f"`{name}`")
    if len(servers) == 1:
        return as_object(next(iter(servers.values())), "the server")
    there = (
        f"has the servers {', '.join(map(quote_input, servers))}; NAME must be one"
        if servers
        else "has no server"
    )
    raise UnusableError(there)


def _is_server(data: Mapping[str, Any]) -> bool:
    return any(isinstance(data.get(key), str | list) for key in ("command", "url", "httpUrl", "serverUrl"))


def _converted(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []
    left_out = [key for key in raw if HARMLESS.fullmatch(key)]
    if left_out:
        notes.append(f"left out, as it is about a client: {', '.join(left_out)}")
    entry: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in left_out and (name := _OUR_NAMES.get(key, key)) in entry:
            raise UnusableError(f"has two keys that mean `{name}`; leave one of them out")
        entry |= {} if key in left_out else {name: value}
    if isinstance(command := entry.get("command"), list):
        words, args = [str(word) for word in command] or [""], entry.get("args") or []
        entry |= {"command": words[0], "args": [*words[1:], *args] if isinstance(args, list) else args}
    entry |= _transport(entry)
    if not entry.get("transport"):
        entry.pop("transport", None)
    for key in ("env", "headers"):
        if key in entry:
            entry[key] = {
                one: _text(value, notes) for one, value in as_object(entry[key], f"`{key}`").items()
            }
    if isinstance(args := entry.get("args"), list):
        entry["args"] = [_text(one, notes) for one in args]
    if entry.pop("disabled", False) is True or entry.get("enabled") is False:
        entry["enabled"] = False
        notes.append("it is switched off, as the JSON says; `maitred enable` switches it on")
    else:
        entry.pop("enabled", None)
    return {key: value for key, value in entry.items() if value not in (None, {}, [], "")}, notes


def _transport(entry: Mapping[str, Any]) -> dict[str, str]:
    """The transport, if it is not the one that an entry without it has."""
    url, kind = str(entry.get("url") or ""), str(entry.get("transport") or "")
    if kind in _KINDS_OF_COMMAND and entry.get("command"):
        return {"transport": ""}
    meant = named_kind(server_kinds(), kind)
    if not kind:
        return {"transport": "sse"} if is_sse_address(url) else {}
    if meant is None:
        return {"transport": kind}
    usual = default_kind(server_kinds(), "url" if url else "command", url)
    return {"transport": "" if meant == usual else meant.name}


def _text(value: Any, notes: list[str]) -> str:
    """A value as text; what a client would ask its user for becomes a variable."""
    if not isinstance(value, str | int | float):
        raise UnusableError("a value that must be text is not text")
    text = str(value).lower() if isinstance(value, bool) else str(value)

    def variable(match: re.Match[str]) -> str:
        name = variable_of_input(match[1])
        notes.append(f"a client asks for {match[1]!r}; set the variable {name} instead")
        return f"${{{name}}}"

    return _INPUT.sub(variable, text)
