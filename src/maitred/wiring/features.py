"""Makes the features of a gateway: admission, access, audit, search, mediation, visibility and chains."""

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import structlog

from maitred.config.settings import AccessSettings, Admission, HeldCallSettings, Results, Settings, SignIn
from maitred.errors import ConfigError
from maitred.wiring.exceptions import single_error
from maitred.wiring.references import operator_resolver
from maitred.wiring.storage import database_of, open_store

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.access.oidc import OidcClient
    from maitred.calls.result_rules import ResultRules
    from maitred.calls.results import ResultStore
    from maitred.catalog.stages import Placer
    from maitred.chains.base import IsolatedSandbox
    from maitred.gateway.state import GatewayState
    from maitred.gateway.use_cases import Writer
    from maitred.mediation.base import Middleware
    from maitred.mediation.factory import MediatorFactory
    from maitred.mediation.proof import Ranker
    from maitred.model.categories import ToolGroup
    from maitred.model.held_calls import HeldCall
    from maitred.model.tools import ToolKey
    from maitred.search.base import Embedder, Vectors
    from maitred.search.engine import SearchEngine
    from maitred.visibility.rules import RuleFunction
    from maitred.visibility.visibility import VisibilityTable

log = structlog.get_logger(__name__)

_COMPARED_SHARE = 4
"""The memory for what agents got last is this part of the memory for whole answers."""


@asynccontextmanager
async def open_writer(settings: Settings) -> "AsyncIterator[Writer | None]":
    """The language model that writes use cases, if one is configured."""
    from maitred.search.use_cases import make_phrase_writer

    writer = make_phrase_writer(settings.use_cases, operator_resolver(settings))
    try:
        yield writer
    finally:
        if writer is not None:
            await writer.aclose()


def make_sandbox(settings: Settings) -> "AbstractAsyncContextManager[IsolatedSandbox]":
    """The engine of chains; it is loaded with the first one."""
    from maitred.chains.monty import MontySandbox

    return MontySandbox(processes=settings.chain.processes, jail=settings.chain.jail)


@cache
def bundled_embedder() -> "Embedder":
    """The embedder that comes with the package; nothing is loaded before its first use."""
    from maitred.search.static_embedder import StaticEmbedder

    return StaticEmbedder()


def make_placer(settings: Settings) -> "Placer":
    """The classifier that puts tools in categories: by words, by the bundled model, by choices of persons."""
    from maitred.config.taxonomy import merge_categories
    from maitred.disclosure.categories import Classifier
    from maitred.search.base import documents
    from maitred.search.tokenize import index_terms

    return Classifier(
        merge_categories(settings.categories),
        stems=index_terms,
        choices=settings.tools,
        embed_tools=lambda tools, schema: bundled_embedder().documents(documents(tools, schema)),
        embed_texts=_embed_texts,
        groups=settings.disclosure.groups,
        propose_groups=_propose_groups,
    )


def _propose_groups(names: "Collection[str]", source: str) -> "Mapping[str, ToolGroup]":
    from maitred.mediation.groups import propose_groups

    return propose_groups(names, source)


def _embed_texts(texts: "Sequence[str]") -> "Vectors":
    return bundled_embedder().queries(texts)


def make_tables(
    settings: Settings, *, rules: "Mapping[str, RuleFunction]"
) -> "Mapping[str, VisibilityTable]":
    """The declarations of servers about visibility, with Python rules of the program and of plug-ins.

    Raises:
        ConfigError: A declaration has faults; all are listed.
    """
    browsers = [name for name, spec in settings.servers.items() if spec.browser]
    if not browsers and not any(spec.visibility for spec in settings.servers.values()):
        return {}
    if browsers:
        from maitred.browser.state import with_declarations

        specs = {
            name: replace(spec, visibility=with_declarations(spec.visibility)) if name in browsers else spec
            for name, spec in settings.servers.items()
        }
        settings = replace(settings, servers=specs)
    from maitred.visibility.declarations import read_tables
    from maitred.visibility.rules import RuleRegistry

    return read_tables(settings, RuleRegistry({**plugged_rules(), **rules}))


def plugged_rules() -> "Mapping[str, RuleFunction]":
    """The rules that installed packages name as entry points; logs those that cannot be loaded."""
    from importlib.metadata import entry_points

    found = {}
    for entry in entry_points(group="maitred.visibility_rules"):
        try:
            found[entry.name] = entry.load()
        except Exception:  # a plug-in may fail in any way
            log.exception("a visibility rule cannot be loaded", rule=entry.name)
    return found


def make_menders(
    settings: Settings,
    middleware: "Middleware | None",
    arguments_of: "Callable[[ToolKey], Mapping[str, str]]",
) -> "MediatorFactory":
    """The factory of mediation services, with stored answers of models and stored proofs.

    `arguments_of` returns the arguments that calls of a tool had, each with its type.
    """
    from maitred.mediation.factory import MediatorFactory
    from maitred.mediation.memo_store import SqlMemos

    def make_ranker() -> "Ranker":
        from maitred.mediation.search_ranker import SearchRanker

        return SearchRanker(bundled_embedder())

    memos = SqlMemos(database_of(settings))
    return MediatorFactory(memos, make_ranker, middleware=middleware, arguments_of=arguments_of)


@asynccontextmanager
async def open_search(settings: Settings) -> "AsyncIterator[SearchEngine]":
    """The search engine with the embedder and the reranker of the settings; closes their connections."""
    from maitred.search.engine import SearchEngine
    from maitred.search.vector_store import SqlVectors

    resolve = operator_resolver(settings)
    async with AsyncExitStack() as stack:
        ends = stack.enter_context(ExitStack())  # after the engine that uses what is made

        def embedder() -> "Embedder | None":
            from maitred.search.embedders import OpenAiEmbedder, make_embedder

            made = make_embedder(settings.search, resolve)
            if isinstance(made, OpenAiEmbedder):
                ends.callback(made.close)
            return made

        reranker = None
        if settings.search.reranker != "none":
            from maitred.search.llm_reranker import make_reranker
            from maitred.search.rerank import RerankStage

            model = make_reranker(settings.search, resolve)
            if model is not None:
                stack.push_async_callback(model.aclose)
                limit_s = settings.search.rerank_timeout_s
                reranker = RerankStage(model, timeout_s=limit_s, load=model.load)
        cache = SqlVectors(database_of(settings))
        mode = settings.search.mode
        engine = SearchEngine(mode=mode, make_embedder=embedder, cache=cache, reranker=reranker)
        yield await stack.enter_async_context(engine)


if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.access.credentials import Credentials, TokenCheck
    from maitred.access.token_store import Grants
    from maitred.access.tokens import TokenService
    from maitred.admission.allow_list import AllowList
    from maitred.admission.checks.base import Policy
    from maitred.admission.judgement import LookalikeFinder, ServerJudge
    from maitred.audit.service import AuditService
    from maitred.calls.screening import AnswerScreen
    from maitred.gateway.admission import ManifestReviewer
    from maitred.poisoning.tool_index import ToolNameIndex
    from maitred.visibility.rules import RuleFunction


def make_judge(server: str, index: "ToolNameIndex") -> "ServerJudge":
    """The judge of a server's definition. It loads its rules when the first server is listed."""
    from maitred.admission.judge import Judge

    return Judge(server, index)


def make_namesakes(names: "Mapping[str, Collection[str]]") -> "LookalikeFinder":
    """The finder of names that look like other names."""
    from maitred.admission.judge import Namesakes

    return Namesakes(names)


def make_front(settings: Settings, *, rules: "Mapping[str, RuleFunction]") -> "ManifestReviewer":
    """The reviewer of manifests, with the policy of the settings and the known visibility rules.

    Raises:
        ConfigError: The policy has faults; all are listed.
    """
    from maitred.admission.review import Reviewer
    from maitred.config.taxonomy import merge_categories
    from maitred.gateway.declarations import Declarations
    from maitred.visibility.rules import RuleRegistry

    known = RuleRegistry({**plugged_rules(), **rules})
    declarations = Declarations(known, [category.name for category in merge_categories(settings.categories)])
    return Reviewer(make_policy(settings), declarations.findings)


def check_policy(settings: Settings) -> None:
    """Check the policy and the rules about held calls before they are needed, if the operator wrote some.

    Raises:
        ConfigError: They have faults; all are listed.
    """
    if settings.admission != Admission():
        make_policy(settings)
    if settings.held_calls.rules:
        from maitred.config.hold_rules import compile_rules

        try:
            compile_rules(settings.held_calls.rules)
        except ValueError as error:
            raise ConfigError(str(settings.source), [str(error)]) from error


async def notify_of_held(
    held: "HeldCall", settings: HeldCallSettings, *, resolve: Callable[[str], str]
) -> None:
    """Send a message about a call that waits for a person; never raises."""
    from maitred.held_calls.webhook import send

    await send(held, settings, resolve)


def make_policy(settings: Settings) -> "Policy":
    """The operator's policy: which servers need no decision of a person.

    Raises:
        ConfigError: It has faults; all are listed.
    """
    from maitred.admission.policy_settings import policy_of

    try:
        return policy_of(settings.admission)
    except ValueError as error:
        raise ConfigError(str(settings.source), [f"admission: {error}"]) from error


def make_grants(settings: Settings) -> "Grants":
    """The access tokens beside the catalog; the file is opened with the first."""
    from maitred.access.token_store import Grants

    grace_s = settings.catalog.grace_s if settings.catalog.url else 0.0
    return Grants(database_of(settings), grace_s=grace_s)


@asynccontextmanager
async def open_tokens(settings: Settings) -> "AsyncIterator[TokenService]":
    """The access tokens of a configuration, for a command that needs no gateway.

    Raises:
        ConfigError: The catalog, whose file has the tokens, cannot be opened.
    """
    from maitred.access.tokens import ScopeNames, TokenService
    from maitred.admission.registry import Registry
    from maitred.config.taxonomy import merge_categories

    async def known() -> ScopeNames:
        _, registered = await Registry(database_of(settings)).everything()
        return ScopeNames(
            servers={*settings.servers, *registered},
            categories=[one.name for one in merge_categories(settings.categories)],
            profiles=settings.profiles,
        )

    async with open_auditing(settings) as auditing:
        yield TokenService(make_grants(settings), auditing, known)


@asynccontextmanager
async def open_allow_list(settings: Settings) -> "AsyncIterator[AllowList]":
    """The allow list of a configuration, for a command that needs no gateway.

    Raises:
        ConfigError: The catalog, whose file has the list, cannot be opened.
    """
    from maitred.admission.allow_list import AllowList, AllowLog

    async with open_auditing(settings) as auditing:
        yield AllowList(AllowLog(database_of(settings)), auditing)


def make_credentials(settings: Settings) -> "Credentials":
    """The check of tokens: those that maitred made, and those of an issuer if one is set."""
    from maitred.access.credentials import Credentials
    from maitred.access.suspended_principals import SuspendedPrincipals
    from maitred.access.teams import PrincipalGroups

    def make_check(access: AccessSettings) -> "TokenCheck | None":
        if settings.http.jwt is None:
            return None
        from maitred.access.jwt import verifier_of  # its libraries are slow to load, and hardly needed

        return verifier_of(settings.http.jwt, access).grant_of

    database = database_of(settings)
    suspended = SuspendedPrincipals(database)
    return Credentials(
        make_grants(settings), make_check, settings.access, suspended, PrincipalGroups(database)
    )


def make_oidc_client(settings: SignIn, *, resolve: Callable[[str], str]) -> "OidcClient":
    """What signs people in at a provider."""
    from maitred.access.oidc import OidcClient

    return OidcClient(settings, resolve)


def make_screen(settings: Results) -> "AnswerScreen":
    """The screen for answers. It loads its rules with the first answer."""
    from maitred.audit.masking import mask_text
    from maitred.calls.results import ResultStore
    from maitred.calls.screening import AnswerScreen
    from maitred.config.redaction import redact

    def scan(text: str) -> list[str]:
        from maitred.poisoning.scan import scan_text

        return [found.rule for found in scan_text(text)]

    def mask(text: str) -> str:
        return mask_text(redact(text))

    kept = ResultStore(ttl_s=settings.keep_s, max_bytes=settings.keep_bytes)
    return AnswerScreen(
        settings.screening, scan=scan, mask=mask if settings.mask_secrets else None, kept=kept
    )


def make_result_rules(settings: Results, store: "ResultStore", state: "GatewayState") -> "ResultRules":
    """What applies `results.rules` and presets. The memory for changes is a quarter of that for answers."""
    from maitred.calls.result_rules import ResultRules
    from maitred.disclosure.budget import estimate
    from maitred.gateway.stored_results import RuleChoice

    return ResultRules(
        RuleChoice(state), store, estimate=estimate, max_bytes=settings.keep_bytes // _COMPARED_SHARE
    )


def audit_key() -> bytes:
    """The key of the audit trail's digests; empty where none is set."""
    return os.environ.get("MAITRED_AUDIT_KEY", "").encode()


@asynccontextmanager
async def open_auditing(settings: Settings) -> "AsyncIterator[AuditService]":
    """The audit trail of a configuration, for a command that needs no gateway.

    Raises:
        ConfigError: The catalog, whose file has the trail, cannot be opened.
    """
    async with single_error(), open_store(settings), open_trail(settings) as auditing:
        yield auditing


@asynccontextmanager
async def open_trail(settings: Settings, *, replica: str = "") -> "AsyncIterator[AuditService]":
    """The audit trail. It opens its file with the first entry.

    On PostgreSQL a gateway has the chain `replica`; commands share one.
    """
    from maitred.audit.log import AuditLog
    from maitred.audit.service import AuditService
    from maitred.disclosure.budget import estimate

    async with AuditLog(database_of(settings), key=audit_key(), replica=replica) as trail:
        yield AuditService(trail, settings.audit, estimate=estimate)
