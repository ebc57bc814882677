"""Resolve references in configuration values when a server starts, and no earlier.

`${VAR}` and `${env:VAR}` read the environment; `${VAR:-default}` has a default for an unset or empty
variable. `${file:PATH}` reads a file without its last newline, `${keyring:NAME}` a secret of the keyring, and
`${command:WORDS}` what an allowed command prints. `$$` is a dollar sign, and any other dollar sign is itself.
A default may have references. Results are not read again for references, never stored and never logged.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, Literal

from maitred.config.redaction import SECRETS
from maitred.config.secret_commands import COMMANDS, SecretCommandError
from maitred.config.secret_store import SecretStore, SecretStoreError

_DOLLAR = re.compile(r"\$\$|\$\{")
_FOREIGN = re.compile(r"\$\{((?:[^{}]|\$\{[^{}]*\})*)\}|\$([A-Za-z_]\w*)|\$(?=[${])")
_BRACE = re.compile(r"[{}]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.()]*")
_WITHOUT_NAMES: Final = {
    "file": "a file",
    "keyring": "a secret of the keyring",
    "command": "a secret that a command prints",
}
"""Kinds of references whose names are not for callers, with what is said instead."""
_EDITOR = re.compile(
    r"(?:input|config):.*|/|cwd|userHome|pathSeparator|file|(?:workspace|file|relative)[A-Z].*"
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


@dataclass(frozen=True, kw_only=True)
class ReferenceRights:
    """Which references the author of a text may use beside variables and files.

    `commands` are the programs that `${command:...}` may run, none by default. `owner` is the name of a
    server from a manifest: its texts may use the secrets below this name only, and no command.
    """

    commands: Sequence[str] = ()
    owner: str = ""

    def check_secret(self, name: str) -> None:
        """Refuse the secret of another server to a server from a manifest.

        Raises:
            UnresolvedReferenceError: The text may not use it.
        """
        if self.owner and not name.startswith(f"{self.owner}/"):
            raise UnresolvedReferenceError(
                f"${{keyring:{name}}} is not for this server, whose own begin with {self.owner}/"
            )


_OPERATOR: Final = ReferenceRights()


def resolve(value: str, environ: Mapping[str, str], rights: ReferenceRights = _OPERATOR) -> str:
    """Replace every reference in `value`. A secret of the keyring or of a command may take long.

    Raises:
        UnresolvedReferenceError: A variable without default is unset, a file or a secret cannot be read, or
            the text between the braces is not a reference that maitred knows.
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
            parts.append(_look_up(value[match.end() : done - 1], environ, rights))
    return "".join([*parts, value[done:]])


def references(value: str) -> list[str]:
    """List what a value needs to be resolved: names of variables without default, or what it is otherwise."""
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
                kind, _, _ = name.partition(":")
                names.append(_WITHOUT_NAMES.get(kind) or name.removeprefix("env:"))
    return names


def names_in(value: str, kind: Literal["env", "keyring"]) -> Iterator[str]:
    """The names of all variables or secrets in a value, of those with a default and in defaults, too."""
    done = 0
    while match := _DOLLAR.search(value, done):
        done = match.end()
        if match[0] == "$$":
            continue
        try:
            done = _closing_brace(value, match.end())
        except UnresolvedReferenceError:
            return
        name, _, default = value[match.end() : done - 1].partition(":-")
        found, _, bare = name.rpartition(":")
        if (found or "env") == kind:
            yield bare
        yield from names_in(default, kind)


def texts_in(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """All texts in the values of a configuration, each with the keys that lead to it."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, str):
        yield keys, value
    elif is_dataclass(value):
        inner = ((field.name, getattr(value, field.name)) for field in fields(value))
    elif isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = enumerate(value)
    for key, item in inner:
        yield from texts_in(item, (*keys, str(key)))


def may_take_long(values: Iterable[str]) -> bool:
    """Return whether texts ask the keyring or a command, so that a thread has to resolve them."""
    return any("${keyring:" in value or "${command:" in value for value in values)


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
        if name.startswith(
            ("keyring:", "command:")
        ):  # ours alone; in a client's file it means something else
            self.on_unknown(whole)
            return f"${whole}"
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


def resolver(
    environ: Mapping[str, str], *, commands: Sequence[str] = (), owner: str = ""
) -> Callable[[str], str]:
    """Return a `resolve` for one environment; the rest is as in `ReferenceRights`."""
    rights = ReferenceRights(commands=commands, owner=owner)
    return lambda value: resolve(value, environ, rights)


def resolve_named(values: Mapping[str, str], what: str, resolve: Callable[[str], str]) -> dict[str, str]:
    """Resolve the values of a mapping, such as `env`; the text of an error begins with the key that has it.

    Raises:
        UnresolvedReferenceError: A reference has no value.
    """
    resolved = {}
    for key, value in values.items():
        try:
            resolved[key] = resolve(value)
        except UnresolvedReferenceError as error:
            raise UnresolvedReferenceError(f"{what}.{key}: {error}", variable=error.variable) from error
    return resolved


def _closing_brace(value: str, start: int) -> int:
    """Return the offset behind the brace that closes the one before `start`."""
    depth = 1
    for brace in _BRACE.finditer(value, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    raise UnresolvedReferenceError("a `${` is not closed by `}`; write `$${` for the characters themselves")


def _look_up(text: str, environ: Mapping[str, str], rights: ReferenceRights) -> str:
    name, separator, default_text = text.partition(":-")
    default = default_text if separator else None
    kind, colon, bare = name.partition(":")
    if colon and kind in ("file", "keyring", "command"):
        try:
            return _READERS[kind](bare, environ, rights)
        except _UnreadableError as error:
            if default is not None:
                return resolve(default, environ, rights)
            raise UnresolvedReferenceError(str(error)) from error
    if colon and kind == "env":
        name = bare
    if value := environ.get(name):
        SECRETS.learn(value, name)
        return value
    if default is not None:
        return resolve(default, environ, rights)
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
        f"${{{name}}} is not a reference; use ${{VAR}}, ${{VAR:-default}}, ${{env:VAR}}, ${{file:PATH}},"
        " ${keyring:NAME} or ${command:WORDS}, and $$ for a dollar sign"
    )


class _UnreadableError(Exception):
    """What a reference names cannot be read now, so that its default counts if it has one."""


def _read_file(name: str, _: Mapping[str, str], rights: ReferenceRights) -> str:
    del rights  # the checks of a manifest say which files it may name
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, RuntimeError, ValueError) as error:  # no such home, a NUL in the path, not UTF-8
        reason = error.strerror if isinstance(error, OSError) else "it is no readable text file"
        raise _UnreadableError(f"${{file:{name}}} cannot be read: {reason}") from error
    SECRETS.learn(text)
    return text


def _read_secret(name: str, environ: Mapping[str, str], rights: ReferenceRights) -> str:
    rights.check_secret(name)
    try:
        return SecretStore(environ=environ).read(name)
    except SecretStoreError as error:
        raise _UnreadableError(f"${{keyring:{name}}} cannot be read: {error}") from error


def _read_command(text: str, environ: Mapping[str, str], rights: ReferenceRights) -> str:
    if rights.owner:
        raise UnresolvedReferenceError("a manifest may not run a command by `${command:...}`")
    try:
        return COMMANDS.read(text, rights.commands, environ)
    except SecretCommandError as error:
        raise _UnreadableError(f"${{command:{text}}} has no value: {error}") from error


_READERS: Final[Mapping[str, Callable[[str, Mapping[str, str], ReferenceRights], str]]] = {
    "file": _read_file,
    "keyring": _read_secret,
    "command": _read_command,
}
