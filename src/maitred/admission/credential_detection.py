"""Separate literal credentials from references and from harmless texts.

Three signs count: the form of a value, the name of its field, and its place in a URL. The forms are those of
`detect-secrets` and some more. Its detectors of randomness are left out, since they take `debug` for a
secret. Results contain the kind of a credential, never its value.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.basic_auth import BasicAuthDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.ibm_cloud_iam import IbmCloudIamDetector
from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.softlayer import SoftlayerDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

_DETECTORS: Final[Sequence[RegexBasedDetector]] = tuple(
    kind()
    for kind in (
        ArtifactoryDetector, AWSKeyDetector, AzureStorageKeyDetector, BasicAuthDetector, CloudantDetector,
        DiscordBotTokenDetector, GitHubTokenDetector, GitLabTokenDetector, IbmCloudIamDetector,
        IbmCosHmacDetector, JwtTokenDetector, MailchimpDetector, NpmDetector, OpenAIDetector,
        PrivateKeyDetector, PypiTokenDetector, SendGridDetector, SlackDetector, SoftlayerDetector,
        SquareOAuthDetector, StripeDetector, TelegramBotTokenDetector, TwilioKeyDetector,
    )
)  # fmt: skip
_FORMS: Final[Sequence[tuple[str, re.Pattern[str]]]] = tuple(
    (what, re.compile(form))
    for what, form in (
        ("GitHub Token", r"\b(?:github_pat_[A-Za-z0-9_]{20,}|gh[pousr]_[A-Za-z0-9]{30,})"),
        ("Anthropic Key", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
        ("API Key", r"\bsk-(?:proj-|svcacct-|admin-|or-v1-)?[A-Za-z0-9_-]{32,}"),
        ("Google API Key", r"\bAIza[A-Za-z0-9_-]{35}"),
        ("Google OAuth Token", r"\b(?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})"),
        ("Slack Token", r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
        ("Hugging Face Token", r"\bhf_[A-Za-z0-9]{30,}"),
        ("NPM Token", r"\bnpm_[A-Za-z0-9]{36}"),
        ("DigitalOcean Token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
        ("Shopify Token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
        ("Stripe Key", r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9]{24,}"),
        ("Notion Token", r"\b(?:ntn_|secret_)[A-Za-z0-9]{40,}"),
        ("Linear Key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
        ("API Key", r"\b(?:gsk_|pplx-|tvly-|fc-|re_)[A-Za-z0-9]{24,}"),
        ("Vault Token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
        ("Age Key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
        ("Private Key", r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"),
        ("Credentials of HTTP", r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/-]{16,}"),
    )
)
_SECRET_WORDS: Final = frozenset({
    "password", "passwd", "passphrase", "passcode", "pass", "pwd", "secret", "token", "apikey",
    "credential", "credentials", "authorization", "cookie", "bearer", "pat", "jwt",
})  # fmt: skip
_SECRET_PAIRS: Final = frozenset({
    "api key", "access key", "private key", "secret key", "signing key", "encryption key", "auth key",
    "account key", "master key", "app key", "service key", "license key", "basic auth", "connection string",
    "webhook url", "session key", "key secret", "deploy key",
})  # fmt: skip
_GLUED: Final = re.compile(
    r"(password|passwd|passphrase|secret|token|apikey|accesskey|secretkey|privatekey|credentials?)$"
)
_COUNTED: Final = frozenset({
    "max", "min", "num", "number", "limit", "per", "budget",
})  # fmt: skip
_CHOICES: Final = frozenset({
    "true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default", "required", "optional",
    "enabled", "disabled", "0", "1", "oauth", "oauth2", "bearer", "basic", "header", "cookie", "env",
    "keyring", "file",
})  # fmt: skip
_IN_QUERY: Final = frozenset({"key", "sig", "signature", "auth", "code"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SCHEME: Final = re.compile(r"(?i)^\s*(bearer|basic|token|apikey|digest|key)\b[\s:]*|\s+")
_USERINFO: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://([^/?#\s@]{0,2048})@")
_QUERY: Final = re.compile(r"[?&#;]([^=&#;?\s]{1,128})=([^&#;\s]*)")
_REFERENCE: Final = re.compile(r"\$\{((?:[^{}$]|\$(?!\{)|\{[^{}$]*\})*)\}")
_OPTION: Final = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.-]*)(?:=(.*))?", re.DOTALL)
_PAIR: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,127})\s*[=:]\s*(?!//)(.*)", re.DOTALL)
_LONG_NAME = 20
_LONG_KEY = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class LiteralParts:
    """A value in parts: its literal texts, defaults included, and the names that it refers to."""

    literal: str
    references: tuple[str, ...]
    is_closed: bool


def take_apart(value: str) -> LiteralParts:
    """Separate literal text from references; `is_closed` is false if a reference has no end."""
    names: list[str] = []

    def default(match: re.Match[str]) -> str:
        name, _, rest = match[1].partition(":-")
        names.append(name.removeprefix("env:"))
        return rest

    text, count = value.replace("$$", "\0"), 1
    while count:
        text, count = _REFERENCE.subn(default, text)
    return LiteralParts(literal=text.replace("\0", "$"), references=tuple(names), is_closed="${" not in text)


def kind_of(literal: str, name: str = "") -> str:
    """The kind of credential that a text has the form of, such as `GitHub Token`; empty if none."""
    texts = [literal, f'{name}="{literal}"'] if name else [literal]
    for kind, form in _FORMS:
        if form.search(literal):
            return kind
    for detector in _DETECTORS:
        if any(True for text in texts for _ in detector.analyze_string(text)):
            return detector.secret_type
    return ""


def is_secret_name(name: str) -> bool:
    """Whether a field of this name contains a credential, such as `GITHUB_TOKEN` or `apiKey`.

    `MAX_TOKENS`, `TOKEN_FILE` and `PASSWORD_MODE` do not: they count, or name something else.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or _COUNTED.intersection(words):
        return False
    is_joined = _GLUED.search("".join(words)) is not None
    return is_joined or words[-1] in _SECRET_WORDS or " ".join(words[-2:]) in _SECRET_PAIRS


def is_literal_secret(name: str, literal: str) -> bool:
    """Whether a literal must be a reference instead: its name says so, and it is no plain choice."""
    bare = _SCHEME.sub("", literal)
    if not bare or bare.lower() in _CHOICES:
        return False
    is_long = len(bare) >= _LONG_KEY and any(map(str.isdigit, bare))
    is_key = is_long and [word.lower() for word in _WORD.findall(name)][-1:] == ["key"]
    return is_key or is_secret_name(name)


def secret_arguments(args: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The positions of arguments with a credential by its name, each with the text before the credential.

    They are `--token abc`, `--token=abc`, `TOKEN=abc` and `X-Api-Key: abc`.
    """
    before = ""
    for at, argument in enumerate(args):
        option, pair = _OPTION.fullmatch(argument), _PAIR.fullmatch(argument)
        pairs = [(match[1], match[2] or "") for match in (option, pair) if match]
        pairs += [(before, argument)] if before and not option else []
        for name, value in pairs:
            if is_literal_secret(name, take_apart(value).literal):
                yield at, argument.removesuffix(value)
                break
        before = option[1] if option and option[2] is None else ""


def mask_url(url: str, mask: str = "***") -> str:
    """A URL with a mask for a password before the host, and for credentials among its parameters."""

    def user(match: re.Match[str]) -> str:
        name, colon, _ = match[1].partition(":")
        text = f"{name}:{mask}" if colon else mask if len(name) >= _LONG_NAME else name
        return match[0].replace(f"://{match[1]}@", f"://{text}@")

    def parameter(match: re.Match[str]) -> str:
        name, value = unquote_plus(match[1]), match[2]
        is_secret = is_literal_secret(name, take_apart(value).literal) or name.lower() in _IN_QUERY
        return match[0].removesuffix(value) + mask if value and is_secret else match[0]

    return _QUERY.sub(parameter, _USERINFO.sub(user, url))


def secrets_in_url(literal: str) -> Iterator[str]:
    """The kinds of credentials in the URLs of a text: before the host or among the parameters."""
    for match in _USERINFO.finditer(literal):
        user, _, password = match[1].partition(":")
        if password or len(user) >= _LONG_NAME:
            yield "a password in a URL"
    if "://" in literal:
        for name, value in _QUERY.findall(literal):
            plain = unquote_plus(name)
            if is_literal_secret(plain, value) or (value and plain.lower() in _IN_QUERY):
                yield f"a credential as the parameter {plain!r} of a URL"
