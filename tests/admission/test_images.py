"""Image references in every spelling, and patterns that match no more than they say."""

import pytest

from maitred.admission.image_names import parse_command_pattern, parse_image, parse_image_pattern

HEX = "a" * 64


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("library/nginx", "docker.io/library/nginx:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/library/nginx:latest", "docker.io/library/nginx:latest"),
        ("registry-1.docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ("DOCKER.IO/nginx", "docker.io/library/nginx:latest"),
        ("docker.io:443/nginx", "docker.io/library/nginx:latest"),
        ("mcp/time", "docker.io/mcp/time:latest"),
        ("GHCR.io/acme/x", "ghcr.io/acme/x:latest"),
        ("ghcr.io/acme/a/b/c:V1_2-x.y", "ghcr.io/acme/a/b/c:V1_2-x.y"),
        ("localhost/mcp-time:1", "localhost/mcp-time:1"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("registry.example:5000/x", "registry.example:5000/x:latest"),
        (f"ghcr.io/acme/x:1@sha256:{HEX}", f"ghcr.io/acme/x@sha256:{HEX}"),
        (f"nginx@sha256:{HEX}", f"docker.io/library/nginx@sha256:{HEX}"),
    ],
)
def test_all_spellings_of_an_image_have_one_normal_form(text: str, normal: str) -> None:
    """The host in lower case, the default registry by one name, a digest in place of the tag."""
    assert str(parse_image(text)) == normal
    assert str(parse_image(normal)) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nginx ",
        "ngi nx",
        "nginx\n",
        "nginx:1\n",
        "Nginx",
        "nginx:",
        "nginx@",
        "nginx@latest",
        "/nginx",
        "nginx/",
        "ghcr.io//x",
        "ghcr.io/../x",
        "ghcr.io/./x",
        "https://ghcr.io/x",
        "user@ghcr.io/x",
        "-x/y",
        "ghcr.io/a__b___c",
        "ghcr.io/a..b",
        "ghcr.io/.a",
        "ghcr.io/a-",
        "[::1]:5000/x",
        "ghcr.io:0/x",
        "ghcr.io:99999/x",
        "ghcr.io:x/y",
        "ghcr.io./x",
        "-ghcr.io/x",
        "ghcr.io/x:.1",
        "ghcr.io/x:" + "a" * 129,
        HEX,
        f"nginx@sha256:{HEX.upper()}",
        f"nginx@sha256:{HEX[:-1]}",
        f"nginx@md5:{HEX[:32]}",
        "x" * 600,
        f"nginx@sha256:{HEX}@sha256:{HEX}",
        "n\u0433inx",
        "nginx\x00",
        "a:b:c",
        "%6e/x",
        "x\\y",
        "ghcr.io/x?y",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    """Whatever an engine would not take, or would take for something else."""
    with pytest.raises(ValueError, match=r"^(must|holds|is|what|begins|its)"):
        parse_image(text)


@pytest.mark.parametrize(
    ("pattern", "image", "matches"),
    [
        ("docker.io/mcp/*", "mcp/time", True),
        ("docker.io/mcp/*", "index.docker.io/mcp/time:2", True),
        ("docker.io/mcp/*", f"mcp/time@sha256:{HEX}", True),
        ("docker.io/mcp/*", "mcp/a/b", False),
        ("docker.io/mcp/*", "mcp-evil/time", False),
        ("docker.io/mcp/*", "ghcr.io/mcp/time", False),
        ("docker.io/mcp/**", "mcp/a/b", True),
        ("docker.io/mcp/**", "mcp", False),
        ("docker.io/library/*", "nginx", True),
        ("docker.io/nginx", "library/nginx", True),
        ("docker.io/*", "mcp/time", False),
        ("ghcr.io/*/x", "ghcr.io/acme/x", True),
        ("ghcr.io/*/x", "evil.example/acme/x", False),
        ("ghcr.io/acme/x", "ghcr.io/acme/x", True),
        ("ghcr.io/acme/x", "ghcr.io/acme/xx", False),
        ("ghcr.io/acme/x:1.*", "ghcr.io/acme/x:1.2", True),
        ("ghcr.io/acme/x:1.*", "ghcr.io/acme/x:2.1", False),
        ("ghcr.io/acme/x:1.*", "ghcr.io/acme/x", False),
        ("ghcr.io/acme/x:1.*", f"ghcr.io/acme/x:1.2@sha256:{HEX}", False),
        ("localhost:5000/*", "localhost/x", False),
    ],
)
def test_a_pattern_matches_part_by_part(pattern: str, image: str, *, matches: bool) -> None:
    """`*` is one part of a path, `**` the rest of it, the host is literal, a tag is compared apart."""
    assert parse_image_pattern(pattern).matches(parse_image(image)) is matches


@pytest.mark.parametrize(
    "text",
    ["*", "mcp/*", "*/mcp/x", "*.io/x/y", "ghcr.io/a*", "ghcr.io/**/x", "ghcr.io/", "x"],
)
def test_a_pattern_that_could_mean_too_much_is_refused(text: str) -> None:
    """The host is spelled out, and `*` is a whole part."""
    with pytest.raises(ValueError, match="must"):
        parse_image_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "line", "matches"),
    [
        ("uvx mcp-server-time@* **", "uvx mcp-server-time@1.2 --local-timezone UTC", True),
        ("uvx mcp-server-time@* **", "uvx mcp-server-time-evil@1", False),
        ("uvx mcp-server-time@* **", "uvx --from=evil mcp-server-time@1", False),
        ("uvx mcp-server-time@*", "uvx mcp-server-time@1 --more", False),
        ("uvx mcp-server-time@*", "uvx mcp-server-time@git+https://evil.example/x", False),
        ("uvx *", "uvx --index-url", False),
        ("uvx *", "/tmp/uvx x", False),
        ("npx -y @acme/*", "npx -y @acme/tool", True),
        ("npx -y @acme/*", "npx -y @acme-evil/tool", False),
        ("server", "server", True),
        ("server", "Server", False),
    ],
)
def test_a_command_pattern_matches_word_by_word(pattern: str, line: str, *, matches: bool) -> None:
    """The program letter for letter; a `*` at the beginning of a word is never an option."""
    command, *args = line.split()

    assert parse_command_pattern(pattern).matches(command, args) is matches


@pytest.mark.parametrize("text", ["", "*", "u* x", "uvx ** x", "uvx a**"])
def test_a_command_pattern_names_its_program(text: str) -> None:
    """A program by `*` would be any program."""
    with pytest.raises(ValueError, match=r"must|may"):
        parse_command_pattern(text)
