"""The entry of this gateway, as clients write it, and the command by which they start it.

No entry has a token: a client reads it from the variable `MAITRED_TOKEN`, or a person puts it in.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from maitred.config.document import as_json
from maitred.config.paths import default_path
from maitred.errors import ConfigError
from maitred.installation import find_installation

Json = dict[str, Any]
StdioEntry = Callable[[Sequence[str]], Json]
"""Makes an entry of a command."""
HttpEntry = Callable[[str, bool], Json]
"""Makes an entry of an address, and of whether it needs a token."""
NAME: Final = "maitred"
"""The name of this gateway in the file of a client."""
TOKEN_VARIABLE: Final = "MAITRED_TOKEN"  # noqa: S105  # the name of a variable
PLACEHOLDER: Final = "YOUR_TOKEN"
"""Where a person puts a token, for a client that reads no variables."""
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def start_command(program: Path, config: Path, profile: str = "") -> Sequence[str]:
    """The words of the command by which a client starts this gateway over stdio.

    `program` is the file of maitred, if it was started by one; else the interpreter starts it as a module.
    A file that `uvx` made does not stay: there the words run `uvx` again, on the same wheel. With the name of
    a profile of tools, the client has the tools of that profile alone.
    """
    is_own = program.name in (NAME, f"{NAME}.exe") and program.is_file()
    started = find_installation().start_words() or (
        [str(program)] if is_own else [sys.executable, "-m", "maitred"]
    )
    chosen = [] if _is_default(config) else ["--config", str(config.absolute())]
    return [*started, "serve", *chosen, *(["--profile", profile] if profile else [])]


def profile_of_words(words: Sequence[str]) -> str:
    """The profile of tools that a command names behind `serve`, in any form; empty if it names none."""
    profile, options = "", words[words.index("serve") :] if "serve" in words else ()
    for word, after in pairwise([*options, ""]):
        if word in ("--profile", "-p"):
            profile = after
        elif found := re.match("(?:--profile=|-p)(?=[^-])", word):
            profile = word[found.end() :]
    return profile


def program_path() -> Path:
    """Where the program of maitred is beside the interpreter; the file need not exist."""
    return Path(sys.executable).with_name(f"{NAME}.exe" if sys.platform == "win32" else NAME)


def _is_default(config: Path) -> bool:
    """Whether a client finds the file without its name, whatever its variables are."""
    try:
        return config == default_path({})
    except ConfigError:  # there is no home folder
        return False


def fill_in(template: Json, *, words: Sequence[str] = ("",), address: str = "") -> Json:
    """An entry from its template in `clients.yaml`: the placeholders have the values of this gateway."""
    command, *arguments = words
    values: Mapping[str, Any] = {
        "{command}": command,
        "{arguments}": arguments,
        "{words}": [*words],
        "{address}": address,
    }
    return {
        key: values.get(value, value) if isinstance(value, str) else value for key, value in template.items()
    }


def as_toml_key(*keys: str) -> str:
    """A dotted key."""
    return ".".join(key if _BARE_KEY.fullmatch(key) else as_json(key) for key in keys)


def as_toml(value: Any) -> str:
    """A value on one line; the strings of JSON are those of TOML."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{as_toml_key(str(key))} = {as_toml(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    is_json = isinstance(value, str | bool | int)
    return as_json(value) if is_json else str(value)


def as_toml_table(keys: Sequence[str], entry: Mapping[str, Any]) -> Sequence[str]:
    """The lines of a table."""
    return [f"[{as_toml_key(*keys)}]", *(f"{as_toml_key(key)} = {as_toml(entry[key])}" for key in entry)]
