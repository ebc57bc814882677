"""Resolve references in configuration values when a server starts, and no earlier.

`${VAR}` and `${env:VAR}` read the environment; `${VAR:-default}` has a default for an unset or empty
variable. `${file:PATH}` reads a file without its last newline, `$$` is a dollar sign, and any other dollar
sign is itself. A default may have references and balanced braces. The results are not read again for
references, never stored and never logged: `maitred.config.redaction` learns them.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from maitred.config.redaction import SECRETS

_DOLLAR = re.compile(r"\$\$|\$\{")
_FOREIGN = re.compile(r"\$\{((?:[^{}]|\$\{[^{}]*\})*)\}|\$([A-Za-z_]\w*)|\$(?=[${])")
_BRACE = re.compile(r"[{}]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.()]*")
_EDITOR = re.compile(
    r"(?:input|command|config):.*|/|cwd|userHome|pathSeparator|file|(?:workspace|file|relative)[A-Z].*"
)

Syntax = Literal["none", "braces", "editor", "shell", "secrets", "single-braces"]
"""How a program writes references, and what an unset variable becomes.

`none`: not at all. `braces`: `${VAR}`, which stays if unset. `editor`: `${env:VAR}`, which becomes empty; it
does not know `${VAR}`. `shell`: also `$VAR`, which becomes empty. `secrets`: `${{ secrets.VAR }}`, which the
program keeps for its user. `single-braces`: `{env:VAR}`, which becomes empty, and `{file:PATH}`.
"""
_SECRETS = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_]\w*)\s*\}\}")
_SINGLE_BRACES = re.compile(r"\{(env|file):([^{}]*)\}")


class UnresolvedReferenceError(Exception):
    """A reference names a missing variable or file; the text says which, and what to do.

    `variable` is the name of a variable that is not set; empty for any other fault.
    """

    def __init__(self, reason: str, *, variable: str = "") -> None:
        self.variable = variable
        super().__init__(reason)


def resolve(value: str, environ: Mapping[str, str]) -> str:
    """Replace every reference in `value`.

    Raises:
        UnresolvedReferenceError: A variable without default is unset, a file cannot be read, or the text
            between the braces is not a reference that maitred knows.
    """
    parts = []
    done = 0
    while match := _DOLLAR.search(value, done):
        parts.append(value[done : match.start()])
        if match[0] == "$$":
            parts.append("$")
            done = match.end()
        else:
            done = _closing_brace(value, match.end())
            parts.append(_look_up(value[match.end() : done - 1], environ))
    return "".join([*parts, value[done:]])


def references(value: str) -> list[str]:
    """List what a value needs to be resolved: names of variables without default, and `a file`."""
    names = []
    done = 0
    while match := _DOLLAR.search(value, done):
        done = match.end()
        if match[0] != "$$":
            try:
                done = _closing_brace(value, match.end())
            except UnresolvedReferenceError:
                break
            name = value[match.end() : done - 1]
            if ":-" not in name:
                names.append("a file" if name.startswith("file:") else name.removeprefix("env:"))
    return names


def escape(text: str) -> str:
    """Return the value that `resolve` turns back into `text`, with any dollar signs."""
    return re.sub(r"\$(?=[${])", "$$", text)


@dataclass(frozen=True, kw_only=True)
class ReferenceTranslation:
    """Turns the references of another program into ours, with the same results.

    `places` are variables whose value is known now (empty: known to be meaningless). `on_input` returns the
    text for a value that the program asks its user for. `on_unknown` receives references that stay
    unresolved. `on_unset` receives variables that are not set now, with the program's replacement.
    """

    syntax: Syntax
    environ: Mapping[str, str]
    places: Mapping[str, str]
    on_input: Callable[[str], str]
    on_unknown: Callable[[str], None]
    on_unset: Callable[[str, str], None]

    def __call__(self, text: str, own: Collection[str] = ()) -> str:
        """Translate `text`; `own` are variables of the server itself."""
        if self.syntax == "none":
            return escape(text)
        if self.syntax == "secrets":
            return self._other(_SECRETS, text, lambda match: self.on_input(match[1]))
        if self.syntax == "single-braces":
            return self._other(_SINGLE_BRACES, text, self._single)
        return _FOREIGN.sub(lambda match: self._reference(match[0], match[1], match[2], own), text)

    @staticmethod
    def _other(pattern: re.Pattern[str], text: str, reference: Callable[[re.Match[str]], str]) -> str:
        """Translate the matches of a pattern; every dollar sign between them is itself."""
        parts = []
        done = 0
        for match in pattern.finditer(text):
            parts += [escape(text[done : match.start()]), reference(match)]
            done = match.end()
        return "".join([*parts, escape(text[done:])])

    def _single(self, match: re.Match[str]) -> str:
        if match[1] == "file":
            return f"${{file:{match[2]}}}"
        if not self.environ.get(match[2]):
            self.on_unset(match[2], "")
        return f"${{{match[2]}:-}}"

    def _reference(self, whole: str, braced: str | None, bare: str | None, own: Collection[str]) -> str:
        if bare is not None:
            is_meant = self.syntax == "shell" and (bare in self.environ or bare.isupper())
            return self._as_if_unset(whole, bare) if is_meant and bare not in own else whole
        return "$$" if braced is None else self._reference_in_braces(whole, braced, own)

    def _reference_in_braces(self, whole: str, braced: str, own: Collection[str]) -> str:
        name, has_default, _ = braced.partition(":-")
        if name.startswith("input:"):
            return self.on_input(name.removeprefix("input:"))
        if self.places.get(name):
            return escape(self.places[name])
        if name in own and name not in self.environ:  # as in `mcp-remote`, which fills in its own arguments
            return f"${whole}"
        if name in self.places or not (name.startswith(("env:", "file:")) or _VARIABLE.fullmatch(name)):
            self.on_unknown(whole)
            return whole
        return whole if has_default or name.startswith("file:") else self._as_if_unset(whole, name)

    def _as_if_unset(self, whole: str, name: str) -> str:
        """Return the reference with a default: the program's replacement for an unset variable."""
        variable = name.removeprefix("env:")
        is_known = self.syntax == "shell" or (self.syntax == "editor" and variable != name)
        if not self.environ.get(variable):
            self.on_unset(variable, "" if is_known else whole)
        return f"${{{name}:-{'' if is_known else f'${whole}'}}}"


def resolver(environ: Mapping[str, str]) -> Callable[[str], str]:
    """Return a `resolve` for one environment."""
    return lambda value: resolve(value, environ)


def _closing_brace(value: str, start: int) -> int:
    """Return the offset behind the brace that closes the one before `start`."""
    depth = 1
    for brace in _BRACE.finditer(value, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    raise UnresolvedReferenceError("a `${` is not closed by `}`; write `$${` for the characters themselves")


def _look_up(text: str, environ: Mapping[str, str]) -> str:
    name, separator, default_text = text.partition(":-")
    default = default_text if separator else None
    kind, colon, bare = name.partition(":")
    if colon and kind == "file":
        return _read(bare, default, environ)
    if colon and kind == "env":
        name = bare
    if value := environ.get(name):
        SECRETS.learn(value, name)
        return value
    if default is not None:
        return resolve(default, environ)
    if name in environ:
        return ""
    raise UnresolvedReferenceError(_advice(name), variable=name if _is_variable(name) else "")


def _is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None and not _EDITOR.fullmatch(name)


def _advice(name: str) -> str:
    if _EDITOR.fullmatch(name):
        return f"${{{name}}} is filled in by an editor, not by maitred; write the value itself or a ${{VAR}}"
    if _is_variable(name):
        return f"${{{name}}} is not set; export {name} or write ${{{name}:-default}}"
    return (
        f"${{{name}}} is not a reference; use ${{VAR}}, ${{VAR:-default}}, ${{env:VAR}} or ${{file:PATH}},"
        " and $$ for a dollar sign"
    )


def _read(name: str, default: str | None, environ: Mapping[str, str]) -> str:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, RuntimeError, ValueError) as error:  # no such home, a NUL in the path, not UTF-8
        if default is not None:
            return resolve(default, environ)
        reason = error.strerror if isinstance(error, OSError) else "it is no readable text file"
        raise UnresolvedReferenceError(f"${{file:{name}}} cannot be read: {reason}") from error
    SECRETS.learn(text)
    return text
