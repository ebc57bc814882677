"""Find the secrets that a person wrote into a configuration file, so that it can be shown without them.

A secret is a literal value in `env` or `headers` of a server, one with the name of a secret, or one with the
form of a secret; in comments, too. References such as `${NAME}` are none, but their defaults may be.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from maitred.audit.masking import mask_text
from maitred.config.document import ConfigDocument
from maitred.config.redaction import MASK, names_a_secret, redact, without_queries

_KEY: Final = re.compile(r"(?:^|_)key$", re.IGNORECASE)
_NO_SECRETS: Final = frozenset({"secret_folders", "mask_secrets"})
"""Settings whose names sound like secrets."""
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_SCHEME: Final = re.compile(r"\s*(?:(?:Bearer|Basic|Token|Bot)\s+)?", re.IGNORECASE)
_SWITCH: Final = re.compile(r"true|false|null|~|", re.IGNORECASE)
_SMALL: Final = re.compile(r"yes|no|on|off|-?\d{1,5}", re.IGNORECASE)
_FLAG: Final = re.compile(r"--?([A-Za-z][\w.-]*)")
_NAMED: Final = re.compile(r"""["']?([A-Za-z][\w.-]*)["']?\s*[:=]\s*(?=\S)""")
_COMMENT: Final = re.compile(r"(?:(?:^|(?<=\s))#|(?<!:)//|/\*).*", re.MULTILINE)
_CLOSED: Final = ("env", "headers")
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
    found: dict[int, MaskedSpan] = {}
    for node, shown in _SecretSearch(document.servers_key).below(document.root, ()):
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
    return mask_text(redact(_COMMENT.sub(lambda remark: _without_named(remark[0]), shown)))


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

    def __init__(self, servers_key: str) -> None:
        self._servers_key = servers_key
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
        shown = _without_named(value) if is_of_server else value
        return mask_text(redact(without_queries(shown)))
