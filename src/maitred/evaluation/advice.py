"""What to change in a tool's definition so that it is found: rules of thumb, each with its reason.

`docs/server-authors.md` explains them to the authors of servers. Nothing here searches.
"""

from collections.abc import Sequence

from maitred.evaluation.paraphrase import content_terms
from maitred.search.base import Document
from maitred.search.words import STOP_WORDS, words

_FEWEST_TERMS = 4
_MOST_CHARACTERS = 2_000  # search reads no more of a description
_LONG_SENTENCE_WORDS = 30
_MANY_PARAMETERS = 3

_NOTHING = STOP_WORDS | frozenset(
    """
    action api call command data do exec execute fn func function get go handle handler helper invoke item
    job main manage method misc object op operation perform post process query request run service submit task
    test thing tool use util utility v1 v2
    """.split()  # noqa: SIM905  # a list of one word a line would be a page long
)


def advise(tool: Document, *, twins: Sequence[str] = (), echoes: Sequence[str] = ()) -> list[str]:
    """What to change, most useful first; never empty.

    Args:
        tool: The tool as search reads it.
        twins: Names of tools with the same description.
        echoes: Names of tools whose first sentence says the same once their names are left out.
    """
    found = [*_on_description(tool, twins), *_on_name(tool), *_on_parameters(tool)]
    if echoes and not twins:
        found.insert(0, f"apart from its name its first sentence is that of {_some(echoes)}: say more in it")
    return found or ["say in the first sentence what sets it apart from those that come first instead"]


def _on_description(tool: Document, twins: Sequence[str]) -> list[str]:
    about = tool.description.strip()
    if not about:
        return ["write a description: one sentence on what it does, to what, and when to choose it"]
    found = []
    if len(content_terms(about)) < _FEWEST_TERMS:
        found.append("its description is too short: name what it works on and what comes of it")
    if twins:
        found.append(f"its description is also that of {_some(twins)}: say what each is for")
    missing = _missing(tool)
    if missing:
        named = ", ".join(map(repr, missing))
        found.append(f"its description never says {named}, which its name does: write it out")
    if len(about) >= _MOST_CHARACTERS:
        found.append(f"its description is too long: nothing beyond {_MOST_CHARACTERS:,} characters is read")
    elif len(about.split(". ", 1)[0].split()) > _LONG_SENTENCE_WORDS:
        found.append("its first sentence is too long to be shown whole: say the main thing in it alone")
    return found


def _on_name(tool: Document) -> list[str]:
    if _telling(tool.name):
        return []
    return [f"the name {tool.name!r} says nothing: name it by a verb and what it acts on"]


def _on_parameters(tool: Document) -> list[str]:
    bare = [name for name, about in tool.parameters if not about.strip()]
    if len(bare) >= _MANY_PARAMETERS and len(bare) == len(tool.parameters):
        return ["none of its parameters is described: their words are searched too"]
    return []


def _missing(tool: Document) -> Sequence[str]:
    """The telling words of a name, if its description repeats none of them."""
    telling = _telling(tool.name)
    said = content_terms(tool.description)
    return [] if any(content_terms(word) & said for word in telling) else telling


def _telling(name: str) -> list[str]:
    """The words of a name that say something."""
    pieces = list(words(name))
    if len(set(pieces)) > 1 and pieces[-1] == "".join(pieces[:-1]):  # the joined form
        pieces.pop()
    return [word for word in pieces if len(word) > 1 and not word.isdigit() and word not in _NOTHING]


def _some(names: Sequence[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")
