"""Put a server into the text of a JSON file with comments, or take it out, and change nothing else.

It works on the text, in one pass: the state file of a client may have many megabytes. The caller has checked
that the text is valid but for comments and trailing commas.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from maitred.config.clients.files import UnusableError
from maitred.config.document import as_json

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\r\n]*|/\*.*?\*/|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL)
_REMARK: Final = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/[ \t]*(?=[\r\n]))")
_LINE_END: Final = re.compile(r"[ \t]*(?:\r?\n)?")
_INDENT: Final = "  "


@dataclass(kw_only=True)
class _Member:
    """One pair of an object, by offsets; `comma` is -1 if none follows."""

    start: int
    value: int = -1
    end: int = -1
    comma: int = -1


@dataclass(kw_only=True)
class _Object:
    """An object: the offsets of its braces, and its members."""

    start: int
    end: int = -1
    members: dict[str, _Member] = field(default_factory=dict)


class JsonText:
    """The text of a file, and the objects on the way to its servers."""

    def __init__(self, text: str, keys: Sequence[str]) -> None:
        self._text = text
        self._keys = keys
        self._newline = "\r\n" if "\r\n" in text else "\n"
        first = next((match for match in _TOKEN.finditer(text) if match[0][0] != "/"), None)
        self._path: list[_Object] = []
        at = first.start() if first else None
        for key in (*keys, None):
            if at is None or text[at] != "{":
                break
            self._path.append(_scan(text, at))
            member = self._path[-1].members.get(key) if key is not None else None
            at = member.value if member else None

    def with_server(self, name: str, entry: Any) -> str:
        """The text with a server, behind the others; one of this name is replaced."""
        path = (*self._keys, name)
        if not self._path:
            gap = self._newline if self._text.strip() and not self._text.endswith("\n") else ""
            text = f"{self._text}{gap}{as_json(_nest(path, entry), _INDENT)}\n"
            return text.replace("\r\n", "\n").replace("\n", self._newline) if gap or "\r" in text else text
        inner, depth = self._path[-1], len(self._path) - 1
        key, value = path[depth], _nest(path[depth + 1 :], entry)
        member = inner.members.get(key)
        if member is None:
            return self._insert(inner, key, value)
        indent = self._own_indent(member.start)
        text = as_json(value, None if indent is None else self._unit())
        text = text.replace("\n", self._newline + (indent or ""))
        return self._text[: member.value] + text + self._text[member.end :]

    def without_servers(self, names: Collection[str]) -> str:
        """The text without servers; a comment behind one on its line goes with it."""
        *others, last = self._path[-1].members
        cuts = [cut for name in others if name in names for cut in self._cuts(name)]
        at, pieces = 0, []
        for start, end in cuts:
            pieces.append(self._text[at:start])
            at = max(at, end)
        text = "".join([*pieces, self._text[at:]])
        if last not in names:
            return text
        rest = JsonText(text, self._keys)
        return rest._without(rest._cuts(last))

    def _without(self, cuts: Sequence[tuple[int, int]]) -> str:
        text = self._text
        for start, end in reversed(cuts):
            text = text[:start] + text[end:]
        return text

    def _cuts(self, name: str) -> Sequence[tuple[int, int]]:
        """The places of a server and of what leaves with it, in their order."""
        text, servers = self._text, self._path[-1]
        count = len(servers.members)
        member = servers.members[name]
        start, end = member.start, member.end if member.comma < 0 else member.comma + 1
        cuts = []
        if member.comma < 0 and count > 1:
            before = list(servers.members.values())[-2].comma
            cuts.append((before, before + 1))
        if self._own_indent(start) is not None:
            remark = _REMARK.match(text, end)
            end = remark.end() if remark else end
            rest = _LINE_END.match(text, end)
            if rest and rest[0].endswith("\n"):
                start, end = text.rfind("\n", 0, start) + 1, rest.end()
        cuts.append((start, end + (count > 1 and member.comma >= 0 and text[end : end + 1] == " ")))
        if count == 1 and not (text[servers.start + 1 : start] + text[end : servers.end]).strip():
            cuts = [(servers.start + 1, servers.end)]
        return cuts

    def _own_indent(self, at: int) -> str | None:
        """The white space before an offset, if there is nothing else before it on its line."""
        line = self._text.rfind("\n", 0, at) + 1
        return None if not line or self._text[line:at].strip() else self._text[line:at]

    def _unit(self) -> str:
        root = self._path[0]
        first = next(iter(root.members.values()), None)
        return (self._own_indent(first.start) if first else None) or _INDENT

    def _member(self, name: str, value: Any, indent: str | None) -> str:
        if indent is None:
            return f"{as_json(name)}: {as_json(value)}"
        return f"{as_json(name)}: {as_json(value, self._unit())}".replace("\n", self._newline + indent)

    def _insert(self, inner: _Object, name: str, value: Any) -> str:
        text = self._text
        if not inner.members:
            return self._insert_first(inner, name, value)
        last = list(inner.members.values())[-1]
        indent = self._own_indent(next(iter(inner.members.values())).start)
        is_trailing = last.comma >= 0
        at = last.comma + 1 if is_trailing else last.end
        member = self._member(name, value, indent)
        if indent is None:
            return f"{text[:at]}{' ' if is_trailing else ', '}{member}{text[at:]}"
        remark = _REMARK.match(text, at)
        tail = remark.end() if remark else at
        before, after = ("", ",") if is_trailing else (",", "")
        return f"{text[:at]}{before}{text[at:tail]}{self._newline}{indent}{member}{after}{text[tail:]}"

    def _insert_first(self, inner: _Object, name: str, value: Any) -> str:
        text = self._text
        inside = text[inner.start + 1 : inner.end].rstrip()
        head, tail = text[: inner.start + 1] + inside, text[inner.end :]
        if "\n" not in text.strip():
            return f"{head}{self._member(name, value, None)}{tail}"
        line = text[text.rfind("\n", 0, inner.start) + 1 : inner.start]
        outer = line[: len(line) - len(line.lstrip())]
        indent = outer + self._unit()
        return f"{head}{self._newline}{indent}{self._member(name, value, indent)}{self._newline}{outer}{tail}"


def _scan(text: str, start: int) -> _Object:
    """Find the members of the object at an offset.

    Raises:
        UnusableError: It has a key twice, of which programs read either.
    """
    found = _Object(start=start)
    depth = 0
    member: _Member | None = None
    for match in _TOKEN.finditer(text, start):
        sign = match[0][0]
        if sign == "/":
            continue
        depth -= sign in "}]"
        if depth == 0 and sign == "}":
            found.end = match.start()
            return found
        if depth == 1:
            member = _next_member(found, member, match)
        depth += sign in "{["
    raise UnusableError("an object is not closed")


def _next_member(found: _Object, member: _Member | None, match: re.Match[str]) -> _Member | None:
    """Take one sign at the depth of the members; returns the member that goes on behind it."""
    if member is None:
        name = json.loads(match[0], strict=False)
        if name in found.members:
            raise UnusableError(f"has the key `{name}` twice; take one out")
        found.members[name] = _Member(start=match.start())
        return found.members[name]
    if match[0] == ",":
        member.comma = match.start()
        return None
    if match[0] != ":":
        member.value = match.start() if member.value < 0 else member.value
        member.end = match.end()
    return member


def _nest(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value
