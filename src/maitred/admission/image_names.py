"""Parse references of container images, and patterns of images and commands, as an engine does.

Nothing here asks a registry. A reference has many spellings (`nginx`, `index.docker.io/library/nginx`), and a
comparison of texts would let a wrong one pass. So it is parsed first, and a pattern is compared part by part.
`*` never matches a `/`, and a pattern must spell its host out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_REGISTRY = "docker.io"
MAX_LENGTH = 512
"""Largest length of a reference in characters."""

_DEFAULT_SPELLINGS = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io", "registry.docker.io"})
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_SEGMENT = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_ID = re.compile(r"[0-9a-f]{64}")
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The location and version of an image; `tag` is empty if there is a digest."""

    registry: str
    path: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """The common form of all spellings of the same image."""
        return f"{self.registry}/{self.path}" + (f"@{self.digest}" if self.digest else f":{self.tag}")


def parse_image(text: str) -> Image:
    """Parse a reference as an engine does; without tag and digest the tag is `latest`.

    Raises:
        ValueError: It is no reference; the text has the reason, without repeating the reference.
    """
    if not text or len(text) > MAX_LENGTH:
        raise ValueError(f"must have 1 to {MAX_LENGTH} characters")
    if odd := next((c for c in text if not "!" <= c <= "~"), ""):
        raise ValueError(f"holds U+{ord(odd):04X}, which no image reference has")
    if "://" in text:
        raise ValueError("is an address with a scheme; leave the scheme out")
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ValueError(
            "what follows `@` must be a digest: `sha256:` and 64 hexadecimal digits in lower case"
        )
    registry, rest = _registry(name)
    path, _, tag = rest.partition(":")
    if ":" in rest and not _TAG.fullmatch(tag):
        raise ValueError("what follows `:` must be a tag: up to 128 letters, digits, `_`, `.` and `-`")
    return Image(
        registry=registry, path=_path(registry, path), tag="" if at else tag or "latest", digest=digest
    )


def _registry(name: str) -> tuple[str, str]:
    """The host at the start of a name, in one spelling, and the rest of the name."""
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return DEFAULT_REGISTRY, name
    return _host(first), rest


def _host(text: str) -> str:
    host, colon, port = text.lower().partition(":")
    if not _HOST.fullmatch(host) or (colon and not (_PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT)):
        raise ValueError("begins with a registry that is no host name with an optional port")
    if host in _DEFAULT_SPELLINGS and port in ("", "443"):
        return DEFAULT_REGISTRY
    return host if port in ("", "443") else f"{host}:{port}"


def _path(registry: str, path: str) -> str:
    if not all(map(_SEGMENT.fullmatch, path.split("/"))):
        raise ValueError("its path must be parts of a-z, 0-9 and single `.`, `_`, `-` between `/`")
    if _ID.fullmatch(path):
        raise ValueError("is the id of an image, which means something on one machine only; name the image")
    return f"library/{path}" if registry == DEFAULT_REGISTRY and "/" not in path else path


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePattern:
    """Images of one registry: the parts of a path; `*` is any one part, a last `**` any further ones."""

    registry: str
    parts: tuple[str, ...]
    tag: str = "*"

    def matches(self, image: Image) -> bool:
        """Whether the image matches; an image by digest has no tag and matches the tag `*` only."""
        own = image.path.split("/")
        parts = self.parts
        if parts[-1] == "**":
            parts = parts[:-1]
            if len(own) <= len(parts):
                return False
            own = own[: len(parts)]
        fits = len(own) == len(parts) and all(p in ("*", o) for p, o in zip(parts, own, strict=True))
        return fits and self.registry == image.registry and matches_word(self.tag, image.tag)


def parse_image_pattern(text: str) -> ImagePattern:
    """Parse a pattern such as `ghcr.io/acme/*:1.*`.

    Raises:
        ValueError: The host is not spelled out, `*` is only a piece of a part, or `**` is not the last part.
    """
    host, _, rest = text.partition("/")
    path, colon, tag = rest.partition(":")
    parts = path.split("/")
    if not ("." in host or ":" in host or host == "localhost") or "*" in host:
        raise ValueError(f"{text!r} must begin with the host of the registry, such as docker.io/")
    if any(part != "*" and not _SEGMENT.fullmatch(part) for part in parts[:-1]) or not (
        parts[-1] in ("*", "**") or _SEGMENT.fullmatch(parts[-1])
    ):
        raise ValueError(
            f"{text!r} must be a path of whole parts, where * is any part and a last ** any more"
        )
    if colon and not _TAG.fullmatch(tag.replace("*", "x")):
        raise ValueError(
            f"{text!r} has a tag that no image can have; an image by digest is trusted by it alone"
        )
    registry = _host(host)
    alone = registry == DEFAULT_REGISTRY and len(parts) == 1 and parts[0] not in ("*", "**")
    return ImagePattern(
        registry=registry, parts=("library", *parts) if alone else tuple(parts), tag=tag or "*"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandPattern:
    """A program and its arguments; a last `**` is any further arguments."""

    command: str
    args: tuple[str, ...]

    def matches(self, command: str, args: Sequence[str]) -> bool:
        """Whether the program is exactly this one, and each argument matches."""
        wanted, given = self.args, list(args)
        if wanted and wanted[-1] == "**":
            wanted = wanted[:-1]
            given = given[: len(wanted)]
        return (
            command == self.command
            and len(given) == len(wanted)
            and all(matches_word(w, g) for w, g in zip(wanted, given, strict=True))
        )


def parse_command_pattern(text: str) -> CommandPattern:
    """Parse a pattern such as `uvx mcp-server-time@* **`: words between spaces, the first without `*`.

    Raises:
        ValueError: There is no program, its name has a `*`, or `**` is not the last word.
    """
    command, *args = text.split() or [""]
    if not command or "*" in command:
        raise ValueError(f"{text!r} must begin with the name of a program, without *")
    if any("**" in word for word in args[:-1]) or (args and "**" in args[-1] and args[-1] != "**"):
        raise ValueError(f"{text!r} may have ** as its last word only")
    return CommandPattern(command=command, args=tuple(args))


def matches_word(pattern: str, text: str) -> bool:
    """Match with `*` for any characters but `/`; a leading `*` matches no option, which may mean anything."""
    if pattern.startswith("*") and text.startswith("-"):
        return False
    return re.fullmatch("[^/]*".join(map(re.escape, pattern.split("*"))), text) is not None
