"""Put a server into the text of a YAML file, or take it out, and change nothing else.

The servers are a mapping (Goose) or a list of mappings with names (Continue).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from maitred.config.clients.files import UnusableError
from maitred.config.document import as_json
from maitred.config.edit import Layout, as_yaml, line_end, value_end

_PATH: Final = Path("client.yaml")
_INDENT: Final = 2


def with_server(text: str, key: str, name: str, entry: Mapping[str, Any], *, is_list: bool) -> str:
    """The text with a server, behind the others; there is none of this name."""
    if not is_list:
        return Layout(_PATH, text, (key,)).with_entry(name, entry)
    newline = "\r\n" if "\r\n" in text else "\n"
    item = {"name": name, **entry}
    node = _servers(text, key)
    if isinstance(node, SequenceNode) and node.flow_style and node.value:
        at = value_end(node.value[-1])
        return f"{text[:at]}, {as_json(item)}{text[at:]}"
    if isinstance(node, SequenceNode) and not node.flow_style:
        column, at = node.start_mark.column, line_end(text, value_end(node))
    else:
        column = _INDENT
        if node is None:
            text = f"{text}{'' if text.endswith(chr(10)) or not text else newline}{key}:{newline}"
            at = len(text)
        elif isinstance(node, ScalarNode) or not node.value:  # `null`, `[]` or `{}`
            head = text[: node.start_mark.index].rstrip(" ")
            text = head + text[node.end_mark.index :]
            at = line_end(text, len(head))
        else:
            raise UnusableError(f"`{key}` must be a list")
    first, *rest = as_yaml(item)
    lines = [f"- {first}", *(f"  {line}" for line in rest)]
    block = "".join(f"{' ' * column}{line}{newline}" for line in lines)
    gap = "" if text[at - 1 : at] in ("", "\n") else newline
    return text[:at] + gap + block + text[at:]


def without_server(text: str, key: str, name: str, *, is_list: bool) -> str:
    """The text without a server."""
    if not is_list:
        return Layout(_PATH, text, (key,)).without_entry(name)
    key_node, node = _pair(text, key)
    items = node.value
    index = next(number for number, item in enumerate(items) if _name(item) == name)
    item = items[index]
    if node.flow_style:
        first, last = (items[index - 1], item) if index else (item, items[1] if len(items) > 1 else item)
        start = value_end(first) if index else item.start_mark.index
        end = value_end(item) if index or len(items) == 1 else last.start_mark.index
        return text[:start] + text[end:]
    dash = text.rfind("-", 0, item.start_mark.index)
    start, end = text.rfind("\n", 0, dash) + 1, line_end(text, value_end(item))
    if text[start:dash].strip():
        raise UnusableError("its layout does not allow this change alone; edit it by hand")
    if len(items) > 1:
        return text[:start] + text[end:]
    behind = text.index(":", key_node.end_mark.index) + 1  # comments behind and below the key stay
    return f"{text[:behind]} []{text[behind:start]}{text[end:]}"


def _servers(text: str, key: str) -> Any:
    return _pair(text, key)[1]


def _pair(text: str, key: str) -> tuple[Any, Any]:
    """The nodes of a key and of its value; `None` for both if the text has no such key."""
    root = YAML(typ="safe", pure=True).compose(text)
    pairs = root.value if isinstance(root, MappingNode) else []
    return next(((name, value) for name, value in pairs if name.value == key), (None, None))


def _name(item: Any) -> str:
    pairs = item.value if isinstance(item, MappingNode) else []
    return next((str(value.value) for name, value in pairs if name.value == "name"), "")
