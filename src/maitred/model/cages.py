"""What a machine has to cage registered servers with, as values."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Aspect:
    """One part of it. `works` is false if something is missing; `told` says what there is, or why not."""

    name: Literal["jail", "limits", "engine", "scan"]
    works: bool
    told: str
