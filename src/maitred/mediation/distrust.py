"""What a language model may not say of a tool, since it may have been talked into it by the tool itself.

A description is read by other models, so a text that speaks to them, leads somewhere or names other tools is
a way in. The rules are few and blunt: they cost an honest tool its better description now and then, and it
then keeps what its server says. They are a second fence, not the first one.
"""

import re
import unicodedata
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

_ADDRESSED = re.compile(
    r"""
    \b(ignor|disregard|forget|overrid|bypass)\w*\b.{0,40}\b(instruction|rule|prompt|guideline)s?\b
    | \byou\ (must|should|shall|ought\ to|are\ (required|now|an?\ (ai|assistant|agent|model)))\b
    | \b(always|never|must|should|(have|has|need|needs)\ to)\ (first\ )?
      (call|use|invoke|run|execute|prefer|choose|select)\b
    | \b(first|only|immediately|please)\ (call|use|invoke|run)\ (this|the|it)\b
    | \b(call|use|invoke|run|prefer|choose)\ (this|it)\b.{0,12}
      \b(first|before|instead|always|immediately|whenever)\b
    | \b(before|after|with|in)\ (every|each|all|any)\ (other\ )?
      (call|question|conversation|response|answer)s?\b
    | \b(other|another)\ tools?\b
    | \b(best|preferred|recommended|only\ trusted|most\ (reliable|trusted|important))\ tool\b
    | \byour\ (system\ |own\ |previous\ )?(prompt|instruction|context|rule|guideline)s?\b
    | \b(not|don't|never|without)\ (tell|inform|mention|notify|ask)\w*\b.{0,20}
      \b(user|human|person|operator|anyone)s?\b
    | \bas\ an?\ (ai|assistant|agent|llm|language\ model)\b
    | \b(dear|attention|note\ to|hey)\ (ai|assistant|agent|llm|model)s?\b
    """,
    re.VERBOSE,
)
_LINK = re.compile(
    r"[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+"
    r"|\b(?:www\.|mailto:|javascript:|data:)[^\s\"'<>)\]]+"
    r"|[^\s@<>\"'(]+@[^\s@]+\.[a-z]{2,}"
    r"|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s\"'<>)\]]*"
    r"|\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|app|ai|co|info|biz|xyz|site|online|ru|cn|example)\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
)
_MARKUP = re.compile(r"<[a-z!/?][^>]*>?|\]\(|```|\{\{")
_READ_AS = {ord("\u2019"): "'", ord("\u200c"): None, ord("\u200d"): None}
_SPACES = re.compile(r"[\s_-]+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][_.-]\w|[a-z][A-Z]")
_TOKEN = re.compile(r"[\w-]+"), re.compile(r"[\w./-]+")


def identifiers(names: Iterable[str]) -> AbstractSet[str]:
    """The names that are no ordinary words, such as `list_users`; for `why_not`."""
    return {_folded(name) for name in names if _IDENTIFIER.search(name)}


def why_not(text: str, original: str, others: AbstractSet[str] = frozenset()) -> str:
    """Why a text may not be shown for a tool; empty if it may.

    Args:
        text: What the model wrote, or a name it gave.
        original: What the server says of the tool, as far as the model saw it. Addresses, markup and tools
            that are named there may be named.
        others: The `identifiers` among the names of other tools; an ordinary word may be used as such.
    """
    seen, known = _folded(text), _folded(original)
    if _ADDRESSED.search(_SPACES.sub(" ", seen)):
        return "it speaks to whoever reads it"
    if _links(seen) - _links(known):
        return "it holds an address that the server does not mention"
    if any(mark not in known for mark in _MARKUP.findall(seen)):
        return "it holds markup"
    if (_tokens(seen) & others) - _tokens(known):
        return "it names another tool"
    return ""


def _links(text: str) -> set[str]:
    return {link.rstrip(".,;:!?/") for link in _LINK.findall(text)}


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().translate(_READ_AS)


def _tokens(text: str) -> set[str]:
    return {token.strip("./-") for pattern in _TOKEN for token in pattern.findall(text)}
