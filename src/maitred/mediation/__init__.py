"""Mediation: better names, descriptions and schemas, so that a model can choose and call tools.

A `Mediator` asks transformers in order: overrides of an operator, rules, a language model. The package
works as a library without a gateway; `service` and `factory` connect it to the catalog and the settings.
To add a transformer, implement the protocol `Transformer` of `base` and name it in `factory`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maitred.mediation.base import EnhancedTool, Middleware, SourceTool, ToolContext, Transformer
from maitred.mediation.groups import propose_groups
from maitred.mediation.llm import Estimate, LlmTransformer, ModelSpending
from maitred.mediation.mediator import UNCATEGORIZED, Mediator, middleware
from maitred.mediation.memo import Memo, MemoEntry, MemoryStore, MemoStore
from maitred.mediation.misreading import misreadings
from maitred.mediation.override_files import load_overrides
from maitred.mediation.overrides import Overrides, OverrideTransformer, ToolOverride
from maitred.mediation.proof import ProofVerdict, Ranker, prove
from maitred.mediation.rules import RuleTransformer
from maitred.mediation.words import expand_abbreviations
from maitred.model.categories import ToolGroup

if TYPE_CHECKING:  # it needs an HTTP client, which is slow to import: `__getattr__` imports it on first use
    from maitred.mediation.remote_overrides import fetch_overrides

__all__ = [
    "UNCATEGORIZED",
    "EnhancedTool",
    "Estimate",
    "LlmTransformer",
    "Mediator",
    "Memo",
    "MemoEntry",
    "MemoStore",
    "MemoryStore",
    "Middleware",
    "ModelSpending",
    "OverrideTransformer",
    "Overrides",
    "ProofVerdict",
    "Ranker",
    "RuleTransformer",
    "SourceTool",
    "ToolContext",
    "ToolGroup",
    "ToolOverride",
    "Transformer",
    "expand_abbreviations",
    "fetch_overrides",
    "load_overrides",
    "middleware",
    "misreadings",
    "propose_groups",
    "prove",
]


def __getattr__(name: str) -> Any:
    """Import what is slow to import when it is first used."""
    if name != "fetch_overrides":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("maitred.mediation.remote_overrides").fetch_overrides
