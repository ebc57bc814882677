"""Scan what a server says about itself for orders to the model: tools, prompts, instructions.

Findings advise the person who approves a server. No finding proves nothing, since a sentence can always be
put in another way. The scan needs a definition as the server sent it: on the way into the catalog its texts
lose the characters that the scan looks for.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import tee
from typing import Any, Final

from maitred.model.approvals import Severity
from maitred.poisoning.characters import HiddenCharacters, signs
from maitred.poisoning.confusables import fold
from maitred.poisoning.examples import nearest_example
from maitred.poisoning.ideas import ideas_in, mask
from maitred.poisoning.kinds import KINDS
from maitred.poisoning.passages import (
    MAX_CHARACTERS,
    SHORT,
    Passage,
    decode_parts,
    folded_sentences,
    passages,
    quote_text,
    rotate_letters,
    sentences,
)
from maitred.poisoning.rules.base import RuleTable
from maitred.poisoning.rules.conduct import CONDUCT
from maitred.poisoning.rules.exfiltration import TAKING
from maitred.poisoning.rules.orders import ORDERS
from maitred.poisoning.rules.scope import SCOPE
from maitred.poisoning.scorer import Score, Scorer, bundled_scorer
from maitred.poisoning.subjects import ASKED_FOR, excused_ideas
from maitred.poisoning.tool_index import ToolNameLookup
from maitred.poisoning.tool_names import ToolNames

_RULES: Final = RuleTable((*ORDERS, *TAKING))
_SCOPE: Final = RuleTable((*SCOPE, *CONDUCT))
_WORDED: Final = frozenset(one.id for one in (*ORDERS, *TAKING, *SCOPE, *CONDUCT))
_IN_TEXT: Final = frozenset({"override", "secrecy", "exfiltration", "lure", "model-order"})
_RULES_OF_TEXT: Final = RuleTable(
    tuple(one for one in (*ORDERS, *TAKING) if one.id in _IN_TEXT and one.severity != "warn")
)
_TO_A_MODEL = re.compile(
    r"^(?:\W*\w+\W+){0,3}?(?:do not|don't|never|ignore|disregard|forget|read|send|copy|open|include|pass"
    r"|forward|reveal|you must|you should|you are|you will)\b"
    r"|\b(?:ai|assistants?|language models?|llms?|agents?|chatbots?|system prompt|the user|the human)\b"
    r"|[^\x00-\u024f]"
)
_PASSED_ON: Final = frozenset({"exfiltration", "lure"})
_PASSES_ON = re.compile(
    r"\b(?:assistants?|ai|models?|llms?|agents?|tools?|calls?|arguments?|parameters?|response|repl(?:y|ies)|answers?"
    r"|users?(?:'s)?|me)\b|https?://|@\w|[^\x00-\u024f]"
)
_ORDER: Final = ("refuse", "ask", "warn")
_SEVERAL = 2
_RISKY: Final = (
    "destroy",
    "drop",
    "tell",
    "secret",
    "read",
    "send",
    "agent",
    "user",
    "call",
    "obey",
    "field",
)
_RISKS: Final = tuple(mask(idea) for idea in _RISKY)
_IMPERATIVE: Final = mask("drop read send call obey destroy")
_CIPHER = re.compile(r"\b(?:rot-?13|caesar|cipher|backwards|revers\w+|decode|decipher)\b")
_PLAIN = re.compile(
    r"\b(?:the|a|an|of|to|and|or|in|is|for|with|be|by|on|if|as|from|not|no|this|that|are|it)\b"
)
_LETTERS = re.compile(r"[a-z]{2,}")
_ABOUT_TOOLS: Final = frozenset({"other-tools"})
_PARAMETER = re.compile(r"^/(?:inputSchema|arguments)/.*/(?:description|title|examples/\d+)$")
_WARNS = re.compile(
    r"\b(?:if|when|should) (?:a|an|the|any|some) (?:web ?)?(?:page|text|content|document|result|file|mail"
    r"|message|site)\b"
    r".{0,80}\b(?:do not|don't|never) (?:follow|obey|comply|act)\b|\btreat\b.{0,60}\bas (?:data|untrusted)\b"
)
_RECIPIENT = re.compile(r"^[\w.+-]{1,60}@(?!example\.)[\w-]{1,60}(?:\.[\w-]{1,60}){1,5}$")
_FILLED_IN = re.compile(
    r"/properties/[^/]*(?:to|cc|with|copy|recipients?|addresse?s?|mails?|notify|share"
    r"|webhook)[^/]*/(?:default|const)$"
)
_SHOWN = 80
MAX_FINDINGS: Final = 100
_NO_WORD = re.compile(r"[\W_]+")
_KEY_LABEL = re.compile(
    r"\b(?:contents?|text|dump|body|data|files?) (?:of|from|in) (?:\w+ ){0,6}"
    r"(?:ssh|id rsa|env|shadow|passwd|keychain|wallet|aws|keys?)\b"
)
_LEAST_CIPHERED = 5
_SENTENCE_LABEL = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class PoisonFinding:
    """The finding of one rule.

    `where` is the JSON pointer into the definition. `excerpt` has at most 160 characters, none of them
    invisible. Severity `refuse`: no honest text says this; `ask`: a person has to look; `warn`: weak, for
    information only. `nearest` is the example that the trained scorer finds most like it, if it found it.
    """

    rule: str
    where: str
    excerpt: str
    severity: Severity
    reason: str
    fix: str
    nearest: str = ""


class PoisonScan:
    """The scan, which knows the names of the tools of all servers.

    A server may send a model from one of its tools to another, but has nothing to say about the tools of
    other servers. Names that are everyday words, such as `search`, do not count.
    """

    def __init__(
        self,
        names: Mapping[str, Collection[str]] | None = None,
        *,
        scorer: Callable[[], Scorer] | None = bundled_scorer,
        others: ToolNameLookup | None = None,
    ) -> None:
        """`names` are the names of the tools of each server; without a `scorer` the rules alone decide.

        With `others`, which knows the tools of all servers, the names of the scanned servers are enough.
        """
        self._names = ToolNames(names or {}, others)
        self._scorer = scorer

    def scan(self, server: str, definition: Mapping[str, Any]) -> Sequence[PoisonFinding]:
        """Scan a tool, a prompt or `{"instructions": text}`: plain JSON as the server sent it.

        There is one finding for each rule and place, the most severe first. The time is proportional to the
        text. The scan reads 200,000 characters and reports it as a finding when there are more. It ends after
        100 findings.
        """
        by_place: dict[tuple[str, str], PoisonFinding] = {}
        remaining = MAX_CHARACTERS
        excused_matters = excused_ideas(server, definition, self._names.of(server))
        read, read_again = tee(passages(definition))  # the scorer may read further than the rules
        for passage in read:
            part = (
                passage if len(passage.text) <= remaining else replace(passage, text=passage.text[:remaining])
            )
            remaining -= len(passage.text)
            for one in self._of_passage(server, part, excused_matters):
                by_place.setdefault((one.rule, one.where), one)
            if remaining < 0:
                reason = f"more than {MAX_CHARACTERS:,} characters of text, the rest of which was not read"
                by_place["too-much", ""] = _make_finding("too-much", passage.where, "", "ask", reason)
            if remaining < 0 or len(by_place) >= MAX_FINDINGS:
                break
        findings = [*by_place.values(), *_combined_weak_signs(by_place.values())]
        if self._scorer is not None:
            scorer = self._scorer()
            findings = _with_score(findings, scorer.score(definition, read_again), scorer)
        return sorted(findings, key=lambda one: _ORDER.index(one.severity))

    def _of_passage(self, server: str, passage: Passage, excused_matters: int) -> Iterator[PoisonFinding]:
        text, where = passage.text, passage.where
        for sign in _signs(text, label=passage.label):
            yield _make_finding(sign.id, where, sign.shown, sign.severity, sign.reason)
        if passage.label:
            yield from _of_label(where, text, excused_matters)
            return
        if _RECIPIENT.match(text) and _FILLED_IN.search(where.lower()):
            yield _make_finding("send-out", where, text, "ask", "it fills in who gets a copy")
        extra_ideas = ASKED_FOR if _PARAMETER.search(where) else 0
        coded, announces_cipher = _coded_parts(text)
        for shown, severity, reason in coded:
            yield _make_finding("encoded", where, shown, severity, reason)
        for sentence, folded in folded_sentences(text):
            for one in _of_sentence(where, folded, sentence, excused_matters, extra_ideas):
                if one.rule not in _ABOUT_TOOLS or not self._names.are_own(server, sentence):
                    yield one
            yield from _of_cipher(where, folded, sentence, announced=announces_cipher)
            for reason in self._names.foreign_tool_reasons(server, text, sentence):
                yield _make_finding("other-tools", where, sentence, "ask", reason)


def _signs(text: str, *, label: bool) -> Sequence[HiddenCharacters]:
    return _signs_of_short(text, label=label) if len(text) <= SHORT else tuple(signs(text, label=label))


@lru_cache(maxsize=8_192)
def _signs_of_short(text: str, *, label: bool) -> Sequence[HiddenCharacters]:
    return tuple(signs(text, label=label))


_Coded = tuple[Sequence[tuple[str, Severity, str]], bool]


def _coded_parts(text: str) -> _Coded:
    """The coded parts of a text, each with a severity and a reason, and whether it announces a cipher."""
    return _coded_of_short(text) if len(text) <= SHORT else _decoded(text)


def _decoded(text: str) -> _Coded:
    found: list[tuple[str, Severity, str]] = []
    for coded in decode_parts(text):
        reason = f"text in {coded.how} that says: {quote_text(coded.text)[:_SHOWN]}"
        found.append((coded.shown, "refuse" if _orders(coded.text) else "warn", reason))
    return found, bool(_CIPHER.search(text.lower()))


_coded_of_short = lru_cache(maxsize=8_192)(_decoded)


def scan_text(text: str, *, scorer: Callable[[], Scorer] | None = bundled_scorer) -> Sequence[PoisonFinding]:
    """Scan plain text that a server sent, such as the result of a call, for orders to the model.

    A document may explain what to install, name keys and hold commands, so only text that is addressed to a
    model counts. That is: orders to drop its instructions, to hide something from its user or to pass on
    private things; marks that show who speaks; hidden or coded text that gives orders. Where no rule finds
    any of it, the trained scorer judges the wording, unless `scorer` is `None`. There is one finding for each
    rule, the most severe first; `where` is empty. The scan reads the first 200,000 characters.
    """
    by_rule: dict[str, PoisonFinding] = {}
    for one in _of_text(text[:MAX_CHARACTERS]):
        by_rule.setdefault(one.rule, one)
    if not by_rule and scorer is not None:
        weights, score = scorer().weights, scorer().score_text(text)
        if score.value >= weights.answers_from:
            by_rule["wording"] = _of_wording(score)
    return sorted(by_rule.values(), key=lambda one: _ORDER.index(one.severity))


def _of_text(text: str) -> Iterator[PoisonFinding]:
    for sign in signs(text, label=False):
        marks = sign.id == "role-marker" and sign.severity == "ask" and "</" not in sign.shown
        if marks or (sign.id == "invisible" and sign.severity == "refuse"):
            yield _make_finding(sign.id, "", sign.shown, sign.severity, sign.reason)
    for coded in decode_parts(text):
        if _RULES_OF_TEXT.broken_rules(" ".join(fold(coded.text).split())):
            reason = f"text in {coded.how} that says: {quote_text(coded.text)[:_SHOWN]}"
            yield _make_finding("encoded", "", coded.shown, "refuse", reason)
    for sentence, folded in folded_sentences(text):
        if not _TO_A_MODEL.search(folded) or _WARNS.search(folded):
            continue
        for rule in _RULES_OF_TEXT.broken_rules(folded):
            if rule.id in _PASSED_ON and not _PASSES_ON.search(folded):
                continue
            yield _make_finding(rule.id, "", sentence, rule.severity, rule.reason)


def _of_label(where: str, text: str, excused_matters: int) -> Iterator[PoisonFinding]:
    """Scan a name that is a sentence like a sentence."""
    words = _NO_WORD.sub(" ", fold(text)).strip()
    if words.count(" ") + 1 < _SENTENCE_LABEL:
        return
    if _KEY_LABEL.search(words):
        reason = "a parameter that is named after the private data that it takes"
        yield _make_finding("exfiltration", where, text, "ask", reason)
    for _, part in sentences(words):
        yield from _of_sentence(where, part, part, excused_matters, ASKED_FOR)


def _of_sentence(
    where: str, folded: str, shown: str, excused_matters: int, extra_ideas: int
) -> Iterator[PoisonFinding]:
    if _WARNS.search(folded):
        return
    for rule in (*_RULES.broken_rules(folded), *_SCOPE.broken_rules(folded, excused_matters, extra_ideas)):
        yield _make_finding(rule.id, where, shown, rule.severity, rule.reason)


def _of_cipher(where: str, folded: str, shown: str, *, announced: bool) -> Iterator[PoisonFinding]:
    """Report orders in rot13 or reversed letters, where the text says so or is not plain English."""
    for reason in _ciphered(folded, announced=announced):
        yield _make_finding("encoded", where, shown, "refuse", reason)


@lru_cache(maxsize=8_192)
def _ciphered(folded: str, *, announced: bool) -> tuple[str, ...]:
    if not folded.isascii() or len(_LETTERS.findall(folded)) < _LEAST_CIPHERED:
        return ()
    if not announced and _PLAIN.search(folded):
        return ()
    return tuple(
        f"a ciphered text that says: {quote_text(plain)[:_SHOWN]}"
        for plain in (rotate_letters(folded), folded[::-1])
        if len(set(_PLAIN.findall(plain))) > 1 and _orders(plain)
    )


def _orders(plain: str) -> bool:
    """Return whether decoded text gives orders: it begins with one, breaks a rule or joins several ideas."""
    folded = fold(plain)
    ideas = ideas_in(folded)
    if ideas_in(folded.split(" ", 1)[0]) & _IMPERATIVE:
        return True
    return sum(bool(ideas & risk) for risk in _RISKS) >= _SEVERAL or bool(
        _RULES.broken_rules(folded) or _SCOPE.broken_rules(folded)
    )


def _combined_weak_signs(findings: Collection[PoisonFinding]) -> Iterator[PoisonFinding]:
    """Ask for a person where one definition has weak signs of different kinds, though each alone does not."""
    weak = {one.rule: one for one in findings if one.severity == "warn"}
    if len(weak) >= _SEVERAL and len(weak) == len({one.rule for one in findings}):
        first = next(iter(weak.values()))
        reason = f"several weak signs together: {', '.join(sorted(weak))}"
        yield _make_finding("several", first.where, first.excerpt, "ask", reason)


def _with_score(findings: Sequence[PoisonFinding], score: Score, scorer: Scorer) -> list[PoisonFinding]:
    """Combine the findings with the score of the trained scorer, which can give no reason but the sentence.

    A low score weakens only findings about wording, and only if the whole text was read. The scorer knows
    nothing of hidden or repeated text, or of text that it did not read.
    """
    if score.clears and not any(one.rule == "too-much" for one in findings):
        return [replace(one, severity="warn") if _is_taken_back(one) else one for one in findings]
    if score.value < scorer.weights.held_from or any(one.severity != "warn" for one in findings):
        return list(findings)
    return [*findings, _of_wording(score)]


def _of_wording(score: Score) -> PoisonFinding:
    """The finding of the scorer, with the known order that is nearest to the sentence."""
    nearest = nearest_example(score.shown)
    kind = f", most of all like those of the kind {nearest.kind!r}" if nearest else ""
    reason = f"reads like orders to a model, by its wording{kind} (score {score.value:.1f})"
    finding = _make_finding("wording", score.where, score.shown, "ask", reason)
    return replace(finding, nearest=quote_text(nearest.order) if nearest else "")


def _is_taken_back(one: PoisonFinding) -> bool:
    return one.severity == "ask" and one.rule in _WORDED


def _make_finding(rule: str, where: str, shown: str, severity: Severity, reason: str) -> PoisonFinding:
    fix = KINDS[rule].fix
    return PoisonFinding(
        rule=rule, where=where, excerpt=quote_text(shown), severity=severity, reason=reason, fix=fix
    )
