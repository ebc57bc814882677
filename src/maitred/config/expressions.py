"""What expressions in CEL (Common Expression Language) have in common, whatever values they read.

The binding of the C++ reference implementation (`cel-expr-python`) checks the types of an expression when it
is compiled. Nothing can stop an expression that runs, so its cost is bounded before. The library allows
10,000 iterations of macros. Rules of visibility and rules about held calls are such expressions.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from maitred.wording import as_code, did_you_mean

Token = re.Match[str]
"""A token of an expression; `lastgroup` is its kind, such as `name`, `text` or `sign`."""

MAX_SOURCE: Final = 500
MAX_COST: Final = 50_000
MATCH_COST: Final = 12_000
OPEN, CLOSED = frozenset("([{"), frozenset(")]}")
_MACROS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})
_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n]* )
    | (?P<raw> (?:[rR][bB]?|[bB][rR]) (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n]*" | '[^'\n]*' ) )
    | (?P<text> [bB]? (?: \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
                        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<name> [A-Za-z_]\w* ) | (?P<number> \d[\w.]* ) | (?P<sign> && | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_HALF = re.compile("[\ud800-\udfff]")
_ERROR = re.compile(r"^(?:[A-Z_]+: )?ERROR: <input>:(-?\d+):(-?\d+): (.*)$", re.MULTILINE)
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '_?(.+?)_?' applied to '(.*)'")


def source_fault(source: str) -> str:
    """Return why a text cannot be an expression, whatever it says; empty if it can."""
    if len(source) > MAX_SOURCE:
        return f"has {len(source)} characters; a rule may have {MAX_SOURCE}"
    return "holds half of a character, which no text can have" if _HALF.search(source) else ""


def cost_fault(cost: int, advice: str = "`in` is cheaper than a macro") -> str:
    """Return the fault of an expression that costs so much; empty if that is allowed."""
    if cost <= MAX_COST:
        return ""
    return f"could take too long (cost {cost:,}; {MAX_COST:,} is allowed): {advice}"


def tokens_of(source: str) -> Iterator[Token]:
    """Return the tokens of an expression, without blanks and comments."""
    return (match for match in _TOKEN.finditer(source) if match.lastgroup != "blank")


def is_macro(tokens: Sequence[Token], place: int) -> bool:
    """Return whether the bracket at a place opens the arguments of a macro."""
    before = [token[0] for token in tokens[max(0, place - 2) : place]]
    return tokens[place][0] == "(" and len(before) > 1 and before[0] == "." and before[1] in _MACROS


def position_of(token: Token) -> str:
    """Return where a token is, in words; lines and columns count from 1."""
    before = token.string[: token.start()]
    return _position(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _position(line: int, column: int) -> str:
    return f"line {line}, column {column}" if line > 1 else f"column {column}"


def type_fault(kind: str) -> str:
    """Return why an expression of a type, such as `BOOL`, is no condition; empty if it is one."""
    if kind in ("BOOL", "DYN"):
        return ""
    return f"is {kind.lower()}, not true or false; compare it with something"


def plain_error(error: str) -> str:
    """Return an error of the library without its code."""
    return " ".join(re.sub(r"^[A-Z_]+: |\[[A-Z_]+\]$", "", error).split())[:200]


def explain(message: str, source: str, known: Collection[str], noun: str) -> Iterator[str]:
    """Translate the errors of the library, each once; `noun` is the word for the `known` names."""
    faults = set()
    for line, column, text in _ERROR.findall(message) or [(0, 0, message)]:
        fault = _fault(int(line), int(column), text, source, (known, noun))
        if fault not in faults:
            faults.add(fault)
            yield fault


def _fault(line: int, column: int, text: str, source: str, names: tuple[Collection[str], str]) -> str:
    if "recursion" in text:
        return "is nested too deeply"
    if unknown := _UNDECLARED.search(text):
        name, (known, noun) = unknown[1], names
        row = source.splitlines()[line - 1]
        begin = row.rfind(name.partition(".")[0], 0, column + len(name))
        column = begin + 1 if begin >= 0 else column
        hint = did_you_mean(name, known, quoted=as_code, otherwise=f"there are {', '.join(known)}")
        text = f"there is no {noun} `{name}`; {hint}"
    elif overload := _OVERLOAD.search(text):
        text = f"`{overload[1]}` cannot be applied to {overload[2]}"
    else:
        text = plain_error(text.partition(" expecting ")[0].replace("'<EOF>'", "end"))
    return f"{_position(line, column)}: {text}" if line > 0 else text
