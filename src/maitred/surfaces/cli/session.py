"""What an entry starts or reaches, shown whole on its own lines, so that a person can check it first.

Arguments are shown unchanged, because they say what runs. Credentials in variables, headers and addresses are
masked, because the file has them. Output for programs may end up in logs. So there arguments are masked too,
and so is every value of a variable or header.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maitred.admission.credential_detection import (
    is_literal_secret,
    kind_of,
    mask_url,
    secret_arguments,
    take_apart,
)
from maitred.audit.masking import mask_text
from maitred.config.redaction import MASK
from maitred.surfaces.cli.console import visible

_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic|token)?\s*")


def command_line(command: str, args: Sequence[str]) -> str:
    """A command in shell syntax, in one line; terminal control characters are escapes."""
    return visible(shlex.join([command, *args]))


def reach(entry: Mapping[str, Any]) -> Iterator[str]:
    """The command or address of an entry, its folder, variables and headers, one line each."""
    if url := entry.get("url"):
        yield visible(mask_url(url))
    else:
        yield command_line(entry["command"], entry.get("args", ()))
    if folder := entry.get("cwd"):
        yield f"in {visible(shlex.quote(folder))}"
    for key, word in (("env", "with"), ("headers", "sends")):
        if values := entry.get(key):
            pairs = [f"{name}={_unless_secret(name, value)}" for name, value in values.items()]
            yield f"{word} {visible(shlex.join(pairs))}"


def for_programs(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without credentials, and without any literal value of a variable or header."""
    found = dict(entry)
    for key in ("env", "headers"):
        if values := entry.get(key):
            found[key] = {name: value if _refers_only(value) else MASK for name, value in values.items()}
    if args := entry.get("args"):
        found["args"] = [mask_text(argument) for argument in _without_named(args)]
    if url := entry.get("url"):
        found["url"] = mask_url(url)
    return found


def _without_named(args: Sequence[str]) -> list[str]:
    """Arguments without credentials that the name in front of them identifies."""
    secret = dict(secret_arguments(args))
    return [f"{secret[at]}{MASK}" if at in secret else argument for at, argument in enumerate(args)]


def _unless_secret(name: str, value: str) -> str:
    literal = take_apart(value).literal
    return MASK if is_literal_secret(name, literal) or kind_of(literal, name) else mask_text(value)


def _refers_only(value: str) -> bool:
    """Whether a value holds only references, and nothing else that may be secret."""
    return _SCHEME.fullmatch(_REFERENCE.sub("", take_apart(value).literal)) is not None
