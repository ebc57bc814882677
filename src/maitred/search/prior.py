"""How much a tool is lifted in a ranking because it was used.

The more of a catalog's calls are of one tool, the likelier the next search is for it. The weight was chosen
on the tuning sets, so that none of them loses a point of R@5 for tools that were never called.
`docs/search.md` has what it brings.
"""

import math
from typing import Final

_WEIGHT: Final = 0.1
_EVIDENCE: Final = 10
"""With fewer calls of the whole catalog, a call counts as one of so many."""


def usage_prior(calls: int, of_all: int) -> float:
    """What is added to the score of a tool, 0 to `_WEIGHT`: by its calls, and those of all tools."""
    return _WEIGHT * math.log1p(max(calls, 0)) / math.log1p(max(calls, of_all, _EVIDENCE))
