"""What decides who gets in, what they may do, and what is written down of it."""

import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from maitred.config.load import catalog_path
from maitred.config.settings import Admission, Results, Settings
from maitred.errors import ConfigError
from maitred.wiring.plain import plainly
from maitred.wiring.stores import open_store
from maitred.wiring.tools import plugged_rules

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.admission.base import Policy
    from maitred.admission.judgement import Judging, NameFinding
    from maitred.catalog.grants import Grants
    from maitred.disclosure.rules import RuleFunction
    from maitred.execution.screening import Screen
    from maitred.gateway.admission import Front
    from maitred.gateway.auditing import Auditing
    from maitred.gateway.credentials import Credentials, TokenCheck
    from maitred.gateway.tokens import Tokens


def make_judge(names: "Mapping[str, Collection[str]]") -> "Judging":
    """What judges definitions; its rules are loaded with the first server that is listed."""
    from maitred.admission.judging import Judge

    return Judge(names)


def make_namesakes(names: "Mapping[str, Collection[str]]") -> "NameFinding":
    """What finds names that could be taken for others."""
    from maitred.admission.judging import Namesakes

    return Namesakes(names)


def make_front(settings: Settings, *, rules: "Mapping[str, RuleFunction]") -> "Front":
    """What looks at manifests, by the policy of the settings, with the visibility rules that there are.

    Raises:
        ConfigError: The policy has faults; all are listed.
    """
    from maitred.admission.entrance import Entrance
    from maitred.config.vocabulary import merged
    from maitred.disclosure.rules import RuleRegistry
    from maitred.gateway.declarations import Declarations

    known = RuleRegistry({**plugged_rules(), **rules})
    declarations = Declarations(known, [category.name for category in merged(settings.categories)])
    return Entrance(make_policy(settings), declarations.findings)


def check_policy(settings: Settings) -> None:
    """Tell what is wrong with the policy before it is needed; there is none unless the operator wrote one.

    Raises:
        ConfigError: It has faults; all are listed.
    """
    if settings.admission != Admission():
        make_policy(settings)


def make_policy(settings: Settings) -> "Policy":
    """Who gets in unasked, as the operator decided.

    Raises:
        ConfigError: It has faults; all are listed.
    """
    from maitred.admission.policies import policy_of

    try:
        return policy_of(settings.admission)
    except ValueError as error:
        raise ConfigError(str(settings.source), [f"admission: {error}"]) from error


def make_grants(settings: Settings) -> "Grants":
    """The access tokens beside the catalog; the file is opened with the first."""
    from maitred.catalog.grants import Grants

    return Grants(catalog_path(settings))


@asynccontextmanager
async def open_tokens(settings: Settings) -> "AsyncIterator[Tokens]":
    """The access tokens of a configuration, for a command that needs no gateway.

    Raises:
        ConfigError: The catalog, whose file they stand in, cannot be opened.
    """
    from maitred.catalog.registry import Registry
    from maitred.config.vocabulary import merged
    from maitred.gateway.tokens import Tokens

    async def known() -> tuple[Collection[str], Collection[str]]:
        _, registered = await Registry(catalog_path(settings)).everything()
        return {*settings.servers, *registered}, [one.name for one in merged(settings.categories)]

    async with open_auditing(settings) as auditing:
        yield Tokens(make_grants(settings), auditing, known)


def make_credentials(settings: Settings) -> "Credentials":
    """What tells whose a token is: the tokens that maitred made, and those of an issuer if one is set."""
    from maitred.gateway.credentials import Credentials

    def make_check() -> "TokenCheck | None":
        if settings.http.jwt is None:
            return None
        from maitred.admission.jwt import verifier_of  # its libraries are slow to load, and hardly needed

        return verifier_of(settings.http.jwt).grant_of

    return Credentials(make_grants(settings), make_check)


def make_screen(settings: Results) -> "Screen":
    """What looks through answers; what finds orders in them is loaded with the first."""
    from maitred.catalog.masking import mask_text
    from maitred.config.redaction import redact
    from maitred.execution.results import ResultStore
    from maitred.execution.screening import Screen

    def scan(text: str) -> list[str]:
        from maitred.admission.poison import scan_text

        return [found.rule for found in scan_text(text)]

    def mask(text: str) -> str:
        return mask_text(redact(text))

    kept = ResultStore(ttl_s=settings.keep_s, max_bytes=settings.keep_bytes)
    return Screen(settings.screening, scan=scan, mask=mask if settings.mask_secrets else None, kept=kept)


def audit_key() -> bytes:
    """The key of the audit trail's digests; empty where none is set."""
    return os.environ.get("MAITRED_AUDIT_KEY", "").encode()


@asynccontextmanager
async def open_auditing(settings: Settings) -> "AsyncIterator[Auditing]":
    """The audit trail of a configuration, for a command that needs no gateway.

    Raises:
        ConfigError: The catalog, whose file it stands in, cannot be opened.
    """
    async with plainly(), open_store(catalog_path(settings)), open_trail(settings) as auditing:
        yield auditing


@asynccontextmanager
async def open_trail(settings: Settings) -> "AsyncIterator[Auditing]":
    """The audit trail; its file is opened with the first thing that is written down."""
    from maitred.catalog.audit import AuditLog
    from maitred.gateway.auditing import Auditing

    async with AuditLog(catalog_path(settings), key=audit_key()) as trail:
        yield Auditing(trail, settings.audit)
