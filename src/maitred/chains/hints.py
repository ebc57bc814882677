"""What to write instead: replacements for what the engine lacks, intended names, and signatures.

The engine knows only a part of Python. Models that write programs know all of it, and guess the names of
tools. So both kinds of errors come with a correction.
"""

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from maitred.chains.base import ChainProgram
from maitred.chains.standard_library import SUPPLIED
from maitred.wording import as_code, near_names, suggest_names

MODULES: Final = (
    *("asyncio", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal"),
    *("functools", "hashlib", "itertools", "json", "math", "pathlib", "random", "re", "sys", "time"),
    *("tomllib", "typing"),
)
"""What a chain may import besides its servers."""

_NAMED = 12
_MEMBER = (
    r"module '(\w+)' has no attribute '(\w+)'",
    r"Module `(\w+)` has no member `(\w+)`",
    r"cannot import name '(?P<name>\w+)' from '(?P<module>\w+)'",
)
_NAME = re.compile(r"(?:NameError: name '|Name `)(\w+)(?:' is not defined|` used when not defined)")
_MODULE = re.compile(r"(?:No module named '|[Cc]annot resolve imported module `)(\w+)")
_ARGUMENT = re.compile(r"(?:of|to) function `(\w+)`")
_NO_NETWORK = "There is no network here: call a tool instead."
_NO_MACHINE = "There are no files and no processes here: call a tool instead."
_BY_HAND = "Write the few lines that you need of it."
_GATHER = "Use `await asyncio.gather(...)`; every call of a tool can stand in it."
_INSTEAD: Mapping[str, str] = {
    "requests httpx httpx2 aiohttp urllib urllib3 http socket ssl smtplib ftplib": _NO_NETWORK,
    "os subprocess shutil tempfile glob ctypes signal threading multiprocessing": _NO_MACHINE,
    "logging": "Use `print(...)`: what a chain prints is kept.",
    "enum": "Use plain constants, or a dict.",
}
"""Modules that do not exist, by the reason."""

_METHODS: Final = (
    *(
        "append",
        "extend",
        "get",
        "items",
        "keys",
        "values",
        "pop",
        "add",
        "update",
        "index",
        "count",
        "format",
    ),
    *("lower", "upper", "strip", "lstrip", "rstrip", "split", "join", "replace", "startswith", "endswith"),
    *("title", "isdigit", "isalpha", "match", "search", "sub", "group", "findall"),
)
"""Methods of built-in types: the engine supports them in calls, but not as values."""

_ADVICE: Sequence[tuple[str, str]] = (
    (
        "class inheritance",
        "Write functions and dicts, or a class without bases; raise ValueError or RuntimeError.",
    ),
    ("yield expressions", "Build a list and return it."),
    ("method decorators", "Write a method without the decorator, or a function."),
    ("'del' statement", "Assign None, use pop(), or build a new dict or list."),
    ("async with|async context", "Call the functions directly; nothing here needs closing."),
    ("async for|async comprehension", "Await the whole list first, then use a plain `for`."),
    ("exception groups", "Use a plain `except`."),
    ("type aliases", "Leave the alias out."),
    ("Wildcard imports", "Import the names that you need."),
    (
        r"gather\(\) does not",
        "Put `try` and `except` into an async function around each call, and gather those.",
    ),
    (
        r"'asyncio' has no attribute '(wait_for|timeout)",
        "Leave it out: the chain as a whole has a time limit.",
    ),
    (
        r"'asyncio' has no attribute '(\w*Semaphore|Lock|Queue)",
        "Leave it out: calls in flight are bounded already.",
    ),
    (r"'asyncio' has no attribute '(create_task|ensure_future|as_completed|wait|TaskGroup)'", _GATHER),
    ("'coroutine' object|CoroutineType", "Write `await` before the call."),
    ("object is not an iterator", "Write `next(iter([...]), None)`: comprehensions give lists here."),
    (r"no attribute '(maketrans|translate)'", "Write `replace` once for each character."),
    (
        rf"object has no attribute '({'|'.join(_METHODS)})'",
        "A method can only be called: write a `lambda` that calls it.",
    ),
    (r"'dict' object has no attribute '(?!move_to_end)", 'Results are dicts: write `x["key"]`.'),
    (r"name 'open' is not defined|name 'input' is not defined", _NO_MACHINE),
    (r"name '(true|false|null)' is not defined", "Write True, False or None."),
    (r"Permission denied|'(os\.|Path\.|open)\S* is not supported|is not supported in this env", _NO_MACHINE),
    ("too deeply nested", "Write it in several statements, or pass the data as JSON text."),
)


def with_hint(message: str, program: ChainProgram) -> str:
    """The message with what to write instead, if that is known."""
    known = program.known or {one.name: [f.name for f in one.functions] for one in program.modules}
    if found := _MODULE.search(message):
        why = program.failing.get(found[1])
        told = f"The server of this name has no tools: {why}" if why else _of_module(found[1], known)
        message = f"{message}. {told}"
    elif member := next(filter(None, (re.search(pattern, message) for pattern in _MEMBER)), None):
        named = member.groupdict()
        module, name = named.get("module", member[1]), named.get("name", member[2])
        if module in SUPPLIED:
            return f"{message}. It has {', '.join(SUPPLIED[module])} here."
        if module in known:
            return f"{message}. {_of_member(name, known[module])}"
        if f"{module}_" in known:
            return f"{message}. The server of this name is the module `{module}_`: write `import {module}_`."
        message = _around(message, f"'{module}' has no attribute '{name}'")
    elif found := _NAME.match(message):
        advice = _of_name(found[1], known, program)
        message = f"{message}. {advice}" if advice else _around(message, f"name '{found[1]}' is not defined")
    elif found := _ARGUMENT.search(message):
        stubs = [f.stub for one in program.modules for f in one.functions if f.name == found[1] and f.stub]
        message = f"{message}. It takes: {stubs[0].removesuffix(': ...')}" if stubs else message
    else:
        message = _around(message)
    return message


def _around(message: str, meant: str = "") -> str:
    """The message with a workaround for its fault; `meant` is the fault in the words of the table."""
    advice = next((advice for pattern, advice in _ADVICE if re.search(pattern, meant or message)), "")
    return f"{message}. {advice}" if advice else message


def _of_module(name: str, known: Mapping[str, Sequence[str]]) -> str:
    """For a missing module: a replacement, the intended one, or the list of modules."""
    if advice := next((advice for names, advice in _INSTEAD.items() if name in names.split()), ""):
        return advice
    if name in sys.stdlib_module_names and name not in MODULES:
        return _BY_HAND
    near = _near(name, [*known, *MODULES])
    servers = f"The servers are {_some(known)}; beside them there are " if known else "There are "
    return f"{near}{servers}{', '.join(MODULES)}."


def _of_member(name: str, functions: Sequence[str]) -> str:
    near = _near(name, functions)
    return f"{near}It has {_some(functions)}." if functions else "It has no functions."


def _of_name(name: str, known: Mapping[str, Sequence[str]], program: ChainProgram) -> str:
    if name in known or name in MODULES:
        return f"Write `import {name}` first."
    for module in program.modules:
        if any(function.name == name for function in module.functions):
            return f"Write `{module.name}.{name}`, after `import {module.name}`."
    return _near(name, ["call_tool", *program.inputs, *known]).rstrip()


def _near(name: str, names: Iterable[str]) -> str:
    hint = suggest_names(near_names(name, names), as_code, lead="")
    return f"{hint} " if hint else ""


def _some(names: Collection[str]) -> str:
    """The first of some names, and how many more there are."""
    shown = ", ".join(list(names)[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
