"""What is wrong with the section `mediation` as a whole, where each of its keys is well by itself."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from maitred.config.settings import Mediation

_CHECKSUM: Final = re.compile(r"[0-9a-fA-F]{64}")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def mediation_faults(section: Mediation) -> Iterator[tuple[str, str]]:
    """Pairs of a key and what is wrong with it."""
    yield from _of_the_model(section)
    yield from _of_the_address(section)


def _of_the_model(section: Mediation) -> Iterator[tuple[str, str]]:
    if section.llm_provider == "none":
        for key in ("model", "url", "api_key"):
            if getattr(section, key):
                yield key, "has no effect while `llm_provider` is none; choose anthropic, openai or local"
        return
    if not section.model:
        yield "llm_provider", f"{section.llm_provider} needs `model`, the name of the model to ask"
    if section.llm_provider == "local" and not section.url:
        yield "llm_provider", "local needs `url`, such as http://localhost:11434/v1"


def _of_the_address(section: Mediation) -> Iterator[tuple[str, str]]:
    url, checksum = section.overrides_url, section.overrides_checksum
    if url and not _is_safe(url):
        yield "overrides_url", "must start with https:// (http:// only on this machine)"
    elif url and "@" in urlsplit(url).netloc:
        yield "overrides_url", "must hold no name or password, as logs and messages show it"
    if url and not checksum:
        yield "overrides_url", "needs `overrides_checksum`, the SHA-256 of the version that you have read"
    if checksum and not url:
        yield "overrides_checksum", "has no effect without `overrides_url`"
    elif checksum and not _CHECKSUM.fullmatch(checksum):
        yield "overrides_checksum", "must be a SHA-256: 64 hexadecimal digits"


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        )
    except ValueError:
        return False
