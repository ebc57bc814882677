"""Makes the weights of the scorer of the scan: `python -m training.poison`. See README.md here.

A logistic regression over windows of one or two sentences (`scan_texts.py`). The thresholds are the lowest at
which few honest texts are held that were left out: each fold leaves out whole phrasings and carriers, whole
authors and servers. `--report` also leaves out kinds, languages and surfaces in turn.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from maitred.evaluation.intervals import share_interval
from maitred.poisoning.examples import FILE as EXAMPLES
from maitred.poisoning.scorer import SIZE, WEIGHTS, discount, pack_weights
from training.examples import write_examples
from training.scan_texts import ScanText, read_all

FOLDS = 5
PENALTY = 1.0
EVIL_WEIGHT = 3.0
WEIGHTS_OF = {"labelled": 3.0, "page": 4.0}
"""How much a window of a source counts: there are few ordinary answers, and few poisoned definitions."""
SLOPE = 0.3
ORDINARY = {False: 0.015, True: 0.005}
"""The share of ordinary honest texts that may be held: of recorded definitions, and of honest answers."""
TWINS = {False: 0.25, True: 0.02}
"""The share of honest twins that may be held, of definitions and of answers."""
MARGIN = {False: 0.0, True: 0.8}
"""What is added to a threshold: answers with new carriers hold more honest texts than the folds say."""
KINDS_AT_ONCE = 4

Chosen = Callable[[ScanText], bool]


class Model:
    """A fitted table with its bias."""

    def __init__(self, texts: Sequence[ScanText]) -> None:
        windows = [window for text in texts for window in text.windows]
        starts = np.cumsum([0, *(len(window.places) for window in windows)])
        values = np.concatenate([window.values for window in windows])
        places = np.concatenate([window.places for window in windows])
        matrix = csr_matrix((values, places, starts), shape=(len(windows), SIZE))
        matrix.sum_duplicates()
        wanted = np.array([window.evil for window in windows])
        weights = [WEIGHTS_OF.get(text.source, 1.0) for text in texts for _ in text.windows]
        model = LogisticRegression(C=PENALTY, solver="liblinear", tol=1e-2, max_iter=100, random_state=0)
        model.fit(matrix, wanted, sample_weight=np.where(wanted, EVIL_WEIGHT, 1.0) * weights)
        self.table: NDArray[np.float32] = model.coef_[0].astype(np.float32)
        self.bias = float(model.intercept_[0])

    def score(self, text: ScanText) -> float:
        """The score of the worst window, as the scorer has it."""
        scores = [float(self.table[one.places] @ one.values) + self.bias for one in text.windows]
        return max(scores, default=-np.inf) - discount(text.sentences, SLOPE)


def main() -> None:
    """Read, fit, choose and write."""
    options = _options()
    console = Console()
    texts = read_all(options.folder, options.real, options.pages)
    learned = [text for text in texts if not text.held_back]
    windows = sum(len(text.windows) for text in learned)
    console.print(f"{len(texts):,} texts, {len(learned):,} to learn from, with {windows:,} windows")
    apart = [(text, score) for fold in range(FOLDS) for text, score in _left_out(learned, fold)]
    unseen, left_out = [text for text, _ in apart], np.array([score for _, score in apart])
    held_from = {answers: _threshold(unseen, left_out, answers=answers) for answers in (False, True)}
    model = Model(learned)
    packed = pack_weights(model.table, model.bias, held_from[False], SLOPE, held_from[True])
    np.savez_compressed(options.out, **packed)
    count = write_examples(options.examples)
    console.print(f"{count} examples in {options.examples}")
    size = options.out.stat().st_size / 1e3
    thresholds = f"held from {held_from[False]:.2f}, answers from {held_from[True]:.2f}"
    console.print(f"{thresholds}; {options.out} has {size:.0f} kB")
    _say(console, "left out by phrasing and carrier, author and server", unseen, left_out, held_from)
    held_back = [text for text in texts if text.held_back]
    _say(console, "held back", held_back, np.array([model.score(text) for text in held_back]), held_from)
    if options.report:
        _report(console, learned, held_from)


def _left_out(texts: Sequence[ScanText], fold: int) -> list[tuple[ScanText, float]]:
    """The scores of the texts whose group and carrier are of a fold, by a model that has seen neither."""
    model = Model([text for text in texts if fold not in text.folds(FOLDS)])
    return [(text, model.score(text)) for text in texts if text.folds(FOLDS) == (fold, fold)]


def _threshold(texts: Sequence[ScanText], scores: NDArray[np.float64], *, answers: bool) -> float:
    """The lowest score from which few honest texts are held."""

    def least(chosen: Chosen, share: float) -> float:
        honest = [
            score
            for text, score in zip(texts, scores, strict=True)
            if text.is_answer is answers and not text.evil and chosen(text)
        ]
        return float(np.quantile(honest, 1 - share))

    ordinary = ("page", "honest") if answers else ("recorded",)
    return MARGIN[answers] + max(
        least(lambda text: text.source in ordinary, ORDINARY[answers]),
        least(lambda text: text.source == "pair", TWINS[answers]),
    )


def _report(console: Console, learned: Sequence[ScanText], held_from: dict[bool, float]) -> None:
    """Leave out some kinds at a time, then each language but English, then each surface."""
    values = {
        field: sorted({text.fields[field] for text in learned if text.source == "pair"})
        for field in ("kind", "language", "surface")
    }
    kinds = values["kind"]
    parts = [("kind", kinds[at :: KINDS_AT_ONCE + 1]) for at in range(KINDS_AT_ONCE + 1)]
    parts += [("language", [name]) for name in values["language"] if name != "en"]
    parts += [("surface", [name]) for name in values["surface"]]
    for field, names in parts:
        out = [text for text in learned if text.fields.get(field) in names]
        orders = {text.group for text in out} if field == "kind" else set()
        model = Model(
            [one for one in learned if one.fields.get(field) not in names and one.group not in orders]
        )
        scores = np.array([model.score(text) for text in out])
        for name in names:
            mask = [text.fields[field] == name for text in out]
            part = [text for text, chosen in zip(out, mask, strict=True) if chosen]
            _say(console, f"{field} left out: {name}", part, scores[np.array(mask)], held_from)


def _say(
    console: Console,
    what: str,
    texts: Sequence[ScanText],
    scores: NDArray[np.float64],
    held_from: dict[bool, float],
) -> None:
    for answers in (False, True):
        for name, chosen in _PARTS:
            held = [
                bool(score >= held_from[answers])
                for text, score in zip(texts, scores, strict=True)
                if text.is_answer is answers and chosen(text)
            ]
            if share := share_interval(sum(held), len(held)):
                place = "answers" if answers else "definitions"
                figures = f"{100 * share.mean:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})"
                console.print(f"{what}: {place}, {name}: {sum(held):,} of {len(held):,} = {figures}")


_PARTS: tuple[tuple[str, Chosen], ...] = (
    ("attacks of pairs", lambda text: text.source == "pair" and text.evil),
    ("honest twins", lambda text: text.source == "pair" and not text.evil),
    ("honest texts", lambda text: text.source == "honest"),
    ("poisoned definitions", lambda text: text.source == "labelled" and text.evil),
    ("honest definitions, looking suspicious", lambda text: text.source == "labelled" and not text.evil),
    ("recorded", lambda text: text.source == "recorded"),
    ("pages", lambda text: text.source == "page"),
)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.poison", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("tests/data/poison"), help="labelled definitions")
    shared = Path("../shared/data/real_servers/servers.jsonl")
    parser.add_argument("--real", type=Path, default=shared, help="recorded servers")
    parser.add_argument(
        "--pages", type=Path, default=Path("docs"), help="pages that stand for honest answers"
    )
    parser.add_argument(
        "--report", action="store_true", help="leave out kinds, languages and surfaces in turn"
    )
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="where the examples go")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="where the weights go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
