"""Count tokens exactly, in the process that calls it, or as a program for other processes.

The vocabulary takes a tenth of a second and sixty megabytes to load. So the gateway runs this module as a
program (`python -m maitred.catalog.token_count`, see `maitred.catalog.token_worker`). Until standard
input ends, each input line is a JSON list of texts, and each output line the list of their counts.
"""

import json
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

_PACKAGE: Final = "bpe_openai"
_PART: Final = f"{_PACKAGE}._bindings"


def count_tokens(texts: Sequence[str]) -> list[int]:
    """The o200k tokens of each text."""
    tokenizer = _tokenizer()
    return [tokenizer.count(_whole(text)) for text in texts]


@cache
def _tokenizer() -> Any:
    """The tokenizer of bpe-openai's compiled part, which contains its vocabulary.

    The package around it would load three more vocabularies in Python at import. That takes ten times the
    work and twice the memory, and counting does not use them.
    """
    if _PART not in sys.modules:
        package = find_spec(_PACKAGE)
        spec = PathFinder.find_spec(_PART, package.submodule_search_locations) if package else None
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"{_PART} is missing", name=_PART)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[_PART] = module  # it loads only once, so a later import must find it
    return sys.modules[_PART].tokenizer_for_encoding("o200k_base")


def _whole(text: str) -> str:
    """The text with unpaired surrogates replaced, which no tokenizer accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin.buffer:
        counts = count_tokens(json.loads(line))
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
