"""Find code in the arguments of a command line, as after `sh -c` or `python3 -c`.

Such a command line names a well-known program and does whatever its arguments say, so the program's name
proves nothing. Programs that start others, such as `env`, are skipped: an interpreter counts wherever it is.
Options of an interpreter end at the first word that is no option, since the rest belongs to the script.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

SHELLS: Final = frozenset({
    "sh", "ash", "bash", "rbash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "nu", "xonsh", "pwsh",
    "powershell",
    "cmd", "command", "busybox", "toybox",
})  # fmt: skip
_VERSIONED: Final = re.compile(r"[-\d.]+(t|-[-\w]+)?$")
_CODE: Final = re.compile(r"[\s;(){}]|^data:", re.IGNORECASE)
_FLAG_OF_SOME: Final = re.compile(r"-\w*[ceErp]|--(eval|print|command|exec)|/c", re.IGNORECASE)


@dataclass(frozen=True)
class _Interpreter:
    """How an interpreter takes code: by letters after `-`, by long options, or as a separate word.

    `valued` are letters whose value is the rest of their word, or the next word. After one of `naming`, which
    names a script, all options belong to the script. `passed` are words that are never a script, such as
    `run`.
    """

    letters: str
    valued: str = ""
    long: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    naming: str = ""
    passed: tuple[str, ...] = ()

    @property
    def telling(self) -> str:
        """The letters that give the rest of their word a meaning."""
        return self.letters + self.valued + self.naming


_NODE: Final = _Interpreter("ep", "rC", ("--eval", "--print"))
_INTERPRETERS: Final = {
    **dict.fromkeys(
        SHELLS, _Interpreter("cC", "oO", ("--command", "--commands", "--init-command"), ("/c", "/k"))
    ),
    **dict.fromkeys(
        ("pwsh", "powershell"),
        _Interpreter(
            "",
            "",
            (
                *("-commandwithargs"[:end] for end in range(2, 17)),
                *("-encodedcommand"[:end] for end in range(2, 16)),
                "-ec",
            ),
        ),
    ),
    **dict.fromkeys(
        ("python", "pypy", "pythonw", "jython", "micropython", "ipython"), _Interpreter("c", "WX", naming="m")
    ),
    **dict.fromkeys(("node", "nodejs", "tsx", "ts-node"), _NODE),
    "bun": replace(_NODE, passed=("run",)),
    "deno": _Interpreter("", "", (), ("eval",), passed=("run", "serve", "test")),
    "perl": _Interpreter("eE", "MmIxDFi"),
    "ruby": _Interpreter("e", "ICEFKTrx"),
    "php": _Interpreter("rBRE", "cdfFtSz", ("--run", "--process-code", "--process-begin", "--process-end")),
    **dict.fromkeys(("lua", "luajit"), _Interpreter("e", "l")),
    **dict.fromkeys(
        ("rscript", "r", "julia", "elixir", "groovy", "scala", "osascript", "octave", "raku"),
        _Interpreter("eE", "", ("--eval", "--print", "--rpc-eval")),
    ),
    "guile": _Interpreter("c"),
    "swipl": _Interpreter("gt"),
    "git": _Interpreter("c", "C", ("--config-env", "--exec-path")),
    "nix-shell": _Interpreter("", "", ("--run", "--command")),
    **dict.fromkeys(("make", "gmake"), _Interpreter("E", "CfIoW", ("--eval",))),
    "expect": _Interpreter("c"),
    "sqlite3": _Interpreter("", "", ("-cmd", "--cmd")),
    "erl": _Interpreter("", "", ("-eval", "--eval", "-run")),
    **dict.fromkeys(("npx", "exec", "bunx"), _Interpreter("c", "p", ("--call",))),
    **dict.fromkeys(("env", "genv"), _Interpreter("S", "uC", ("--split-string",))),
    **dict.fromkeys(
        ("gdb", "lldb"), _Interpreter("", "", ("-ex", "--ex", "-eval-command", "--eval-command"))
    ),
    **dict.fromkeys(
        ("vim", "vi", "ex", "nvim", "emacs"), _Interpreter("c", "", ("--cmd", "--eval", "-eval"))
    ),
}
_PROGRAMS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
"""Programs whose first argument that is no option is code."""


def program(command: str) -> str:
    """The name of a program without its folder and without the suffix of a system."""
    name = PurePosixPath(command.replace("\\", "/").strip()).name.lower()
    return re.sub(r"\.(exe|cmd|bat|com|ps1)$", "", name)


def code_at(words: Sequence[str]) -> int | None:
    """The position of the first word that makes an interpreter run code from the command line, or `None`."""
    for start, word in enumerate(words):
        name = program(word)
        interpreter = _INTERPRETERS.get(name) or _INTERPRETERS.get(_VERSIONED.sub("", name))
        place = _code_after(words, start, interpreter) if interpreter else None
        if place is None and name in _PROGRAMS and start + 1 < len(words):
            place = start + 1
        if place is not None:
            return place
    return None


def code_at_of_image(args: Sequence[str]) -> int | None:
    """As `code_at`, for arguments of an image with an unknown program: code has blanks or brackets."""
    place = code_at(args)
    if place is None and len(args) > 1 and _FLAG_OF_SOME.fullmatch(args[0]) and _CODE.search(args[1]):
        return 0
    return place


def _code_after(words: Sequence[str], start: int, interpreter: _Interpreter) -> int | None:
    is_value = False
    for at in range(start + 1, len(words)):
        word = words[at]
        value = word.lower().rpartition("=")[2] if word.startswith("--") else word.lower()
        if word.lower() in interpreter.words or value.startswith("data:"):
            return at
        if not word.startswith("-") or word in ("-", "--"):
            if not is_value and word.lower() not in interpreter.passed:
                return None
            is_value = False  # the next word is no value of an option
            continue
        if word.partition("=")[0].lower() in interpreter.long:
            return at
        is_value = "=" not in word
        if not word.startswith("--"):
            letter = next((character for character in word[1:] if character in interpreter.telling), "")
            if letter and letter in interpreter.letters:
                return at
            if letter and letter in interpreter.naming:
                return None
            is_value = bool(letter) and word.endswith(letter)
    return None
