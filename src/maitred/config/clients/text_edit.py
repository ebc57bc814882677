"""Change the servers in the text of a client's file: everything else stays, character by character.

The new text is read again before it is used: it must have the intended servers, and all else unchanged.
"""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog

from maitred.config.clients import toml_text, yaml_text
from maitred.config.clients.files import Form, UnusableError, form_of, parse_content, unknown_layout
from maitred.config.clients.json_text import JsonText
from maitred.config.clients.table import KnownClient
from maitred.errors import ConfigError

log = structlog.get_logger(__name__)

Servers = Mapping[str, Any]


class ClientText:
    """The text of a file in which a client has its servers.

    Raises:
        UnusableError: The text is not valid, or its servers are no mapping (or no list, for some clients).
    """

    def __init__(self, client: KnownClient, path: Path, text: str) -> None:
        self.text = text
        self._client = client
        self._form: Form = form_of(path)
        self._data = parse_content(self._form, text)
        self.servers = self._servers_of(self._data)

    def changed(self, put: Servers, out: Iterable[str]) -> str:
        """The text with the servers `put`, behind the others, and without those in `out`.

        Raises:
            UnusableError: The layout does not allow it.
        """
        text = self.text
        gone = [name for name in (*out, *put) if name in self.servers]
        is_replaced = [name for name in put if name in self.servers and self._form == "JSON"]
        try:
            leaving = {name for name in gone if name not in is_replaced}
            if leaving and self._form == "JSON":
                text = JsonText(text, [self._client.key]).without_servers(leaving)
                leaving = set()
            for name in gone:
                if name in leaving:
                    text = self._without(text, name)
            for name, entry in put.items():
                text = self._with(text, name, entry)
        except ConfigError as error:
            raise UnusableError("; ".join(error.faults)) from error
        except UnusableError:
            raise
        except Exception as error:  # one client must not keep the others away
            log.info(
                "the text of a client's file could not be changed", client=self._client.id, exc_info=True
            )
            raise UnusableError(unknown_layout(error)) from error
        self._verify(text, {**{k: v for k, v in self.servers.items() if k not in gone}, **put})
        return text

    def _with(self, text: str, name: str, entry: Any) -> str:
        key = self._client.key
        if self._form == "JSON":
            return JsonText(text, [key]).with_server(name, entry)
        if not text.strip() and self._client.head:
            text = "".join(f"{word}: {value}\n" for word, value in self._client.head.items())
        if self._form == "TOML":
            return toml_text.with_server(text, key, name, entry)
        return yaml_text.with_server(text, key, name, entry, is_list=self._client.is_list)

    def _without(self, text: str, name: str) -> str:
        key = self._client.key
        if self._form == "TOML":
            return toml_text.without_server(text, key, name)
        return yaml_text.without_server(text, key, name, is_list=self._client.is_list)

    def _servers_of(self, data: Mapping[str, Any]) -> dict[str, Any]:
        key, value = self._client.key, data.get(self._client.key)
        if value is None:
            return {}
        if not self._client.is_list:
            if not isinstance(value, dict):
                raise UnusableError(f"`{key}` must be an object")
            return {str(name): entry for name, entry in value.items()}
        if not isinstance(value, list) or not all(isinstance(one, dict) and "name" in one for one in value):
            raise UnusableError(f"`{key}` must be a list of servers with names")
        servers = {str(one["name"]): {k: v for k, v in one.items() if k != "name"} for one in value}
        if len(servers) < len(value):
            raise UnusableError(f"`{key}` has two servers of one name")
        return servers

    def _verify(self, text: str, servers: Mapping[str, Any]) -> None:
        """Check that the new text has these servers, and nothing else has changed."""
        key = self._client.key
        expected = copy.deepcopy(self._data)
        if not self.text.strip():
            expected = dict(self._client.head)
        expected.pop(key, None)
        try:
            found = parse_content(self._form, text)
            is_same = self._servers_of(found) == servers
        except UnusableError:
            is_same, found = False, {}
        found.pop(key, None)
        if not is_same or found != expected:
            raise UnusableError("its layout does not allow this change alone; edit it by hand")
