"""The section `mediation`: what its keys cannot be together is told with what to do."""

from pathlib import Path

import pytest

from maitred.config.load import load, parse
from maitred.config.settings import MediationSettings
from maitred.errors import ConfigError
from maitred.model.tools import ToolKey

YAML = Path("maitred.yaml")
SUM = "a1" * 32


def section(text: str) -> MediationSettings:
    return parse(YAML, f"servers: {{a: {{command: x}}}}\nmediation: {text}\n").mediation


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{llm_provider: openai}", "llm_provider: openai needs `model`"),
        ("{llm_provider: local, model: m}", "llm_provider: local needs `url`"),
        ("{model: m}", "model: has no effect while `llm_provider` is none"),
        ("{api_key: k}", "api_key: has no effect while `llm_provider` is none"),
        ("{llm_provider: gemini}", "llm_provider: must be 'none', 'anthropic', 'openai' or 'local'"),
        ("{mode: often}", "mode: must be 'hybrid', 'lazy' or 'eager'"),
        ("{cache_ttl: 0}", "cache_ttl: must be more than 0"),
        ("{grouping_threshold: 0}", "grouping_threshold: must be at least 1"),
        (f"{{overrides_url: 'http://a.example/o', overrides_checksum: {SUM}}}", "must start with https://"),
        (f"{{overrides_url: 'file:///o', overrides_checksum: {SUM}}}", "must start with https://"),
        (f"{{overrides_url: 'https://[', overrides_checksum: {SUM}}}", "must start with https://"),
        (
            f"{{overrides_url: 'https://me:key@a.example/o', overrides_checksum: {SUM}}}",
            "overrides_url: must hold no name or password",
        ),
        ("{overrides_url: 'https://a.example/o'}", "overrides_url: needs `overrides_checksum`"),
        (f"{{overrides_checksum: {SUM}}}", "overrides_checksum: has no effect without `overrides_url`"),
        (
            "{overrides_url: 'https://a.example/o', overrides_checksum: abc}",
            "overrides_checksum: must be a SHA-256: 64 hexadecimal digits",
        ),
    ],
)
def test_what_does_not_go_together_is_told(text: str, fault: str) -> None:
    """With the line and the key."""
    with pytest.raises(ConfigError, match="line 2: mediation") as caught:
        section(text)
    assert fault in str(caught.value)


def test_what_goes_together_is_taken() -> None:
    """Addresses on this machine need no TLS."""
    found = section(
        "{auto_enhance: true, llm_provider: local, model: m, url: 'http://localhost:1/v1', cache_ttl: 12,"
        f" overrides_url: 'http://127.0.0.1:1/o.yaml', overrides_checksum: {SUM.upper()}, rules: false}}"
    )
    assert (found.llm_provider, found.cache_ttl, found.rules, found.proof) == ("local", 12.0, False, True)


def test_a_word_on_a_tools_mending_is_read(tmp_path: Path) -> None:
    """And nothing but the two words."""
    path = tmp_path / "maitred.yaml"
    path.write_text("servers: {a: {command: x}}\ntools: {a: {t: {mending: reject}}}\n")
    assert load(path).tools[ToolKey(server="a", name="t")].mending == "reject"
    path.write_text("servers: {a: {command: x}}\ntools: {a: {t: {mending: perhaps}}}\n")
    with pytest.raises(ConfigError, match=r"tools\.a\.t\.mending: must be"):
        load(path)
