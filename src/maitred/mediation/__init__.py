"""Better tools: names, descriptions and schemas that a model can choose from and call.

A `Mediator` puts raw tools through transformers: what a person wrote (`OverrideTransformer`), rules
(`RuleTransformer`), a language model (`LlmTransformer`), or others that follow the protocol. It is a library
on its own, without a gateway.
"""

from maitred.mediation.base import EnhancedTool, Middleware, SourceTool, ToolContext, Transformer
from maitred.mediation.llm import Estimate, LlmTransformer, ModelSpending
from maitred.mediation.mediator import UNCATEGORIZED, Mediator, middleware
from maitred.mediation.memo import Memo, MemoEntry, MemoryStore, MemoStore
from maitred.mediation.override_files import load_overrides
from maitred.mediation.overrides import Overrides, OverrideTransformer, ToolOverride
from maitred.mediation.proof import ProofVerdict, Ranker, prove
from maitred.mediation.remote_overrides import fetch_overrides
from maitred.mediation.rules import RuleTransformer

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
    "ToolOverride",
    "Transformer",
    "fetch_overrides",
    "load_overrides",
    "middleware",
    "prove",
]
