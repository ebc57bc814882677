"""Describe a tool in other words, as far as that is possible offline: its description without its name.

An agent that looks for a tool knows neither its name nor its server. So a phrase is a sentence of the
description without the words of both, and without words that say nothing. Nothing is invented: if a
description only repeats the name, the phrase has these words, since no others are known.
"""

import re
from collections.abc import Collection, Sequence

from maitred.search.base import ToolDocument
from maitred.search.tokenize import STOP_WORDS, index_terms

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n\s*\n|\n(?=\s*[-*#•\d])")  # noqa: RUF001  # as in Chinese
_WORD = re.compile(r"[^\W_]+(?:[_'’\-][^\W_]+)*")  # noqa: RUF001  # the apostrophe that word processors write
_MOST_WORDS = 12
_FEWEST_WORDS = 2
_SENTENCES = 2
_LEADING_WORDS = 3
_PARAMETERS = 3


def paraphrases(tool: ToolDocument) -> list[str]:
    """Return at most three phrases for a tool, the best first; none if its description says nothing.

    The first and the second sentence, then the beginning of the first with the names of some parameters.
    """
    sentences = _sentences(tool.description or tool.title)
    name_terms = frozenset(index_terms(f"{tool.name} {tool.server}"))
    phrases = [_phrase(sentence, name_terms) for sentence in sentences[:_SENTENCES]]
    if phrases and len(phrases[0]) < _FEWEST_WORDS:
        phrases[0] = _phrase(sentences[0], frozenset())
    if phrases and tool.parameters:
        parameter_names = [name for name, _ in tool.parameters[:_PARAMETERS]]
        phrases.append([*phrases[0][:_LEADING_WORDS], *_phrase(" ".join(parameter_names), name_terms)])
    texts = [
        " ".join(words) for place, words in enumerate(phrases) if place == 0 or len(words) > _FEWEST_WORDS
    ]
    return [phrase for phrase in dict.fromkeys(texts) if phrase]


def content_terms(text: str) -> frozenset[str]:
    """Return the stemmed words of a text that say something."""
    return frozenset(term for word in _content_words(text) for term in index_terms(word))


def _sentences(text: str) -> Sequence[str]:
    return [part.strip() for part in _SENTENCE_END.split(text.strip()) if part and _content_words(part)]


def _phrase(sentence: str, without: Collection[str]) -> list[str]:
    """Return the content words of a sentence, except those of which every part is in `without`."""
    content_words = [
        word for word in _content_words(sentence) if not set(index_terms(word)).issubset(without)
    ]
    return list(dict.fromkeys(content_words))[:_MOST_WORDS]


def _content_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS]
