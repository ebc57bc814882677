"""What an engine's error means to the author of a chain: its kind, its place, and what to write instead.

Texts of a program are untrusted, so they are cleaned and cut.
"""

import re
from collections.abc import Sequence

from pydantic_monty import (
    Frame,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
    MontyTypingError,
)

from maitred.backends.listing import clean
from maitred.chains.base import ChainFault, ChainLimits, ChainProgram, FaultKind
from maitred.chains.hints import with_hint
from maitred.chains.undefined_names import KNOWN

_MOST_CHARS = 1_500
_SCREEN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSUPPORTED = "NotImplementedError: The monty syntax parser does not yet support "
_SOURCE = "<python-input"
_DIAGNOSTIC = re.compile(r"main\.py:(\d+):(\d+): \w+\[([\w-]+)\] (.*)")
_GUESSES = frozenset(("possibly-missing-attribute", "possibly-unresolved-reference"))
_LOOSE = (
    r"Expected `.*Literal\[.*`, found `(Literal)?[sS]tr(ing)?`",  # the value is known only at run time
    r"Expected `int.*found `float",  # which may be whole
    r"Expected `_.*`, found `dict\[",  # a dict that was built step by step
    r"[Aa]ttribute `\w+` .*`None`|`None` has no attribute|on `.*\| None`",  # as the result of `re.search`
    r"is not supported between .*\bNone\b",  # the same
    r"is always (falsy|truthy)",  # as `or seen.add(x)` intends
    r"No overload of function `(max|min|sorted)`",  # by a key that may be `None`, as of `d.get`
    rf"Name `({'|'.join(KNOWN)})` used when not defined",  # which the engine has
)
_TOP_RETURN = "`return` statement outside of a function"


def tidy(text: str, most_chars: int = _MOST_CHARS) -> str:
    """The text without terminal sequences and deceiving characters, cut to a length in characters."""
    cut = text[: 2 * most_chars]
    cleaned = clean(_SCREEN.sub("", cut))
    return cleaned if len(cleaned) <= most_chars and len(cut) == len(text) else f"{cleaned[:most_chars]}…"


def fault_of(error: MontyError, limits: ChainLimits, program: ChainProgram) -> ChainFault:
    """The fault for an error in a run, in words for the author of the program."""
    if isinstance(error, MontyCrashedError):
        return _of_crash(error, limits)
    line, column = _place(error)
    text = tidy(str(error)).replace(_UNSUPPORTED, "A chain cannot use ")
    kind, message = _kind(error, text, limits)
    return ChainFault(kind=kind, message=message or with_hint(text, program), line=line, column=column)


def faults_of(error: MontyTypingError, program: ChainProgram, lines_before: int) -> list[ChainFault]:
    """The faults that the type check found, without those that chains in general cause."""
    faults = []
    for told in error.display().splitlines():
        match = _DIAGNOSTIC.match(told)
        if match is None or int(match[1]) <= lines_before or _may_be_right(match[3], match[4].strip()):
            continue
        kind: FaultKind = "syntax" if match[3] == "invalid-syntax" else "type"
        message = with_hint(tidy(match[4].strip()), program)
        place = int(match[1]) - lines_before
        faults.append(ChainFault(kind=kind, message=message, line=place, column=int(match[2])))
    return faults


def _may_be_right(rule: str, message: str) -> bool:
    """Whether a correct program may cause this message: the checker knows only written types."""
    if message == _TOP_RETURN or rule in _GUESSES:
        return True
    return any(re.search(pattern, message) for pattern in _LOOSE)


def _of_crash(error: MontyCrashedError, limits: ChainLimits) -> ChainFault:
    if error.timed_out:
        return ChainFault(kind="timeout", message=_computed(limits))
    message = (
        "The chain ended the process that ran it; its source or its values may be too large or too nested."
    )
    return ChainFault(kind="crashed", message=message)


def _computed(limits: ChainLimits) -> str:
    return f"The chain computed for more than {limits.cpu_s:g} s; let the tools filter, and loop over less."


def _kind(error: MontyError, text: str, limits: ChainLimits) -> tuple[FaultKind, str]:
    """The kind, and a better text than the engine's if there is one."""
    refused = isinstance(error.exception(), NotImplementedError) and not _in_function(error)
    if refused or isinstance(error, MontySyntaxError):
        return "syntax", ""
    known: Sequence[tuple[str, FaultKind, str]] = (
        (r"TimeoutError: (feed|turn) time limit", "timeout", _computed(limits)),
        ("TimeoutError: sleep limit", "timeout", f"The chain slept for more than {limits.wall_s:g} s."),
        ("MemoryError", "memory", f"The chain used more than {limits.memory_bytes:,} bytes of memory."),
        (
            "RuntimeError: suspension limit",
            "calls",
            f"The chain may make {limits.calls:,} calls; it made more.",
        ),
    )
    found = next(((kind, said) for start, kind, said in known if re.match(start, text)), None)
    return found or ("runtime", "")


def _in_function(error: MontyError) -> bool:
    """Whether the program had begun to run: a refusal of the parser has no function around it."""
    return any(frame.function_name for frame in _frames(error))


def _place(error: MontyError) -> tuple[int, int]:
    """The innermost place in the source of the program; 0, 0 if there is none."""
    own = [frame for frame in _frames(error) if frame.filename.startswith(_SOURCE)]
    return (own[-1].line, own[-1].column) if own else (0, 0)


def _frames(error: MontyError) -> list[Frame]:
    return error.traceback() if isinstance(error, MontyRuntimeError | MontySyntaxError) else []
