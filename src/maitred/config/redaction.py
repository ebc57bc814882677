"""Credentials that this process knows, and their removal from texts.

Code that resolves a reference teaches its value to this module. Code that shows, logs or stores a server's
text redacts it here first. The process has one collection, as it has one log: another server may return the
value of one server. The values are only in memory. Redaction finds a value as it is, in the usual encodings,
cut off, or broken over lines.
"""

import base64
import json
import os
import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MASK: Final = "***"
SHORTEST: Final = 6
"""Characters of the shortest value to replace; to replace shorter ones would damage all texts."""

_MOST_VALUES: Final = 1_000
_MOST_LINES: Final = 100
"""Lines of a value that count separately; a key has 60."""

_LONGEST: Final = 8_192
_LEAST_LINE: Final = 12
_MAX_DEPTH: Final = 60
_SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase)?$|pwd$|secret|token$|api_?key|access_?key|private_?key|credential|authorization"
    r"|^auth$|cookie|session_?id$|(^|_)pin$|(^|_)otp$|connection_?string|dsn$",
    re.IGNORECASE,
)
_OPEN_NAMES: Final = frozenset({
    "HOME", "USER", "LOGNAME", "USERNAME", "HOSTNAME", "PATH", "PWD", "OLDPWD", "SHELL", "TERM", "LANG",
    "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "EDITOR", "DISPLAY", "VIRTUAL_ENV", "userHome",
})  # fmt: skip
_OPEN_PREFIXES: Final = ("LC_", "XDG_")
_WORDS: Final = frozenset({
    "enabled", "disabled", "default", "undefined", "localhost", "127.0.0.1", "0.0.0.0", "production",  # noqa: S104  # a word
    "development", "staging", "testing", "warning", "verbose", "password", "secret", "username", "public",
    "private",
})  # fmt: skip
_DATABASES: Final = frozenset({"postgresql", "postgres"})
_ESCAPED: Final = re.compile("%[0-9A-F]{2}")
_FLAG: Final = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_LEAST_HALF: Final = 8
_AROUND_CUT: Final = " \t.…\"'`()[]{}<>,;"
_IN_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_DROPPED_AT_END: Final = (0, 3, 2)
_USER: Final = re.compile(r"(?<=://)[^\s/?#@\"'<>]{1,200}(?=@)")
_QUERY: Final = re.compile(r"(://[^\s?#\"'<>]*[?#])[^\s\"'<>]+")


def names_a_secret(name: str) -> bool:
    """Return whether a name, such as `apiKey` or `DB_PASSWORD`, is the name of a credential."""
    return _SECRET_NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\s.-]+", "_", name)) is not None


class Secrets:
    """The known credentials, the last 1,000 of them, and their removal from texts."""

    def __init__(self) -> None:
        self._values: dict[str, Collection[str]] = {}
        self._ends: _Ends | None = _Ends(())
        self._lock = threading.Lock()

    # Learning.

    def learn(self, value: str, name: str = "") -> None:
        """Know a value from now on; `name` is the name of its variable or header.

        It ignores values of fewer than six characters, common words and paths of this machine. It also
        ignores variables that describe the machine or its user, such as `HOME`.
        """
        if name in _OPEN_NAMES or name.startswith(_OPEN_PREFIXES):
            return
        value = value.strip()
        with self._lock:
            known_forms = self._values.pop(value, None)
            forms = known_forms or {form for part in _parts(value) for form in _forms(part)}
            if forms:
                self._values[value] = forms
            if forms and not known_forms:
                self._ends = None
            if len(self._values) > _MOST_VALUES:
                del self._values[next(iter(self._values))]  # the one that was resolved longest ago

    def learn_named(self, values: Mapping[str, str]) -> None:
        """Know those values, such as variables or headers, that have the name of a secret."""
        for name, value in values.items():
            if names_a_secret(name):
                self.learn(value)
                self.learn(value.rpartition(" ")[2])  # without `Bearer`

    def learn_launch(self, words: Sequence[str], values: Mapping[str, str]) -> None:
        """Know the credentials in a command line, such as `--token x` or `--api-key=x`, and in variables."""
        self.learn_named(values)
        flag = None
        for word in words:
            if flag is not None and flag[2] is None and not word.startswith("-"):
                self.learn_named({flag[1]: word})
            flag = _FLAG.fullmatch(word)
            if flag is not None and flag[2] is not None:
                self.learn_named({flag[1]: flag[2]})

    def learn_address(self, url: str, headers: Mapping[str, str]) -> None:
        """Know the credentials in an address and in headers, by their names."""
        self.learn_named(headers)
        try:
            parts = urlsplit(url)
            self.learn(unquote(parts.password or ""))
            self.learn_named(dict(parse_qsl(parts.query)))
        except ValueError:  # not an address; the connection attempt will report it
            return

    def forget(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values, self._ends = {}, _Ends(())

    def _known_forms(self) -> "_Ends":
        """Return all forms of all values; computed at the first use, since values arrive in groups."""
        with self._lock:
            if self._ends is None:
                forms_of_all = {form for forms in self._values.values() for form in forms}
                self._ends = _Ends(sorted(forms_of_all, key=len, reverse=True))
            return self._ends

    # Replacing.

    def redact(self, text: str) -> str:
        """Replace each known value in a text by `***`, in any form or cut."""
        forms = self._known_forms()
        if not forms.forms or len(text) < SHORTEST:
            return text
        for form in forms.forms:
            if form in text:
                text = text.replace(form, MASK)
        for form in forms.forms:
            text = _without_halves(text, form)
        lines = text.split("\n")
        redacted_lines = [forms.redact(line) for line in lines]
        return text if redacted_lines == lines else "\n".join(redacted_lines)

    def redact_json(self, value: Any, depth: int = 0) -> Any:
        """Redact all texts of a JSON value; values that are nested too deep are replaced as a whole."""
        if isinstance(value, str):
            return self.redact(value)
        if depth > _MAX_DEPTH:
            return MASK
        if isinstance(value, Mapping):
            return {self.redact(str(key)): self.redact_json(item, depth + 1) for key, item in value.items()}
        return [self.redact_json(item, depth + 1) for item in value] if isinstance(value, list) else value


def without_queries(text: str) -> str:
    """Remove user, query and fragment of URLs in a text, for logs of libraries."""
    return _QUERY.sub(rf"\1{MASK}", _USER.sub(MASK, text)) if "://" in text else text


def _parts(value: str) -> Iterator[str]:
    """Yield a value and its parts that may appear alone: its lines, and the credentials in an address."""
    lines = [line for line in map(str.strip, value.splitlines()) if len(line) >= _LEAST_LINE][:_MOST_LINES]
    in_address = _credentials_of_address(value) if "://" in value else ()
    for part in (value, *lines, *in_address):
        if _is_worth(part):
            yield part[:_LONGEST]


def _credentials_of_address(address: str) -> Sequence[str]:
    try:
        parts = urlsplit(address)
        password, query = unquote(parts.password or ""), parse_qsl(parts.query)
        if parts.scheme in _DATABASES:  # the rest is names and settings, such as sslmode=require
            return [password, *(text for name, text in query if names_a_secret(name))]
        inside = [password, *(text for _, text in query)]
        return [*inside, *(one for one in parts.path.split("/") if len(one) >= _LEAST_LINE)]
    except ValueError:
        return ()


def _is_worth(value: str) -> bool:
    if len(value) < SHORTEST or value.casefold() in _WORDS:
        return False
    return not (value.startswith("/") and os.path.exists(value))  # noqa: PTH110  # raises nothing


def _forms(value: str) -> set[str]:
    """Return the forms in which a value may be written."""
    data = value.encode("utf-8", "surrogateescape" if _is_of_bytes(value) else "replace")
    in_json = json.dumps(value)[1:-1]
    in_url = {quote(data, safe=""), quote(data), quote_plus(data), quote(data, safe="~()*!'")}
    forms = {
        value,
        *in_url,
        *(_ESCAPED.sub(lambda code: code[0].lower(), one) for one in in_url),
        in_json,
        json.dumps(value, ensure_ascii=False)[1:-1],
        in_json.replace("/", "\\/"),
        json.dumps(in_json)[1:-1],
        repr(value)[1:-1],
        value.translate(_IN_HTML),
        *_in_base64(data),
        data.hex(),
    }
    return {form for form in forms if len(form) >= SHORTEST}


def _is_of_bytes(value: str) -> bool:
    """Return whether every odd character of it represents a byte, as in variables of the environment."""
    return not any("\ud800" <= c <= "\udfff" and not "\udc80" <= c <= "\udcff" for c in value)


def _in_base64(data: bytes) -> Iterator[str]:
    """Yield the base64 of data, complete, and the part that is the same with any bytes around it."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(data).decode()
        for before in range(3):
            text = encode(b"\0" * before + data).decode()
            end = len(text) - _DROPPED_AT_END[(before + len(data)) % 3]
            if len(core := text[before + (before > 0) : end]) > SHORTEST:
                yield core


# Values that were cut.


def _without_halves(text: str, form: str) -> str:
    """Remove the longer part of a cut value, anywhere in the text."""
    half = (len(form) + 1) // 2
    if half < _LEAST_HALF:
        return text
    pieces, after = [], 0
    while (at := text.find(form[:half], after)) >= 0:
        end = at + half
        while text[end : end + 1] and form.startswith(text[at : end + 1]):
            end += 1
        pieces += [text[after:at], MASK]
        after = end
    text = "".join([*pieces, text[after:]])
    pieces, after = [], 0
    while (at := text.find(form[-half:], after)) >= 0:
        end = at + half
        while at > after and form.endswith(text[at - 1 : end]):
            at -= 1
        pieces += [text[after:at], MASK]
        after = end
    return "".join([*pieces, text[after:]])


class _Ends:
    """Finds beginnings and ends of values at the ends of lines."""

    def __init__(self, forms: Sequence[str]) -> None:
        self.forms = forms
        self._heads: dict[str, list[str]] = defaultdict(list)
        self._tails: dict[str, list[str]] = defaultdict(list)
        for form in forms:
            self._heads[form[:SHORTEST]].append(form)
            self._tails[form[-SHORTEST:]].append(form)

    def redact(self, line: str) -> str:
        """Redact the beginning of a value at a line's end, the end of one at its beginning, or a piece."""
        bare = line.strip(_AROUND_CUT)
        if len(bare) < SHORTEST:
            return line
        if len(bare) >= _LEAST_LINE and any(bare in form for form in self.forms):
            return line.replace(bare, MASK)
        start = line.index(bare)
        before, after = line[:start], line[start + len(bare) :]
        for at in range(max(0, len(bare) - _LONGEST), len(bare) - SHORTEST + 1):
            heads = self._heads.get(bare[at : at + SHORTEST], ())
            if any(form.startswith(bare[at:]) for form in heads):
                bare = bare[:at] + MASK
                break
        for end in range(min(len(bare), _LONGEST), SHORTEST - 1, -1):
            tails = self._tails.get(bare[end - SHORTEST : end], ())
            if any(form.endswith(bare[:end]) for form in tails):
                bare = MASK + bare[end:]
                break
        return before + bare + after


SECRETS: Final = Secrets()
"""The credentials of this process."""


def redact(text: str) -> str:
    """Remove the credentials of this process from a text."""
    return SECRETS.redact(text)
