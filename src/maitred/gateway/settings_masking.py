"""Find the secrets that a person wrote into a configuration file, so that it can be shown without them.

A secret is a literal value in `env` or `headers` of a server, one with the name of a secret, or one with the
form of a secret; in comments, too, and in the path of an address. Of a client's file, also what other
programs keep beside the servers is not shown. References such as `${NAME}` are no secrets, but their defaults
may be.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from maitred.audit.masking import mask_text
from maitred.config.document import ConfigDocument
from maitred.config.redaction import MASK, names_a_secret, redact, without_queries
from maitred.gateway.settings_sections import RULES

_KEY: Final = re.compile(r"(?:^|_)key$", re.IGNORECASE)
_NO_SECRETS: Final = frozenset({"secret_folders", "mask_secrets"})
"""Settings whose names sound like secrets."""
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_SCHEME: Final = re.compile(r"\s*(?:(?:Bearer|Basic|Token|Bot)\s+)?", re.IGNORECASE)
_SWITCH: Final = re.compile(r"true|false|null|~|", re.IGNORECASE)
_SMALL: Final = re.compile(r"yes|no|on|off|-?\d{1,5}", re.IGNORECASE)
_FLAG: Final = re.compile(r"--?([A-Za-z][\w.-]*)")
_FLAGGED: Final = re.compile(r"""(?<![\w-])--([A-Za-z][\w.-]*)["']?[\s,]+["']?(?=\S)""")
_NAMED: Final = re.compile(r"""["']?([A-Za-z][\w.-]*)["']?\s*[:=]\s*(?=\S)""")
_COMMENT: Final = re.compile(r"(?:(?:^|(?<=\s))#|(?<!:)//|/\*).*", re.MULTILINE)
_CLOSED: Final = ("env", "headers")
_ADDRESS_PATH: Final = re.compile(r"(?<=://)([^\s\"'<>`/?#]*)(/[^\s\"'<>`?#]*)")
_SEGMENT: Final = re.compile(r"[^/${}]+")
_PIECE: Final = re.compile(r"[A-Za-z0-9+=~%]+")
_LEAST_MIXED: Final = 10
"""Characters from which letters with digits, in the path of an address, are taken for a secret."""
_LEAST_LONG: Final = 20
"""Characters from which any piece of it is: no word is so long."""
_LEAST_SAID: Final = 6
"""Characters of the shortest word that a remark such as "my token: word" may give away."""
_LINE: Final = re.compile(r"(?P<head>[ \t]*(?P<remark>(?:#|//)[#/ \t]*)?(?:- +)?)(?P<content>.*)")
_OPENER: Final = re.compile(r"""["']?(?:env|headers)["']?\s*[:=]\s*""", re.IGNORECASE)
_ENTRY: Final = re.compile(r"""["']?[\w.-]+["']?\s*[:=]\s*(?=\S)""")
_VARIABLE: Final = re.compile(r"""[\s#/*]*(?:- +)?["']?([A-Z][A-Z0-9_]+)["']?\s*[:=]\s*(?=\S)""")
_NO_VARIABLES: Final = frozenset({"FIXME", "NB", "NOTE", "TODO", "XXX"})
_DEPTH: Final = 3
"""How deep `env` of a server is: below the servers, and below its name."""
_MERGE: Final = "tag:yaml.org,2002:merge"


class MaskedSpan(NamedTuple):
    """A part of a text, from `start` up to `end`, with what is shown in its place."""

    start: int
    end: int
    shown: str


def find_secrets(document: ConfigDocument, text: str) -> Sequence[MaskedSpan]:
    """The values of a file that are not shown, in their order."""
    found = {span.start: span for span in _secrets_of_remarks(document, text)}
    for node, shown in _SecretSearch(document).below(document.root, ()):
        start, end = int(node.start_mark.index), int(node.end_mark.index)
        tail = "\n" if text[start:end].endswith("\n") else ""
        found[start] = MaskedSpan(start, end, shown + tail)
    return sorted(found.values())


def without_secrets(text: str, start: int, spans: Sequence[MaskedSpan]) -> str:
    """A piece of a file, which begins at `start`, without its secrets."""
    parts, done = [], 0
    for span in spans:
        if start <= span.start and span.end <= start + len(text) and span.start - start >= done:
            parts += [text[done : span.start - start], span.shown]
            done = span.end - start
    shown = "".join([*parts, text[done:]])
    shown = _COMMENT.sub(lambda remark: _without_said(remark[0]), shown)
    return _without_secret_paths(mask_text(redact(shown)))


def _without_secret_paths(text: str) -> str:
    """A text whose addresses have no secret in their paths, such as that of a webhook."""

    def path(found: re.Match[str]) -> str:
        return found[1] + _SEGMENT.sub(lambda one: MASK if _is_random(one[0]) else one[0], found[2])

    return _ADDRESS_PATH.sub(path, text) if "://" in text else text


def _is_random(segment: str) -> bool:
    """Whether a part of a path looks as if a program had made it."""
    pieces = _PIECE.findall(segment)
    return any(_is_mixed(piece) or len(piece) >= _LEAST_LONG for piece in pieces)


def _is_mixed(word: str) -> bool:
    return len(word) >= _LEAST_MIXED and any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def _secrets_of_remarks(document: ConfigDocument, text: str) -> Iterator[MaskedSpan]:
    """The values of entries of `env` and `headers` that are commented out, with their block or alone.

    A name in capitals is that of a variable wherever a remark about servers has it.
    """
    first, last = _servers_at(document, text)
    block: _ClosedBlock | None = None
    at = 0
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        found = _LINE.match(line)
        if found is None or not found["content"].strip():
            continue
        is_remark, column = bool(found["remark"]), len(found["head"])
        if block and not block.has(column, is_remark=is_remark):
            block = None
        value = _variable_of(line) if first <= start < last else 0
        if is_remark and block and (entry := _ENTRY.match(line, column)):
            value = entry.end()
        if opener := _OPENER.match(line, column):
            block = _ClosedBlock(is_remark=is_remark, column=column)
            value = opener.end() if is_remark else value
        if value and (span := _span_of_value(line, start, value)):
            yield span


class _ClosedBlock(NamedTuple):
    """An `env` or `headers` with its indentation, and whether it is commented out."""

    is_remark: bool
    column: int

    def has(self, column: int, *, is_remark: bool) -> bool:
        """Whether a line at a column belongs to it."""
        if self.is_remark:
            return is_remark and column > self.column
        return is_remark or column > self.column


def _variable_of(line: str) -> int:
    """Where the value of a variable begins that a remark in the line has; 0 if there is none."""
    remark = _COMMENT.search(line)
    found = _VARIABLE.match(line, remark.start()) if remark else None
    return found.end() if found and found[1] not in _NO_VARIABLES else 0


def _span_of_value(line: str, start: int, value: int) -> MaskedSpan | None:
    """What is shown of a value up to the end of its line; `None` if it has no secret."""
    literal = line[value:].rstrip()
    bare = literal.strip("\"',")
    if not bare or _SWITCH.fullmatch(bare) or _SMALL.fullmatch(bare):
        return None
    shown = _without_literals(literal)
    return MaskedSpan(start + value, start + value + len(literal), shown) if shown != literal else None


def _servers_at(document: ConfigDocument, text: str) -> tuple[int, int]:
    """Where the servers are in the text; all of it is, if it is the file of a client."""
    if document.is_foreign:
        return 0, len(text)
    pairs = document.root.value if isinstance(document.root, MappingNode) else ()
    spans = [(k.start_mark.index, v.end_mark.index) for k, v in pairs if k.value == document.servers_key]
    return spans[0] if spans else (0, 0)


def _without_said(remark: str) -> str:
    """A remark without the value of what is named like a secret; prose ("the token: see below") stays."""
    if flag := next((one for one in _FLAGGED.finditer(remark) if _is_secret_name(one[1])), None):
        value = remark[flag.end() :]
        if len(value.split()[0].strip("\"'.,;)]")) >= _LEAST_SAID:
            return remark[: flag.end()] + _without_literals(value)
    for found in _NAMED.finditer(remark):
        if not _is_secret_name(found[1]):
            continue
        before, value = remark[: found.start()], remark[found.end() :]
        is_prose = any(map(str.isalpha, before)) and not before.rstrip().endswith(("-", "{", ",", "("))
        if not is_prose or _gives_away(value.split()):
            return remark[: found.end()] + _without_literals(value)
    return remark


def _gives_away(words: Sequence[str]) -> bool:
    """Whether what follows the name of a secret in prose may be its value: one word, or a mixture."""
    is_alone = len(words) == 1 and len(words[0].strip("\"'.,;)")) >= _LEAST_SAID
    return is_alone or any(len(word) >= _LEAST_SAID and _has_digit_and_letter(word) for word in words)


def _has_digit_and_letter(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def _is_of_client(keys: tuple[str, ...], servers_key: str) -> bool:
    """Whether a value of a client's file is kept there by another program; of `inputs`, the defaults are."""
    if not keys or keys[0] == servers_key or keys[0] in RULES:
        return False
    return keys[0] != "inputs" or keys[-1] == "default"


def _is_secret_name(name: str) -> bool:
    return name not in _NO_SECRETS and (names_a_secret(name) or _KEY.search(name) is not None)


def _without_literals(value: str) -> str:
    """A value without its literal parts: references stay, and the word for the kind of a credential."""
    parts, done = [], 0
    for found in _REFERENCE.finditer(value):
        name, has_default, _ = found[1].partition(":-")
        parts += [_literal(value[done : found.start()]), f"${{{name}:-{MASK}}}" if has_default else found[0]]
        done = found.end()
    return "".join([*parts, _literal(value[done:])])


def _literal(text: str) -> str:
    """A text between references: the word before a credential, and the rest masked."""
    kind = _SCHEME.match(text)
    head = kind[0] if kind else ""
    return head + (MASK if text[len(head) :].strip() else text[len(head) :])


def _without_named(text: str) -> str:
    """A text whose end is masked after the first name of a secret, as in `--token=x` or `API_KEY: x`."""
    for found in _NAMED.finditer(text):
        if _is_secret_name(found[1]):
            return text[: found.end()] + _without_literals(text[found.end() :])
    return text


class _SecretSearch:
    """Walks through the nodes of a file; an alias is walked through wherever it is used."""

    def __init__(self, document: ConfigDocument) -> None:
        self._servers_key = document.servers_key
        self._is_foreign = document.is_foreign
        self._above: list[int] = []

    def below(self, node: Node | None, keys: tuple[str, ...]) -> Iterator[tuple[ScalarNode, str]]:
        """The secrets below a node at these keys, each with what is shown in its place."""
        if node is None or id(node) in self._above:
            return
        self._above.append(id(node))
        if isinstance(node, MappingNode):
            for key, value in node.value:
                yield from self.below(value, keys if key.tag == _MERGE else (*keys, str(key.value)))
        elif isinstance(node, SequenceNode):
            yield from self._items(node, keys)
        elif isinstance(node, ScalarNode):
            shown = self._shown(node.value, keys)
            if shown != node.value:
                yield node, shown
        self._above.pop()

    def _items(self, node: SequenceNode, keys: tuple[str, ...]) -> Iterator[tuple[ScalarNode, str]]:
        """The secrets in a list, in which a word such as `--token` says what the next one is."""
        flag = ""
        for item in node.value:
            if isinstance(item, ScalarNode) and flag and not item.value.startswith("-"):
                shown = _without_literals(item.value)
                if shown != item.value:
                    yield item, shown
                flag = ""
                continue
            yield from self.below(item, keys)
            found = _FLAG.fullmatch(item.value) if isinstance(item, ScalarNode) else None
            flag = found[1] if found and _is_secret_name(found[1]) else ""

    def _shown(self, value: str, keys: tuple[str, ...]) -> str:
        """What is shown of a value."""
        is_of_server = keys[:1] == (self._servers_key,)
        if keys and _is_secret_name(keys[-1]):
            return value if _SWITCH.fullmatch(value) else _without_literals(value)
        if is_of_server and len(keys) > _DEPTH and keys[_DEPTH - 1] in _CLOSED:
            return value if _SWITCH.fullmatch(value) or _SMALL.fullmatch(value) else _without_literals(value)
        if self._is_foreign and _is_of_client(keys, self._servers_key):
            return value if _SWITCH.fullmatch(value) or _SMALL.fullmatch(value) else _without_literals(value)
        shown = _without_named(value) if is_of_server else value
        return _without_secret_paths(mask_text(redact(without_queries(shown))))
