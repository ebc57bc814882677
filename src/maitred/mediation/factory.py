"""Make the mediation service for some settings: overrides, rules, a language model, proofs.

The factory outlives a change of settings. It keeps stored answers, proofs, and the hook of an embedding
program.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import anyio
import structlog

from maitred.config.interpolate import resolver
from maitred.config.load import catalog_path
from maitred.config.settings import MediationSettings, Settings
from maitred.config.taxonomy import merge_categories
from maitred.llm import Endpoint, make_language_model
from maitred.mediation.base import Middleware, Transformer
from maitred.mediation.llm import LlmTransformer
from maitred.mediation.memo import Memo, MemoStore
from maitred.mediation.override_files import load_overrides, overrides_of
from maitred.mediation.overrides import Overrides, OverrideTransformer
from maitred.mediation.proof import Ranker
from maitred.mediation.proof_store import VERSION, Proofs
from maitred.mediation.rules import RuleTransformer
from maitred.mediation.service import (
    ArgumentsOf,
    MediationService,
    RememberedModel,
    ThreadedRules,
    no_arguments,
)
from maitred.model.tools import canonical, content_hash
from maitred.model.transports import is_composed

log = structlog.get_logger(__name__)

_FETCH_S: Final = 5.0
_FILLING: Final = 40  # below the language model, whose priority is 50
_HOUR_S: Final = 3_600.0


class MediatorFactory:
    """Makes mediation services.

    Args:
        memos: Stores answers of models and results of proofs.
        make_ranker: Makes the ranker that judges search; called for the first proof.
        middleware: The hook of an embedding program for all tools; it may differ at every start.
        arguments_of: Returns the arguments that calls of a tool had, each with its JSON type or nothing.
    """

    def __init__(
        self,
        memos: MemoStore,
        make_ranker: Callable[[], Ranker],
        *,
        middleware: Middleware | None = None,
        arguments_of: ArgumentsOf = no_arguments,
    ) -> None:
        self._arguments_of = arguments_of
        self._memos = memos
        self._proofs = Proofs(make_ranker, memos)
        self._middleware = middleware
        self._hook_mark = uuid4().hex if middleware else ""

    async def make(self, settings: Settings) -> MediationService:
        """The mediation service for these settings.

        It waits a few seconds for a file of overrides by URL; without the file the service is not whole.

        Raises:
            ConfigError: A file of overrides has faults, which are all listed, or another checksum than the
                settings say. Or the settings of the language model are wrong.
        """
        own = settings.mediation
        community, is_whole = await _community(settings)
        files = [*_own(settings), *_of_manifests(settings), *community]
        model = self._remembered_model(own, settings.secrets.commands)
        transformers: list[Transformer] = [OverrideTransformer(*files)] if files else []
        if own.auto_enhance and own.rules:
            fills = model is not None and own.mode == "hybrid"
            transformers.append(ThreadedRules(_FILLING) if fills else ThreadedRules())
        proofs = self._proofs if own.proof and own.auto_enhance else None
        choices = {key: choice for key, choice in settings.tools.items() if choice.mending}
        urls = {name: spec.url for name, spec in settings.servers.items() if spec.url}
        with_pages = sorted(
            name
            for name, spec in settings.servers.items()
            if spec.pages is not None or is_composed(spec.transport)
        )
        marks: list[Any] = [
            [asdict(file)["servers"] for file in files],
            [urls, with_pages] if files else [],
            [[type(transformer).__name__, transformer.priority] for transformer in transformers],
            RuleTransformer.version,
            _version(own) if model else "",
            VERSION if proofs else 0,
            [[key.server, key.name, choices[key].mending] for key in sorted(choices)],
            self._hook_mark,
        ]
        return MediationService(
            transformers,
            content_hash(canonical(marks)),
            model=model,
            proofs=proofs,
            choices=choices,
            middleware=self._middleware,
            is_whole=is_whole,
            urls=urls,
            with_pages=with_pages,
            arguments_of=self._arguments_of,
        )

    def _remembered_model(self, own: MediationSettings, commands: Sequence[str]) -> RememberedModel | None:
        if not own.auto_enhance:
            return None
        endpoint = Endpoint(url=own.url, model=own.model, key=own.api_key)
        resolve = resolver(os.environ, commands=commands)
        model = make_language_model("mediation", own.llm_provider, endpoint, resolve)
        if model is None:
            return None
        transformer = LlmTransformer(model, grouping_threshold=own.grouping_threshold)
        memo = Memo(transformer, self._memos, version=_version(own), ttl_s=own.cache_ttl * _HOUR_S)
        return RememberedModel(model=transformer, memo=memo, close=model.aclose)


def overrides_path(settings: Settings) -> Path | None:
    """The operator's file of overrides, if there is one."""
    if not settings.mediation.overrides:
        return None
    path = settings.source.absolute().parent / Path(settings.mediation.overrides).expanduser()
    return Path(os.path.normpath(path))  # the spelling that the file watcher uses


def _version(own: MediationSettings) -> str:
    """All settings on which an answer of the language model depends."""
    parts = [LlmTransformer.version, own.llm_provider, own.model, own.url, own.grouping_threshold]
    return content_hash(canonical(parts))


def _own(settings: Settings) -> Sequence[Overrides]:
    path = overrides_path(settings)
    categories = [category.name for category in merge_categories(settings.categories)]
    return [load_overrides(path, categories=categories)] if path else []


def _of_manifests(settings: Settings) -> Sequence[Overrides]:
    """Overrides in manifests; registration checked them."""
    return [overrides_of(name, spec.overrides) for name, spec in settings.servers.items() if spec.overrides]


async def _community(settings: Settings) -> tuple[Sequence[Overrides], bool]:
    """The overrides from a URL, and whether all that the settings name are there."""
    own = settings.mediation
    if not own.overrides_url:
        return [], True
    import httpx2  # noqa: PLC0415  # slow to import, and most gateways fetch no overrides

    from maitred.mediation.remote_overrides import UnreachableError, fetch_overrides  # noqa: PLC0415
    from maitred.tls import tls_context  # noqa: PLC0415

    try:
        async with httpx2.AsyncClient(verify=tls_context()) as client:
            with anyio.fail_after(_FETCH_S):
                cache = catalog_path(settings).parent / "overrides"
                overrides = await fetch_overrides(
                    own.overrides_url, own.overrides_checksum, cache=cache, client=client
                )
    except (UnreachableError, TimeoutError) as error:
        why = str(error) or f"there was no answer within {_FETCH_S:g} s"
        log.warning("going on without overrides; they are fetched later", url=own.overrides_url, why=why)
        return [], False
    return [overrides], True
