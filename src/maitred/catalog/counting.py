"""Count tokens exactly, in the process that calls it, or as a program for other processes.

Loading the vocabulary takes a second and a hundred megabytes. The gateway therefore runs this module as a
program (`python -m maitred.catalog.counting`, see `maitred.catalog.tokens`): a line with a JSON list of texts
in, a line with the list of their counts out, until standard input ends.
"""

import json
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any


@cache
def _encoding() -> Any:
    import bpe_openai  # noqa: PLC0415  # so heavy that merely importing this module must not load it

    return bpe_openai.get_encoding("o200k_base")


def count_tokens(texts: Sequence[str]) -> list[int]:
    """The o200k tokens of each text."""
    encoding = _encoding()
    return [len(encoding.encode_ordinary(text)) for text in texts]


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin.buffer:
        counts = count_tokens(json.loads(line))
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
