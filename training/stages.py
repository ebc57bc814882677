"""The stages of training, each kept in the work folder so that it is made once."""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from maitred.search.base import ToolDocument
from maitred.search.static_embedder import StaticEmbedder, Tokeniser, query_pieces, segments
from training.blend import blend
from training.cut import cut_tool, without
from training.distil import Start, distil
from training.labelled import TRAINING_SETS, UNSEEN_SETS, LabelledSet, read_training_set, read_unseen_set
from training.pack import pack
from training.pairs import PARAMETERS, REST, SERVER, labelled_pool, self_pools
from training.report import Figures, Model, TeacherModel, measure, table
from training.sources import Source, read_sources
from training.teacher import WIDTH, Teacher
from training.train import Imitation, Trainer
from training.vocabulary import choose

_SEED = 20_260
_IMITATED = {"real": 4_000, "tooluniverse": 3_000, "aws": 4_000, "google": 3_000}

Rows = NDArray[np.float32]
_Made = TypeVar("_Made")


class Stages:
    """All stages over one work folder."""

    def __init__(self, *, work: Path, data: Path, real: Path, console: Console) -> None:
        self._work, self._data, self._real, self._console = work, data, real, console
        work.mkdir(parents=True, exist_ok=True)

    def trained(self, *, steps: int, with_labels: bool) -> Path:
        """Stages `train` and `pack`: a weights file in the work folder."""
        kind = "trained" if with_labels else "self-supervised"
        path = self._work / f"{kind}-{steps}.npz"
        if path.exists():
            return path
        tokeniser = Tokeniser(self._vocabulary)
        labelled = [labelled_pool(tokeniser, one) for one in self._sets] if with_labels else []
        unlabelled = self_pools(tokeniser, self._sources, self._sets)
        imitation = self._imitation(tokeniser, with_queries=with_labels)
        trainer = Trainer(self._start, labelled, unlabelled, imitation, seed=_SEED)
        with _one_thread(), self._bar(f"train {kind}", steps) as advance:
            learned = trainer.run(steps, lambda _: advance(1))
        pack(path, self._vocabulary, learned)
        return path

    def blended(self, *, steps: int) -> Path:
        """Stage `blend`: the model that ships, between the one with labels and the one without."""
        path = self._work / f"blended-{steps}.npz"
        if not path.exists():
            blend(
                self.trained(steps=steps, with_labels=True),
                self.trained(steps=steps, with_labels=False),
                path,
            )
        return path

    def report(self, weights: Mapping[str, Path]) -> tuple[Table, Mapping[str, Mapping[str, Figures]]]:
        """Stage `report`: figures of weights files, of the lexical search and of the teacher."""
        unseen = [read_unseen_set(self._data / name) for name in UNSEEN_SETS]
        models: dict[str, Model] = {name: StaticEmbedder(path) for name, path in weights.items()}
        models["MiniLM"] = _Kept(TeacherModel(self._teacher), self._work / "teacher-cache")
        with self._console.status("measure") as status:
            found = measure([*self._sets, *unseen], models, status.update)
        return table(found), found

    # --- what the stages need -----------------------------------------------------------------------------

    @cached_property
    def _teacher(self) -> Teacher:
        return Teacher()

    @cached_property
    def _sets(self) -> list[LabelledSet]:
        return [read_training_set(self._data / name) for name in TRAINING_SETS]

    @cached_property
    def _sources(self) -> list[Source]:
        return self._once("sources", lambda: read_sources(self._real))

    @cached_property
    def _vocabulary(self) -> list[str]:
        return self._once("vocabulary", lambda: choose(self._teacher.pieces, self._sources))

    @cached_property
    def _start(self) -> Start:
        def make() -> Start:
            with self._bar("distil", len(self._vocabulary)) as advance:
                return distil(self._teacher, self._vocabulary, self._all_tools(), advance)

        return self._once("distilled", make)

    def _all_tools(self) -> list[ToolDocument]:
        tools = [tool for source in self._sources for tool in source.tools]
        return tools + [tool for one in self._sets for tool in one.tools]

    def _imitated(self) -> list[ToolDocument]:
        """The tools whose texts the teacher reads: a random part of each origin, all of the labelled sets."""
        random = np.random.default_rng(_SEED)
        found = [tool for one in self._sets for tool in one.tools]
        for source in self._sources:
            count = min(_IMITATED[source.name], len(source.tools))
            chosen = random.choice(len(source.tools), count, replace=False)
            found += [source.tools[number] for number in chosen]
        return [tool for tool in found if tool.description]

    def _imitation(self, tokeniser: Tokeniser, *, with_queries: bool) -> Imitation:
        """Stage `teacher`: the vectors that the teacher gives to tools and to queries.

        Without labels no query is seen at all, so that the tools' own first sentences stand for them.
        """
        tools = self._imitated()
        pieces = [without(cut_tool(tokeniser, tool), REST, PARAMETERS, SERVER) for tool in tools]
        texts = [f"{tool.name}: {_first(tool)}" for tool in tools]
        first = [_first(tool) for tool in tools]
        queries = [query.text for one in self._sets for query in one.train] if with_queries else []
        return Imitation(
            queries=[query_pieces(tokeniser, text) for text in [*queries, *first]],
            query_targets=np.concatenate([self._taught(queries), self._taught(first)]),
            tools=pieces,
            tool_targets=self._taught(texts),
        )

    def _taught(self, texts: list[str]) -> Rows:
        if not texts:
            return np.zeros((0, WIDTH), np.float32)

        def make() -> Rows:
            with self._bar("teacher", len(texts)) as advance:
                return self._teacher.embed(texts, tokens=64, progress=advance)

        digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:12]
        return self._once(f"taught-{digest}", make)

    def _once(self, name: str, make: Callable[[], _Made]) -> _Made:
        """What the stage made before, or makes now. The folder is the user's own, so pickles are safe."""
        path = self._work / f"{name}.pickle"
        if path.exists():
            made: _Made = pickle.loads(path.read_bytes())  # noqa: S301
            return made
        made = make()
        path.write_bytes(pickle.dumps(made))
        return made

    @contextmanager
    def _bar(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        columns = TextColumn(f"{name:22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(name, total=total)
            yield lambda count: progress.advance(task, count)


class _Kept:
    """A slow model whose vectors are kept in a folder."""

    def __init__(self, model: Model, folder: Path) -> None:
        self._model, self._folder = model, folder
        folder.mkdir(exist_ok=True)

    def documents(self, documents: Sequence[ToolDocument]) -> Rows:
        return self._kept([document.text for document in documents], lambda: self._model.documents(documents))

    def queries(self, texts: Sequence[str]) -> Rows:
        return self._kept(["query", *texts], lambda: self._model.queries(texts))

    def _kept(self, key: list[str], make: Callable[[], Rows]) -> Rows:
        path = self._folder / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]}.npy"
        if not path.exists():
            np.save(path, make())
        rows: Rows = np.load(path)
        return rows


@contextmanager
def _one_thread() -> Iterator[None]:
    """So that sums are made in the same order everywhere; more threads gain little."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _first(tool: ToolDocument) -> str:
    return segments(tool)[1]
