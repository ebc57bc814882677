"""Links in answers lead only where the manifest of their server allows."""

from typing import Any

import pytest

from maitred.calls.screening import only_links_to, origin_of

ALLOWED = ["https://docs.example.com", "http://localhost:8080"]


def limited(text: str) -> str:
    answer = only_links_to(ALLOWED, {"content": [{"type": "text", "text": text}]})
    return str(answer["content"][0]["text"])


@pytest.mark.parametrize(
    "link",
    [
        "https://docs.example.com/a?b=c#d",
        "HTTPS://DOCS.EXAMPLE.COM:443/",
        "http://localhost:8080/x",
        "mailto:somebody@example.com",
    ],
)
def test_a_link_to_an_allowed_origin_stays(link: str) -> None:
    """In any spelling of the same origin; other schemes are no links here."""
    assert limited(f"See [this]({link}).") == f"See [this]({link})."


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.example/?q=secret",
        "http://docs.example.com/",
        "https://docs.example.com.evil.example/",
        "https://docs.example.com@evil.example/",
        "https://docs.example.com:8443/",
        "https://[::1]/",
        "https://x:y:z/",
    ],
)
def test_a_link_to_another_origin_is_left_out_and_told(link: str) -> None:
    """An image in Markdown is enough to carry data away."""
    text = limited(f"before ![i]({link}) after")
    assert link not in text
    assert text.startswith("before ![i]([maitred: left out here: a link to ")
    assert text.endswith(") after")


def test_links_are_looked_at_wherever_they_stand() -> None:
    """A resource link becomes a text; structured content is an answer too."""
    answer: dict[str, Any] = {
        "content": [{"type": "resource_link", "uri": "https://evil.example/a", "name": "a"}],
        "structuredContent": {"items": [{"url": "https://evil.example/b"}], "n": 3},
    }
    shown = only_links_to(ALLOWED, answer)
    assert "evil.example/" not in str(shown)
    assert shown["content"][0]["type"] == "text"
    assert shown["structuredContent"]["n"] == 3


def test_what_is_nested_too_deep_is_left_out() -> None:
    """No server gets us to recurse for ever."""
    deep: Any = "https://evil.example/"
    for _ in range(5_000):
        deep = [deep]
    assert "evil" not in str(only_links_to(ALLOWED, {"content": deep}))


def test_an_origin_has_one_spelling() -> None:
    """Case, default ports and a last dot make no difference."""
    assert origin_of("https://Example.com.:443/a") == "https://example.com"
    assert origin_of("ftp://example.com") == ""
    assert origin_of("https://[::1]:8443/") == "https://[::1]:8443"
